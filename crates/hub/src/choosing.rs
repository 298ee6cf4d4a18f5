//! Nodes that tasks choose by what is known of them (`needs where:`, `prefer:`): evaluates each choice for each node
//! when a value changes, and reports to the core which nodes suit.
//!
//! `rakuda_info::choice` decides what a choice means, the core which task starts, and `information` what is known of
//! nodes. This module has the claims of tasks, and what the core knows of them. `impossible` finds choices that no node
//! can ever fulfil.

mod impossible;
pub(crate) mod state;

use std::collections::BTreeSet;
use std::time::Duration;

use rakuda_core::{Choice as CoreChoice, Event, NodeId, RequirementId, Suits, TaskId, TaskState};
use rakuda_info::choice::{Choice, Claim, Seen, Standing, Verdict, Wish};
use rakuda_info::format::amount;
use rakuda_info::value::Value;
use rakuda_proto::Text;
use rakuda_proto::front::{RequirementDefinition, StrictField};
use rakuda_proto::journal::{JournalEvent, NodeChosen};
use serde_json::json;

use crate::hub::Hub;
use state::{Peers, Wanted, extent, until_known};

/// Time for which nothing runs before the user learns that a task waits.
const TOLD_AFTER: Duration = Duration::from_secs(3);

impl Hub {
    /// A requirement that the front is about to define chooses its node.
    pub(crate) fn choice_of(&mut self, definition: &RequirementDefinition) -> Option<CoreChoice> {
        let RequirementDefinition { condition, prefer, task, place, strict, .. } = definition;
        let wish = Wish { condition: condition.clone(), prefer: prefer.clone() };
        if wish == Wish::default() {
            return None;
        }
        let is_strict =
            strict.iter().any(|it| matches!(it, StrictField::Where | StrictField::Prefer));
        let registry = self.information.table.registry();
        let (task, place) = (task.to_display(), place.as_ref().map(Text::to_display));
        let has_providers = !self.settings.providers.is_empty() || self.settings.service.is_some();
        let understood = Choice::new(&wish, registry).map(|choice| (choice, None));
        let understood = understood.or_else(|error| {
            let what = error.to_string();
            let choice = until_known(&error, registry).filter(|_| has_providers);
            choice.map(|choice| (choice, Some(what.clone()))).ok_or(what)
        });
        let (choice, unknown) = match understood {
            Ok(understood) => understood,
            Err(what) => {
                self.refuse_choice(is_strict, &task, place.as_deref(), &what);
                return None;
            }
        };
        if let Err(why) = self.watch(choice.names(self.information.table.registry())) {
            let clause = if wish.condition.is_some() { "where" } else { "prefer" };
            self.refuse_choice(is_strict, &task, place.as_deref(), &format!("{clause}: {why}"));
            return None;
        }
        // Nothing is started there, and no node is asked.
        if self.settings.config.dry_run {
            return None;
        }
        // Until the name is known, tasks wait for it, also those that only prefer.
        let used_up = wish.condition.is_some() || unknown.is_some();
        let attributes = extent(self.information.table.registry());
        let (is_void, is_possible) = (false, wish.condition.is_none() && unknown.is_none());
        let wanted = Wanted {
            wish,
            choice,
            attributes,
            unknown,
            wrong: None,
            definition: definition.clone(),
            task,
            place,
            is_strict,
            is_void,
            is_possible,
        };
        self.choosing.wanted.insert(self.times.front_requirements(), wanted);
        self.sample(None);
        Some(CoreChoice { used_up })
    }

    /// Notes that the core has a requirement that stands for one of the front which may choose.
    pub(crate) fn cover_choice(&mut self, id: RequirementId, front: u32) {
        if self.choosing.wanted.contains_key(&front) {
            self.choosing.of_core.insert(id, front);
            for (node, place) in self.agents.places() {
                self.information.row(node, &place.node.name.to_display());
                self.choosing.touched.insert(node);
            }
        }
    }

    /// Tasks are a gang: what they claim together is subtracted where several of them would go to one node.
    pub(crate) fn note_gang_claims(&mut self, tasks: &[TaskId]) {
        if self.choosing.is_idle() {
            return;
        }
        let known = tasks.iter().filter_map(|id| self.run.scheduler().task(*id));
        let of: BTreeSet<RequirementId> = known.map(|task| task.requirement).collect();
        let mut peers =
            Peers { count: u32::try_from(tasks.len()).unwrap_or(u32::MAX), ..Peers::default() };
        for wants in of.iter().filter_map(|id| self.run.scheduler().requirement(*id)) {
            peers.cores = peers.cores.max(wants.cores);
            peers.memory_bytes = peers.memory_bytes.max(wants.memory_bytes);
        }
        for requirement in of.into_iter().filter(|id| self.choosing.of_core.contains_key(id)) {
            let known = self.choosing.gangs.entry(requirement).or_default();
            known.cores = known.cores.max(peers.cores);
            known.memory_bytes = known.memory_bytes.max(peers.memory_bytes);
            known.count = known.count.max(peers.count);
        }
        self.touch_all();
    }

    /// Refuses a condition or preference that means nothing: an error with `needs`; with `desc` it is left out, with a
    /// warning.
    fn refuse_choice(&mut self, is_strict: bool, task: &str, place: Option<&str>, what: &str) {
        let at = place.map_or_else(String::new, |place| format!("{place}: "));
        if is_strict {
            self.refuse_needs(&format!("{at}needs: task {task}: {what}"));
        } else {
            self.warn(&format!("{at}task {task}: {what}; running it anywhere"));
        }
    }

    /// There may be news of any node.
    pub(crate) fn touch_all(&mut self) {
        for (node, _) in self.agents.places() {
            self.choosing.touch(node);
        }
    }

    /// There is news of a node.
    pub(crate) fn on_information(&mut self, node: NodeId) {
        let names = self.choosing.renew(&self.information);
        if let Err(why) = self.watch(names) {
            self.warn(&why);
        }
        self.refuse_wrong();
        self.choosing.touched.insert(node);
        if self.information.is_known(node) {
            self.find_impossible();
            self.tell_waiting();
        }
    }

    /// Choices that turn out to mean nothing.
    fn refuse_wrong(&mut self) {
        let wrong = |(front, it): (&u32, &mut Wanted)| Some((*front, it.wrong.take()?));
        let refused: Vec<(u32, String)> =
            self.choosing.wanted.iter_mut().filter_map(wrong).collect();
        for (front, what) in refused {
            self.leave_out(front, &what);
        }
    }

    /// A choice cannot be made: it is left out, with the reason.
    fn leave_out(&mut self, front: u32, what: &str) {
        let Some(wanted) = self.choosing.wanted.get_mut(&front) else { return };
        wanted.is_void = true;
        let (is_strict, task, place) =
            (wanted.is_strict, wanted.task.clone(), wanted.place.clone());
        self.refuse_choice(is_strict, &task, place.as_deref(), what);
    }

    /// Warns once that tasks wait for a node that suits while nothing runs.
    fn tell_waiting(&mut self) {
        let counts = self.run.scheduler().counts();
        if counts.ready == 0
            || self.run.scheduler().busy_len() > 0
            || self.run.stopping().is_stopping()
        {
            self.choosing.waits_since = None;
            return;
        }
        self.record.note_waiting(&self.names);
        let now = self.now.time;
        let since = *self.choosing.waits_since.get_or_insert(now);
        let is_due = now.0.saturating_sub(since.0) >= TOLD_AFTER.as_nanos() as u64;
        if self.choosing.is_wait_told || !is_due {
            return;
        }
        let is_chooser = |id: &TaskId| {
            let task = self.run.scheduler().task(*id);
            task.is_some_and(|it| {
                matches!(it.state, TaskState::Ready | TaskState::Mustered)
                    && self.choosing.of_core.contains_key(&it.requirement)
            })
        };
        let waiting = self.run.scheduler().task_ids().find(is_chooser);
        if let Some(id) = waiting {
            self.choosing.is_wait_told = true;
            let name = self.display_name(id);
            self.warn(&format!(
                "task {name} waits for a node that suits it; `rakudactl explain {name}` says what is missing"
            ));
        }
    }

    /// Notes that the core has started something on a node, and on the other nodes of a task on several.
    pub(crate) fn note_claim(&mut self, id: TaskId, node: NodeId) {
        self.choosing.calm.on_started();
        if self.choosing.is_idle() {
            return;
        }
        let Some(task) = self.run.scheduler().task(id) else { return };
        let requirement = self.run.scheduler().requirement(task.requirement);
        let memory_bytes = requirement.map_or(0, |requirement| requirement.memory_bytes);
        let what = (id, task.requirement);
        self.choosing.chosen.remove(&id);
        let mut nodes = vec![node];
        nodes.extend(self.run.scheduler().nodes_of(id).into_iter().filter(|other| *other != node));
        for node in nodes {
            let cores = self.cores_on(id, node);
            let claim = Claim { cores, memory_bytes, since: self.now.time };
            self.choosing.on_started(&mut self.information, what, node, claim);
        }
    }

    /// The node of an attempt that was noted just now was chosen: what that rested on.
    pub(crate) fn note_choice(&mut self, id: TaskId) {
        let Some(values) = self.choosing.chosen.remove(&id) else { return };
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let Some(task) = self.run.scheduler().task(id) else { return };
        let front = self.choosing.of_core.get(&task.requirement);
        let wish = front.and_then(|front| self.choosing.wanted.get(front)).map(|it| &it.wish);
        let value = |seen: &Seen| match &seen.value {
            Value::Undefined(_) => String::new(),
            value => amount_exact(value, &seen.unit),
        };
        let event = NodeChosen {
            time_ns: attempt.began().journal_ns(),
            task: id.0,
            attempt: attempt.number(),
            node: attempt.node().0,
            condition: wish.and_then(|wish| wish.condition.clone()),
            prefer: wish.and_then(|wish| wish.prefer.clone()),
            values: values.iter().map(|seen| (seen.name.to_string(), value(seen))).collect(),
        };
        let event = JournalEvent::NodeChosen(event);
        self.record.about_task(self.run.scheduler(), &self.names, id, &event);
    }

    /// Reports to the core which nodes suit, where that has changed; whether there was anything.
    pub(crate) fn tell_suiting(&mut self) -> bool {
        if self.choosing.touched.is_empty() {
            return false;
        }
        let now = self.now.time;
        let touched: Vec<NodeId> = self.choosing.touched.iter().copied().collect();
        for &node in &touched {
            self.refresh_own(node);
        }
        let requirements: Vec<RequirementId> = self.choosing.of_core.keys().copied().collect();
        for requirement in requirements {
            let mut news = Vec::new();
            for &node in &touched {
                let Self { choosing, information, .. } = self;
                let suits = match choosing.verdict(information, requirement, node, now) {
                    Some(Verdict::Suits(rank)) if self.run.nodes().is_up(node) => {
                        let at_once = choosing.at_once(information, requirement, node, now);
                        Some(Suits { rank, at_once })
                    }
                    _ => None,
                };
                if choosing.told.get(&(requirement, node)).copied() == suits {
                    continue;
                }
                match suits {
                    Some(suits) => drop(choosing.told.insert((requirement, node), suits)),
                    None => drop(choosing.told.remove(&(requirement, node))),
                }
                news.push((node, suits));
            }
            if !news.is_empty() {
                // A task that this starts claims part of its node, before the core learns of other nodes.
                self.event(Event::NodesSuit { requirement, nodes: &news });
                return true;
            }
        }
        self.choosing.touched.clear();
        false
    }

    /// Why a node does not suit a task of a gang that waits, or not all of them at once.
    pub(crate) fn unsuited_in_gang(
        &mut self,
        requirement: RequirementId,
        node: NodeId,
        tasks: usize,
    ) -> Option<serde_json::Value> {
        let now = self.now.time;
        self.unsuited(requirement, node).or_else(|| {
            let at_once = self.choosing.at_once(&mut self.information, requirement, node, now);
            (tasks > at_once as usize).then(|| json!({"at_once": at_once}))
        })
    }

    /// Why a node does not suit a requirement now; `None`: it does, or the requirement chooses nothing.
    pub(crate) fn unsuited(
        &mut self,
        requirement: RequirementId,
        node: NodeId,
    ) -> Option<serde_json::Value> {
        let now = self.now.time;
        if !self.choosing.of_core.contains_key(&requirement) {
            return None;
        }
        self.refresh_own(node);
        match self.choosing.verdict(&mut self.information, requirement, node, now) {
            Some(Verdict::Suits(_)) => None,
            Some(Verdict::Fails(standing)) => Some(standing_json(&standing, false)),
            Some(Verdict::Waits(standing)) => Some(standing_json(&standing, true)),
            None => Some(json!({"unknown": true})),
        }
    }
}

/// A number with its unit, or a text, as it is.
fn amount_exact(value: &Value, unit: &str) -> String {
    let text = match value {
        Value::Number(number) => rakuda_info::format::digits(*number),
        Value::Text(text) => text.to_string(),
        Value::Undefined(_) => String::new(),
    };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

fn standing_json(standing: &Standing, waits: bool) -> serde_json::Value {
    let value = |seen: &Seen| {
        let mut object = json!({
            "name": &*seen.name, "unit": &*seen.unit, "text": amount(&seen.value, &seen.unit),
        });
        match &seen.value {
            Value::Number(number) => object["value"] = (*number).into(),
            Value::Text(text) => object["value"] = (**text).into(),
            Value::Undefined(why) => {
                object["value"] = serde_json::Value::Null;
                object["why"] = (**why).into();
            }
        }
        if let Some(age_s) = seen.age_s {
            object["age_s"] = ((age_s * 1000.0).round() / 1000.0).into();
        }
        object
    };
    let values: Vec<serde_json::Value> = standing.values.iter().map(value).collect();
    if waits {
        return json!({"waits_for_sample_of": standing.clause, "values": values});
    }
    match &standing.undefined {
        Some(why) => json!({"clause": standing.clause, "values": values, "undefined": &**why}),
        None => json!({"clause": standing.clause, "values": values}),
    }
}
