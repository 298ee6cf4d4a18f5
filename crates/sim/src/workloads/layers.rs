//! `layers`: as many tasks as are asked for, in a few layers, each reading what two tasks of the
//! layer before wrote. For measuring the simulator and the scheduler themselves.
//!
//! Like nothing real: times and sizes are drawn within a factor of three.

use crate::ids::FileId;
use crate::random::{Purpose, Random};
use crate::units::SECOND_NS;
use crate::workload::{Compute, TaskSpec, Workload};

const LAYERS: usize = 4;

/// `tasks` tasks.
pub fn layers(tasks: usize, seed: u64) -> Workload {
    let mut workload = Workload::new("layers");
    let mut random = Random::new(seed, Purpose::Workload);
    let width = tasks.div_ceil(LAYERS).max(1);
    let mut bytes = move || 500_000 + random.below(1_000_000);
    let mut before: Vec<FileId> = (0..width).map(|_| workload.file(bytes())).collect();
    let mut left = tasks;
    for layer in 0..LAYERS {
        let rule = workload.rule(["first", "second", "third", "fourth"][layer]);
        let width = width.min(left);
        left -= width;
        let compute = Compute::Spread { mean_ns: 10 * SECOND_NS, deviation_ns: 3 * SECOND_NS };
        let mut made = Vec::with_capacity(width);
        for position in 0..width {
            let output = workload.file(bytes());
            let inputs = vec![before[position], before[(position + 1) % before.len()]];
            workload.task(TaskSpec {
                inputs,
                outputs: vec![output],
                ..TaskSpec::new(rule, compute.clone())
            });
            made.push(output);
        }
        before = made;
    }
    workload
}
