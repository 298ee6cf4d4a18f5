//! What is worth telling of a table, as frames.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::Time;

use super::bytes::{put_signed, put_text, put_varint};
use super::form::{VERSION, tag};
use crate::registry::{Attribute, AttributeId, Threshold};
use crate::table::{NodeId, State, Table};
use crate::value::{Kind, Value};

/// Maximum of whole numbers that a double has exactly: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A value as it was sent.
#[derive(Debug, Clone)]
struct Told {
    value: Value,
    change: u64,
    /// The newest sample that the receiver knows of.
    sampled: Time,
    at: Time,
}

/// A node that was sent.
#[derive(Debug)]
struct ToldNode {
    id: NodeId,
    state: State,
    /// The values, by attribute.
    values: Vec<Option<Told>>,
}

/// One end of a session with a receiver. A session's nodes only ever grow in number: when one was removed from the
/// table, a new session begins without it; likewise when an attribute has become something else.
#[derive(Debug)]
pub struct Sender {
    /// Time after which a value is sent again that was sampled anew, ns.
    silence_ns: u64,
    /// Each sample is sent, also of a value that has not moved.
    tells_samples: bool,
    /// The number of the last frame; 0 if there was none.
    sequence: u64,
    /// Number of the table's attributes that were sent.
    attributes: usize,
    /// The nodes, by their numbers within the session.
    nodes: Vec<ToldNode>,
    /// The nodes that were sent, by their numbers in the table.
    known: BTreeSet<NodeId>,
    /// Number of nodes that had been removed from the table when the session began.
    removals: u64,
    /// Number of attributes that had become something else by then.
    changed: u64,
    /// When exact values of all providers were asked for last, and of single ones.
    exact_of_all: Time,
    exact: BTreeMap<String, Time>,
    /// Attributes without a threshold, by name.
    always: BTreeSet<String>,
}

impl Sender {
    /// Makes a sender that begins a session.
    pub fn new(silence_ns: u64) -> Self {
        Self {
            silence_ns,
            tells_samples: false,
            sequence: 0,
            attributes: 0,
            nodes: Vec::new(),
            known: BTreeSet::new(),
            removals: 0,
            changed: 0,
            exact_of_all: Time(0),
            exact: BTreeMap::new(),
            always: BTreeSet::new(),
        }
    }

    /// Makes it also send when values were sampled that have not moved, for receivers that must know that nothing has
    /// changed since. That takes a byte for each value.
    #[must_use]
    pub fn telling_samples(mut self) -> Self {
        self.tells_samples = true;
        self
    }

    /// Begins a new session: the receiver is another one, or has missed a frame.
    pub fn restart(&mut self) {
        let Self { silence_ns, tells_samples, exact_of_all, .. } = *self;
        let (exact, always) = (std::mem::take(&mut self.exact), std::mem::take(&mut self.always));
        *self = Self { tells_samples, exact_of_all, exact, always, ..Self::new(silence_ns) };
    }

    /// Sends exact values of these providers (`None`: of all): until a sample was sent that was taken since, any change
    /// is worth telling.
    pub fn tell_exactly(&mut self, providers: &[String], now: Time) {
        if providers.is_empty() {
            self.exact_of_all = now;
        }
        self.exact.extend(providers.iter().map(|name| (name.clone(), now)));
    }

    /// Sends any change of these attributes, and of no others, from now on.
    pub fn tell_always(&mut self, attributes: Vec<String>) {
        self.always = attributes.into_iter().collect();
    }

    /// Takes what the receiver does not know yet and is worth telling; the first frame of a session is never empty. The
    /// caller sends it, or restarts the session.
    pub fn take(&mut self, table: &Table, now: Time) -> Option<Vec<u8>> {
        let [removals, changed] = [table.removals(), table.registry().changed()];
        if (self.removals, self.changed) != (removals, changed) {
            self.restart();
            (self.removals, self.changed) = (removals, changed);
        }
        let mut out = vec![VERSION];
        put_varint(&mut out, self.sequence + 1);
        let mut is_empty = self.sequence > 0;
        is_empty &= !self.put_attributes(table, &mut out);
        is_empty &= !self.put_nodes(table, &mut out);
        is_empty &= !self.put_blocks(table, now, &mut out);
        if is_empty {
            return None;
        }
        self.sequence += 1;
        Some(out)
    }

    fn put_attributes(&mut self, table: &Table, out: &mut Vec<u8>) -> bool {
        let fresh = table.registry().iter().skip(self.attributes);
        put_varint(out, fresh.len() as u64);
        for (_, attribute) in fresh {
            put_text(out, &attribute.name);
            put_text(out, &attribute.unit);
            out.push(u8::from(attribute.kind == Kind::Text));
            out.extend_from_slice(&attribute.threshold.absolute.to_le_bytes());
            out.extend_from_slice(&attribute.threshold.relative.to_le_bytes());
            put_text(out, &attribute.provider);
        }
        let any = self.attributes < table.registry().len();
        self.attributes = table.registry().len();
        any
    }

    fn put_nodes(&mut self, table: &Table, out: &mut Vec<u8>) -> bool {
        let Self { nodes, known, .. } = self;
        let any = known.len() < table.len();
        put_varint(out, (table.len() - known.len()) as u64);
        if any {
            for (id, node) in table.nodes().filter(|(id, _)| known.insert(*id)) {
                put_text(out, &node.name);
                // A node is up until something else is said.
                nodes.push(ToldNode { id, state: State::Up, values: Vec::new() });
            }
        }
        let is_moved = |told: &ToldNode| table.get_node(told.id).state != told.state;
        let moved = nodes.iter_mut().enumerate().filter(|(_, told)| is_moved(told));
        let moved: Vec<(usize, &mut ToldNode)> = moved.collect();
        put_varint(out, moved.len() as u64);
        let any = any || !moved.is_empty();
        for (number, told) in moved {
            told.state.clone_from(&table.get_node(told.id).state);
            put_varint(out, number as u64);
            put_text(out, told.state.word());
        }
        any
    }

    fn put_blocks(&mut self, table: &Table, now: Time, out: &mut Vec<u8>) -> bool {
        // By the number of the node within the session. No value: as it was sent.
        let mut news: Vec<(usize, Time, AttributeId, Option<Value>)> = Vec::new();
        let Self { nodes, exact, exact_of_all, always, silence_ns, tells_samples, .. } = self;
        let since_when = |provider: &str| {
            exact.get(provider).map_or(*exact_of_all, |of_one| (*of_one).max(*exact_of_all))
        };
        // `None`: whenever it was sent.
        let exact_since =
            |it: &Attribute| (!always.contains(&it.name)).then(|| since_when(&it.provider));
        let exact_since: Vec<Option<Time>> =
            table.registry().iter().map(|(_, it)| exact_since(it)).collect();
        for (node, ToldNode { id, values, .. }) in nodes.iter_mut().enumerate() {
            values.resize(table.registry().len(), None);
            for (attribute, described) in table.registry().iter() {
                let told = &mut values[usize::from(attribute.0)];
                let Some(cell) = table.cell(*id, attribute) else { continue };
                let is_news = told.as_ref().is_none_or(|told| {
                    let since = exact_since[usize::from(attribute.0)];
                    let is_exact = since.is_none_or(|since| told.sampled < since);
                    let threshold =
                        if is_exact { Threshold::default() } else { described.threshold };
                    let is_moved =
                        cell.change != told.change && is_worth(&told.value, &cell.value, threshold);
                    let is_silent = now.0.saturating_sub(told.at.0) >= *silence_ns;
                    is_moved || is_silent && cell.sampled > told.sampled
                });
                match told {
                    Some(told) if !is_news => {
                        if *tells_samples && cell.sampled > told.sampled {
                            news.push((node, cell.sampled, attribute, None));
                            told.sampled = cell.sampled;
                        }
                    }
                    told => {
                        news.push((node, cell.sampled, attribute, Some(cell.value.clone())));
                        let (value, change, sampled) = (cell.value, cell.change, cell.sampled);
                        *told = Some(Told { value, change, sampled, at: now });
                    }
                }
            }
        }
        news.sort_by_key(|(node, sampled, attribute, _)| (*node, *sampled, *attribute));
        let blocks: Vec<_> =
            news.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)).collect();
        put_varint(out, blocks.len() as u64);
        for block in &blocks {
            put_varint(out, block[0].0 as u64);
            put_varint(out, now.0.saturating_sub(block[0].1.0) / 1000);
            put_varint(out, block.len() as u64);
            let mut next = 0;
            for (_, _, attribute, value) in *block {
                let id = u64::from(attribute.0);
                match value {
                    Some(value) => put_value(out, id - next, value),
                    None => put_varint(out, (id - next) << tag::BITS | tag::SAME),
                }
                next = id + 1;
            }
        }
        !blocks.is_empty()
    }
}

fn is_worth(told: &Value, value: &Value, threshold: Threshold) -> bool {
    match (told, value) {
        (Value::Number(told), Value::Number(value)) => threshold.is_passed(*told, *value),
        _ => told != value,
    }
}

fn put_value(out: &mut Vec<u8>, gap: u64, value: &Value) {
    let head = |out: &mut Vec<u8>, tag| put_varint(out, gap << tag::BITS | tag);
    match value {
        Value::Number(number) => put_number(out, *number, &head),
        Value::Text(text) => {
            head(out, tag::TEXT);
            put_text(out, text);
        }
        Value::Undefined(why) => {
            head(out, if why.is_free() { tag::FREE } else { tag::UNDEFINED });
            put_text(out, why);
        }
    }
}

/// The shortest form that gives the same double back.
#[expect(clippy::float_cmp, reason = "the same double is what is asked for")]
fn put_number(out: &mut Vec<u8>, number: f64, head: &dyn Fn(&mut Vec<u8>, u64)) {
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    let hundredths = (number * 100.0).round();
    if number.abs() <= EXACT_MAX && number.fract() == 0.0 && !is_negative_zero {
        head(out, tag::INTEGER);
        put_signed(out, number as i64);
    } else if hundredths.abs() <= EXACT_MAX && hundredths / 100.0 == number && !is_negative_zero {
        head(out, tag::HUNDREDTHS);
        put_signed(out, hundredths as i64);
    } else if f64::from(number as f32) == number {
        head(out, tag::SINGLE);
        out.extend_from_slice(&(number as f32).to_le_bytes());
    } else {
        head(out, tag::DOUBLE);
        out.extend_from_slice(&number.to_le_bytes());
    }
}
