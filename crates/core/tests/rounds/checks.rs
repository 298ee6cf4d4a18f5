//! What must hold in the end.

use super::*;

impl World {
    pub(super) fn check(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            for (command, (_, process)) in &node.processes {
                assert_eq!(*process, Process::Over, "{command:?} is left on node {number}");
            }
        }
        if self.hub_dead {
            return;
        }
        assert_eq!((self.rounds.due(), self.rounds.is_closing()), (None, false));
        assert_eq!(self.commands, BTreeMap::new(), "not over for the hub");
        for round in self.placed.keys() {
            let result = self.results.get(round);
            self.check_result(
                *round,
                result.unwrap_or_else(|| panic!("round {round} does not end")),
            );
        }
        for series in &self.series {
            let has_nodes = self.nodes.iter().any(|node| !node.is_lost);
            assert!(series.left == 0 || series.is_abandoned || !has_nodes, "rounds are missing");
        }
    }

    pub(super) fn check_result(&self, round: u32, result: &RoundResult) {
        let (series, nodes) = &self.placed[&round];
        assert_eq!(result.workers.len(), self.series[*series].workers as usize);
        assert_ne!(result.fault.is_some(), result.t0.is_some(), "it begins, or says why not");
        let is_any = |set: &BTreeSet<usize>| nodes.iter().any(|node| set.contains(node));
        let starts = nodes.iter().zip(0..).map(|(_, worker)| Command { round, worker });
        let starts: Vec<Option<&u64>> = starts.map(|command| self.starts.get(&command)).collect();
        if result.fault.is_some() {
            assert_eq!((result.lag_ns, result.late), (None, 0));
            assert!(starts.iter().all(Option::is_none), "some began in a round that did not");
            return;
        }
        for (it, truth) in result.workers.iter().zip(&starts) {
            assert!(it.start_ns.is_none() || truth.is_some(), "it is said to have begun");
            if it.start_ns.is_some() {
                assert_eq!(
                    it.late.is_some(),
                    self.late.contains(&Command { round, worker: it.worker })
                );
            }
        }
        if !is_any(&self.disturbed) {
            assert!(result.lag_ns.is_some(), "nothing was amiss with the nodes of round {round}");
            assert_eq!(result.late, 0, "the margin was too short");
        }
        if let Some(lag_ns) = result.lag_ns.filter(|_| !is_any(&self.stepped)) {
            let times = || starts.iter().flatten().copied();
            let truth_ns = times().max().unwrap() - times().min().unwrap();
            let off_ns = lag_ns.abs_diff(truth_ns);
            // A start is moved by what its clock drifts between the instant and it: after a cut, seconds.
            let drift_ns = truth_ns / 1_000 + 20 * US;
            assert!(off_ns <= result.clock_bound_ns + drift_ns, "{lag_ns} {truth_ns} {result:?}");
        }
    }
}
