//! What must hold of attempts, whatever happens: cores, the order of the line, and that nothing is left.

use std::collections::BTreeSet;

use rakuda_core::{InvocationId, NodeId, TaskId, Time};

use super::attempts::state::{HubAttempts, Running};
use super::chaos::Chaos;

impl Chaos {
    /// Hands free cores to those that stand in line, after whatever has happened.
    pub(crate) fn settle_leases(&mut self) {
        while self.hub.is_up() && !self.ended {
            let mut effects = Vec::new();
            let again = self.hub.run.grant(Time(self.now).into(), |_, _| true, &mut effects);
            for effect in effects {
                self.perform(effect);
            }
            if !again {
                self.check_leases();
            }
            self.perform_outputs();
            if !again {
                return;
            }
        }
    }

    /// No more cores are leased than there are, and none while one stands in line before.
    fn check_leases(&mut self) {
        let nodes = self.scenario.cores.len();
        let (mut used, mut taken_back) = (vec![0; nodes], vec![0; nodes]);
        let (mut granted, mut first) = (vec![i64::MIN; nodes], vec![(i64::MAX, 0); nodes]);
        let (mut stand, mut passed_on) = (Vec::new(), Vec::new());
        for (id, one) in self.hub.run.attempts().all() {
            let node = one.node().0 as usize;
            if one.holds_lease() && one.details.resumed {
                taken_back[node] += one.cores();
            } else if self.hub.run.attempts().has_cores(id) {
                used[node] += one.cores();
            }
            if !one.holds_lease() && one.details.resumed {
                passed_on.push(id);
            }
            match one.details.in_line.filter(|_| one.is_acting()) {
                Some(place) if one.holds_lease() => {
                    granted[node] = granted[node].max(place);
                    stand.push(id);
                }
                Some(place) => first[node] = first[node].min((place, one.cores())),
                None => {}
            }
        }
        for node in 0..nodes {
            let cores = self.scenario.cores[node];
            let passed = self.hub.run.attempts().passed_on(NodeId(node as u32));
            assert!(
                used[node] + passed <= cores,
                "{} of {cores} cores of node {node} are leased",
                used[node]
            );
            assert!(
                granted[node] < first[node].0,
                "one that came later has a lease on node {node}"
            );
            let (place, wants) = first[node];
            let passed = self.hub.run.attempts().passed_on(NodeId(node as u32));
            let all_used = used[node] + taken_back[node] + passed;
            let fits = place < i64::MAX && all_used + wants <= cores;
            assert!(!fits, "a core of node {node} is free, and one stands in line");
        }
        for id in passed_on {
            self.shadow(id).resumed = false;
        }
        for id in stand {
            let shadow = self.shadow(id);
            shadow.in_line = None;
            shadow.had_lease = true;
        }
    }

    /// The hub stops: each command that was asked for and has not been started waits at a gate.
    pub(crate) fn stop_attempts(&mut self) {
        let attempts = self.hub.run.take_all(Time(self.now).into());
        let gated = attempts.values().flat_map(|attempt| attempt.gated().iter().copied());
        let gated: BTreeSet<u32> = gated.collect();
        let wanted: BTreeSet<u32> = self.hub.attempts.wanted.keys().copied().collect();
        assert_eq!(gated, wanted, "commands were lost");
        self.hub.attempts.wanted.clear();
    }

    fn is_of_workflow(&self, id: TaskId) -> bool {
        let task = self.hub.run.scheduler().task(id);
        task.is_some_and(|task| task.invocation == Some(InvocationId(0)))
    }

    /// The workflow has ended because the run is to end: of its tasks no command runs. What an action had invoked that
    /// has failed may run until the shutdown, which comes then.
    pub(crate) fn check_no_commands_left(&self) {
        let is_left = |(_, one): &(&u32, &Running)| {
            !self.scenario.calls || self.is_of_workflow(TaskId(one.task))
        };
        let left: Vec<_> = self.hub.attempts.commands.iter().filter(is_left).collect();
        assert!(left.is_empty(), "commands are left: {left:?}");
    }

    /// The workflow has ended. What an action had invoked whose node was lost since, or that has failed, may go on: no
    /// invocation waits for another one's tasks.
    pub(crate) fn check_none_left(&mut self) {
        let HubAttempts { wanted, .. } = &self.hub.attempts;
        let core = self.hub.run.attempts();
        let others = core.all().filter(|(id, _)| !self.is_of_workflow(*id)).count();
        if self.scenario.calls && others > 0 {
            assert_eq!(core.all().count(), others, "attempts of the workflow are left: {core:?}");
            return;
        }
        assert!(!core.is_any_unwinding(), "actions are being unwound");
        assert_eq!(core.all().count(), 0, "attempts are left: {core:?}");
        assert!(wanted.is_empty(), "commands are neither started nor refused: {wanted:?}");
        self.check_front();
    }
}
