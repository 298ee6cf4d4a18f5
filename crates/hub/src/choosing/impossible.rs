//! Choices that no node can ever fulfil: the user learns of them once all is known of all nodes.
//!
//! A folder may be made while the run goes on. So one that is not there counts only when nothing is
//! left that could make it before a task which asks for it, and all nodes have looked since.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::ClusterPlan;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{NodeId, NodeState, Time};
use rakuda_info::catalogue::folder_of;
use rakuda_info::choice::{Folders, Never, Seen};
use rakuda_info::external;
use rakuda_info::format::amount;
use rakuda_info::registry::instance_name;
use rakuda_info::table::{NodeId as Row, Table};

use super::state::Wanted;
use crate::hub::Hub;
use crate::requirements::allowed_nodes;
use crate::settings::RunSettings;

/// What can be said of a choice when all is known of all nodes.
enum Outlook {
    /// Some node may fulfil it.
    Possible,
    /// A provider that has failed may still give the name.
    NotKnown,
    /// It names a folder that is nowhere so far; else why no node can ever fulfil it.
    NoFolder(String),
    /// No node can ever fulfil it, and why.
    Never(String),
}

/// What outlooks rest on.
struct Known<'a> {
    table: &'a Table,
    nodes: &'a [(NodeId, Row)],
    now: Time,
    /// Some external provider has failed somewhere.
    has_failed: bool,
    settings: &'a RunSettings,
}

impl Wanted {
    /// It is neither refused nor known to be possible.
    fn is_open(&self) -> bool {
        !self.is_possible && !self.is_void
    }

    fn outlook(&self, known: &Known<'_>) -> Outlook {
        let never = |folders| self.why_never(known, folders);
        match &self.unknown {
            Some(_) if known.has_failed => Outlook::NotKnown,
            Some(what) => Outlook::Never(what.clone()),
            None => match never(Folders::MayCome) {
                Some(what) => Outlook::Never(what),
                None => never(Folders::NoneComes).map_or(Outlook::Possible, Outlook::NoFolder),
            },
        }
    }

    /// Why no such task can ever start. Where `allow` and `deny` leave no node, it waits for one, as any task does.
    fn why_never(&self, known: &Known<'_>, folders: Folders) -> Option<String> {
        let Known { table, nodes, now, settings, .. } = *known;
        let named = nodes.iter().map(|(id, row)| (*id, table.get_node(*row).name.to_string()));
        let is_cluster = settings.cluster.is_some();
        let allowed = is_cluster.then(|| allowed_nodes(&self.definition, named)).flatten();
        let is_allowed = |id: &NodeId| allowed.as_ref().is_none_or(|all| all.contains(id));
        let rows = nodes.iter().filter(|(id, _)| is_allowed(id)).map(|(_, row)| *row);
        let rows: Vec<Row> = rows.collect();
        if rows.is_empty() {
            return None;
        }
        if let Some(never) = self.choice.never(table, &rows, now, folders) {
            return Some(never_text(&never, settings.service.is_some()));
        }
        // With fewer nodes than it asks for, that is said elsewhere.
        let count = self.definition.nodes.unwrap_or(1).max(1) as usize;
        let may_suit = self.choice.may_suit(table, &rows, now, folders);
        let are_too_few = may_suit < count && rows.len() >= count && !settings.oversubscribe;
        let condition = self.wish.condition.as_deref().unwrap_or_default();
        are_too_few.then(|| {
            format!("where: it takes {count} nodes, and no more than {may_suit} can ever have {condition}")
        })
    }
}

impl Hub {
    /// Says which choices no node can ever fulfil, once all is known of all nodes.
    pub(crate) fn find_impossible(&mut self) {
        if !self.choosing.wanted.values().any(Wanted::is_open) {
            return;
        }
        let Some(nodes) = self.rows_of_all() else { return };
        let rows: Vec<Row> = nodes.iter().map(|(_, row)| *row).collect();
        let table = &self.information.table;
        let mut failures =
            self.settings.providers.iter().flat_map(|it| {
                rows.iter().map(move |row| external::has_failed(table, *row, &it.name))
            });
        let known = Known {
            table,
            nodes: &nodes,
            now: self.now.time,
            has_failed: failures.any(|has_failed| has_failed),
            settings: &self.settings,
        };
        let (mut refused, mut without_folder) = (Vec::new(), BTreeMap::new());
        for (front, wanted) in self.choosing.wanted.iter_mut().filter(|(_, it)| it.is_open()) {
            match wanted.outlook(&known) {
                Outlook::Possible => wanted.is_possible = true,
                Outlook::NotKnown => {}
                Outlook::NoFolder(what) => drop(without_folder.insert(*front, what)),
                Outlook::Never(what) => refused.push((*front, what)),
            }
        }
        let hopeless = self.hopeless(&without_folder, &rows);
        refused.extend(without_folder.into_iter().filter(|(front, _)| hopeless.contains(front)));
        for (front, what) in refused {
            self.leave_out(front, &what);
        }
    }

    /// Of choices whose folders are nowhere, by the front's number, those of tasks that are ready, when nothing is left
    /// that could make a folder before they start, and none has come.
    fn hopeless(&mut self, without_folder: &BTreeMap<u32, String>, rows: &[Row]) -> BTreeSet<u32> {
        if without_folder.is_empty() {
            return BTreeSet::new();
        }
        let of_core = &self.choosing.of_core;
        let is_lacking = |(_, front): &(_, &u32)| without_folder.contains_key(front);
        let lacking = of_core.iter().filter(is_lacking).map(|(id, _)| *id).collect();
        let Some(ready) = self.run.ready_for_nothing(&lacking) else {
            self.choosing.calm.on_busy();
            return BTreeSet::new();
        };
        let choices = ready.iter().map(|id| of_core[id]).collect();
        let since = self.choosing.calm.on_calm(self.now.time);
        if since.is_some_and(|since| !self.has_looked_since(since, rows)) {
            return BTreeSet::new();
        }
        choices
    }

    /// Whether all nodes that look for folders have done so since a time. Elsewhere what is made may be seen later, as
    /// files are (`VISIBLE_WITHIN`).
    fn has_looked_since(&self, since: Time, rows: &[Row]) -> bool {
        let table = &self.information.table;
        let here = self.information.rows.get(&LOCAL_NODE);
        rows.iter().all(|row| {
            let later_ms = if here == Some(row) { 0 } else { self.visible_ms() };
            let due = Time(since.0 + u64::from(later_ms) * 1_000_000);
            self.information.folders().all(|folder| {
                let kind = table.registry().find(&instance_name("fs_type", folder));
                kind.and_then(|id| table.sampled(*row, id)).is_none_or(|at| at > due)
            })
        })
    }

    /// The rows of all nodes that take tasks, now or later; `None`: not all is known of some, or others may come.
    fn rows_of_all(&self) -> Option<Vec<(NodeId, Row)>> {
        let is_open = self.settings.cluster.as_ref().is_some_and(ClusterPlan::is_joinable);
        if is_open || self.run.nodes().is_expecting() {
            return None;
        }
        let mut rows = Vec::new();
        for (id, state) in self.run.nodes().states() {
            match state {
                NodeState::Up | NodeState::Drained if self.information.is_known(id) => {
                    rows.push((id, *self.information.rows.get(&id)?));
                }
                NodeState::Up | NodeState::Drained | NodeState::Starting | NodeState::Away => {
                    return None;
                }
                NodeState::Lost
                | NodeState::Failed
                | NodeState::Spare
                | NodeState::Leaving
                | NodeState::Gone => {}
            }
        }
        (!rows.is_empty()).then_some(rows)
    }
}

fn never_text(never: &Never, is_served: bool) -> String {
    let clause = &never.clause;
    if let Some(name) = &never.lacking {
        let expected = match folder_of(name) {
            Some(folder) if is_served => format!(
                "; expected a folder that is there, and a service that watches it: `rakudad info --file-system {folder}`"
            ),
            Some(_) => "; expected a folder that is there when the task is ready".to_owned(),
            None => String::new(),
        };
        return format!("where: no node has {name}, which {clause} asks for{expected}");
    }
    let Some((node, values)) = &never.example else {
        return format!("where: no node can ever have {clause}");
    };
    let value = |seen: &Seen| format!("{} is {}", seen.name, amount(&seen.value, &seen.unit));
    let values: Vec<String> = values.iter().map(value).collect();
    if let Some(why) = never.undefined.as_ref().filter(|_| values.is_empty()) {
        return format!("where: no node can ever have {clause}: it is undefined ({why})");
    }
    let values = if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
    format!("where: no node can ever have {clause} ({node}{values})")
}
