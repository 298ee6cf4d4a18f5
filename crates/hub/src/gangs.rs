//! Gangs as the hub has them: their definition, the messages about those that cannot begin, their lines of the record,
//! and the targets that their tasks have made before all have ended.
//!
//! What becomes of them is the core's to decide (docs/design/gangs.md).

pub(crate) mod state;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{Capacity, Event, GangId, NodeId, Oversubscribe, Requirement, TaskId, TaskState};
use rakuda_proto::Text;
use rakuda_proto::front::{CommandOptions, HubMessage, RequirementDefinition};
use rakuda_proto::journal::{GangStarted, JournalEvent, SharedCores};
use rakuda_proto::memory;

use crate::HubError;
use crate::attempts::state::RunningAttempt;
use crate::hub::Hub;
use state::{GangTarget, Refusal};

/// Maximum number of tasks that a message names.
const NAMED: usize = 4;

/// The part of `all` that one of `count` has.
fn spread(all: u32, count: u32, index: u32) -> u32 {
    all / count + u32::from(index < all % count)
}

/// The message that a task may run on some nodes only (names, and what is wrong with them), and none of them is up.
fn words_of_barred(task: &str, nodes: &[(String, Option<String>)]) -> String {
    let named = nodes.iter().take(NAMED).map(|(name, trouble)| match trouble {
        Some(trouble) => format!("{name} ({trouble})"),
        None => format!("{name} (not up)"),
    });
    let named: Vec<String> = named.collect();
    let more = nodes.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if named.is_empty() {
        return format!(
            "{task} may run on no node of this run (`needs allow:`, `deny:`): let it run on others"
        );
    }
    format!(
        "{task} may run only on {}{more} (`needs allow:`, `deny:`), and none of these is up: \
         let it run on others too, or start again when one is back",
        named.join(", ")
    )
}

/// The first resource of which some tasks need more than some nodes have together, with both numbers; `names`: of
/// resources. Memory is looked at last.
fn lacking(all: &[&Requirement], nodes: &[&Capacity], names: &[String]) -> Option<String> {
    for (number, name) in names.iter().enumerate() {
        let of = |it: &&Requirement| -> u64 {
            let own = it.resources.iter().filter(|(id, _)| id.0 as usize == number);
            own.map(|(_, count)| u64::from(*count) * u64::from(it.nodes)).sum()
        };
        let wanted: u64 = all.iter().map(of).sum();
        let there = nodes.iter().filter_map(|node| node.resources.get(number));
        let there: u64 = there.map(|count| u64::from(*count)).sum();
        if wanted > there {
            return Some(format!("{wanted} of {name} at once, but this run has {there}"));
        }
    }
    // A task that asks for more memory than any node has is content with that of the largest.
    let most = nodes.iter().map(|node| node.memory_bytes).max().unwrap_or(0);
    let add = |sum: u64, bytes: u64| sum.saturating_add(bytes);
    let wanted = all.iter().map(|it| it.memory_bytes.min(most).saturating_mul(it.nodes.into()));
    let wanted = wanted.fold(0, add);
    let there = nodes.iter().map(|node| node.memory_bytes).fold(0, add);
    let (asked, has) = (memory::asked(wanted), memory::asked(there));
    (wanted > there).then(|| format!("{asked} of memory at once, but this run has {has}"))
}

impl Hub {
    /// A task of a gang has ended well, and perhaps made its target: that is no result before all have ended.
    pub(crate) fn await_gang(&mut self, id: TaskId, attempt: &RunningAttempt) {
        let (path, before) = (attempt.details.target.clone(), attempt.details.before);
        let node = attempt.node();
        let node = (attempt.was_staged_for() && node != LOCAL_NODE).then_some(node);
        let known = self.gang_targets.0.entry(id).or_insert(GangTarget { path, before, node });
        known.node = node;
        self.record.mark_unfinished(self.names.name(id));
    }

    /// A task of a gang is settled. If it was abandoned, another one has failed since its own
    /// attempt ended well: what it has made is no result.
    pub(crate) fn settle_gang_target(&mut self, id: TaskId, is_well: bool) {
        let Some(made) = self.gang_targets.0.remove(&id) else { return };
        self.record.mark_finished(self.names.name(id));
        if !is_well {
            self.undo_gang_target(id, &made);
        }
    }

    /// The run ends, and gangs have not: nothing that one of their tasks has made is a result.
    pub(crate) fn settle_gang_targets(&mut self) {
        while let Some((id, made)) = self.gang_targets.0.pop_first() {
            self.record.mark_finished(self.names.name(id));
            self.undo_gang_target(id, &made);
        }
    }

    fn undo_gang_target(&mut self, id: TaskId, made: &GangTarget) {
        let settled = self.settle_target_of(id, &made.path, made.before);
        if let Some(node) = made.node {
            self.undo_there(id, node);
        }
        let name = String::from_utf8_lossy(self.names.name(id)).into_owned();
        if let Some(line) = settled.describe(&name) {
            self.warn(&line);
        }
    }

    /// The front says which tasks begin together.
    pub(crate) fn define_gang(
        &mut self,
        tasks: &[u32],
        oversubscribe: bool,
    ) -> Result<(), HubError> {
        let mut ids = Vec::with_capacity(tasks.len());
        for &task in tasks {
            let id = self.known(task)?;
            let state = self.run.scheduler().task(id).map(|task| task.state);
            if state != Some(TaskState::Defined) {
                return Err(HubError::Protocol("a gang was defined when its tasks were wanted"));
            }
            if self.run.scheduler().gang_of(id).is_some() || ids.contains(&id) {
                return Err(HubError::Protocol("a task is in two gangs"));
            }
            ids.push(id);
        }
        if ids.is_empty() {
            return Err(HubError::Protocol("a gang without tasks"));
        }
        self.add_gang(&ids, oversubscribe);
        Ok(())
    }

    fn add_gang(&mut self, tasks: &[TaskId], oversubscribe: bool) {
        let id = u32::try_from(self.run.scheduler().gangs_len()).expect("few gangs");
        // What nodes elsewhere have room for a dry run does not know.
        let dry = self.settings.config.dry_run;
        let unknown = dry && self.settings.elsewhere;
        let shares = oversubscribe || self.settings.oversubscribe;
        let oversubscribe = if shares && !dry && self.settings.cluster.is_some() {
            Oversubscribe::WhenNoneComes
        } else if shares || unknown {
            Oversubscribe::Always
        } else {
            Oversubscribe::Never
        };
        self.event(Event::GangDefined { id: GangId(id), tasks, oversubscribe });
        self.note_gang_claims(tasks);
    }

    /// A task that asks for nodes is a gang of its own, if the front says nothing else.
    pub(crate) fn define_gangs_of_one(&mut self) {
        for id in std::mem::take(&mut self.wide_tasks) {
            let state = self.run.scheduler().task(id).map(|task| task.state);
            if self.run.scheduler().gang_of(id).is_none() && state == Some(TaskState::Defined) {
                self.add_gang(&[id], false);
            }
        }
    }

    /// This machine alone is one node.
    pub(crate) fn check_nodes_wanted(&mut self, definition: &RequirementDefinition) {
        let wanted = definition.nodes.unwrap_or(1);
        let settings = &self.settings;
        if wanted < 2 || settings.elsewhere || settings.oversubscribe {
            return;
        }
        let task = definition.task.to_display();
        let place = definition.place.as_ref().map(Text::to_display);
        let place = place.map_or(String::new(), |place| format!("{place}: "));
        let slots = u64::from(wanted) * u64::from(definition.cores.max(1));
        self.refuse_needs(&format!(
            "{place}needs: task {task} asks for {wanted} nodes ({slots} slots), but this run has 1: \
             name hosts (-F FILE), or run all of it here with --oversubscribe"
        ));
    }

    /// Adds to a command of a task that asks for nodes their names, home first, and slots.
    pub(crate) fn with_hosts(
        &self,
        task: Option<TaskId>,
        options: Option<Box<CommandOptions>>,
    ) -> Option<Box<CommandOptions>> {
        let Some(id) = task else { return options };
        let requirement = self.requirement_of[id.0 as usize] as usize;
        let Some((wanted, asked)) = self.requirement_nodes[requirement] else { return options };
        let nodes = self.run.scheduler().nodes_of(id);
        if nodes.is_empty() {
            return options;
        }
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        // Fewer nodes than it asks for share its slots; fewer cores have more than one each.
        let shares = self.run.scheduler().gang_of(id).is_some_and(|gang| gang.oversubscribed)
            || self.settings.oversubscribe && asked < u32::MAX;
        let slots = |index: u32, node: NodeId| {
            let cores = self.agents.node(node).capacity.cores;
            let own = if shares && asked < u32::MAX { asked } else { asked.min(cores) };
            if count >= wanted { own } else { spread(wanted.saturating_mul(own), count, index) }
        };
        let hosts = (0..)
            .zip(nodes)
            .map(|(index, node)| (self.agents.node(node).name.clone(), slots(index, node).max(1)));
        let hosts = hosts.collect();
        let mut options = options.unwrap_or_default();
        options.hosts = hosts;
        Some(options)
    }

    /// Cores that a task of a gang has on a node.
    pub(crate) fn gang_cores_on(&self, id: TaskId, node: NodeId) -> Option<u32> {
        self.run.scheduler().gang_of(id)?;
        self.run.scheduler().cores_held(id, node)
    }

    pub(crate) fn note_gang(&mut self, id: GangId, oversubscribed: bool) {
        let tasks = self.run.scheduler().gang(id).tasks.to_vec();
        if self.settings.config.dry_run {
            return;
        }
        let short: Vec<TaskId> =
            tasks.iter().copied().filter(|id| self.has_less_than_asked(*id)).collect();
        let oversubscribed = oversubscribed || !short.is_empty();
        if oversubscribed {
            let (named, what) = match short.len() {
                0 => (&tasks, "share cores, of which there are fewer than they ask for"),
                1 => (&short, "has fewer nodes or cores than it asks for"),
                _ => (&short, "have fewer nodes or cores than they ask for"),
            };
            let names = self.some_names(named);
            self.warn(&format!("{names} {what} (oversubscribed)"));
        }
        let mut nodes: Vec<u32> = Vec::new();
        let mut there = 0;
        for task in &tasks {
            for node in self.run.scheduler().nodes_of(*task) {
                there += u64::from(self.gang_cores_on(*task, node).unwrap_or(0));
                if !nodes.contains(&node.0) {
                    nodes.push(node.0);
                }
            }
        }
        let asked = self.run.scheduler().gang(id).slots;
        self.record.gang_started(
            self.run.scheduler(),
            &self.names,
            &JournalEvent::GangStarted(GangStarted {
                time_ns: self.now.journal_ns(),
                gang: id.0,
                tasks: tasks.iter().map(|task| task.0).collect(),
                nodes,
                oversubscribed,
                cores: oversubscribed.then_some(SharedCores { asked, there }),
            }),
            &tasks,
        );
    }

    /// How many nodes a gang of one task asks for.
    fn nodes_wanted(&self, tasks: &[TaskId]) -> Option<u32> {
        let [id] = *tasks else { return None };
        let requirement = self.requirement_of[id.0 as usize] as usize;
        self.requirement_nodes[requirement].map(|(nodes, _)| nodes)
    }

    /// Whether a task that asks for nodes has fewer of them, or fewer cores on one than it asks for.
    fn has_less_than_asked(&self, id: TaskId) -> bool {
        let requirement = self.requirement_of[id.0 as usize] as usize;
        self.requirement_nodes[requirement].is_some_and(|(wanted, slots)| {
            let nodes = self.run.scheduler().nodes_of(id);
            let cut = |node: &NodeId| self.agents.node(*node).capacity.cores < slots;
            nodes.len() < wanted as usize || slots < u32::MAX && nodes.iter().any(cut)
        })
    }

    /// Reports that a gang fails, since it needs more than there is, and no more comes.
    pub(crate) fn refuse_gang(&mut self, id: GangId, slots: u64, slots_there: u64) {
        let tasks = self.run.scheduler().gang(id).tasks.to_vec();
        let names = self.some_names(&tasks);
        let more = match self.settings.cluster {
            None => format!("give it -j {slots}"),
            Some(_) => format!("use nodes with {slots} cores together"),
        };
        let (needs, together) = match tasks.len() {
            1 => ("needs", ""),
            _ => ("need", " together"),
        };
        let nodes = self.nodes_wanted(&tasks);
        let there = self.agents.places().filter(|(id, _)| self.run.nodes().is_up(*id)).count();
        let too_few_nodes = nodes.filter(|nodes| *nodes as usize > there);
        let what = if let Some(nodes) = too_few_nodes {
            let more = format!("name more of them (-F FILE, --nodes {nodes})");
            format!(
                "{needs} {nodes} nodes at once ({slots} slots), but this run has {there}: {more}"
            )
        } else if slots > slots_there {
            format!("{needs} {slots} slots at once, but this run has {slots_there}: {more}")
        } else {
            format!(
                "{needs} {slots} slots at once, which do not fit together on the nodes of this run \
                 ({slots_there} slots): {more}"
            )
        };
        let hint = match self.streams.place_of(tasks[0]) {
            Some(_) if self.streams.could_take_turns(tasks[0]) => {
                "let tasks share cores (without --no-oversubscribe), or let them run one after the other with \
                 `replay: :journal`"
            }
            Some(_) => "let tasks share cores (without --no-oversubscribe)",
            None => "or let tasks share cores with --oversubscribe",
        };
        let refusal = match self.barred(&tasks).or_else(|| self.words_of_lack(&tasks)) {
            Some(reason) => Refusal { reason, slots: None },
            None => Refusal {
                reason: format!("{names}{together} {what}, {hint}"),
                slots: too_few_nodes.is_none().then_some((slots, slots_there)),
            },
        };
        self.tell_gang_refused(tasks[0], refusal);
    }

    /// A resource of which the tasks of a gang need more together than all nodes have, and what to do.
    fn words_of_lack(&self, tasks: &[TaskId]) -> Option<String> {
        let scheduler = self.run.scheduler();
        let requirement = |id: &TaskId| scheduler.requirement(scheduler.task(*id)?.requirement);
        let all: Vec<&Requirement> = tasks.iter().filter_map(requirement).collect();
        let up = self.agents.places().filter(|(id, _)| self.run.nodes().is_up(*id));
        let nodes: Vec<&Capacity> = up.map(|(id, _)| &self.agents.node(id).capacity).collect();
        let what = lacking(&all, &nodes, &self.settings.resources)?;
        let (names, more) = (self.some_names(tasks), "use nodes that have more");
        let (needs, less) = match (tasks.len(), self.streams.place_of(tasks[0])) {
            (1, _) => ("needs", more.to_owned()),
            (_, Some(_)) if !self.streams.could_take_turns(tasks[0]) => {
                ("together need", format!("join fewer tasks, or {more}"))
            }
            (_, Some(_)) => (
                "together need",
                "join fewer tasks, or let them run one after the other with `replay: :journal`"
                    .to_owned(),
            ),
            (_, None) => ("together need", format!("let fewer tasks begin together, or {more}")),
        };
        Some(format!("{names} {needs} {what}: {less}"))
    }

    /// Which task of a gang may run on no node that there is, and why.
    fn barred(&self, tasks: &[TaskId]) -> Option<String> {
        tasks.iter().find_map(|id| {
            let requirement = self.run.scheduler().task(*id)?.requirement;
            let allowed = self.run.scheduler().requirement(requirement)?.allowed_nodes.as_ref()?;
            if allowed.iter().any(|node| self.run.nodes().is_up(*node)) {
                return None;
            }
            let place = |node: &NodeId| {
                let trouble = self.agents.place(*node).trouble.clone();
                (self.agents.node(*node).name.to_display(), trouble)
            };
            let nodes: Vec<(String, Option<String>)> = allowed.iter().map(place).collect();
            Some(words_of_barred(&self.some_names(&[*id]), &nodes))
        })
    }

    /// Warns that tasks of a gang need one another.
    pub(crate) fn tell_entangled(&mut self, task: TaskId, on: TaskId) {
        let [task_name, on_name] = [task, on].map(|id| self.display_name(id));
        let state = self.run.scheduler().task(task).map(|task| task.state);
        let reason = if matches!(state, Some(TaskState::Running { .. })) {
            let joined = match self.streams.name_joining(task) {
                Some(name) => format!("stream {name} joins the two, and neither ends alone"),
                None => "the two begin and end together".to_owned(),
            };
            format!(
                "the action of {task_name} invokes {on_name}, or what needs it, and waits for ever: {joined}; take \
                 the call away"
            )
        } else if task == on {
            format!(
                "{task_name} waits for its own end, over tasks that are to begin together with what it waits for: \
                 take a prerequisite away, or do not run these together"
            )
        } else {
            format!(
                "{task_name} and {on_name} are to begin together, but {task_name} waits for {on_name} \
                 to end: take the prerequisite away, or do not run them together"
            )
        };
        self.tell_gang_refused(task, Refusal { reason, slots: None });
    }

    fn tell_gang_refused(&mut self, task: TaskId, Refusal { reason, slots }: Refusal) {
        // The place of the stream that joins the tasks, if one does.
        let place = self.streams.place_of(task).map(|place| format!("{}: ", place.to_display()));
        let reason = format!("{}{reason}", place.unwrap_or_default());
        self.note_refused(task, &reason);
        self.link.push(&HubMessage::GangRefused {
            task: task.0,
            reason: Text::from(reason),
            slots,
        });
        self.flush_urgent = true;
    }

    fn some_names(&self, tasks: &[TaskId]) -> String {
        let noun = if tasks.len() == 1 { "task" } else { "tasks" };
        format!("{noun} {}", self.listed_names(tasks, NAMED))
    }
}

#[cfg(test)]
mod tests {
    use rakuda_core::{Capacity, Requirement, ResourceId};

    use super::{lacking, words_of_barred};

    #[test]
    fn what_tasks_need_together_is_compared_with_what_all_nodes_have() {
        let node = |gpus, gib: u64| Capacity {
            cores: 4,
            memory_bytes: gib << 30,
            cache_bytes: 0,
            resources: vec![9, gpus],
        };
        let (one, other) = (node(1, 4), node(2, 8));
        let names = ["disk".to_owned(), "gpu".to_owned()];
        let task = |gpus, gib: u64| Requirement {
            resources: vec![(ResourceId(1), gpus)],
            memory_bytes: gib << 30,
            ..Requirement::default()
        };
        let lack = |tasks: &[Requirement]| {
            lacking(&tasks.iter().collect::<Vec<_>>(), &[&one, &other], &names)
        };
        assert_eq!(lack(&[task(1, 6), task(2, 6)]), None);
        let gpus = "4 of gpu at once, but this run has 3";
        assert_eq!(lack(&[task(2, 9), task(2, 9)]).as_deref(), Some(gpus));
        let wide = Requirement { nodes: 4, ..task(1, 0) };
        assert_eq!(lack(&[wide]).as_deref(), Some(gpus));
        // No task has more memory than the largest node.
        let memory = "14 GiB of memory at once, but this run has 12 GiB";
        assert_eq!(lack(&[task(1, 6), task(1, 99)]).as_deref(), Some(memory));
    }

    #[test]
    fn a_task_whose_nodes_are_gone_is_told_with_them_and_what_is_wrong() {
        let lost = ("n2".to_owned(), Some("its connection was lost".to_owned()));
        let words = words_of_barred("task b", &[lost, ("n3".to_owned(), None)]);
        assert!(words.starts_with(
            "task b may run only on n2 (its connection was lost), n3 (not up) (`needs allow:`"
        ));
        assert!(words.contains("start again"), "{words}");
        assert!(!words.contains("slots") && !words.contains("--oversubscribe"), "{words}");
        let many = vec![("n".to_owned(), None); 6];
        assert!(words_of_barred("task b", &many).contains(" and 2 more ("));
        assert!(words_of_barred("task b", &[]).starts_with("task b may run on no node"));
    }
}
