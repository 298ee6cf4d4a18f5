//! What the hub does for reachability, and what must hold of that.

pub(crate) mod state;

use std::collections::BTreeSet;

use rakuda_core::{
    ActionOutcome, AttemptState, Event, FilePlaces, HostId, Input, NodeId, Places, ReachEffect,
    ReachInput, ReachWarning, TaskId,
};

use super::chaos::Chaos;
use crate::units::SECOND_NS;

/// Maximum time until a file that is readable is found so: it is asked about every 5 s, and an
/// answer takes up to 15.
const FOUND_NS: u64 = 60 * SECOND_NS;

impl Chaos {
    pub(crate) fn perform_for_reach(&mut self, effect: ReachEffect) {
        if !matches!(effect, ReachEffect::HandedOut { .. }) {
            self.note(format_args!("{effect:?}"));
        }
        match effect {
            ReachEffect::Ask { round, files } => {
                let other = self.hub.reach.round.replace(round);
                assert_eq!(other, None, "two rounds are under way");
                self.hub.reach.asked_ns = self.now;
                let count = files.len();
                assert_eq!(count, files.iter().collect::<BTreeSet<_>>().len(), "asked twice");
                self.count("rounds of questions");
                self.note_asked(round);
                self.ask_gfarm(round, files);
            }
            ReachEffect::Attribute { id } => {
                assert!(self.hub.reach.held.insert(id), "the failure of {} is held twice", id.0);
            }
            ReachEffect::PassOn { id } => self.pass_on(id),
            ReachEffect::HandedOut { id, hosts } => {
                self.set_found(id, &hosts);
            }
            ReachEffect::Back { files } => {
                *self.counts.entry("files that are back").or_default() += files.len() as u64;
                let places = &self.hub.reach.places;
                let files = files.into_iter().map(|id| (id, places.places_of(id))).collect();
                self.event(Event::FilesFound { files });
            }
            ReachEffect::Event(event) => self.tell_scheduler_of_reach(event),
            ReachEffect::FreeName { id } => {
                self.truth.remove(id.0);
                self.gfarm.remove(id.0);
            }
            ReachEffect::Warn(warning) => self.warn_of_reach(warning),
            ReachEffect::Continue => unreachable!("handled above"),
        }
    }

    /// An event for the scheduler, after what has to be noted of it.
    fn tell_scheduler_of_reach(&mut self, event: Event<'static>) {
        let reach = &mut self.hub.reach;
        match &event {
            Event::PlacesFound { id, places: Places::Nowhere } => {
                assert!(reach.warned.remove(id), "nobody was told that {} is out of reach", id.0);
                let is_new = self.gfarm.written_ns(id.0).is_some_and(|ns| ns > reach.asked_ns);
                assert!(!is_new, "{} was made after it was asked about", id.0);
                self.count("files out of reach");
            }
            Event::FileGivenUp { id } => {
                assert!(reach.given_up.contains(id), "nobody was told that {} is given up", id.0);
            }
            Event::FailureUncharged { id } => {
                assert!(reach.held.contains(id), "{} has not failed", id.0);
                *reach.uncharged.entry(*id).or_default() += 1;
                self.count("failures uncharged");
            }
            Event::InputLacked { id, .. } => {
                assert!(reach.held.contains(id), "{} has not failed", id.0);
                self.count("inputs lacked");
            }
            _ => panic!("nothing calls for {event:?}"),
        }
        self.event(event);
    }

    fn warn_of_reach(&mut self, warning: ReachWarning) {
        match warning {
            ReachWarning::OutOfReach { files, .. } => self.hub.reach.warned.extend(files),
            ReachWarning::InputGivenUp { id, .. } => {
                assert!(!self.scenario.tasks[id.0 as usize].has_action, "{} can be made", id.0);
                let since_ns = self.gfarm.readable_since_ns(id.0);
                let is_there = since_ns.is_some_and(|ns| ns + FOUND_NS < self.now);
                assert!(!is_there, "{} is given up, and could be read all the time", id.0);
                self.hub.reach.given_up.insert(id);
                self.count("inputs given up");
            }
            ReachWarning::FailureDeferred { .. } => self.count("failures deferred"),
            ReachWarning::InputAwaited { .. } | ReachWarning::CannotAsk => {}
        }
    }

    /// A failed attempt comes to its end.
    fn pass_on(&mut self, id: TaskId) {
        let attempt = self.hub.run.attempts().get(id).expect("it has not ended");
        let is_held = self.hub.reach.held.remove(&id);
        let state = attempt.state();
        let is_attributing = *state == AttemptState::Attributing;
        assert!(is_attributing || *state == AttemptState::Clearing, "{} is {state:?}", id.0);
        let is_known = is_held == (is_attributing && self.scenario.gfarm.is_some());
        assert!(is_known, "{} is {state:?}", id.0);
        self.finish_attempt(id.0, ActionOutcome::Failed);
    }

    /// The catalogue says which hosts hold a file; the last host may be no node. Returns the nodes that they are.
    fn set_found(&mut self, id: TaskId, hosts: &[HostId]) -> Places {
        let nodes = self.scenario.cores.len() as u32;
        let node_of = |host: &HostId| (host.0 < nodes).then_some(NodeId(host.0));
        self.hub.reach.places.set_found(id, hosts, node_of)
    }

    /// A hub that begins asks the catalogue where a file is.
    pub(crate) fn locate(&mut self, task: u32) {
        let id = TaskId(task);
        if self.scenario.gfarm.is_none() || !self.hub.made.contains_key(&task) {
            return;
        }
        let Some(hosts) = self.gfarm.listed_hosts(task) else { return };
        if hosts.is_empty() {
            self.hub.reach.warned.insert(id);
            return self.tell(Input::Reach(ReachInput::HeldByNone { id }));
        }
        let hosts: Vec<HostId> = hosts.into_iter().map(HostId).collect();
        let places = self.set_found(id, &hosts);
        if places != Places::Unknown {
            self.event(Event::PlacesFound { id, places });
        }
    }

    /// A round has come to its end.
    pub(crate) fn on_round_answered(&mut self, answer: ReachInput) {
        self.hub.reach.round = None;
        self.note(format_args!("round answered"));
        self.note_answer(&answer);
        self.tell(Input::Reach(answer));
    }
}
