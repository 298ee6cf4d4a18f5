//! What the leader of a host group knows of its agents, and reports to the hub for all of them: how their nodes are,
//! and which of them are silent. Pure: times come in, reports go out; it knows no connection.
//!
//! Newest wins, as on each agent's own link: an agent has one state waiting here or on its way to the hub, and makes
//! the next when the hub has dealt with that. So what waits is bounded by the number of agents.

use std::collections::{BTreeMap, VecDeque};

use rakuda_proto::Text;
use rakuda_proto::cluster::{GroupState, MemberSilence, MemberState};

use crate::session::Nanoseconds;

/// Bytes with which a report is closed. The rest waits for the next one.
const REPORT_BYTES: usize = 4 << 20;

/// An agent has reported the state of its node before the hub has dealt with the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent told how its node is twice, and the hub has not dealt with the first")]
pub struct ToldTwice;

/// The agents of a host group, and the states that wait for the hub.
#[derive(Debug, Default)]
pub struct Group {
    members: BTreeMap<u32, Member>,
    /// Those with a state that waits, the longest first; some may have gone.
    waiting: VecDeque<u32>,
    /// Those of the report that is on its way; some may have gone.
    on_their_way: Vec<u32>,
}

#[derive(Debug)]
struct Member {
    /// When anything of it was last heard.
    heard_ns: Nanoseconds,
    state: Slot,
}

#[derive(Debug)]
enum Slot {
    Empty,
    /// What has come, and when. The member is in `waiting`.
    Waiting(Vec<u8>, Nanoseconds),
    /// The member is in `on_their_way`.
    OnItsWay,
}

impl Group {
    /// Adds an agent, by the number that the hub has given it. A number is never used again, not even that of an agent
    /// that has gone.
    pub fn add(&mut self, member: u32, now: Nanoseconds) {
        self.members.insert(member, Member { heard_ns: now, state: Slot::Empty });
    }

    /// Removes one that is gone, with its states.
    pub fn remove(&mut self, member: u32) {
        self.members.remove(&member);
    }

    /// Something has come from it.
    pub fn hear(&mut self, member: u32, now: Nanoseconds) {
        if let Some(member) = self.members.get_mut(&member) {
            member.heard_ns = now;
        }
    }

    /// It tells how its node is.
    pub fn tell(&mut self, member: u32, delta: Vec<u8>, now: Nanoseconds) -> Result<(), ToldTwice> {
        let Some(there) = self.members.get_mut(&member) else { return Ok(()) };
        if !matches!(there.state, Slot::Empty) {
            return Err(ToldTwice);
        }
        there.state = Slot::Waiting(delta, now);
        self.waiting.push_back(member);
        Ok(())
    }

    /// The next report of what agents have said, when the one before was dealt with. `None`: they have said nothing
    /// new.
    pub fn take(&mut self, now: Nanoseconds) -> Option<Vec<u8>> {
        let (mut states, mut bytes) = (Vec::new(), 0);
        while bytes < REPORT_BYTES
            && let Some(member) = self.waiting.pop_front()
        {
            let Some(there) = self.members.get_mut(&member) else { continue };
            if let Slot::Waiting(delta, since) = std::mem::replace(&mut there.state, Slot::OnItsWay)
            {
                bytes += delta.len();
                let held_ns = now.saturating_sub(since);
                states.push(MemberState { member, held_ns, delta: Text(delta) });
                self.on_their_way.push(member);
            }
        }
        let report = GroupState { states };
        (!report.states.is_empty())
            .then(|| rmp_serde::to_vec(&report).expect("plain data into memory always encodes"))
    }

    /// The hub has dealt with the report: those agents that may tell something new.
    pub fn settle(&mut self) -> Vec<u32> {
        let mut settled = std::mem::take(&mut self.on_their_way);
        settled.retain(|member| match self.members.get_mut(member) {
            Some(there) => {
                there.state = Slot::Empty;
                true
            }
            None => false,
        });
        settled
    }

    /// Whether an agent has said something that is in no report yet.
    pub fn has_news(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Those of which nothing was heard for longer than `bearable_ns`.
    pub fn silent(&self, now: Nanoseconds, bearable_ns: Nanoseconds) -> Vec<MemberSilence> {
        let silent = self.members.iter().map(|(member, there)| MemberSilence {
            member: *member,
            silent_ns: now.saturating_sub(there.heard_ns),
        });
        silent.filter(|silence| silence.silent_ns > bearable_ns).collect()
    }
}

/// What a report says. `Err`: the bytes are no report.
pub fn read_report(report: &[u8]) -> Result<GroupState, rmp_serde::decode::Error> {
    rmp_serde::from_slice(report)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
