//! The newest value of every attribute of every node, in columns, each with the time of its sample
//! and the change that set it.
//!
//! It does not know where values come from; the caller says when they were sampled, by the reader's clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use rakuda_core::Time;

use crate::catalogue;
use crate::of_run;
use crate::registry::{Attribute, AttributeId, Refusal, Registry, described};
use crate::value::{Kind, TEXT_BYTES_MAX, Value, Why};

/// The end of the reason why a value is undefined that is another kind or unit on other nodes.
pub(crate) const ELSEWHERE: &str = " on other nodes";

/// Maximum number of removed nodes whose names are kept; the earliest are forgotten.
const GONE_MAX: usize = 1 << 16;

/// The number of a node within its table. The number of a removed node goes to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The state of a node as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is heard of.
    Up,
    /// It has been silent for 3 periods.
    Suspected,
    /// The source of its values is gone.
    Down,
    /// Its state in a run: `starting`, `set_aside`, ...
    OfRun(Arc<str>),
}

impl State {
    /// The word of the state.
    pub fn word(&self) -> &str {
        match self {
            Self::Up => "up",
            Self::Suspected => "suspected",
            Self::Down => "down",
            Self::OfRun(word) => word,
        }
    }

    /// The state of this word.
    pub fn of(word: &str) -> Self {
        match word {
            "up" => Self::Up,
            "suspected" => Self::Suspected,
            "down" => Self::Down,
            other => Self::OfRun(other.into()),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique within its run, or among the nodes of no run.
    pub name: Arc<str>,
    /// The run that it is part of.
    pub run: Option<Arc<str>>,
    /// Its state as a whole.
    pub state: State,
    /// The change that set the state.
    pub change: u64,
    /// The change with which it came into being.
    pub born: u64,
}

/// A node that was removed.
#[derive(Debug, Clone)]
struct Gone {
    node: NodeId,
    name: Arc<str>,
    run: Option<Arc<str>>,
    /// The change with which it came into being.
    born: u64,
    /// The change that removed it.
    change: u64,
}

/// A value with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The value.
    pub value: Value,
    /// When it was sampled.
    pub sampled: Time,
    /// The change that made it what it is.
    pub change: u64,
}

#[derive(Debug, Clone)]
enum Values {
    /// NaN: not defined.
    Numbers(Vec<f64>),
    Texts(Vec<Option<Arc<str>>>),
}

/// All values of an attribute; vectors are as long as there are nodes, or shorter: the rest was never set.
#[derive(Debug, Clone)]
struct Column {
    values: Values,
    is_built_in: bool,
    sampled: Vec<Time>,
    /// The change that set each value; 0: never set.
    changes: Vec<u64>,
    /// Why values that were set are not defined.
    reasons: BTreeMap<u32, Why>,
}

impl Column {
    fn new(attribute: &Attribute) -> Self {
        let values = match attribute.kind {
            Kind::Number => Values::Numbers(Vec::new()),
            Kind::Text => Values::Texts(Vec::new()),
        };
        Self {
            values,
            is_built_in: catalogue::of(&attribute.name).is_some()
                || catalogue::is_fault(&attribute.name)
                || attribute.provider == of_run::PROVIDER,
            sampled: Vec::new(),
            changes: Vec::new(),
            reasons: BTreeMap::new(),
        }
    }

    fn reach(&mut self, length: usize) {
        if self.changes.len() < length {
            self.sampled.resize(length, Time(0));
            self.changes.resize(length, 0);
            match &mut self.values {
                Values::Numbers(numbers) => numbers.resize(length, f64::NAN),
                Values::Texts(texts) => texts.resize(length, None),
            }
        }
    }

    fn value(&self, node: NodeId) -> Value {
        let index = node.index();
        match &self.values {
            Values::Numbers(numbers) if !numbers[index].is_nan() => Value::Number(numbers[index]),
            Values::Texts(texts) if texts[index].is_some() => {
                Value::Text(texts[index].clone().unwrap_or_default())
            }
            Values::Numbers(_) | Values::Texts(_) => {
                Value::Undefined(self.reasons.get(&node.0).cloned().unwrap_or_default())
            }
        }
    }

    fn put(&mut self, node: NodeId, value: Value) {
        let index = node.index();
        let (number, text, reason) = match value {
            Value::Number(number) => (number, None, None),
            Value::Text(text) => (f64::NAN, Some(text), None),
            Value::Undefined(why) => (f64::NAN, None, Some(why)),
        };
        match &mut self.values {
            Values::Numbers(numbers) => numbers[index] = number,
            Values::Texts(texts) => texts[index] = text,
        }
        match reason {
            Some(why) => drop(self.reasons.insert(node.0, why)),
            None => drop(self.reasons.remove(&node.0)),
        }
    }

    /// Forgets all that was set.
    fn clear(&mut self, node: NodeId) {
        let index = node.index();
        if index < self.changes.len() {
            self.put(node, Value::Undefined(Why::default()));
            self.reasons.remove(&node.0);
            self.sampled[index] = Time(0);
            self.changes[index] = 0;
        }
    }

    fn text_bytes(&self, node: NodeId) -> usize {
        let text = match &self.values {
            Values::Texts(texts) => texts.get(node.index()).and_then(Option::as_ref),
            Values::Numbers(_) => None,
        };
        text.map_or(0, |text| text.len())
    }
}

/// All values of all nodes.
#[derive(Debug, Clone)]
pub struct Table {
    registry: Registry,
    /// The columns, by attribute.
    columns: Vec<Column>,
    nodes: Vec<Node>,
    /// Bytes of texts of each node: of all but the built-in ones, and of those, which have a bound of their own. So the
    /// room for others is the same on every machine.
    texts: Vec<[usize; 2]>,
    /// For each node the newest change of its state or of a value.
    touched: Vec<u64>,
    /// For each node the newest change of more than a value: of its state, of which attributes it has, and of which are
    /// defined.
    reshaped: Vec<u64>,
    by_name: BTreeMap<(Option<Arc<str>>, Arc<str>), NodeId>,
    /// Rows of removed nodes, for others.
    free: BTreeSet<NodeId>,
    /// Removed nodes, the earliest first.
    gone: VecDeque<Gone>,
    /// Number of nodes that were ever removed.
    removals: u64,
    change: u64,
    /// The number before that of the first change.
    begun: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// Makes a table without nodes, with the built-in attributes.
    pub fn new() -> Self {
        Self::with(Registry::new())
    }

    /// Makes a table without nodes.
    pub fn with(registry: Registry) -> Self {
        let columns = registry.iter().map(|(_, attribute)| Column::new(attribute)).collect();
        Self {
            registry,
            columns,
            nodes: Vec::new(),
            texts: Vec::new(),
            touched: Vec::new(),
            reshaped: Vec::new(),
            by_name: BTreeMap::new(),
            free: BTreeSet::new(),
            gone: VecDeque::new(),
            removals: 0,
            change: 0,
            begun: 0,
        }
    }

    /// Makes a table without nodes whose changes are numbered from here on, so that they differ from the lower numbers
    /// of an earlier table.
    pub fn numbered_from(change: u64) -> Self {
        Self { change, begun: change, ..Self::new() }
    }

    /// Whether a change, or the beginning of all, is one of this table.
    pub(crate) fn has_change(&self, change: u64) -> bool {
        (self.begun..=self.change).contains(&change)
    }

    /// The attributes.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Defines an attribute, which may exist already. Returns its number.
    pub fn define(&mut self, attribute: Attribute) -> Result<AttributeId, Refusal> {
        self.define_for(attribute, &[])
    }

    /// The same for an attribute that these nodes will set anew: their earlier values bind no other node.
    fn define_for(
        &mut self,
        attribute: Attribute,
        anew: &[NodeId],
    ) -> Result<AttributeId, Refusal> {
        let id = match self.registry.define(attribute.clone()) {
            Err(refusal @ Refusal::Changed { .. }) => {
                let id = self.registry.find(&attribute.name);
                let id = id.filter(|id| self.is_free(*id, anew)).ok_or(refusal)?;
                self.exchange(id, attribute);
                id
            }
            other => other?,
        };
        if id.index() == self.columns.len() {
            self.columns.push(Column::new(self.registry.get(id)));
        }
        Ok(id)
    }

    /// Whether no node has a value of an attribute that is not built in, or will have one of that kind again, but for
    /// these nodes.
    fn is_free(&self, id: AttributeId, but: &[NodeId]) -> bool {
        let column = &self.columns[id.index()];
        let is_free = |(index, change): (usize, &u64)| {
            let node = NodeId(index as u32);
            *change == 0
                || but.contains(&node)
                || match column.value(node) {
                    Value::Undefined(why) => why.is_free(),
                    Value::Number(_) | Value::Text(_) => false,
                }
        };
        !column.is_built_in && column.changes.iter().enumerate().all(is_free)
    }

    /// Makes another attribute of one; its values become undefined.
    fn exchange(&mut self, id: AttributeId, attribute: Attribute) {
        let was = described(self.registry.get(id));
        let new = Column::new(&attribute);
        self.registry.exchange(id, attribute);
        let old = std::mem::replace(&mut self.columns[id.index()], new);
        let column = &mut self.columns[id.index()];
        column.reach(old.changes.len());
        column.sampled.clone_from(&old.sampled);
        for (index, _) in old.changes.iter().enumerate().filter(|(_, change)| **change != 0) {
            let node = NodeId(index as u32);
            self.texts[index][usize::from(old.is_built_in)] -= old.text_bytes(node);
            self.change += 1;
            column.changes[index] = self.change;
            (self.touched[index], self.reshaped[index]) = (self.change, self.change);
            let why = match old.value(node) {
                undefined @ Value::Undefined(_) => undefined,
                Value::Number(_) | Value::Text(_) => Value::undefined(format!("it was {was}")),
            };
            column.put(node, why);
        }
    }

    /// The number of an attribute that comes from elsewhere, of these nodes. An existing one stays, whatever provides
    /// it; another kind or unit is refused, with the reason, as long as other nodes have values of it.
    pub fn find_or_define(
        &mut self,
        attribute: Attribute,
        nodes: &[NodeId],
    ) -> Result<AttributeId, String> {
        let known = self.registry.find(&attribute.name).map(|id| (id, self.registry.get(id)));
        let Some((id, known)) = known else {
            return self.define(attribute).map_err(|refusal| refusal.to_string());
        };
        if known.kind == attribute.kind && known.unit == attribute.unit {
            return Ok(id);
        }
        let Attribute { name, .. } = &attribute;
        let refused =
            format!("{name} is {} here, {}{ELSEWHERE}", described(&attribute), described(known));
        let provider = known.provider.clone();
        self.define_for(Attribute { provider, ..attribute }, nodes).map_err(|_| refused)
    }

    /// The number of a node, which comes into being `up`.
    pub fn node(&mut self, run: Option<&str>, name: &str) -> NodeId {
        let key = (run.map(Arc::from), Arc::from(name));
        if let Some(&node) = self.by_name.get(&key) {
            return node;
        }
        self.change += 1;
        let (run, name) = (key.0.clone(), key.1.clone());
        let known = Node { name, run, state: State::Up, change: self.change, born: self.change };
        let node = if let Some(node) = self.free.pop_first() {
            self.nodes[node.index()] = known;
            self.touched[node.index()] = self.change;
            self.reshaped[node.index()] = self.change;
            node
        } else {
            self.nodes.push(known);
            self.texts.push([0; 2]);
            self.touched.push(self.change);
            self.reshaped.push(self.change);
            NodeId(self.nodes.len() as u32 - 1)
        };
        self.by_name.insert(key, node);
        node
    }

    /// Forgets a node and all its values; its number goes to the next one that comes. Callers that keep the number must
    /// drop it first.
    pub fn remove(&mut self, node: NodeId) {
        assert!(!self.free.contains(&node), "a node is removed once");
        self.change += 1;
        self.removals += 1;
        self.columns.iter_mut().for_each(|column| column.clear(node));
        self.texts[node.index()] = [0; 2];
        self.touched[node.index()] = self.change;
        self.reshaped[node.index()] = self.change;
        let Node { name, run, born, .. } = self.nodes[node.index()].clone();
        self.by_name.remove(&(run.clone(), Arc::clone(&name)));
        self.free.insert(node);
        self.gone.push_back(Gone { node, name, run, born, change: self.change });
        if self.gone.len() > GONE_MAX {
            self.gone.pop_front();
        }
    }

    /// Number of nodes that were ever removed.
    pub fn removals(&self) -> u64 {
        self.removals
    }

    /// Nodes that were there at a change, were removed since and have not come back, by the number and the name that
    /// each had; of many the newest 65,536.
    pub(crate) fn gone_since(&self, change: u64) -> impl Iterator<Item = (NodeId, &Arc<str>)> {
        let removed = self.removed_since(change);
        removed.filter(|(_, _, back)| back.is_none()).map(|(node, name, _)| (node, name))
    }

    /// Those, and the ones that have come back by their names, each with the number that it has now.
    pub(crate) fn removed_since(
        &self,
        change: u64,
    ) -> impl Iterator<Item = (NodeId, &Arc<str>, Option<NodeId>)> {
        let newer = self.gone.iter().rev().take_while(move |it| it.change > change);
        let back = |it: &Gone| self.by_name.get(&(it.run.clone(), it.name.clone())).copied();
        newer.filter(move |it| it.born <= change).map(move |it| (it.node, &it.name, back(it)))
    }

    /// The node of this name and run.
    pub fn find_of_run(&self, run: Option<&Arc<str>>, name: &Arc<str>) -> Option<NodeId> {
        self.by_name.get(&(run.cloned(), Arc::clone(name))).copied()
    }

    /// The node of this name: one of no run, else the first of several runs' nodes.
    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        if let Some(node) = self.by_name.get(&(None, Arc::from(name))) {
            return Some(*node);
        }
        // Nodes of no run stand first. A service has no others, and gets new names by the thousand.
        let has_runs = self.by_name.last_key_value().is_some_and(|((run, _), _)| run.is_some());
        if !has_runs {
            return None;
        }
        self.nodes().find(|(_, node)| &*node.name == name).map(|(id, _)| id)
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let rows = self.nodes.iter().enumerate();
        let rows = rows.map(|(index, node)| (NodeId(index as u32), node));
        rows.filter(|(id, _)| self.free.is_empty() || !self.free.contains(id))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number above those of all nodes.
    pub(crate) fn rows(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a number is that of a node.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        node.index() < self.nodes.len() && !self.free.contains(&node)
    }

    /// A node.
    pub fn get_node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// The number of the newest change.
    pub fn change(&self) -> u64 {
        self.change
    }

    /// Sets the state of a node.
    pub fn set_state(&mut self, node: NodeId, state: State) {
        let known = &mut self.nodes[node.index()];
        if known.state != state {
            self.change += 1;
            known.state = state;
            known.change = self.change;
            self.touched[node.index()] = self.change;
            self.reshaped[node.index()] = self.change;
        }
    }

    /// The newest change of a node's state or of one of its values; times of samples are none.
    pub(crate) fn touched(&self, node: NodeId) -> u64 {
        self.touched[node.index()]
    }

    /// The newest change of a node's state, of which attributes it has, or of which of them are defined and why not.
    pub(crate) fn reshaped(&self, node: NodeId) -> u64 {
        self.reshaped[node.index()]
    }

    /// The changes that set the values of an attribute that some node has, by node; 0: never set.
    pub(crate) fn value_changes(&self, attribute: AttributeId) -> &[u64] {
        &self.columns[attribute.index()].changes
    }

    /// Notes a sample. A sample older than the known one has no effect; nor has a value of another kind, but for the
    /// reason.
    pub fn set(&mut self, node: NodeId, attribute: AttributeId, value: Value, sampled: Time) {
        let kind = self.registry.get(attribute).kind;
        let value = match value.kind() {
            Some(other) if other != kind => Value::undefined(format!("it was {kind}, is {other}")),
            _ => value,
        };
        let column = &mut self.columns[attribute.index()];
        column.reach(self.nodes.len());
        let index = node.index();
        if column.changes[index] != 0 && column.sampled[index] > sampled {
            return;
        }
        let texts = &mut self.texts[index][usize::from(column.is_built_in)];
        let others = *texts - column.text_bytes(node);
        let value = match value {
            // A zero has no sign: the two are equal, but would differ in frames and texts.
            Value::Number(number) => Value::Number(number + 0.0),
            Value::Text(text) if others + text.len() > TEXT_BYTES_MAX => {
                Value::undefined("the texts of the node have more than 64 KiB")
            }
            value => value,
        };
        column.sampled[index] = sampled;
        let is_first = column.changes[index] == 0;
        let known = column.value(node);
        if is_first || known != value {
            self.change += 1;
            column.changes[index] = self.change;
            self.touched[index] = self.change;
            if is_first || known.kind().is_none() || value.kind().is_none() {
                self.reshaped[index] = self.change;
            }
            column.put(node, value);
            *texts = others + column.text_bytes(node);
        }
    }

    /// Whether a text of that length can be the value of an attribute that is not built in and that may not be there.
    pub(crate) fn has_room(&self, node: NodeId, name: &str, bytes: usize) -> bool {
        let column = self.registry.find(name).map(|id| &self.columns[id.index()]);
        let own = column.filter(|it| !it.is_built_in).map_or(0, |it| it.text_bytes(node));
        self.texts[node.index()][0] - own + bytes <= TEXT_BYTES_MAX
    }

    /// The same; where it is refused, the value that these nodes have instead. `None`: there is no place for it.
    pub fn find_or_refuse(
        &mut self,
        attribute: Attribute,
        nodes: &[NodeId],
    ) -> Option<(AttributeId, Option<Value>)> {
        let known = self.registry.find(&attribute.name);
        match self.find_or_define(attribute, nodes) {
            Ok(id) => Some((id, None)),
            Err(why) => known.map(|id| (id, Some(Value::free(why)))),
        }
    }

    /// Takes what another table knows of a node; an attribute that means something else here is undefined, and those of
    /// `provider` are left out.
    pub fn take_over(&mut self, node: NodeId, from: &Self, there: NodeId, provider: &str) {
        for (id, attribute) in from.registry.iter().filter(|(_, it)| it.provider != provider) {
            if let Some(cell) = from.cell(there, id)
                && let Some((own, refusal)) = self.find_or_refuse(attribute.clone(), &[node])
            {
                self.set(node, own, refusal.unwrap_or(cell.value), cell.sampled);
            }
        }
    }

    /// Notes that a value was sampled anew and is as it was; one that was never set stays so.
    pub fn set_sampled(&mut self, node: NodeId, attribute: AttributeId, sampled: Time) {
        let column = &mut self.columns[attribute.index()];
        let index = node.index();
        if column.changes.get(index).is_some_and(|change| *change != 0) {
            column.sampled[index] = column.sampled[index].max(sampled);
        }
    }

    /// Calls `look` on the table as if these numbers of a node were others, such as those that are left when claims are
    /// subtracted. Nothing of it stays; numbers that are not defined stay so.
    pub fn supposing<T>(
        &mut self,
        node: NodeId,
        numbers: &[(AttributeId, f64)],
        look: impl FnOnce(&Self) -> T,
    ) -> T {
        let mut real = Vec::with_capacity(numbers.len());
        for (id, number) in numbers {
            if let Values::Numbers(column) = &mut self.columns[id.index()].values
                && let Some(place) = column.get_mut(node.index()).filter(|it| !it.is_nan())
            {
                real.push((*id, std::mem::replace(place, *number)));
            }
        }
        let seen = look(self);
        for (id, number) in real.into_iter().rev() {
            if let Values::Numbers(column) = &mut self.columns[id.index()].values {
                column[node.index()] = number;
            }
        }
        seen
    }

    /// What is known of an attribute of a node. `None` if it was never set.
    pub fn cell(&self, node: NodeId, attribute: AttributeId) -> Option<Cell> {
        let column = &self.columns[attribute.index()];
        let change = *column.changes.get(node.index()).filter(|change| **change != 0)?;
        Some(Cell { value: column.value(node), sampled: column.sampled[node.index()], change })
    }

    /// A number; NaN: not defined.
    pub fn number(&self, node: NodeId, attribute: AttributeId) -> f64 {
        match &self.columns[attribute.index()].values {
            Values::Numbers(numbers) => numbers.get(node.index()).copied().unwrap_or(f64::NAN),
            Values::Texts(_) => f64::NAN,
        }
    }

    /// A text, where it is defined.
    pub fn text(&self, node: NodeId, attribute: AttributeId) -> Option<&Arc<str>> {
        match &self.columns[attribute.index()].values {
            Values::Texts(texts) => texts.get(node.index())?.as_ref(),
            Values::Numbers(_) => None,
        }
    }

    /// When values that were all set were sampled last, by attribute.
    pub(crate) fn sample_times(&self, attribute: AttributeId) -> &[Time] {
        &self.columns[attribute.index()].sampled
    }

    /// When a value was sampled last. `None` if it never was.
    pub fn sampled(&self, node: NodeId, attribute: AttributeId) -> Option<Time> {
        let column = &self.columns[attribute.index()];
        column.changes.get(node.index()).filter(|change| **change != 0)?;
        Some(column.sampled[node.index()])
    }

    /// Whether a value is set and defined.
    pub fn has(&self, node: NodeId, attribute: AttributeId) -> bool {
        match &self.columns[attribute.index()].values {
            Values::Numbers(numbers) => {
                numbers.get(node.index()).is_some_and(|number| !number.is_nan())
            }
            Values::Texts(texts) => texts.get(node.index()).is_some_and(Option::is_some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Threshold;

    #[test]
    fn a_sample_that_is_equal_changes_its_time_alone() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let load = table.registry().find("load1").unwrap();
        table.set(node, load, Value::Number(1.0), Time(10));
        let first = table.cell(node, load).unwrap();
        table.set(node, load, Value::Number(1.0), Time(20));
        let second = table.cell(node, load).unwrap();
        assert_eq!((first.sampled, second.sampled), (Time(10), Time(20)));
        assert_eq!(first.change, second.change);
        table.set(node, load, Value::Number(2.0), Time(15));
        assert_eq!(table.cell(node, load), Some(second), "an older sample came late");
        table.set(node, load, Value::undefined("gone"), Time(30));
        let third = table.cell(node, load).unwrap();
        assert_eq!((third.value, third.change), (Value::undefined("gone"), table.change()));
        assert!(!table.has(node, load));
    }

    #[test]
    fn what_is_supposed_does_not_stay() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let [load, runnable] =
            ["load1", "runnable"].map(|name| table.registry().find(name).unwrap());
        table.set(node, load, Value::Number(1.0), Time(10));
        let before = (table.cell(node, load), table.change());
        let numbers = [(load, 5.0), (runnable, 3.0), (load, 7.0)];
        let seen =
            table.supposing(node, &numbers, |it| (it.number(node, load), it.has(node, runnable)));
        assert_eq!(seen, (7.0, false), "what nobody has said is not supposed");
        assert_eq!((table.cell(node, load), table.change()), before);
    }

    #[test]
    fn a_row_of_a_node_that_was_removed_is_used_again_and_nothing_of_it_is_left() {
        let mut table = Table::new();
        let [load, os] = ["load1", "os"].map(|name| table.registry().find(name).unwrap());
        let (first, second) = (table.node(None, "a"), table.node(None, "b"));
        for node in [first, second] {
            table.set(node, load, Value::Number(1.0), Time(10));
            table.set(node, os, Value::text("x".repeat(60 << 10)), Time(10));
        }
        let before = table.change();
        table.remove(first);
        assert_eq!((table.len(), table.find_node("a"), table.removals()), (1, None, 1));
        let gone = |since| table.gone_since(since).map(|it| it.1.to_string()).collect::<Vec<_>>();
        assert_eq!((gone(before), gone(table.change())), (vec!["a".to_owned()], vec![]));
        let third = table.node(None, "c");
        assert_eq!((third, table.cell(third, load)), (first, None));
        assert_eq!(table.get_node(third).born, table.change());
        table.set(third, load, Value::Number(2.0), Time(5));
        table.set(third, os, Value::text("y".repeat(60 << 10)), Time(5));
        assert!(table.has(third, os) && table.number(third, load) > 1.0, "times are its own");
        table.node(None, "a");
        assert_eq!(table.len(), 3);
        assert_eq!(table.gone_since(before).count(), 0, "it has come back");
    }

    #[test]
    fn what_was_never_said_is_not_there() {
        let mut table = Table::new();
        let host = table.registry().find("host").unwrap();
        let (first, second) = (table.node(None, "a"), table.node(None, "b"));
        table.set(second, host, Value::text("b"), Time(1));
        assert_eq!(table.cell(first, host), None);
        assert_eq!(table.text(second, host).map(|text| &**text), Some("b"));
        assert_eq!(table.node(None, "a"), first);
        let of_run = table.node(Some("run"), "a");
        assert_ne!(of_run, first);
        let alone = table.node(Some("run"), "c");
        let found = ["a", "c", "d"].map(|name| table.find_node(name));
        assert_eq!(found, [Some(first), Some(alone), None]);
    }

    #[test]
    fn texts_of_a_node_are_bounded_together() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let [os, kernel] = ["os", "kernel"].map(|name| table.registry().find(name).unwrap());
        table.set(node, os, Value::text("x".repeat(60 << 10)), Time(1));
        table.set(node, kernel, Value::text("x".repeat(5 << 10)), Time(1));
        assert!(table.has(node, os) && !table.has(node, kernel));
        table.set(node, os, Value::text("x"), Time(2));
        table.set(node, kernel, Value::text("x".repeat(5 << 10)), Time(2));
        assert!(table.has(node, kernel));
    }

    #[test]
    fn texts_of_others_have_all_their_room_whatever_is_built_in() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let os = table.registry().find("os").unwrap();
        table.set(node, os, Value::text("x".repeat(60 << 10)), Time(1));
        for number in 0..9 {
            let attribute = Attribute {
                name: format!("data{number}"),
                unit: String::new(),
                kind: Kind::Text,
                threshold: Threshold::default(),
                provider: "probe".to_owned(),
            };
            assert_eq!(table.has_room(node, &attribute.name, 8 << 10), number < 8);
            let id = table.define(attribute).unwrap();
            table.set(node, id, Value::text("x".repeat(8 << 10)), Time(1));
            assert_eq!(table.has(node, id), number < 8, "{number}");
        }
        assert!(table.has(node, os));
    }

    #[test]
    fn a_value_of_another_kind_is_undefined_and_says_why() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let load = table.registry().find("load1").unwrap();
        table.set(node, load, Value::text("much"), Time(1));
        let value = table.cell(node, load).unwrap().value;
        assert_eq!(value, Value::undefined("it was a number, is a text"));
    }

    #[test]
    fn an_attribute_that_all_have_taken_back_may_become_something_else() {
        use crate::external::set_by_user;

        let mut table = Table::new();
        let [one, two] = ["one", "two"].map(|name| table.node(None, name));
        let mut set = |node, line: &str, at| set_by_user(&mut table, node, "rack", line, Time(at));
        set(one, "7 U", 1).unwrap();
        set(two, "8 U", 1).unwrap();
        let refused = Err("rack was a number in U, is a text".to_owned());
        set(one, "", 2).unwrap();
        assert_eq!(set(one, "left", 3), refused, "another node has a value of it");
        set(two, "", 4).unwrap();
        let before = table.change();
        set_by_user(&mut table, one, "rack", "left", Time(5)).unwrap();
        let id = table.registry().find("rack").unwrap();
        assert_eq!(table.text(one, id).map(|text| &**text), Some("left"));
        assert_eq!(table.cell(two, id).unwrap().value, Value::free("a user has removed it"));
        assert!(table.reshaped(two) > before, "its unit has changed where it is shown");
        let load = table.registry().find("load1").unwrap();
        let text = Attribute { kind: Kind::Text, ..table.registry().get(load).clone() };
        assert!(table.define(text).is_err(), "a built-in one never does");
    }
}
