//! What failures were due to, as only the simulator knows: no failure over a file server counts,
//! but within the limits that `docs/design/reach.md` states.

pub(crate) mod state;

use std::collections::BTreeMap;

use rakuda_core::{FilePlaces as _, HostId, NodeId, Places, ReachInput, TaskId};

use super::chaos::Chaos;
use crate::units::SECOND_NS;
use state::Cause;

/// Maximum number of failures of a task that are uncharged.
const UNCHARGED_MAX: u32 = 3;

/// Maximum time for which failures over an unresponsive host may be uncharged, from when the hub first saw it so.
const OLD_NS: u64 = 200 * SECOND_NS;

/// Maximum time until the loss of a file is noticed, and asked about.
const NOTICED_NS: u64 = 60 * SECOND_NS;

impl Chaos {
    /// A round begins that is about these failures.
    pub(crate) fn note_asked(&mut self, round: u32) {
        let hosts: Vec<u32> = self.gfarm.causes.values().filter_map(|cause| cause.host).collect();
        let sampled: BTreeMap<u32, u32> =
            hosts.into_iter().filter_map(|host| Some((host, self.sample_of(host)?))).collect();
        let held = &self.hub.reach.held;
        for ((task, _), cause) in &mut self.gfarm.causes {
            if held.contains(&TaskId(*task)) {
                cause.round = Some(round);
                cause.sampled = cause.host.and_then(|host| sampled.get(&host).copied());
            }
        }
    }

    /// A file is begun anew: what an answer says of it tells of no host any more.
    pub(crate) fn note_begun(&mut self, file: u32) {
        for cause in self.gfarm.causes.values_mut() {
            cause.sampled.take_if(|sampled| *sampled == file);
        }
    }

    /// What a round has found.
    pub(crate) fn note_answer(&mut self, answer: &ReachInput) {
        let ReachInput::Answered { round, files, unresponsive } = answer else {
            self.hub.reach.unanswered_ns = Some(self.now);
            return;
        };
        let is_lost = |file: u32| {
            files.iter().any(|(id, reach)| id.0 == file && *reach == rakuda_core::Reach::Nowhere)
        };
        for cause in self.gfarm.causes.values_mut().filter(|cause| cause.round == Some(*round)) {
            cause.seen |= cause.host.is_some_and(|host| unresponsive.contains_key(&HostId(host)));
            cause.seen |= cause.file.is_some_and(is_lost);
        }
    }

    /// An attempt failed: whether that may count. `goes_on`: no failure before it has ended its invocation.
    pub(crate) fn check_cause(&mut self, task: u32, attempt: u32, counts: bool, goes_on: bool) {
        let Some(cause) = self.gfarm.causes.remove(&(task, attempt)) else { return };
        if !counts {
            self.count("failures over servers that do not count");
            return;
        }
        let limit = if goes_on {
            self.limit_of(task, &cause)
        } else {
            Some("counted: another failure has ended the invocation")
        };
        let limit = limit.unwrap_or_else(|| panic!("{task} attempt {attempt} counts: {cause:?}"));
        self.note(format_args!("{task} attempt {attempt} counts: {limit}"));
        self.count(limit);
        self.hub.reach.limited.insert(TaskId(task));
    }

    /// The limit within which a failure counts; `None` if it should not.
    fn limit_of(&self, task: u32, cause: &Cause) -> Option<&'static str> {
        let reach = &self.hub.reach;
        if reach.uncharged.get(&TaskId(task)).is_some_and(|times| *times >= UNCHARGED_MAX) {
            return Some("counted: uncharged often enough");
        }
        if reach.unanswered_ns.is_some_and(|ns| ns >= cause.failed_ns) {
            return Some("counted: the catalogue said nothing");
        }
        if let Some(host) = cause.host
            && self.now - self.gfarm.troubled_ns(host) >= OLD_NS
        {
            return Some("counted: unresponsive for too long");
        }
        if cause.seen {
            return None;
        }
        match (cause.host, cause.file) {
            (Some(host), _) => {
                let is_as_it_was =
                    self.gfarm.epoch(host) == cause.epoch && self.gfarm.is_listed(host);
                if !is_as_it_was {
                    return Some("counted: over before it was asked about");
                }
                let is_known = cause.named || cause.sampled.is_some();
                (!is_known).then_some("counted: nobody knew a file of the host")
            }
            (None, Some(file)) => {
                let hosts = self.gfarm.listed_hosts(file).unwrap_or_default();
                if !hosts.is_empty() {
                    return Some("counted: over before it was asked about");
                }
                (!cause.named).then_some("counted: not among the files that were asked about")
            }
            (None, None) => Some("counted: no host to write to"),
        }
    }

    /// Whether a file is asked about, for a host that is a node, when anything fails.
    fn sample_of(&self, host: u32) -> Option<u32> {
        let only = Places::One(NodeId(host));
        let places = &self.hub.reach.places;
        let mut sole = places.known().filter(|id| {
            places.places_of(*id) == only
                && self.hub.made.contains_key(&id.0)
                && !self.hub.run.reach().is_lost(*id)
        });
        // It is another host's in truth where the maker's disk was full.
        let TaskId(id) = sole.next()?;
        self.gfarm.listed_hosts(id).filter(|hosts| hosts.contains(&host)).map(|_| id)
    }

    /// The workflow has ended with failures. Whether each of them is one that the limits allow: what fails after the
    /// first is not tried again.
    pub(crate) fn may_fail(&mut self, failed: &[TaskId]) -> bool {
        let reach = &self.hub.reach;
        let limited = &self.hub.staging.limited;
        let is_allowed = |id: &TaskId| {
            reach.limited.contains(id)
                || reach.given_up.contains(id)
                || limited.contains(id)
                || self.hub.refused.contains(id)
        };
        if !failed.first().is_some_and(is_allowed) {
            return false;
        }
        self.count("workflows that failed by a stated limit");
        true
    }

    /// Checks that a target is whole, unless its disk went when nothing could know yet, or nothing knew that it was
    /// there, or before its node came, or when that was lost already and came no more: the hub sees no loss then.
    pub(crate) fn check_target_in_gfarm(&mut self, task: u32) {
        if let Some((host, wiped_ns)) = self.gfarm.wiped(task) {
            let is_fresh = self.now < wiped_ns + NOTICED_NS || wiped_ns < self.hub.reach.started_ns;
            let is_known =
                self.hub.reach.places.places_of(TaskId(task)) == Places::One(NodeId(host));
            let is_dumb = self.hub.reach.unanswered_ns.is_some_and(|ns| ns >= wiped_ns);
            let came_ns = self.hub.reach.came_ns.get(&host);
            let is_unseen = came_ns.is_none_or(|came_ns| wiped_ns < *came_ns);
            let lost_ns = self.hub.reach.lost_ns.get(&host);
            let is_away = lost_ns.is_some_and(|lost_ns| *lost_ns < wiped_ns);
            let is_uncharged = is_fresh || !is_known || is_dumb || is_unseen || is_away;
            assert!(is_uncharged, "target {task} is lost, and not made again");
            self.count("ends before a loss was noticed");
            return;
        }
        let expected = self.expected[task as usize];
        let is_whole = self.truth.is_anywhere(task, expected);
        assert!(is_whole, "target {task} is not there");
    }
}
