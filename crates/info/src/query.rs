//! Questions about a table: which nodes, which columns, in which order. It does not know how they come or are answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rakuda_core::Time;

use crate::catalogue;
use crate::expression::{Aggregate, Expression, ExpressionError, Row, split_list};
use crate::registry::{AttributeId, Registry};
use crate::table::{NodeId, State, Table};
use crate::value::{Kind, Value};

/// A question as it was put; empty fields ask for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Columns: expressions with commas between them. Empty: all attributes that a node has.
    pub fields: Option<String>,
    /// A condition.
    pub condition: Option<String>,
    /// Expressions; `-` before one turns its order round.
    pub sort: Option<String>,
    /// An expression; nodes with the same value are one row.
    pub group_by: Option<String>,
    /// Maximum number of rows.
    pub limit: Option<usize>,
    /// Values that have changed after this change alone.
    pub since: Option<u64>,
    /// Attributes of these providers alone, with commas between them.
    pub only: Option<String>,
}

/// The providers that [`Question::only`] names.
pub fn names_of(only: &str) -> Vec<String> {
    only.split(',').map(|name| name.trim().to_owned()).collect()
}

/// What is wrong with a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{clause}: {error}")]
pub struct QuestionError {
    /// The part of the question: `where`, `fields`, `sort`, `group_by` or `only`.
    pub clause: &'static str,
    /// What is wrong, and where.
    pub error: ExpressionError,
}

/// A question that makes sense.
#[derive(Debug, Clone)]
pub struct Query {
    /// The columns. `None`: all attributes that a node has.
    columns: Option<Vec<Expression>>,
    condition: Option<Expression>,
    sort: Vec<(Expression, bool)>,
    group_by: Option<Expression>,
    limit: usize,
    since: Option<u64>,
    /// The providers; empty: all.
    only: Vec<String>,
}

/// A value of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The name of its column.
    pub name: Arc<str>,
    /// The unit; may be empty.
    pub unit: Arc<str>,
    /// The value.
    pub value: Value,
    /// When the oldest sample that it rests on was taken.
    pub sampled: Option<Time>,
}

/// A node, or a group of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    /// The node; `None` for a group.
    pub node: Option<(Arc<str>, State)>,
    /// The run that the node is part of.
    pub run: Option<Arc<str>>,
    /// Values in the order of the columns.
    pub values: Vec<Answered>,
}

/// Rows in the order asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The newest change of the table.
    pub change: u64,
    /// When the question was asked.
    pub now: Time,
    /// Names of the columns; `None`: each row has its own.
    pub columns: Option<Vec<(Arc<str>, Kind)>>,
    /// Whether rows are groups.
    pub is_grouped: bool,
    /// Nodes or groups.
    pub rows: Vec<AnswerRow>,
    /// In an answer to what has changed: nodes that have changed, or were in the answer before, and are not in it now.
    pub left: Vec<Arc<str>>,
    /// In an answer to what has changed: nodes that the table had and has no more, for any question.
    pub gone: Vec<Arc<str>>,
    /// The answer is complete, although the question was for changes: the change that it named is none of this table,
    /// and what the asker knows is void.
    pub is_anew: bool,
    /// The groups are as they were in the last answer, for an asker that follows them.
    pub is_old: bool,
}

impl Answer {
    /// Whether the answer says nothing.
    pub fn is_empty(&self) -> bool {
        let has_rows = if self.is_grouped { !self.is_old } else { !self.rows.is_empty() };
        !has_rows && self.left.is_empty() && self.gone.is_empty()
    }
}

/// What an asker knows that follows changes ([`Query::answer_next`]).
#[derive(Debug, Default)]
pub struct Followed {
    /// The newest change that it knows. `None`: it has had no answer.
    since: Option<u64>,
    /// The nodes of the answer.
    nodes: BTreeSet<NodeId>,
    /// The values of its groups.
    groups: Vec<Vec<Value>>,
}

fn of(clause: &'static str) -> impl Fn(ExpressionError) -> QuestionError + Copy {
    move |error| QuestionError { clause, error }
}

/// Makes something of each part of a list; errors have their place in the list.
fn each<T>(
    clause: &'static str,
    list: &str,
    make: impl Fn(&str) -> Result<T, ExpressionError>,
) -> Result<Vec<T>, QuestionError> {
    let parts = split_list(list).map_err(of(clause))?;
    let parts = parts.iter().map(|(place, part)| make(part).map_err(|error| error.moved(*place)));
    parts.collect::<Result<_, _>>().map_err(of(clause))
}

impl Query {
    /// Understands a question with the attributes known so far.
    pub fn new(question: &Question, registry: &Registry) -> Result<Self, QuestionError> {
        let is_grouped = question.group_by.is_some();
        let column = |part: &str| {
            if is_grouped {
                Expression::of_group(part, registry)
            } else {
                Expression::new(part, registry)
            }
        };
        let columns = match &question.fields {
            Some(fields) => Some(each("fields", fields, column)?),
            // Of a group all attributes would say little.
            None if is_grouped => {
                Some(vec![Expression::of_group("count()", registry).map_err(of("fields"))?])
            }
            None => None,
        };
        let condition = question.condition.as_ref();
        let condition = condition.map(|it| Expression::condition(it, registry)).transpose();
        let group_by = question.group_by.as_ref();
        let group_by = group_by.map(|it| Expression::new(it, registry)).transpose();
        let sort = question.sort.as_ref().map_or(Ok(Vec::new()), |sort| {
            each("sort", sort, |part| {
                let (minus, key) = descending(part);
                Ok((column(key).map_err(|error| error.moved(minus))?, minus > 0))
            })
        })?;
        let only = question.only.as_deref().map_or_else(Vec::new, names_of);
        let known = known_providers(registry);
        if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
            let message = format!("no provider is called {unknown:?}");
            let hint = Some(format!("there are {}", known.join(", ")));
            let error = ExpressionError { message, position: 0, hint, unknown: None };
            return Err(QuestionError { clause: "only", error });
        }
        Ok(Self {
            columns,
            condition: condition.map_err(of("where"))?,
            sort,
            group_by: group_by.map_err(of("group_by"))?,
            limit: question.limit.unwrap_or(usize::MAX),
            since: question.since,
            only,
        })
    }

    /// The providers whose values it needs. `None`: all.
    pub fn providers(&self, registry: &Registry) -> Option<Vec<String>> {
        if !self.only.is_empty() {
            return Some(self.only.clone());
        }
        let ids = self.needed()?;
        let mut names: Vec<String> =
            ids.iter().map(|id| registry.get(*id).provider.clone()).collect();
        names.sort_unstable();
        names.dedup();
        Some(names)
    }

    /// The providers whose values alone the answer has; empty: all.
    pub fn only(&self) -> &[String] {
        &self.only
    }

    /// The attributes that it needs, for whatever. `None`: all, or all of some providers.
    pub fn needed(&self) -> Option<Vec<AttributeId>> {
        let columns = self.columns.as_ref().filter(|_| self.only.is_empty())?.iter();
        let sorts = self.sort.iter().map(|(expression, _)| expression);
        let all = columns.chain(&self.condition).chain(sorts).chain(&self.group_by);
        Some(all.flat_map(Expression::attributes).copied().collect())
    }

    /// Whether it names what nothing has so far, and external providers may give it.
    pub fn awaits_providers(&self) -> bool {
        let sorts = self.sort.iter().map(|(expression, _)| expression);
        let all = self.columns.iter().flatten().chain(&self.condition);
        let mut names = all.chain(sorts).chain(&self.group_by).flat_map(Expression::absent);
        names.any(|name| catalogue::of(name).is_none() || catalogue::is_fault(name))
    }

    /// The attributes that it rests on, among those of a node. `None`: all.
    pub fn attributes(&self) -> Option<Vec<AttributeId>> {
        let columns = self.columns.as_ref()?.iter();
        let all = columns.chain(&self.condition);
        Some(all.flat_map(Expression::attributes).copied().collect())
    }

    /// The nodes of the answer, in its order, where it has all that is known of each ([`crate::format::fragments`]).
    pub fn whole_rows(&self, table: &Table, now: Time) -> Option<Vec<NodeId>> {
        let is_whole = self.columns.is_none() && self.since.is_none() && self.only.is_empty();
        is_whole.then(|| self.rows(table, now).into_iter().map(|(_, (row, _))| row.node).collect())
    }

    /// Nodes or groups, in order.
    fn rows<'a>(&self, table: &'a Table, now: Time) -> Vec<Keyed<'a>> {
        let rows = table.nodes().map(|(node, _)| Row { table, node, now });
        let is_wanted = |row: &Row<'_>| self.condition.as_ref().is_none_or(|it| it.is_true(row));
        let chosen: Vec<Row<'_>> = rows.filter(is_wanted).collect();
        let mut rows = if let Some(group_by) = &self.group_by {
            self.groups(group_by, &chosen)
        } else {
            let keys = |row: &Row<'_>| self.sort.iter().map(|(key, _)| key.value(row)).collect();
            chosen.iter().map(|row| (keys(row), (*row, Vec::new()))).collect()
        };
        self.order(&mut rows);
        rows.truncate(self.limit);
        rows
    }

    /// Answers from the table as it is now.
    pub fn answer(&self, table: &Table, now: Time) -> Answer {
        let rows = self.rows(table, now);
        let since = self.since.filter(|since| table.has_change(*since));
        // The asker knows no node that may have come into the answer since.
        let known =
            |node| since.filter(|since| !self.may_have_come(&Row { table, node, now }, *since));
        let mut answer = self.made(table, now, rows.iter(), &known);
        answer.is_anew = self.since.is_some() && since.is_none();
        let Some(since) = since.filter(|_| !answer.is_grouped) else { return answer };
        let chosen: BTreeSet<NodeId> = rows.iter().map(|(_, (row, _))| row.node).collect();
        let changed = table.nodes().filter(|(id, _)| table.touched(*id) > since);
        let left = changed.filter(|(id, _)| !chosen.contains(id));
        let gone: Vec<Arc<str>> = table.gone_since(since).map(|(_, name)| name.clone()).collect();
        let left = left.map(|(_, node)| Arc::clone(&node.name)).chain(gone.iter().cloned());
        Answer { left: left.collect(), gone, ..answer }
    }

    /// Whether a node of the answer may not have been in it at a change: its state or what the condition rests on has
    /// changed since, or others may have left it no room.
    fn may_have_come(&self, row: &Row<'_>, since: u64) -> bool {
        let is_fresh = |it: &Expression| is_fresh(it.attributes(), row, Some(since));
        self.limit < usize::MAX || self.condition.as_ref().is_some_and(is_fresh)
    }

    /// What has changed for an asker: a node that comes into the answer is sent whole, and one that leaves it by name.
    /// Groups are all sent when some value of them has changed.
    pub fn answer_next(&self, table: &Table, now: Time, followed: &mut Followed) -> Answer {
        if self.group_by.is_some() || followed.since.is_none() && self.since.is_some() {
            let rows = self.rows(table, now);
            let before = followed.since.replace(table.change());
            followed.nodes = rows.iter().map(|(_, (row, _))| row.node).collect();
            let answer = self.answer(table, now);
            let values = |row: &AnswerRow| row.values.iter().map(|it| it.value.clone()).collect();
            let told: Vec<Vec<Value>> = answer.rows.iter().map(values).collect();
            let is_old = before.is_some() && followed.groups == told;
            followed.groups = told;
            let Some(before) = before else { return answer };
            let gone = table.gone_since(before).map(|(_, name)| name.clone()).collect();
            return Answer { gone, is_old, ..answer };
        }
        let rows = self.rows(table, now);
        // A number may be that of another node by now.
        let is_same =
            |node: NodeId| followed.since.is_some_and(|it| table.get_node(node).born <= it);
        let was_told = |node: NodeId| followed.nodes.contains(&node) && is_same(node);
        let since = |node| followed.since.filter(|_| was_told(node));
        let answer = self.made(table, now, rows.iter(), &since);
        let chosen: BTreeSet<NodeId> = rows.iter().map(|(_, (row, _))| row.node).collect();
        let removed: Vec<_> =
            followed.since.map_or_else(Vec::new, |it| table.removed_since(it).collect());
        let is_there = |id: &NodeId| is_same(*id) && table.is_there(*id);
        let left = followed.nodes.difference(&chosen).filter(|id| is_there(id));
        let left = left.map(|id| &table.get_node(*id).name);
        // A node that has come back is another node: if it is in the answer it is sent whole; otherwise the asker that
        // knows the one before would keep that.
        let is_told = |back: Option<NodeId>| back.is_some_and(|back| chosen.contains(&back));
        let told = removed.iter().filter(|(id, ..)| followed.nodes.contains(id));
        let told = told.filter(|(_, _, back)| !is_told(*back));
        let left = left.chain(told.map(|(_, name, _)| *name)).cloned().collect();
        let gone = removed.into_iter().filter(|(_, _, back)| back.is_none());
        let gone = gone.map(|(_, name, _)| name.clone()).collect();
        *followed = Followed { since: Some(answer.change), nodes: chosen, groups: Vec::new() };
        Answer { left, gone, ..answer }
    }

    /// The values of these rows that are newer than a change, which may differ by node.
    fn made<'a, 'b: 'a>(
        &self,
        table: &Table,
        now: Time,
        rows: impl Iterator<Item = &'a Keyed<'b>>,
        since: &dyn Fn(NodeId) -> Option<u64>,
    ) -> Answer {
        let headings = self.headings();
        let is_grouped = self.group_by.is_some();
        let rows = rows.filter_map(|(_, (row, of_group))| {
            if is_grouped {
                return Some(Self::group(of_group, headings.as_deref()));
            }
            let since = since(row.node);
            let told = self.row(row, headings.as_deref(), since);
            let is_other = since.is_none_or(|since| table.get_node(row.node).change > since);
            (is_other || !told.values.is_empty()).then_some(told)
        });
        let rows = rows.collect();
        let columns = headings
            .map(|headings| headings.into_iter().map(|(name, _, kind)| (name, kind)).collect());
        Answer {
            change: table.change(),
            now,
            columns,
            is_grouped,
            rows,
            left: Vec::new(),
            gone: Vec::new(),
            is_anew: false,
            is_old: false,
        }
    }

    fn headings(&self) -> Option<Vec<Heading>> {
        let columns = self.columns.as_ref()?;
        let group = self.group_by.iter();
        let heading = |expression: &Expression| {
            (expression.source().into(), expression.unit().into(), expression.kind())
        };
        Some(group.chain(columns).map(heading).collect())
    }

    /// Undefined last, up or down; ties by the name of the node.
    fn order<'a>(&self, rows: &mut [Keyed<'a>]) {
        rows.sort_by(|(one, (row, _)), (other, (other_row, _))| {
            let pairs = one.iter().zip(other).zip(&self.sort);
            let by_key = pairs.map(|((one, other), (_, is_down))| compare(one, other, *is_down));
            let name = |row: &Row<'a>| &row.table.get_node(row.node).name;
            by_key
                .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
                .then_with(|| name(row).cmp(name(other_row)))
        });
    }

    /// A row for each group: the keys it is sorted by, its first node, and its values, the group's own first.
    fn groups<'a>(&self, group_by: &Expression, rows: &[Row<'a>]) -> Vec<Keyed<'a>> {
        let mut groups: BTreeMap<String, (Value, Vec<Row<'a>>)> = BTreeMap::new();
        for row in rows {
            let value = group_by.value(row);
            let key = format!("{value:?}");
            groups.entry(key).or_insert_with(|| (value, Vec::new())).1.push(*row);
        }
        let of_group = |(value, rows): (Value, Vec<Row<'a>>)| {
            let keys = self.sort.iter().map(|(key, _)| together(key, &rows).0).collect();
            let columns = self.columns.iter().flatten().map(|column| together(column, &rows));
            let sampled = rows.iter().filter_map(|row| group_by.sampled(row)).min();
            let values = std::iter::once((value, sampled)).chain(columns).collect();
            (keys, (rows[0], values))
        };
        groups.into_values().map(of_group).collect()
    }

    fn group(of_group: &[OfGroup], headings: Option<&[Heading]>) -> AnswerRow {
        let values = headings.unwrap_or_default().iter().zip(of_group);
        let values =
            values.map(|(heading, (value, sampled))| answered(heading, value.clone(), *sampled));
        AnswerRow { node: None, run: None, values: values.collect() }
    }

    fn row(&self, row: &Row<'_>, headings: Option<&[Heading]>, since: Option<u64>) -> AnswerRow {
        let node = row.table.get_node(row.node);
        let values = match (headings, &self.columns) {
            (Some(headings), Some(columns)) => headings
                .iter()
                .zip(columns)
                .filter(|(_, column)| is_fresh(column.attributes(), row, since))
                .map(|(heading, column)| answered(heading, column.value(row), column.sampled(row)))
                .collect(),
            _ => self.all(row, since),
        };
        AnswerRow {
            node: Some((Arc::clone(&node.name), node.state.clone())),
            run: node.run.clone(),
            values,
        }
    }

    fn all(&self, row: &Row<'_>, since: Option<u64>) -> Vec<Answered> {
        let mut all: Vec<Answered> = row
            .table
            .registry()
            .iter()
            .filter(|(_, it)| self.only.is_empty() || self.only.contains(&it.provider))
            .filter_map(|(id, attribute)| {
                let cell = row.table.cell(row.node, id)?;
                let is_news = since.is_none_or(|since| cell.change > since);
                is_news.then(|| Answered {
                    name: attribute.name.as_str().into(),
                    unit: attribute.unit.as_str().into(),
                    value: cell.value,
                    sampled: Some(cell.sampled),
                })
            })
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

/// The values that a row is sorted by; its node, and the values of a group.
type Keyed<'a> = (Vec<Value>, (Row<'a>, Vec<OfGroup>));
/// A value of a group, and when the oldest sample was taken that it rests on.
type OfGroup = (Value, Option<Time>);
type Heading = (Arc<str>, Arc<str>, Kind);

fn answered((name, unit, _): &Heading, value: Value, sampled: Option<Time>) -> Answered {
    Answered { name: Arc::clone(name), unit: Arc::clone(unit), value, sampled }
}

/// Whether a column may have changed; with another state all may have.
fn is_fresh(attributes: &[AttributeId], row: &Row<'_>, since: Option<u64>) -> bool {
    let Some(since) = since else { return true };
    let changes = attributes.iter().filter_map(|id| Some(row.table.cell(row.node, *id)?.change));
    changes.chain([row.table.get_node(row.node).change]).any(|change| change > since)
}

/// Also those of families, of which no instance was found yet.
fn known_providers(registry: &Registry) -> Vec<&str> {
    let built_in = catalogue::BUILT_IN.iter().map(|built_in| built_in.provider);
    let mut names: Vec<&str> =
        registry.iter().map(|(_, it)| it.provider.as_str()).chain(built_in).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// How many characters stand before the key, if a `-` turns its order round.
fn descending(part: &str) -> (usize, &str) {
    let trimmed = part.trim_start();
    match trimmed.strip_prefix('-') {
        Some(key) => (part.chars().count() - key.chars().count(), key),
        None => (0, part),
    }
}

fn compare(one: &Value, other: &Value, is_down: bool) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let ordering = match (one, other) {
        (Value::Undefined(_), Value::Undefined(_)) => return Equal,
        (Value::Undefined(_), _) => return Greater,
        (_, Value::Undefined(_)) => return Less,
        (Value::Number(one), Value::Number(other)) => one.total_cmp(other),
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        // Of one expression all values are of one kind.
        (Value::Number(_), Value::Text(_)) => Less,
        (Value::Text(_), Value::Number(_)) => Greater,
    };
    if is_down { ordering.reverse() } else { ordering }
}

/// The value of a column for a group.
#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 nodes")]
fn together(column: &Expression, rows: &[Row<'_>]) -> OfGroup {
    let Some(aggregate) = column.aggregate() else {
        let sampled = rows.iter().filter_map(|row| column.sampled(row)).min();
        let mut values = rows.iter().map(|row| column.value(row));
        let first = values.next().unwrap_or_else(|| Value::undefined(""));
        let is_one = values.all(|value| value == first);
        let value = if is_one { first } else { Value::undefined("its nodes differ") };
        return (value, sampled);
    };
    let (mut numbers, mut sampled) = (Vec::new(), None);
    for row in rows {
        if let Value::Number(number) = column.value(row) {
            numbers.push(number);
            sampled = [sampled, column.sampled(row)].into_iter().flatten().min();
        }
    }
    let of_all = |reduce: fn(f64, f64) -> f64| {
        let number = numbers.iter().copied().reduce(reduce);
        number.map_or_else(|| Value::undefined("no node has it"), Value::number)
    };
    let value = match aggregate {
        Aggregate::Count => Value::count(rows.len() as u64),
        Aggregate::Sum => of_all(|sum, number| sum + number),
        Aggregate::Lowest => of_all(f64::min),
        Aggregate::Highest => of_all(f64::max),
        Aggregate::Mean => match of_all(|sum, number| sum + number) {
            Value::Number(sum) => Value::number(sum / numbers.len() as f64),
            other => other,
        },
    };
    (value, sampled)
}

/// When the oldest sample of a provider's attributes of a node was taken; `None` if none ever was.
pub fn oldest(table: &Table, node: NodeId, provider: &str) -> Option<Time> {
    let of_provider = table.registry().iter().filter(|(_, it)| it.provider == provider);
    of_provider.filter_map(|(id, _)| table.sampled(node, id)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new();
        for (name, arch, load, memory) in [
            ("n3", "x86_64", Some(0.5), 64.0),
            ("n1", "x86_64", Some(2.0), 32.0),
            ("n2", "arm", None, 16.0),
            ("n4", "arm", Some(1.0), 16.0),
        ] {
            let node = table.node(None, name);
            let id = |name| table.registry().find(name).unwrap();
            let (arch_id, load_id, memory_id) = (id("arch"), id("load1"), id("mem_total"));
            table.set(node, arch_id, Value::text(arch), Time(1_000_000_000));
            let load = load.map_or_else(|| Value::undefined("why not"), Value::Number);
            table.set(node, load_id, load, Time(2_000_000_000));
            table.set(node, memory_id, Value::Number(memory), Time(1_000_000_000));
        }
        table
    }

    fn asked(question: &Question) -> Result<Vec<String>, String> {
        let table = table();
        let query = Query::new(question, table.registry()).map_err(|error| error.to_string())?;
        let show = |value: &Answered| match &value.value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.to_string(),
            Value::Undefined(why) => format!("({why})"),
        };
        let line = |row: &AnswerRow| {
            let name = row.node.as_ref().map_or("", |(name, _)| name);
            let values: Vec<String> = row.values.iter().map(show).collect();
            format!("{name} {}", values.join(" ")).trim().to_owned()
        };
        Ok(query.answer(&table, Time(3_000_000_000)).rows.iter().map(line).collect())
    }

    fn question(fields: &str) -> Question {
        Question { fields: Some(fields.to_owned()), ..Question::default() }
    }

    #[test]
    fn rows_are_chosen_sorted_and_limited() {
        let condition = Some("mem_total > 20 || arch == 'arm'".to_owned());
        let all = Question { condition, sort: Some("-load1".to_owned()), ..question("load1") };
        assert_eq!(asked(&all).unwrap(), ["n1 2", "n4 1", "n3 0.5", "n2 (why not)"]);
        let up =
            Question { sort: Some("arch, load1".to_owned()), limit: Some(3), ..question("arch") };
        assert_eq!(asked(&up).unwrap(), ["n4 arm", "n2 arm", "n3 x86_64"]);
        let down =
            Question { sort: Some("-arch,-mem_total".to_owned()), ..question("mem_total/2") };
        assert_eq!(asked(&down).unwrap(), ["n3 32", "n1 16", "n2 8", "n4 8"]);
        assert_eq!(
            asked(&question("load1 < 1")).unwrap(),
            [
                "n1 false",
                "n2 (something in it is undefined, or a division by zero)",
                "n3 true",
                "n4 false"
            ]
        );
    }

    #[test]
    fn groups_put_values_together() {
        let group_by = Some("arch".to_owned());
        let fields = "count(), sum(mem_total), mean(load1), highest(load1), mem_total";
        let by_arch = Question { group_by: group_by.clone(), ..question(fields) };
        assert_eq!(
            asked(&by_arch).unwrap(),
            ["arm 2 32 1 1 16", "x86_64 2 96 1.25 2 (its nodes differ)"].map(str::to_owned)
        );
        let sorted = Question { sort: Some("-sum(mem_total)".to_owned()), ..by_arch };
        assert!(asked(&sorted).unwrap()[0].starts_with("x86_64"));
        let plain = Question { group_by, ..Question::default() };
        assert_eq!(
            asked(&plain).unwrap(),
            ["x86_64 2", "arm 2"].map(str::to_owned).iter().rev().cloned().collect::<Vec<_>>()
        );
    }

    #[test]
    fn values_of_groups_have_the_age_of_the_oldest_that_they_rest_on() {
        let mut table = table();
        let load = table.registry().find("load1").unwrap();
        let n1 = table.find_node("n1").unwrap();
        table.set(n1, load, Value::Number(2.0), Time(9_000_000_000));
        let question = Question {
            group_by: Some("arch".to_owned()),
            ..question("count(), highest(load1), mem_total")
        };
        let answer =
            Query::new(&question, table.registry()).unwrap().answer(&table, Time(10_000_000_000));
        let sampled = answer.rows[1].values.iter().map(|value| value.sampled);
        let oldest = ["n1", "n3"].map(|name| table.sampled(table.find_node(name).unwrap(), load));
        assert!(oldest[1] < oldest[0], "{oldest:?}");
        let memory = table.registry().find("mem_total").unwrap();
        let memory = table.sampled(n1, memory);
        assert_eq!(sampled.collect::<Vec<_>>(), [memory, None, oldest[1], memory]);
    }

    #[test]
    fn what_is_wrong_has_its_place_in_the_whole_clause() {
        for (question, expected) in [
            (
                question("load1, laod1"),
                "fields: at character 8: nothing is called laod1 (did you mean load1?)",
            ),
            (
                question("count"),
                "fields: at character 1: nothing is called count (it is a function: count(), as a whole column with --group-by)",
            ),
            (
                question("floor"),
                "fields: at character 1: nothing is called floor (it is a function: floor(load1))",
            ),
            (
                question("load1,,arch"),
                "fields: at character 7: expected an expression, found none (expressions stand with one comma between them)",
            ),
            (
                Question { sort: Some("arch, -laod1".to_owned()), ..Question::default() },
                "sort: at character 8: nothing is called laod1 (did you mean load1?)",
            ),
            (
                Question { condition: Some("load1 <".to_owned()), ..Question::default() },
                "where: at character 8: expected a value, found the end",
            ),
        ] {
            assert_eq!(asked(&question), Err(expected.to_owned()));
        }
        let only = Question { only: Some("loads".to_owned()), ..Question::default() };
        assert!(
            asked(&only).unwrap_err().starts_with(
                "only: at character 1: no provider is called \"loads\" (there are cpu, disks"
            ),
            "{:?}",
            asked(&only)
        );
    }

    #[test]
    fn since_a_change_only_what_changed_is_told() {
        let mut table = table();
        let before = table.change();
        let node = table.find_node("n4").unwrap();
        let load = table.registry().find("load1").unwrap();
        table.set(node, load, Value::Number(7.0), Time(4));
        let question = Question { since: Some(before), ..Question::default() };
        let query = Query::new(&question, table.registry()).unwrap();
        assert!(query.answer(&table, Time(5)).rows.is_empty(), "it came late");
        table.set(node, load, Value::Number(7.0), Time(4_000_000_000));
        let rows = query.answer(&table, Time(5_000_000_000)).rows;
        assert_eq!((rows.len(), rows[0].values.len(), &*rows[0].values[0].name), (1, 1, "load1"));
    }

    #[test]
    fn names_of_mds_have_whole_numbers() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        for (name, number) in [("threads", 2.0), ("load1", 1.34), ("load5", 1.345)] {
            let id = table.registry().find(name).unwrap();
            table.set(node, id, Value::Number(number), Time(1));
        }
        let names = "Mds-Cpu-Free-1minX100, Mds-Cpu-Total-Free-1minX100, Mds-Cpu-Free-5minX100";
        let query = Query::new(&question(names), table.registry()).unwrap();
        let row = &query.answer(&table, Time(2)).rows[0];
        let values: Vec<&Value> = row.values.iter().map(|it| &it.value).collect();
        assert_eq!(values, [&Value::Number(33.0), &Value::Number(66.0), &Value::Number(32.0)]);
    }

    #[test]
    fn changes_of_states_are_told_and_who_leaves() {
        let mut table = table();
        let before = table.change();
        let [n1, n3] = ["n1", "n3"].map(|name| table.find_node(name).unwrap());
        table.set_state(n1, State::Suspected);
        let load = table.registry().find("load1").unwrap();
        table.set(n3, load, Value::Number(9.0), Time(4_000_000_000));
        let asked = |fields: Option<&str>| {
            let question = Question {
                condition: Some("load1 < 5".to_owned()),
                since: Some(before),
                fields: fields.map(str::to_owned),
                ..Question::default()
            };
            let query = Query::new(&question, table.registry()).unwrap();
            told(&query.answer(&table, Time(5_000_000_000)))
        };
        assert_eq!(asked(Some("state, mem_total")), "n1:suspected(state mem_total) -n3");
        let all = "arch load1 mem_total";
        assert_eq!(asked(None), format!("n1:suspected({all}) -n3"), "it may have come back");
    }

    #[test]
    fn since_a_change_a_node_that_may_have_come_into_the_answer_is_told_whole() {
        let mut table = table();
        let before = table.change();
        let [load, memory] = ["load1", "mem_total"].map(|it| table.registry().find(it).unwrap());
        let [n1, n4] = ["n1", "n4"].map(|name| table.find_node(name).unwrap());
        table.set(n1, load, Value::Number(0.1), Time(4_000_000_000));
        table.set(n4, memory, Value::Number(8.0), Time(4_000_000_000));
        let asked = |limit| {
            let condition = Some("load1 < 1.5".to_owned());
            let since = Some(before);
            let question = Question { condition, limit, since, ..question("arch, mem_total") };
            let query = Query::new(&question, table.registry()).unwrap();
            told(&query.answer(&table, Time(5_000_000_000)))
        };
        assert_eq!(asked(None), "n1:up(arch mem_total) n4:up(mem_total)");
        let whole = "n1:up(arch mem_total) n3:up(arch mem_total) -n4";
        assert_eq!(asked(Some(2)), whole, "others may have left it no room");
    }

    #[test]
    fn since_a_change_of_another_table_everything_is_told() {
        let mut table = Table::numbered_from(1000);
        let load = table.registry().find("load1").unwrap();
        let node = table.node(None, "a");
        table.set(node, load, Value::Number(1.0), Time(1));
        let asked = |since| {
            let question = Question { since: Some(since), ..Question::default() };
            let query = Query::new(&question, table.registry()).unwrap();
            let answer = query.answer(&table, Time(2));
            (told(&answer), answer.is_anew)
        };
        let all = "a:up(load1)".to_owned();
        for of_another in [0, 999, 1003, u64::MAX] {
            assert_eq!(asked(of_another), (all.clone(), true), "{of_another}");
        }
        assert_eq!(asked(1000), (all, false));
        assert_eq!(asked(1002), (String::new(), false));
    }

    #[test]
    fn groups_are_told_when_a_value_of_them_has_changed_and_when_the_last_one_goes() {
        let mut table = table();
        let question = Question {
            condition: Some("load1 < 1.5 && arch == 'arm'".to_owned()),
            group_by: Some("arch".to_owned()),
            ..question("count()")
        };
        let mut followed = Followed::default();
        let mut next = |table: &Table| {
            let query = Query::new(&question, table.registry()).unwrap();
            let answer = query.answer_next(table, Time(9_000_000_000), &mut followed);
            (answer.rows.len(), answer.is_empty())
        };
        let load = table.registry().find("load1").unwrap();
        let [n2, n4] = ["n2", "n4"].map(|name| table.find_node(name).unwrap());
        assert_eq!(next(&table), (1, false));
        table.set(n4, load, Value::Number(0.9), Time(4_000_000_000));
        assert_eq!(next(&table), (1, true), "there is still one");
        table.set(n2, load, Value::Number(0.9), Time(4_000_000_000));
        assert_eq!(next(&table), (1, false), "there are two");
        for node in [n2, n4] {
            table.set(node, load, Value::Number(9.0), Time(5_000_000_000));
        }
        assert_eq!(next(&table), (0, false), "there is none");
        assert_eq!(next(&table), (0, true));
    }

    #[test]
    fn who_follows_is_told_who_comes_and_who_leaves() {
        let mut table = table();
        let ids = ["n1", "n3", "n4"].map(|name| table.find_node(name).unwrap());
        let [n1, n3, n4] = ids;
        let load = table.registry().find("load1").unwrap();
        let question =
            Question { condition: Some("load1 < 1.5".to_owned()), ..question("mem_total, state") };
        let mut followed = Followed::default();
        let next = |table: &Table, followed: &mut Followed| {
            let query = Query::new(&question, table.registry()).unwrap();
            told(&query.answer_next(table, Time(9_000_000_000), followed))
        };
        let set = |table: &mut Table, node, number, at| {
            table.set(node, load, Value::Number(number), Time(at));
        };
        let all = "n3:up(mem_total state) n4:up(mem_total state)";
        assert_eq!(next(&table, &mut followed), all);
        assert_eq!(next(&table, &mut followed), "", "nothing is new");
        set(&mut table, n3, 0.7, 3_000_000_000);
        assert_eq!(next(&table, &mut followed), "", "it is no column");
        set(&mut table, n3, 7.0, 4_000_000_000);
        set(&mut table, n1, 1.0, 4_000_000_000);
        assert_eq!(next(&table, &mut followed), "n1:up(mem_total state) -n3");
        table.set_state(n4, State::Down);
        assert_eq!(next(&table, &mut followed), "n4:down(mem_total state)");
        set(&mut table, n3, 1.0, 5_000_000_000);
        assert_eq!(
            next(&table, &mut followed),
            "n3:up(mem_total state)",
            "the query tells it whole"
        );
    }

    #[test]
    fn nodes_that_were_removed_are_told_to_who_follows_and_to_who_asks() {
        let mut table = table();
        let question =
            Question { condition: Some("load1 < 1.5".to_owned()), ..question("mem_total") };
        let (mut followed, mut grouped) = (Followed::default(), Followed::default());
        let of = |table: &Table, question: &Question, followed: &mut Followed| {
            let query = Query::new(question, table.registry()).unwrap();
            let answer = query.answer_next(table, Time(9_000_000_000), followed);
            let mut gone: Vec<_> = answer.gone.iter().map(|name| format!("!{name}")).collect();
            gone.sort_unstable();
            (answer, gone.join(" "))
        };
        let next = |table: &Table, followed: &mut Followed| {
            let (answer, gone) = of(table, &question, followed);
            format!("{} {gone}", told(&answer))
        };
        let groups = Question { group_by: Some("state".to_owned()), ..Question::default() };
        next(&table, &mut followed);
        of(&table, &groups, &mut grouped);
        let before = table.change();
        let [n1, n3] = ["n1", "n3"].map(|name| table.find_node(name).unwrap());
        table.remove(n3);
        table.remove(n1);
        // In the place of one that was told: it is another node.
        let other = table.node(None, "other");
        let [load, mem] = ["load1", "mem_total"].map(|name| table.registry().find(name).unwrap());
        table.set(other, load, Value::Number(1.0), Time(1));
        table.set(other, mem, Value::Number(1.0), Time(1));
        assert_eq!(next(&table, &mut followed), "other:up(mem_total) -n3 !n1 !n3");
        assert_eq!(next(&table, &mut followed), " ");
        assert_eq!(of(&table, &groups, &mut grouped).1, "!n1 !n3");
        let question = Question { since: Some(before), ..question.clone() };
        let answer = Query::new(&question, table.registry()).unwrap().answer(&table, Time(1));
        assert_eq!((answer.gone.len(), told(&answer).contains("-n3")), (2, true));
    }

    #[test]
    fn a_node_that_was_removed_and_comes_back_as_another_is_told_to_who_follows() {
        let mut table = table();
        let question =
            Question { condition: Some("load1 < 1.5".to_owned()), ..question("mem_total") };
        let mut followed = Followed::default();
        let next = |table: &Table, followed: &mut Followed| {
            let query = Query::new(&question, table.registry()).unwrap();
            let answer = query.answer_next(table, Time(9_000_000_000), followed);
            assert!(answer.gone.is_empty(), "{:?}", answer.gone);
            told(&answer)
        };
        next(&table, &mut followed);
        let [n3, n4] = ["n3", "n4"].map(|name| table.find_node(name).unwrap());
        // One comes back at its number and the other at another one; of both nothing is known now.
        table.remove(n3);
        assert_eq!(table.node(None, "n3"), n3);
        table.remove(n4);
        table.node(None, "other");
        assert_ne!(table.node(None, "n4"), n4);
        assert_eq!(next(&table, &mut followed), "-n4 -n3");
        assert_eq!(next(&table, &mut followed), "");
        let n3 = table.find_node("n3").unwrap();
        let load = table.registry().find("load1").unwrap();
        table.set(n3, load, Value::Number(1.0), Time(1));
        assert_eq!(next(&table, &mut followed), "n3:up(mem_total)");
        // It may suit again at once.
        table.remove(n3);
        let n3 = table.node(None, "n3");
        table.set(n3, load, Value::Number(1.2), Time(1));
        assert_eq!(next(&table, &mut followed), "n3:up(mem_total)");
    }

    /// Nodes with states and names of values; who has left.
    fn told(answer: &Answer) -> String {
        let rows = answer.rows.iter().map(|row| {
            let (name, state) = row.node.as_ref().unwrap();
            let values: Vec<&str> = row.values.iter().map(|value| &*value.name).collect();
            format!("{name}:{state}({})", values.join(" "))
        });
        let left = answer.left.iter().map(|name| format!("-{name}"));
        rows.chain(left).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_question_names_the_providers_that_it_needs() {
        let registry = Registry::new();
        let question =
            Question { condition: Some("mem_total > 1".to_owned()), ..question("load1, node") };
        let query = Query::new(&question, &registry).unwrap();
        assert_eq!(query.providers(&registry), Some(vec!["load".to_owned(), "memory".to_owned()]));
        let all = Query::new(&Question::default(), &registry).unwrap();
        assert_eq!(all.providers(&registry), None);
    }
}
