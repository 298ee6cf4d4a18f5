//! `copyfile`: every input is copied (task `A`), and the copy is copied (task `B`); section 5 of
//! the paper (Tanaka, Tatebe 2014).
//!
//! The tasks do nothing but read and write.

use crate::workload::{Compute, TaskSpec, Workload};

/// `files` inputs of `bytes` each. `overlapped`: a copy reads and writes at the same time.
pub fn copyfile(files: u32, bytes: u64, overlapped: bool) -> Workload {
    let mut workload = Workload::new("copyfile");
    let rules = [workload.rule("A"), workload.rule("B")];
    for _ in 0..files {
        let mut input = workload.file(bytes);
        for rule in rules {
            let output = workload.file(bytes);
            workload.task(TaskSpec {
                inputs: vec![input],
                outputs: vec![output],
                overlapped,
                ..TaskSpec::new(rule, Compute::Fixed(0))
            });
            input = output;
        }
    }
    workload
}
