//! Leases: which of the begun actions may use the cores of a node.
//!
//! While actions are short, more of them are begun than the node has cores (*lookahead*), so that a
//! core never waits for Ruby to get to the next command, and Ruby handles many at once. Only those
//! with a lease have a process or a wait of their own; the commands of the others wait here, in
//! order, and a lease goes from hand to hand between commands. So no more than the cores allow ever
//! runs, and when actions are long, nothing is begun early and the policies see the queues as they
//! are.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::core_time::{CoreTime, Held};
use crate::ids::TaskId;
use crate::time::Now;

/// Maximum mean run time of actions, ns, at which the lookahead begins.
const SHORT_NS: u64 = 10_000_000;
/// Maximum mean run time of actions, ns, up to which the lookahead goes on.
const LONG_NS: u64 = 20_000_000;
/// Minimum number of ended actions before the lookahead begins.
const SAMPLES_MIN: u32 = 8;
/// Maximum number of actions begun early for each core of a node.
const AHEAD_PER_CORE: u32 = 8;
/// Maximum number of actions begun early on one node; on a far one twice its cores, if that is more.
const AHEAD_MAX: u32 = 64;
/// Minimum round trip of a far node, ns: from here on a core waits longer for a command over the line than a start
/// takes.
const FAR_NS: u64 = 1_000_000;
/// Maximum mean run time of actions on a far node, in round trips to it, at which commands begin to go there early.
const TRIPS_IN_RUN: u64 = 20;

/// The leases of one node.
#[derive(Debug)]
pub(super) struct Leases {
    cores: u32,
    /// Free cores. Below 0 only while a caller that took its cores back runs beside the tasks that had them meanwhile.
    cores_free: i64,
    /// Tasks with a lease, their cores, and since when, by the monotonic clock.
    held: BTreeMap<TaskId, (u32, u64)>,
    /// The time that each action had its cores.
    time: CoreTime,
    /// Actions that want a lease, with their cores, in the order in which they get it.
    waiting: VecDeque<(TaskId, u32)>,
    samples: u32,
    /// Moving average over about 8 leases.
    mean_ns: u64,
    ahead: u32,
    /// A task of this run needs more than one core.
    disabled: bool,
    /// A gang runs, or is ready to.
    held_back: bool,
    /// How many actions may be begun early, as the scheduler learnt last.
    told: u32,
    /// How long a message takes to the node and back, ns; 0: not known.
    trip_ns: u64,
    /// Commands at the node that have not begun, as far as is known.
    prepared: u32,
    /// Prepared commands that the hub has asked back, by task and attempt.
    withdrawing: BTreeSet<(TaskId, u32)>,
    /// Cores that the node has given, or is to give, to prepared commands that are not known to have begun. They are
    /// not free.
    owed: u32,
    /// How many of these cores the hub gave: the node may find no command for them, as all have begun on others.
    released: u32,
    /// Number of cores that became free, by the reports of the node.
    freed: u64,
}

impl Leases {
    pub fn new(cores: u32) -> Self {
        Self {
            cores,
            cores_free: i64::from(cores),
            held: BTreeMap::new(),
            time: CoreTime::new(cores),
            waiting: VecDeque::new(),
            samples: 0,
            mean_ns: 0,
            ahead: 0,
            disabled: false,
            held_back: false,
            told: 0,
            trip_ns: 0,
            prepared: 0,
            withdrawing: BTreeSet::new(),
            owed: 0,
            released: 0,
            freed: 0,
        }
    }

    /// Sets how long a message takes to the node and back.
    pub fn set_trip(&mut self, trip_ns: u64) {
        self.trip_ns = trip_ns;
    }

    pub fn trip_ns(&self) -> u64 {
        self.trip_ns
    }

    /// Begins an action; whether it has a lease at once.
    pub fn begin(&mut self, id: TaskId, cores: u32, now: Now) -> bool {
        // An action whose start was put off may have been meant to begin early, when that was still done.
        let leased = self.ahead == 0 && i64::from(cores) <= self.cores_free;
        if leased {
            self.hold(id, cores, now);
        }
        leased
    }

    fn hold(&mut self, id: TaskId, cores: u32, now: Now) {
        self.cores_free -= i64::from(cores);
        self.held.insert(id, (cores, now.time.0));
        self.time.take(id, cores, now.journal_ns());
    }

    /// Puts an action without a lease in line; `again`: it had one before, and goes first.
    pub fn want(&mut self, id: TaskId, cores: u32, again: bool) {
        if again {
            self.waiting.push_front((id, cores));
        } else {
            self.waiting.push_back((id, cores));
        }
    }

    /// Whether an action gets a lease now.
    pub fn may_grant(&self) -> bool {
        self.waiting.front().is_some_and(|(_, cores)| i64::from(*cores) <= self.cores_free)
    }

    /// Gives the next action in line its lease.
    pub fn grant(&mut self, now: Now) -> Option<TaskId> {
        let (id, cores) = self.may_grant().then(|| self.waiting.pop_front()).flatten()?;
        self.hold(id, cores, now);
        Some(id)
    }

    /// Passes the lease of an action on, whose last command has ended. When the action had its cores, if it gives them
    /// up.
    pub fn pass_on(&mut self, id: TaskId, now: Now) -> Option<Held> {
        let is_wanted = !self.waiting.is_empty() || self.prepared > self.owed;
        if is_wanted { self.release(id, true, now) } else { None }
    }

    /// Cores that pass from one command to a prepared one that is not known to have begun.
    pub fn owed(&self) -> u32 {
        self.owed
    }

    /// Whether commands go to this node before they may run.
    pub fn prepares(&self) -> bool {
        self.ahead > 0 && self.trip_ns >= FAR_NS
    }

    /// Whether the node is to give the core of a command that starts now to a prepared one. Not while callers that took
    /// their cores back use more than the node has: such a core is none to give.
    pub fn passes_cores(&self) -> bool {
        self.prepares() && self.cores_free >= 0
    }

    /// The action whose command goes to the node next, to begin there when a core is free. None goes after the hub has
    /// given a core that the node may find no command for: the new command would be taken to begin on it, and would
    /// not.
    pub fn next_to_prepare(&self) -> Option<TaskId> {
        let &(id, cores) = self.waiting.front()?;
        let has_room = self.prepared < self.ahead && self.cores_free <= 0 && self.released == 0;
        (self.prepares() && cores == 1 && has_room).then_some(id)
    }

    /// Notes that a command is sent; how many freed cores of the node are known.
    pub fn prepare(&mut self) -> u64 {
        self.waiting.pop_front();
        self.prepared += 1;
        self.freed
    }

    /// Whether a core is free for what is prepared.
    pub fn may_release(&self) -> bool {
        let withdrawing = u32::try_from(self.withdrawing.len()).unwrap_or(u32::MAX);
        self.prepared > self.owed.saturating_add(withdrawing) && self.cores_free > 0
    }

    /// Gives a free core to a prepared command: the shell sends this to the node.
    pub fn release_prepared(&mut self) {
        self.owed += 1;
        self.released += 1;
        self.cores_free -= 1;
    }

    /// Notes that the hub asks for a command back; whether this is the first time.
    pub fn withdraw(&mut self, id: TaskId, number: u32) -> bool {
        self.withdrawing.insert((id, number))
    }

    /// The node has given a command back. Cores in excess of the prepared commands went to none of them.
    pub fn withdrawn(&mut self, id: TaskId, number: u32) {
        self.prepared = self.prepared.saturating_sub(1);
        self.withdrawing.remove(&(id, number));
        if self.owed > self.prepared {
            self.has_given();
        }
    }

    /// Counts a core that the node was to give as given.
    fn has_given(&mut self) {
        self.owed -= 1;
        self.released = self.released.min(self.owed);
        self.cores_free += 1;
    }

    /// A command that was to free its core has ended well. The node has given the core to a prepared command, if there
    /// is one without a core; whether it did. And when the action of the ended command had the core, if it had.
    pub fn core_freed(&mut self, id: TaskId, now: Now) -> (bool, Option<Held>) {
        self.freed += 1;
        if self.prepared <= self.owed {
            return (false, None);
        }
        let held = self.release(id, true, now);
        self.owed += 1;
        self.cores_free -= 1;
        (true, held)
    }

    /// A prepared command has begun. `holds`: its action has the core from now on; else the action has ended, or has
    /// one.
    pub fn begun(&mut self, id: TaskId, number: u32, holds: bool, now: Now) {
        self.prepared = self.prepared.saturating_sub(1);
        self.withdrawing.remove(&(id, number));
        if self.owed > 0 {
            self.has_given();
        }
        if holds {
            self.waiting.retain(|(waiting, _)| *waiting != id);
            self.hold(id, 1, now);
        }
    }

    /// Ends an action, or lets it wait for an invocation (`sample` is false then). When it had the cores that it gives
    /// up.
    pub fn end(&mut self, id: TaskId, sample: bool, now: Now) -> Option<Held> {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.release(id, sample, now)
    }

    fn release(&mut self, id: TaskId, sample: bool, now: Now) -> Option<Held> {
        let (cores, since_ns) = self.held.remove(&id)?;
        self.cores_free += i64::from(cores);
        if sample {
            let took_ns = now.time.0.saturating_sub(since_ns);
            self.samples = self.samples.saturating_add(1);
            let weight = u64::from(self.samples.min(8));
            self.mean_ns = (self.mean_ns * (weight - 1) + took_ns) / weight;
        }
        self.time.give(id, now.journal_ns())
    }

    /// Ends an action that never had a lease; its code ran at this time. Returns the part in which a core was free,
    /// which counts as its run time: otherwise actions of Ruby code alone would take no time.
    pub fn claim(&mut self, ran: Held) -> Option<Held> {
        self.time.claim(ran)
    }

    /// Since when an action has had its cores, ns since 1970.
    pub fn held_since_ns(&self, id: TaskId) -> Option<i64> {
        self.time.held_since_ns(id)
    }

    /// The invocation that an action waited for is over: the action has its cores again, whatever runs.
    pub fn take_back(&mut self, id: TaskId, cores: u32, now: Now) {
        self.hold(id, cores, now);
    }

    /// Whether an action has a lease.
    pub fn holds(&self, id: TaskId) -> bool {
        self.held.contains_key(&id)
    }

    /// Whether enough commands wait for a core that messages to the front may be delayed.
    pub fn is_well_supplied(&self) -> bool {
        self.ahead > 0 && 2 * (self.waiting.len() + self.prepared as usize) >= self.ahead as usize
    }

    /// A task of this run needs more than one core of its own: nothing is begun early any more.
    pub fn disable(&mut self) {
        self.disabled = true;
    }

    /// Whether a gang runs, or is ready to: what it begins has its leases at once. The scheduler has then taken its own
    /// number back.
    pub fn hold_lookahead(&mut self, held: bool) {
        self.held_back = held;
        if held {
            (self.ahead, self.told) = (0, 0);
        }
    }

    /// How many actions may be begun beyond the cores; `None` if that has not changed.
    pub fn new_lookahead(&mut self) -> Option<u32> {
        let is_off = self.disabled || self.held_back || self.samples < SAMPLES_MIN;
        self.ahead = if is_off { 0 } else { self.short_ahead().max(self.far_ahead()) };
        if self.ahead == self.told {
            return None;
        }
        self.told = self.ahead;
        Some(self.ahead)
    }

    /// How many may be begun early because actions are short.
    fn short_ahead(&self) -> u32 {
        let short = if self.ahead == 0 { SHORT_NS } else { LONG_NS };
        let look = self.cores > 1 && self.mean_ns < short;
        if look { self.cores.saturating_mul(AHEAD_PER_CORE).min(AHEAD_MAX) } else { 0 }
    }

    /// How many may be begun early because the node is far: other actions must be there while the end of one command
    /// and the start of the next are under way.
    fn far_ahead(&self) -> u32 {
        let trips = if self.ahead == 0 { TRIPS_IN_RUN } else { 2 * TRIPS_IN_RUN };
        if self.trip_ns < FAR_NS || self.mean_ns >= self.trip_ns.saturating_mul(trips) {
            return 0;
        }
        // Until the hub prepares commands, an action holds its lease during the round trip, too.
        let trip_ns = if self.ahead == 0 { self.trip_ns } else { 0 };
        let run_ns = self.mean_ns.saturating_sub(trip_ns).max(1);
        let under_way = u32::try_from(self.trip_ns.div_ceil(run_ns)).unwrap_or(u32::MAX);
        let per_core = under_way.saturating_add(1).min(AHEAD_PER_CORE);
        self.cores.saturating_mul(per_core).min(AHEAD_MAX.max(2 * self.cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    fn at(ns: u64) -> Now {
        Time(ns).into()
    }

    fn after_samples(took_ns: u64) -> Leases {
        let mut leases = Leases::new(2);
        for number in 0..20 {
            assert!(leases.begin(TaskId(number), 1, at(0)));
            leases.end(TaskId(number), true, at(took_ns));
        }
        leases
    }

    #[test]
    fn only_short_actions_are_begun_early() {
        assert_eq!(after_samples(1_000_000).new_lookahead(), Some(16));
        assert_eq!(after_samples(15_000_000).new_lookahead(), None);
    }

    #[test]
    fn never_more_leases_than_cores_are_held() {
        let mut leases = after_samples(1_000_000);
        leases.new_lookahead();
        for number in 100..104 {
            assert!(!leases.begin(TaskId(number), 1, at(0)));
            leases.want(TaskId(number), 1, false);
        }
        assert_eq!(leases.grant(at(0)), Some(TaskId(100)));
        assert_eq!(leases.grant(at(0)), Some(TaskId(101)));
        assert_eq!(leases.grant(at(0)), None);
        leases.pass_on(TaskId(101), at(1));
        leases.want(TaskId(101), 1, true);
        assert_eq!(
            leases.grant(at(1)),
            Some(TaskId(101)),
            "its second command comes before others"
        );
        leases.end(TaskId(103), false, at(2));
        leases.end(TaskId(100), true, at(2));
        assert_eq!(leases.grant(at(2)), Some(TaskId(102)));
        leases.pass_on(TaskId(102), at(3));
        assert!(leases.holds(TaskId(102)), "nobody waits for it");
    }

    #[test]
    fn looking_ahead_ends_when_actions_become_long() {
        let mut leases = after_samples(1_000_000);
        assert_eq!(leases.new_lookahead(), Some(16));
        for number in 200..220 {
            leases.begin(TaskId(number), 1, at(0));
            leases.want(TaskId(number), 1, false);
            assert_eq!(leases.grant(at(0)), Some(TaskId(number)));
            leases.end(TaskId(number), true, at(100_000_000));
        }
        assert_eq!(leases.new_lookahead(), Some(0));
    }

    #[test]
    fn beside_a_gang_nothing_is_begun_early_and_after_it_as_before() {
        let mut leases = after_samples(1_000_000);
        assert_eq!(leases.new_lookahead(), Some(16));
        leases.hold_lookahead(true);
        assert!(leases.begin(TaskId(100), 2, at(0)), "its task has its cores at once");
        assert_eq!(leases.new_lookahead(), None);
        leases.end(TaskId(100), false, at(1));
        leases.hold_lookahead(false);
        assert_eq!(leases.new_lookahead(), Some(16));
    }

    #[test]
    fn with_one_core_nothing_is_begun_early() {
        let mut leases = Leases::new(1);
        for number in 0..20 {
            leases.begin(TaskId(number), 1, at(0));
            leases.end(TaskId(number), true, at(1));
        }
        assert_eq!(leases.new_lookahead(), None);
    }

    #[test]
    fn actions_of_exactly_the_bound_are_not_short() {
        assert_eq!(after_samples(SHORT_NS).new_lookahead(), None);
        assert_eq!(after_samples(SHORT_NS - 1).new_lookahead(), Some(16));
    }

    #[test]
    fn messages_may_be_delayed_while_half_of_what_is_begun_early_waits() {
        let mut leases = after_samples(1_000_000);
        assert!(!leases.is_well_supplied(), "nothing is begun early yet");
        leases.new_lookahead();
        for number in 0..8 {
            assert!(!leases.is_well_supplied(), "{number} of 16 wait");
            leases.want(TaskId(number), 1, false);
        }
        assert!(leases.is_well_supplied());
    }

    #[test]
    fn an_action_has_its_cores_since_it_was_begun() {
        let mut leases = Leases::new(1);
        let now = at(7_000);
        assert!(leases.begin(TaskId(1), 1, now));
        assert_eq!(leases.held_since_ns(TaskId(1)), Some(now.journal_ns()));
        assert_eq!(leases.held_since_ns(TaskId(2)), None);
    }

    /// A node of 2 cores with this round trip, and how many actions may be begun early there.
    fn behind_a_line(took_ns: u64, trip_ns: u64) -> (Leases, Option<u32>) {
        let mut leases = after_samples(took_ns);
        leases.set_trip(trip_ns);
        let ahead = leases.new_lookahead();
        (leases, ahead)
    }

    #[test]
    fn a_node_is_far_by_its_line_and_by_what_its_actions_take() {
        let ahead = |took_ns, trip_ns| behind_a_line(took_ns, trip_ns).1;
        let run_ns = 15_000_000;
        assert_eq!(ahead(run_ns, FAR_NS - 1), None, "the line is short");
        assert_eq!(ahead(run_ns, FAR_NS), Some(4), "one is on its way while one runs, on 2 cores");
        assert_eq!(
            ahead(TRIPS_IN_RUN * FAR_NS, FAR_NS),
            None,
            "actions take too long for that to matter"
        );
        assert_eq!(ahead(45_000_000, 40_000_000), Some(16), "8 of 5 ms are on their way in 40 ms");
    }

    #[test]
    fn a_large_far_node_gets_two_for_each_core_at_least() {
        let mut leases = Leases::new(100);
        for number in 0..20 {
            assert!(leases.begin(TaskId(number), 1, at(0)));
            leases.end(TaskId(number), true, at(45_000_000));
        }
        leases.set_trip(40_000_000);
        assert_eq!(leases.new_lookahead(), Some(200));
    }

    /// Two run, and two are prepared.
    fn with_two_prepared() -> Leases {
        let (mut leases, ahead) = behind_a_line(45_000_000, 20_000_000);
        assert_eq!(ahead, Some(4));
        assert!(leases.prepares());
        for number in 100..104 {
            assert!(!leases.begin(TaskId(number), 1, at(0)));
            leases.want(TaskId(number), 1, false);
        }
        assert_eq!(
            [leases.grant(at(0)), leases.grant(at(0))],
            [Some(TaskId(100)), Some(TaskId(101))]
        );
        for number in 102..104 {
            assert_eq!(leases.next_to_prepare(), Some(TaskId(number)));
            assert_eq!(leases.prepare(), 0, "no core was freed there");
        }
        assert_eq!(leases.next_to_prepare(), None);
        leases
    }

    #[test]
    fn a_core_that_goes_to_a_prepared_command_is_owed_until_that_has_begun() {
        let mut leases = with_two_prepared();
        assert_eq!(leases.owed(), 0);
        let (is_given, held) = leases.core_freed(TaskId(100), at(1_000));
        assert!(is_given && held.is_some());
        assert_eq!(leases.owed(), 1);
        assert!(!leases.holds(TaskId(100)) && !leases.may_release());
        leases.begun(TaskId(102), 1, true, at(2_000));
        assert_eq!(leases.owed(), 0);
        assert!(leases.holds(TaskId(102)));
        leases.want(TaskId(105), 1, false);
        assert_eq!(leases.grant(at(2_000)), None, "both cores are held");
        assert_eq!(leases.prepare(), 1, "of the core that was freed the node is told");
        assert!(
            leases.core_freed(TaskId(101), at(3_000)).0
                && leases.core_freed(TaskId(102), at(3_000)).0
        );
        assert_eq!(
            leases.core_freed(TaskId(103), at(4_000)),
            (false, None),
            "no more are prepared"
        );
    }

    #[test]
    fn a_free_core_is_released_to_what_is_prepared_and_not_asked_back() {
        let mut leases = with_two_prepared();
        assert!(!leases.may_release(), "no core is free");
        leases.end(TaskId(100), true, at(1_000));
        assert!(leases.may_release());
        assert!(leases.withdraw(TaskId(102), 1) && !leases.withdraw(TaskId(102), 1));
        assert!(leases.may_release(), "the other one is not asked back");
        leases.withdraw(TaskId(103), 1);
        assert!(!leases.may_release());
        leases.withdrawn(TaskId(103), 1);
        assert!(!leases.may_release(), "the node has one, which is asked back");
        leases.begun(TaskId(102), 1, true, at(2_000));
        assert!(leases.holds(TaskId(102)), "it had begun before it was asked back");
        leases.want(TaskId(105), 1, false);
        assert_eq!(leases.grant(at(2_000)), None, "its core was free, and is not any more");
    }

    #[test]
    fn what_is_released_is_owed() {
        let mut leases = with_two_prepared();
        leases.end(TaskId(100), true, at(1_000));
        leases.release_prepared();
        assert_eq!(leases.owed(), 1);
        assert!(!leases.may_release());
        leases.begun(TaskId(102), 1, false, at(2_000));
        assert_eq!(leases.owed(), 0);
        assert!(
            leases.may_release(),
            "it has ended already, and its core is free for the other one"
        );
    }
    #[test]
    fn a_lease_goes_to_what_is_prepared_and_has_no_core_yet() {
        let mut leases = with_two_prepared();
        assert!(leases.pass_on(TaskId(100), at(1_000)).is_some());
        leases.release_prepared();
        leases.begun(TaskId(102), 1, true, at(2_000));
        leases.begun(TaskId(103), 1, false, at(3_000));
        assert_eq!(leases.pass_on(TaskId(101), at(4_000)), None, "nothing is prepared any more");
    }

    #[test]
    fn nothing_goes_ahead_while_a_node_may_find_nothing_for_a_core() {
        let mut leases = with_two_prepared();
        leases.end(TaskId(100), true, at(1_000));
        leases.release_prepared();
        leases.want(TaskId(104), 1, false);
        assert_eq!(leases.next_to_prepare(), None);
        // Both have begun on cores that the node has freed itself.
        assert!(leases.core_freed(TaskId(101), at(2_000)).0);
        leases.begun(TaskId(102), 1, true, at(2_000));
        assert_eq!(leases.next_to_prepare(), None, "the other one may have no core");
        assert!(!leases.core_freed(TaskId(102), at(3_000)).0, "in place of the one it was told of");
        leases.begun(TaskId(103), 1, true, at(3_000));
        assert_eq!((leases.owed(), leases.next_to_prepare()), (0, Some(TaskId(104))));
    }

    #[test]
    fn a_core_that_a_withdrawn_command_was_to_have_is_free() {
        let mut leases = with_two_prepared();
        leases.end(TaskId(100), true, at(1_000));
        leases.withdraw(TaskId(102), 1);
        leases.release_prepared();
        // The node has withdrawn the one, and begun the other one before it knew of that core.
        assert!(leases.core_freed(TaskId(101), at(2_000)).0);
        leases.begun(TaskId(103), 1, true, at(2_000));
        leases.withdrawn(TaskId(102), 1);
        assert_eq!(leases.owed(), 0);
        leases.want(TaskId(105), 1, false);
        assert_eq!(leases.grant(at(2_000)), Some(TaskId(105)));
    }

    #[test]
    fn only_commands_of_one_core_go_ahead_and_no_more_than_are_begun_early() {
        let mut leases = with_two_prepared();
        for number in [104, 105] {
            leases.want(TaskId(number), 1, false);
            assert_eq!(leases.next_to_prepare(), Some(TaskId(number)));
            leases.prepare();
        }
        leases.want(TaskId(106), 1, false);
        assert_eq!(leases.next_to_prepare(), None, "four are begun early");
        leases.begun(TaskId(102), 1, true, at(1_000));
        assert_eq!(leases.next_to_prepare(), Some(TaskId(106)));
        leases.want(TaskId(107), 2, true);
        assert_eq!(leases.next_to_prepare(), None, "the first in line wants two cores");
    }

    #[test]
    fn no_command_goes_ahead_where_a_core_is_free_or_near() {
        let (mut leases, _) = behind_a_line(45_000_000, 20_000_000);
        leases.want(TaskId(100), 1, false);
        assert_eq!(leases.next_to_prepare(), None, "it can have a core at once");
        let (mut leases, ahead) = behind_a_line(1_000_000, FAR_NS - 1);
        assert_eq!(ahead, Some(16));
        for number in 100..103 {
            leases.want(TaskId(number), 1, false);
        }
        assert!(leases.grant(at(0)).is_some() && leases.grant(at(0)).is_some());
        assert_eq!((leases.prepares(), leases.next_to_prepare()), (false, None));
        let (leases, ahead) = behind_a_line(TRIPS_IN_RUN * FAR_NS, FAR_NS);
        assert_eq!((leases.prepares(), ahead), (false, None), "nothing is begun early there");
    }

    #[test]
    fn what_is_prepared_counts_as_supply() {
        assert!(with_two_prepared().is_well_supplied());
    }

    #[test]
    fn nothing_is_begun_early_before_enough_actions_were_seen() {
        let mut leases = Leases::new(2);
        for number in 0..SAMPLES_MIN {
            assert_eq!(leases.new_lookahead(), None, "after {number}");
            assert!(leases.begin(TaskId(number), 1, at(0)));
            leases.end(TaskId(number), true, at(1));
        }
        assert_eq!(leases.new_lookahead(), Some(16));
    }

    /// Actions that begin early, each with this run time.
    fn run_early(leases: &mut Leases, took_ns: u64) {
        for number in 200..240 {
            assert!(!leases.begin(TaskId(number), 1, at(0)));
            leases.want(TaskId(number), 1, false);
            assert_eq!(leases.grant(at(0)), Some(TaskId(number)));
            leases.end(TaskId(number), true, at(took_ns));
        }
    }

    #[test]
    fn looking_ahead_goes_on_while_actions_are_not_much_longer() {
        let mut near = after_samples(SHORT_NS - 1);
        assert_eq!(near.new_lookahead(), Some(16));
        run_early(&mut near, LONG_NS - 1_000_000);
        assert_eq!(near.new_lookahead(), None);
        run_early(&mut near, LONG_NS + 1_000_000);
        assert_eq!(near.new_lookahead(), Some(0));
        let (mut far, ahead) = behind_a_line((TRIPS_IN_RUN - 5) * FAR_NS, FAR_NS);
        assert_eq!(ahead, Some(4));
        run_early(&mut far, (2 * TRIPS_IN_RUN - 5) * FAR_NS);
        assert_eq!(far.new_lookahead(), None);
        run_early(&mut far, (2 * TRIPS_IN_RUN + 5) * FAR_NS);
        assert_eq!(far.new_lookahead(), Some(0));
    }
}
