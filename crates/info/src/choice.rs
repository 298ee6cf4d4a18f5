//! Which nodes a task may and would rather have: a condition, a preference, and what is known of a
//! node, less what tasks have claimed there since that was sampled.
//!
//! Pure: it knows no task and no queue. The caller says what the tasks that it starts claim, and learns whether a node
//! suits, or which clause stands in the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rakuda_core::Time;

use crate::catalogue::{self, folder_of};
use crate::expression::{Expression, ExpressionError, Row, age_s};
use crate::of_run;
use crate::provider::NO_GPUS;
use crate::query::QuestionError;
use crate::registry::{Attribute, AttributeId, Registry, instance_name};
use crate::table::{NodeId, Table};
use crate::value::Value;

/// What a Rakefile says of the nodes of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// What must be true of the node.
    pub condition: Option<String>,
    /// The higher it is, the more a node is preferred.
    pub prefer: Option<String>,
}

/// A wish, understood with the attributes known so far.
#[derive(Debug, Clone)]
pub struct Choice {
    clauses: Vec<Expression>,
    prefer: Option<Expression>,
}

/// What a task has claimed of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Cores that it keeps.
    pub cores: u32,
    /// Memory that it has said it takes; 0 if it has said nothing.
    pub memory_bytes: u64,
    /// When it was started there.
    pub since: Time,
}

/// What tasks have claimed of one node.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    /// Claims of tasks that run, by their numbers.
    active: BTreeMap<u32, Claim>,
    /// When the last task was started that has ended; and the last one that had not said how much memory it takes.
    ended: [Option<Time>; 2],
    /// Claims of tasks that are to start at once with another one.
    gang: Option<Gang>,
}

/// Tasks that start at once, together.
#[derive(Debug, Clone, Copy)]
struct Gang {
    claim: Claim,
    count: u32,
}

impl Claims {
    /// A task was started.
    pub fn start(&mut self, task: u32, claim: Claim) {
        self.active.insert(task, claim);
    }

    /// A task has ended.
    pub fn end(&mut self, task: u32) {
        if let Some(claim) = self.active.remove(&task) {
            let last = &mut self.ended[usize::from(claim.memory_bytes == 0)];
            *last = (*last).max(Some(claim.since));
        }
    }

    /// When the last task was started whose effect on an attribute is not known.
    fn last_unknown(&self, attribute: &Attribute) -> Option<Time> {
        let active = self.active.values().map(|claim| (claim.memory_bytes > 0, claim.since));
        let [known, unknown] = self.ended;
        let ended = [(true, known), (false, unknown)].into_iter();
        let all = active.chain(ended.filter_map(|(says, since)| Some((says, since?))));
        all.filter(|(says, _)| !is_counted(attribute, *says)).map(|(_, since)| since).max()
    }

    /// What numbers of a node are when what was claimed since they were sampled is subtracted.
    fn subtracted(&self, table: &Table, node: NodeId) -> Vec<(AttributeId, f64)> {
        let registry = table.registry();
        let threads = registry.find("threads").map_or(f64::NAN, |id| table.number(node, id));
        let adjusted = |name: &&str| {
            let id = registry.find(name)?;
            let (number, sampled) = (table.number(node, id), table.sampled(node, id)?);
            let gang = self.gang.as_ref();
            let claims = self.active.values().chain(gang.map(|gang| &gang.claim));
            let sum = |of: &dyn Fn(&Claim) -> f64| claims.map(of).sum::<f64>();
            let new = |claim: &Claim| claim.since >= sampled;
            let cores = |claim: &Claim| if new(claim) { f64::from(claim.cores) } else { 0.0 };
            #[expect(clippy::cast_precision_loss, reason = "bytes of a task are below 2^53")]
            let memory = |claim: &Claim| if new(claim) { claim.memory_bytes as f64 } else { 0.0 };
            let number = match *name {
                "runnable" => number + sum(&cores),
                // Of a number of processors that is not known nothing is subtracted.
                "cpu_idle" if threads.is_nan() => number,
                "cpu_idle" => (number - 100.0 * sum(&cores) / threads).max(0.0),
                "mem_available" | "mem_free" => (number - sum(&memory)).max(0.0),
                load => number + sum(&|claim| missing_load(load, claim, sampled)),
            };
            Some((id, number))
        };
        let sampled = COUNTED.iter().filter_map(adjusted);
        sampled.chain(self.booked(table, node)).collect()
    }

    /// What a run keeps on a node has all that was started in it, but for the gang that would be.
    fn booked(&self, table: &Table, node: NodeId) -> Vec<(AttributeId, f64)> {
        let Some(Gang { claim, count }) = self.gang else { return Vec::new() };
        #[expect(clippy::cast_precision_loss, reason = "bytes of tasks are below 2^53")]
        let booked = [
            (of_run::RUNNING, f64::from(count)),
            (of_run::CORES_RESERVED, f64::from(claim.cores)),
            (of_run::MEMORY_RESERVED, claim.memory_bytes as f64),
        ];
        let more = |(name, more): (&str, f64)| {
            let id = table.registry().find(name)?;
            Some((id, table.number(node, id) + more))
        };
        booked.into_iter().filter_map(more).collect()
    }
}

/// Attributes whose change by a task is known from what it claims.
const COUNTED: [&str; 7] =
    ["load1", "load5", "load15", "runnable", "cpu_idle", "mem_available", "mem_free"];
/// Providers whose attributes do not change because a task was started, or have changed at once.
const STEADY: [&str; 5] = ["host", "cpu", "users", "user", of_run::PROVIDER];
/// Attributes, or families, that never change as long as a node runs.
const FIXED: [&str; 17] = [
    "host",
    "arch",
    "os",
    "kernel",
    "cpu_model",
    "sockets",
    "cores",
    "threads",
    "numa_nodes",
    "mem_total",
    "fs_type",
    "fs_size",
    "limit_cores",
    "limit_memory",
    "gpu",
    "gpu_name",
    of_run::CORES,
];

/// What a task's cores will still add to a mean of load: that of the kernel gets there exponentially.
fn missing_load(name: &str, claim: &Claim, sampled: Time) -> f64 {
    let mean_s = match name {
        "load1" => 60.0,
        "load5" => 300.0,
        _ => 900.0,
    };
    f64::from(claim.cores) * (-age_s(claim.since, sampled) / mean_s).exp()
}

fn word_of(attribute: &Attribute) -> &str {
    attribute.name.split_once('(').map_or(&attribute.name, |(family, _)| family)
}

fn is_fixed(attribute: &Attribute) -> bool {
    FIXED.contains(&word_of(attribute))
}

/// Whether what a task does to an attribute is known from its claim; `says_memory`: it has said how much it takes.
fn is_counted(attribute: &Attribute, says_memory: bool) -> bool {
    let name = word_of(attribute);
    match name {
        "mem_available" | "mem_free" => says_memory,
        _ => {
            COUNTED.contains(&name)
                || is_fixed(attribute)
                || STEADY.contains(&attribute.provider.as_str())
        }
    }
}

/// How a node stands to a choice.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It suits; the higher the rank, the more it is preferred.
    Suits(u64),
    /// A clause is not true.
    Fails(Standing),
    /// All is true, but something was started there since, whose effect is not known before the next sample.
    Waits(Standing),
}

/// A clause and what it rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The clause as it was written; for [`Verdict::Waits`] the attribute whose sample is too old.
    pub clause: String,
    /// It is neither true nor false, and why.
    pub undefined: Option<Arc<str>>,
    /// The values of its attributes, claims subtracted.
    pub values: Vec<Seen>,
}

/// A value as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The attribute.
    pub name: Arc<str>,
    /// May be empty.
    pub unit: Arc<str>,
    /// Claims are subtracted.
    pub value: Value,
    /// Time since the sample; `None` if there is none.
    pub age_s: Option<f64>,
}

/// Why a choice cannot be made at all: a clause that no node can ever fulfil.
#[derive(Debug, Clone, PartialEq)]
pub struct Never {
    /// As it was written.
    pub clause: String,
    /// The node that was looked at last, and what it rests on there.
    pub example: Option<(Arc<str>, Vec<Seen>)>,
    /// An attribute that it names and no node has.
    pub lacking: Option<String>,
    /// It is neither true nor false there, and why.
    pub undefined: Option<Arc<str>>,
}

/// Whether a folder that is looked for, and is not there, may still be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folders {
    /// Something may make it.
    MayCome,
    /// Nothing is left that could.
    NoneComes,
}

/// A number as a rank: in the same order, undefined below all.
fn rank_of(number: Option<f64>) -> u64 {
    let Some(number) = number else { return 0 };
    // Without the sign of a zero.
    let bits = (number + 0.0).to_bits();
    let key = if number < 0.0 { !bits } else { bits | 1 << 63 };
    key.max(1)
}

impl Choice {
    /// Understands a wish with the attributes of a registry.
    pub fn new(wish: &Wish, registry: &Registry) -> Result<Self, QuestionError> {
        let of = |clause| move |error: ExpressionError| QuestionError { clause, error };
        let condition = wish.condition.as_deref();
        let clauses = condition.map_or(Ok(Vec::new()), |it| Expression::clauses(it, registry));
        let prefer = wish.prefer.as_deref().map(|it| Expression::weight(it, registry)).transpose();
        Ok(Self { clauses: clauses.map_err(of("where"))?, prefer: prefer.map_err(of("prefer"))? })
    }

    /// How a node stands to it now. (The table is as before, afterwards.)
    pub fn verdict(&self, table: &mut Table, node: NodeId, claims: &Claims, now: Time) -> Verdict {
        let numbers = claims.subtracted(table, node);
        table.supposing(node, &numbers, |table| {
            let row = Row { table, node, now };
            if let Some(clause) = self.clauses.iter().find(|clause| !clause.is_true(&row)) {
                let values = seen(clause.attributes(), &row);
                let undefined = why_undefined(clause, &row);
                let clause = clause.source().to_owned();
                return Verdict::Fails(Standing { clause, undefined, values });
            }
            let is_stale = |id: &&AttributeId| {
                let last = claims.last_unknown(table.registry().get(**id));
                last.is_some_and(|last| table.sampled(node, **id).is_none_or(|at| at <= last))
            };
            let all = self.clauses.iter().flat_map(Expression::attributes);
            if let Some(id) = all.into_iter().find(is_stale) {
                let clause = table.registry().get(*id).name.clone();
                let values = seen(&[*id], &row);
                return Verdict::Waits(Standing { clause, undefined: None, values });
            }
            Verdict::Suits(rank_of(self.prefer.as_ref().and_then(|it| it.number(&row))))
        })
    }

    /// Maximum number of tasks, up to `most`, that may start at once on a node that suits, if each claims `one`.
    /// Effects of a start that are not known are left out. It is taken for granted that a node suits the less, the more
    /// is claimed.
    pub fn at_once(
        &self,
        table: &mut Table,
        node: NodeId,
        claims: &Claims,
        (one, most): (Claim, u32),
    ) -> u32 {
        let mut fits = |count: u32| {
            let before = u64::from(count - 1);
            let cores = one.cores.saturating_mul(count - 1);
            let memory_bytes = one.memory_bytes.saturating_mul(before);
            let mut claims = claims.clone();
            let claim = Claim { cores, memory_bytes, ..one };
            claims.gang = Some(Gang { claim, count: count - 1 });
            let verdict = self.verdict(table, node, &claims, one.since);
            !matches!(verdict, Verdict::Fails(_))
        };
        if most == 0 || fits(most) {
            return most;
        }
        let (mut known, mut too_many) = (0, most);
        while too_many - known > 1 {
            let middle = known + (too_many - known) / 2;
            if fits(middle) { known = middle } else { too_many = middle }
        }
        known
    }

    /// The values that it rests on at a node, claims subtracted.
    pub fn values(&self, table: &mut Table, node: NodeId, claims: &Claims, now: Time) -> Vec<Seen> {
        let all = self.clauses.iter().chain(&self.prefer).flat_map(Expression::attributes);
        let mut ids: Vec<AttributeId> = all.copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let numbers = claims.subtracted(table, node);
        table.supposing(node, &numbers, |table| seen(&ids, &Row { table, node, now }))
    }

    /// A clause that none of these nodes can ever fulfil, where all is known of them: it rests on values that never
    /// change or that the node does not have, and is false, or undefined because of the latter. Where each node fails
    /// by another clause, these together.
    pub fn never(
        &self,
        table: &Table,
        nodes: &[NodeId],
        now: Time,
        folders: Folders,
    ) -> Option<Never> {
        let row = |node: &NodeId| Row { table, node: *node, now };
        let fails = |clause: &&Expression| {
            nodes.iter().all(|node| fails_for_good(clause, &row(node), folders))
        };
        let Some(clause) = self.clauses.iter().find(fails) else {
            return self.never_together(table, nodes, now, folders);
        };
        let last = nodes.last().map(row);
        let example = last.as_ref().map(|row| {
            (Arc::clone(&table.get_node(row.node).name), seen(clause.attributes(), row))
        });
        let all_lack =
            |name: &String| nodes.iter().all(|node| is_lacking(name, &row(node), folders));
        let undefined = last.as_ref().and_then(|row| why_undefined(clause, row));
        let lacking =
            last.and_then(|row| lacking(clause, &row, folders).into_iter().find(all_lack));
        Some(Never { clause: clause.source().to_owned(), example, lacking, undefined })
    }

    /// How many of these nodes may fulfil it, now or later.
    pub fn may_suit(&self, table: &Table, nodes: &[NodeId], now: Time, folders: Folders) -> usize {
        let is_left = |node: &&NodeId| {
            let row = Row { table, node: **node, now };
            !self.clauses.iter().any(|clause| fails_for_good(clause, &row, folders))
        };
        nodes.iter().filter(is_left).count()
    }

    /// Each of these nodes fails for good, though not by the same clause.
    fn never_together(
        &self,
        table: &Table,
        nodes: &[NodeId],
        now: Time,
        folders: Folders,
    ) -> Option<Never> {
        if self.may_suit(table, nodes, now, folders) > 0 {
            return None;
        }
        let fails = |clause: &Expression, node: NodeId| {
            fails_for_good(clause, &Row { table, node, now }, folders)
        };
        let last = nodes.last()?;
        let clause = self.clauses.iter().find(|clause| fails(clause, *last))?;
        let all = self.clauses.iter().filter(|it| nodes.iter().any(|node| fails(it, *node)));
        let all: Vec<&str> = all.map(Expression::source).collect();
        let row = Row { table, node: *last, now };
        let values = seen(clause.attributes(), &row);
        let example = Some((Arc::clone(&table.get_node(*last).name), values));
        let undefined = why_undefined(clause, &row);
        Some(Never { clause: all.join(" && "), example, lacking: None, undefined })
    }

    /// All names in it, whether such attributes exist or not.
    pub fn names(&self, registry: &Registry) -> BTreeSet<String> {
        let all = self.clauses.iter().chain(&self.prefer);
        let names = all.flat_map(|it| {
            let known = it.attributes().iter().map(move |id| registry.get(*id).name.as_str());
            known.chain(it.absent().iter().map(|name| &**name))
        });
        names.map(str::to_owned).collect()
    }
}

/// Why a clause is neither true nor false.
fn why_undefined(clause: &Expression, row: &Row<'_>) -> Option<Arc<str>> {
    match clause.value(row) {
        Value::Undefined(why) => Some(Arc::clone(why.text())),
        Value::Number(_) | Value::Text(_) => None,
    }
}

/// Whether a node can never fulfil a clause, whatever providers tell later.
fn fails_for_good(clause: &Expression, row: &Row<'_>, folders: Folders) -> bool {
    !clause.awaits() && is_hopeless(clause, row, folders)
}

/// Whether a node can never fulfil a clause, as far as all is known that it names.
fn is_hopeless(clause: &Expression, row: &Row<'_>, folders: Folders) -> bool {
    let registry = row.table.registry();
    let lacks_it = |id: &AttributeId| is_lacking(&registry.get(*id).name, row, folders);
    let is_defined = |id: &AttributeId| row.table.has(row.node, *id);
    // A driver may be slow: what it says of GPUs comes when it likes.
    let may_come = |id: &AttributeId| {
        let attribute = registry.get(*id);
        let is_folders = || folder_of(&attribute.name).is_some();
        let comes = attribute.provider == "gpus" || folders == Folders::MayCome && is_folders();
        comes && !is_defined(id)
    };
    let is_certain =
        |id: &AttributeId| lacks_it(id) || is_fixed(registry.get(*id)) && !may_come(id);
    let lacks = lacking(clause, row, folders);
    if !clause.absent().iter().all(|name| is_lacking(name, row, folders))
        || !clause.attributes().iter().all(is_certain)
    {
        return false;
    }
    // What rests on nothing that is sampled stays as it is: a division by zero, say.
    let undefined_for_good = || {
        let are_known = clause.attributes().iter().all(|id| is_defined(id) || lacks_it(id));
        are_known && (!lacks.is_empty() || clause.is_constant())
    };
    clause.is_false(row) || (!clause.is_true(row) && undefined_for_good())
}

/// What a clause names and the node does not have.
fn lacking(clause: &Expression, row: &Row<'_>, folders: Folders) -> Vec<String> {
    let registry = row.table.registry();
    let known = clause.attributes().iter().map(|id| registry.get(*id).name.as_str());
    let names = known.chain(clause.absent().iter().map(|name| &**name));
    names.filter(|name| is_lacking(name, row, folders)).map(str::to_owned).collect()
}

/// Whether a node that has told what it has of a family does not have this instance, or has no GPU at all.
fn is_lacking(name: &str, row: &Row<'_>, folders: Folders) -> bool {
    if catalogue::of(name).is_some_and(|it| it.provider == "gpus") {
        let cell = row.table.registry().find("gpu").and_then(|id| row.table.cell(row.node, id));
        return cell.is_some_and(|cell| cell.value == Value::undefined(NO_GPUS));
    }
    let Some(built_in) = catalogue::of(name).filter(|_| catalogue::is_told_whole(name)) else {
        return false;
    };
    let registry = row.table.registry();
    let cell = |name: &str| row.table.cell(row.node, registry.find(name)?);
    let is_told = |id| row.table.sampled(row.node, id).is_some();
    let has_told =
        || registry.iter().any(|(id, it)| it.provider == built_in.provider && is_told(id));
    match folder_of(name) {
        // A folder that is not there has no kind, either.
        Some(folder) => match cell(&instance_name("fs_type", &folder)) {
            Some(kind) => {
                folders == Folders::NoneComes && matches!(kind.value, Value::Undefined(_))
            }
            // Nothing looks for it.
            None => has_told(),
        },
        None => cell(name).is_none() && has_told(),
    }
}

fn seen(ids: &[AttributeId], row: &Row<'_>) -> Vec<Seen> {
    let of = |id: &AttributeId| {
        let attribute = row.table.registry().get(*id);
        let cell = row.table.cell(row.node, *id);
        let value = cell.as_ref().map_or_else(
            || Value::undefined("nobody has said anything of it"),
            |cell| cell.value.clone(),
        );
        Seen {
            name: attribute.name.as_str().into(),
            unit: attribute.unit.as_str().into(),
            value,
            age_s: cell.map(|cell| age_s(cell.sampled, row.now)),
        }
    };
    ids.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
