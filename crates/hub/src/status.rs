//! Answers to questions about the live run: how far it is, and why a task is not running yet. As
//! JSON (docs/reference/json.md).
//!
//! It looks at the core and at what the hub knows, and changes nothing. Questions come in through `control`.

#![allow(clippy::cast_precision_loss, reason = "seconds for people to read")]

use std::collections::BTreeMap;

use rakuda_core::{
    GangPhase, GangView, NodeId, NodeState, Reason, RequirementId, Settled, TaskId, TaskState,
};
use rakuda_record::words::environment_in_words;
use serde_json::{Map, Value, json};

use crate::agents::Member;
use crate::failures::shown_command;
use crate::hub::Hub;
use crate::streams::Passing;
use crate::sync::state::OpenRound;

/// Maximum number of tasks that a list names.
const LIST_MAX: usize = 20;
/// Maximum number of rules in an answer.
const RULES_MAX: usize = 1000;
/// Maximum number of names that are suggested.
const NEAR_MAX: usize = 5;
/// Maximum number of tasks that are looked at for one answer.
const STEPS_MAX: usize = 200_000;

impl Hub {
    /// The answer to one question, as a line without its end.
    pub(crate) fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let answer = match serde_json::from_slice::<Value>(question) {
            Ok(question) => match (question["ask"].as_str(), question["task"].as_str()) {
                (Some("status"), _) => {
                    let wanted = question["values"] == true;
                    let (is_coming, since) =
                        if wanted { self.want_values(&question) } else { (false, None) };
                    let mut status = self.status(wanted);
                    if is_coming {
                        status["values_coming"] = true.into();
                    }
                    if let Some(since) = since {
                        status["sampled_since_ns"] = since.into();
                    }
                    status
                }
                (Some("explain"), Some(name)) => self.explain(name),
                (Some("explain"), None) if question["number"].is_u64() => {
                    self.explain_number(&question["number"])
                }
                (Some("find"), _) => self.find_waiting(&question),
                (Some("set"), _) => {
                    let node = question["node"].as_str().unwrap_or_default();
                    match self.set_value(node, &question["values"]) {
                        Ok(()) => json!({"run": self.record.run(), "node": node}),
                        Err(why) => json!({"run": self.record.run(), "error": why}),
                    }
                }
                (Some("explain"), None) => json!({"error": "expected \"task\": NAME"}),
                _ => {
                    json!({"error": "unknown question: expected \"ask\": \"status\", \"explain\", \"find\" or \"set\""})
                }
            },
            Err(_) => json!({"error": "expected one JSON object on a line"}),
        };
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    /// All that the live display shows, and more of it.
    fn status(&mut self, with_values: bool) -> Value {
        let now_ns = self.now.time.0;
        let view = self.view(now_ns);
        let counts = self.run.scheduler().counts();
        let mut status = json!({
            "run": self.record.run(),
            "time_ns": self.now.journal_ns(),
            "done": view.done,
            "total": view.total,
            "running": view.running,
            "queued": counts.ready,
            "failed": view.failed,
            "abandoned": self.record.abandoned(),
            "rate_per_s": view.rate,
            "stopping": self.run.stopping().is_stopping(),
        });
        let seconds = |ns: u64| ns as f64 / 1e9;
        if let Some((signal, in_ns)) = view.stopping.and_then(|stopping| stopping.next) {
            status["next_signal"] = json!({"name": signal, "in_s": seconds(in_ns)});
        }
        if let Some(left) = view.left {
            status["left"] = json!({
                "s": seconds(left.left_ns),
                "low_s": seconds(left.low_ns),
                "high_s": seconds(left.high_ns),
                "unknown_tasks": left.unknown,
            });
        }
        let tasks = self.run.attempts().all_acting().take(LIST_MAX).map(|(id, _)| {
            let mut task = json!({"task": self.display_name(id)});
            self.add_running(id, &mut task);
            task
        });
        status["tasks"] = tasks.collect();
        status["nodes"] = self.nodes(with_values);
        status["rules"] = self.rules();
        status["streams"] = self.streams.passing().iter().map(passing_json).collect();
        status["rounds"] = self.sync.open_rounds().map(|round| open_round_json(&round)).collect();
        status
    }

    /// How many tasks the rules have that have any, each place once: those of which the most are, first.
    fn rules(&self) -> Value {
        let mut rules: BTreeMap<Option<String>, (usize, Option<String>)> = BTreeMap::new();
        for (number, rule) in self.progress.rules() {
            let place = self.record.location_of_rule(number).map(rakuda_proto::Text::to_display);
            let known = rules.entry(place).or_default();
            known.0 += rule.total();
            known.1 = known.1.take().or_else(|| rule.pattern());
        }
        let mut rules: Vec<_> = rules.into_iter().collect();
        rules.sort_by_key(|(_, (total, _))| std::cmp::Reverse(*total));
        rules.truncate(RULES_MAX);
        let rule =
            |(place, (total, pattern))| json!({"place": place, "pattern": pattern, "total": total});
        rules.into_iter().map(rule).collect()
    }

    /// All nodes of the run, in the order of their numbers.
    fn nodes(&mut self, with_values: bool) -> Value {
        let all: Vec<NodeId> = self.agents.places().map(|(id, _)| id).collect();
        for id in all.into_iter().filter(|_| with_values) {
            self.refresh_own(id);
        }
        let mut running = vec![0; self.agents.len()];
        for (_, attempt) in self.run.attempts().all_acting() {
            running[attempt.node().0 as usize] += 1;
        }
        let node = |(id, place): (NodeId, &Member)| {
            let mut node = json!({
                "node": place.node.name.to_display(),
                "state": word_of(self.run.nodes().state(id)),
                "cores": place.node.capacity.cores,
                "running": running[id.0 as usize],
                "done": place.done,
            });
            let plan = self.settings.cluster.as_ref();
            if let Some(group) = plan.and_then(|plan| plan.group_of(id)) {
                node["group"] = group.into();
            }
            if let Some(leader) = plan.and_then(|plan| plan.leader_of(id)) {
                node["leader"] = leader.into();
            }
            if let Some(end) = self.node_end(id) {
                node["ends_in_s"] = (end.left_ns(self.now.time) / 1_000_000_000).into();
            }
            if with_values {
                node["values"] = self.information.values_of(id, self.now.time);
                if self.run.nodes().is_up(id) && self.information.is_suspected(id, self.now.time) {
                    node["state"] = "suspected".into();
                }
            }
            if let Some(why) = &place.trouble {
                node["why"] = why.as_str().into();
            }
            node
        };
        self.agents.places().map(node).collect()
    }

    fn explain(&mut self, name: &str) -> Value {
        let mut answer = json!({"run": self.record.run(), "task": name});
        let Some(id) = self.find(name) else {
            answer["state"] = "unknown".into();
            answer["near"] = self.near(name).into();
            return answer;
        };
        self.explain_task(id, answer)
    }

    /// The same of a task that is known by its number in the plan.
    fn explain_number(&mut self, number: &Value) -> Value {
        let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
        let known = number.filter(|number| (*number as usize) < self.run.scheduler().tasks_len());
        let Some(id) = known.map(TaskId) else { return json!({"error": "there is no such task"}) };
        let answer = json!({"run": self.record.run(), "task": self.display_name(id)});
        self.explain_task(id, answer)
    }

    fn explain_task(&mut self, id: TaskId, mut answer: Value) -> Value {
        let Some(task) = self.run.scheduler().task(id) else { return answer };
        answer["state"] = self.state_word(id).into();
        if let Some(environment) = environment_in_words(self.record.parameters_of(id)) {
            answer["environment"] = environment.into();
        }
        match task.state {
            TaskState::Waiting { .. } => self.add_waiting(id, &mut answer),
            TaskState::Ready => self.add_queued(id, task.requirement, &mut answer),
            TaskState::Running { .. } => match self.streams.waits_for(id) {
                Some(writers) if writers.is_empty() => {}
                Some(writers) => {
                    answer["waits_for_count"] = writers.len().into();
                    answer["waits_for"] = self.list(&writers[..writers.len().min(LIST_MAX)]);
                }
                None => self.add_running(id, &mut answer),
            },
            TaskState::Settled(Settled::Abandoned) => {
                let because: Vec<TaskId> = self
                    .run
                    .scheduler()
                    .prerequisites(id)
                    .filter(|other| self.has_failed(*other))
                    .take(LIST_MAX)
                    .collect();
                answer["because"] = self.list(&because);
            }
            TaskState::Settled(_)
            | TaskState::Defined
            | TaskState::Resolving
            | TaskState::Asking
            | TaskState::Checking { .. }
            | TaskState::Comparing
            | TaskState::Lost
            | TaskState::Mustered
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting => {}
        }
        let streams = self.streams_in_json(id);
        if !streams.is_empty() {
            answer["streams"] = streams.into();
        }
        if let Some(stall) = self.stall_of(id) {
            answer["stalled"] = stall.into();
        }
        let requirement = task.requirement;
        if let Some(gang) = self.run.scheduler().gang_of(id) {
            let is_waiting = matches!(gang.phase, GangPhase::Waiting);
            answer["gang"] = self.gang(&gang);
            let choosers = if is_waiting { self.choosers(id, requirement) } else { Vec::new() };
            if !choosers.is_empty() {
                answer["gang"]["unsuited"] = choosers.into();
            }
        }
        if task.reason != Reason::Undecided {
            answer["reason"] = reason_word(task.reason).into();
        }
        answer
    }

    /// Why a gang has not begun, or what it does.
    fn gang(&self, gang: &GangView<'_>) -> Value {
        let state = match gang.phase {
            GangPhase::Mustering => "waits_for_tasks",
            GangPhase::Waiting if gang.too_large => "too_large",
            GangPhase::Waiting => "waits_for_slots",
            GangPhase::Begun => "running",
            GangPhase::Breaking => "ends_to_run_again",
            GangPhase::Failed => "failed",
        };
        let ready = |id: &&TaskId| {
            let state = self.run.scheduler().task(**id).map(|task| task.state);
            state == Some(TaskState::Mustered)
        };
        let mut answer = json!({
            "gang": gang.id.0,
            "state": state,
            "tasks_count": gang.tasks.len(),
            "tasks": self.list(&gang.tasks[..gang.tasks.len().min(LIST_MAX)]),
            "slots": gang.slots,
        });
        match gang.phase {
            GangPhase::Mustering => {
                let open = gang.tasks.iter().filter(|id| !ready(id)).copied();
                let open: Vec<TaskId> = open.take(LIST_MAX).collect();
                answer["waits_for"] = self.list(&open);
            }
            GangPhase::Waiting => {
                answer["slots_kept"] = gang.slots_kept.into();
                answer["gangs_before"] = gang.older.into();
            }
            GangPhase::Begun | GangPhase::Breaking | GangPhase::Failed => {}
        }
        if gang.oversubscribed {
            answer["oversubscribed"] = true.into();
        }
        answer
    }

    /// Tasks of a waiting gang that choose nodes, and the nodes that do not suit them; of tasks that ask for the same
    /// the first, and the one that the user asks about.
    fn choosers(&mut self, asked: TaskId, requirement: RequirementId) -> Vec<Value> {
        let mut tasks = BTreeMap::from([(requirement, asked)]);
        let all =
            self.run.scheduler().gang_of(asked).map_or(Vec::new(), |gang| gang.tasks.to_vec());
        let count = all.len();
        for task in all.into_iter().take(LIST_MAX) {
            if let Some(known) = self.run.scheduler().task(task) {
                tasks.entry(known.requirement).or_insert(task);
            }
        }
        let nodes: Vec<NodeId> = self.capacities().into_iter().map(|(id, _)| id).collect();
        let mut choosers = Vec::new();
        for (requirement, task) in tasks {
            let mut unsuited = Vec::new();
            for &node in &nodes {
                if let Some(why) = self.unsuited_in_gang(requirement, node, count) {
                    let name = self.agents.node(node).name.to_display();
                    unsuited.push(json!({"node": name, "where": why}));
                }
            }
            if !unsuited.is_empty() {
                choosers.push(json!({"task": self.display_name(task), "nodes": unsuited}));
            }
        }
        choosers
    }

    fn has_failed(&self, id: TaskId) -> bool {
        let state = self.run.scheduler().task(id).map(|task| task.state);
        matches!(state, Some(TaskState::Settled(Settled::Failed | Settled::Abandoned)))
    }

    fn add_waiting(&self, id: TaskId, answer: &mut Value) {
        let missing: Vec<TaskId> = self.run.scheduler().missing_prerequisites(id).collect();
        answer["waits_for_count"] = missing.len().into();
        answer["waits_for"] = self.list(&missing[..missing.len().min(LIST_MAX)]);
        answer["roots"] = self.list(&self.run.scheduler().roots(id, LIST_MAX, STEPS_MAX));
    }

    fn add_queued(&mut self, id: TaskId, requirement: RequirementId, answer: &mut Value) {
        answer["queued"] = self.run.scheduler().counts().ready.into();
        answer["ahead"] = self.run.scheduler().ready_before(id).into();
        let nodes = self.run.scheduler().candidate_nodes(id);
        let names = nodes.iter().map(|node| self.agents.node(*node).name.to_display());
        answer["candidate_nodes"] = names.collect::<Vec<_>>().into();
        let all = self.capacities();
        let short: Vec<Value> =
            all.iter().filter_map(|(node, _)| self.shortage(requirement, *node)).collect();
        answer["short"] = short.into();
    }

    /// What keeps a node from taking such a task now; `None` if nothing does.
    fn shortage(&mut self, requirement: RequirementId, node: NodeId) -> Option<Value> {
        let room = self.run.scheduler().room(requirement, node)?;
        let mut short = Map::new();
        if !room.allowed {
            short.insert("not_allowed".into(), true.into());
        }
        if !room.possible {
            short.insert("never_fits".into(), true.into());
        }
        if let (Some(run_ns), Some(end)) = (room.expected_ns, self.node_end(node))
            && end.is_too_soon_for(run_ns, self.now.time)
        {
            let [needed_s, left_s] = [run_ns, end.left_ns(self.now.time)].map(|ns| ns as f64 / 1e9);
            let soon = json!({"what": end.of.word(), "needed_s": needed_s, "left_s": left_s});
            short.insert("ends_too_soon".into(), soon);
        }
        if i64::from(room.cores) > room.cores_free {
            let free = room.cores_free.max(0);
            short.insert("cores".into(), json!({"needed": room.cores, "free": free}));
            if room.exclusive {
                short.insert("exclusive".into(), true.into());
            }
        }
        if i128::from(room.memory_bytes) > room.memory_bytes_free.max(0) {
            let free = u64::try_from(room.memory_bytes_free).unwrap_or(0);
            short.insert("memory_bytes".into(), json!({"needed": room.memory_bytes, "free": free}));
        }
        let free = self.run.scheduler().devices_free(node);
        for (resource, needed) in self
            .run
            .scheduler()
            .requirement(requirement)
            .into_iter()
            .flat_map(|wants| &wants.resources)
        {
            let free = free.get(resource.0 as usize).copied().unwrap_or(0);
            if *needed as usize > free {
                let name = self.settings.resources.get(resource.0 as usize).cloned();
                let name = name.unwrap_or_else(|| "resource".into());
                short.insert(name, json!({"needed": needed, "free": free}));
            }
        }
        if let Some(unsuited) = self.unsuited(requirement, node) {
            short.insert("where".into(), unsuited);
        }
        if room.reserved {
            short.insert("reserved_for_others".into(), true.into());
        }
        if short.is_empty() {
            return None;
        }
        short.insert("node".into(), self.agents.node(node).name.to_display().into());
        Some(short.into())
    }

    fn add_running(&self, id: TaskId, answer: &mut Value) {
        if let Some(hosts) = self.waits_for_unresponsive(id) {
            answer["waits_for_file_servers"] = hosts.into();
        }
        let Some(attempt) = self.run.attempts().acting(id) else { return };
        let now_ns = self.now.time.0;
        let seconds = |since_ns: u64| now_ns.saturating_sub(since_ns) as f64 / 1e9;
        answer["attempt"] = attempt.number().into();
        answer["attempts_max"] = self.run.scheduler().attempts_max(id).into();
        answer["node"] = self.agents.node(attempt.node()).name.to_display().into();
        answer["elapsed_s"] =
            (self.run.attempts().ran_ns(id, attempt, self.now) as f64 / 1e9).into();
        if attempt.is_suspended() {
            answer["waits_for_invocation"] = true.into();
        } else if attempt.waits_for_room() {
            answer["waits_for_room"] = true.into();
        } else if !attempt.holds_lease() {
            answer["waits_for_core"] = true.into();
        }
        let own = self.commands.values().filter(|command| command.task == Some(id));
        let commands = own.take(LIST_MAX).map(|command| {
            let line = shown_command(&command.program);
            json!({"command": line, "elapsed_s": seconds(command.started_ns)})
        });
        answer["commands"] = commands.collect();
    }

    fn list(&self, tasks: &[TaskId]) -> Value {
        let entry =
            |id: &TaskId| json!({"task": self.display_name(*id), "state": self.state_word(*id)});
        tasks.iter().map(entry).collect()
    }

    pub(crate) fn state_word(&self, id: TaskId) -> &'static str {
        let Some(task) = self.run.scheduler().task(id) else { return "unknown" };
        match task.state {
            TaskState::Defined => "not_started",
            TaskState::Waiting { missing: 0 } => "waits_for_turn",
            TaskState::Waiting { .. } => "waiting",
            TaskState::Resolving => "deferred",
            TaskState::Asking
            | TaskState::Checking { .. }
            | TaskState::Comparing
            | TaskState::Inspecting => "deciding",
            TaskState::Ready => "queued",
            TaskState::Mustered if self.run.scheduler().gang_of(id).is_none() => "waits_to_retry",
            TaskState::Mustered => "waits_for_gang",
            TaskState::AwaitingPeers { .. } => "ended_before_gang",
            TaskState::Lost => "lost",
            TaskState::Running { .. } => match self.streams.waits_for(id) {
                Some(writers) if writers.is_empty() => "waits_for_room",
                Some(_) => "waits_for_writers",
                None => "running",
            },
            TaskState::Settled(Settled::Executed) => "done",
            TaskState::Settled(Settled::NotNeeded) => "up_to_date",
            TaskState::Settled(Settled::Failed) => "failed",
            TaskState::Settled(Settled::Abandoned) => "abandoned",
        }
    }

    fn find(&self, name: &str) -> Option<TaskId> {
        self.run.scheduler().task_ids().find(|id| self.names.name(*id) == name.as_bytes())
    }

    /// Names that hold the word, or have the same last part.
    fn near(&self, name: &str) -> Vec<String> {
        let last = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let is_near = |id: &TaskId| {
            let other = self.display_name(*id).to_lowercase();
            let other_last = other.rsplit('/').next().unwrap_or(&other);
            !last.is_empty() && (other.contains(&last) || is_close(other_last, &last))
        };
        let ids = self.run.scheduler().task_ids().take(STEPS_MAX).filter(is_near);
        ids.take(NEAR_MAX).map(|id| self.display_name(id)).collect()
    }
}

fn passing_json(stream: &Passing) -> Value {
    json!({
        "stream": stream.name,
        "bytes": stream.bytes,
        "records": stream.records,
        "live": stream.is_live,
    })
}

fn open_round_json(round: &OpenRound) -> Value {
    json!({
        "sync": round.sync,
        "number": round.number,
        "kind": round.kind,
        "workers": round.workers,
        "begun": round.begun,
        "failed": round.failed,
    })
}

/// Whether one mistake in typing leads from one to the other: a letter more, less, or another.
fn is_close(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same..], &other[same..]);
    let rest = |from: usize, list: &[char]| list.get(from..).unwrap_or(&[]).to_vec();
    rest(1, one) == rest(1, other)
        || rest(0, one) == rest(1, other)
        || rest(1, one) == rest(0, other)
}

fn word_of(state: NodeState) -> &'static str {
    match state {
        NodeState::Spare => "spare",
        NodeState::Starting | NodeState::Away => "starting",
        NodeState::Up => "up",
        NodeState::Drained => "set_aside",
        NodeState::Lost => "lost",
        NodeState::Failed => "failed",
        NodeState::Leaving => "leaving",
        NodeState::Gone => "gone",
    }
}

fn reason_word(reason: Reason) -> &'static str {
    match reason {
        Reason::Undecided => "undecided",
        Reason::AlwaysRuns => "always",
        Reason::Missing => "missing",
        Reason::Lost => "lost",
        Reason::OutOfDate => "newer",
        Reason::BuildAll => "forced",
        Reason::AnsweredNeeded | Reason::AnsweredNotNeeded => "class",
        Reason::UpToDate => "up_to_date",
        Reason::Unresolved => "unresolved",
        Reason::Demanded => "demanded",
        Reason::GangRuns => "gang",
    }
}

#[cfg(test)]
mod tests {
    use super::is_close;

    #[test]
    fn one_letter_more_less_or_other_is_close() {
        for (one, other) in [("abc", "abc"), ("abc", "axc"), ("abc", "ab"), ("abc", "abbc")] {
            assert!(is_close(one, other), "{one} {other}");
        }
        assert!(!is_close("abc", "cba") && !is_close("abc", "abcde") && !is_close("ab", "cd"));
    }
}
