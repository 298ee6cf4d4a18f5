//! `montage`: the mosaic of the paper (Tanaka, Tatebe 2014, section 5) as a graph: 421 images, 2,707 tasks, 63.5 GB between them.
//!
//! What is known, what was measured and what had to be guessed stands in `docs/design/simulator.md`. `mBgModel` and the last `mAdd`, which
//! are serial, are left out as in the paper: the first is only a point that all wait for, the second is not there.

use crate::ids::{FileId, RuleId};
use crate::units::SECOND_NS;
use crate::workload::{Compute, TaskSpec, Workload};

const IMAGES: usize = 421;
/// Pairs of images that overlap.
const PAIRS: usize = 719;
/// Images side by side in the strip of sky.
const COLUMNS: usize = 4;
const RAW_BYTES: u64 = 2_520_000;
const PROJECTED_BYTES: u64 = 24_600_000;
const SHRUNKEN_BYTES: u64 = 250_000;
const DIFFERENCE_BYTES: u64 = 15_210_000;
const TABLE_BYTES: u64 = 50_000;
const PLANE_BYTES: u64 = 300;
/// Deviation of computing times, percent of the mean.
const DEVIATION_PERCENT: u64 = 5;

struct Montage {
    workload: Workload,
}

/// Everything that a task is given.
struct Step<'a> {
    rule: &'a str,
    compute_ms: u64,
    inputs: Vec<FileId>,
    outputs: Vec<u64>,
    after: Vec<u32>,
}

impl Montage {
    /// Adds a task; its number and outputs.
    fn step(&mut self, step: Step<'_>) -> (u32, Vec<FileId>) {
        let rule: RuleId = self.workload.rule(step.rule);
        let outputs: Vec<FileId> =
            step.outputs.iter().map(|bytes| self.workload.file(*bytes)).collect();
        let mean_ns = step.compute_ms * (SECOND_NS / 1_000);
        let deviation_ns = mean_ns / 100 * DEVIATION_PERCENT;
        let task = self.workload.task(TaskSpec {
            inputs: step.inputs,
            outputs: outputs.clone(),
            after: step.after,
            ..TaskSpec::new(rule, Compute::Spread { mean_ns, deviation_ns })
        });
        (task, outputs)
    }

    /// A task with one small output that looks at the heads of files only, so that it waits for their tasks but reads nothing.
    fn table(
        &mut self,
        rule: &str,
        compute_ms: u64,
        inputs: Vec<FileId>,
        after: Vec<u32>,
    ) -> (u32, FileId) {
        let outputs = vec![TABLE_BYTES];
        let (task, outputs) = self.step(Step { rule, compute_ms, inputs, outputs, after });
        (task, outputs[0])
    }
}

/// Pairs of neighbours in a strip `COLUMNS` wide, with a few left out evenly.
fn pairs() -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for image in 0..IMAGES {
        if image % COLUMNS + 1 < COLUMNS && image + 1 < IMAGES {
            all.push((image, image + 1));
        }
        if image + COLUMNS < IMAGES {
            all.push((image, image + COLUMNS));
        }
    }
    let (wanted, found) = (PAIRS, all.len());
    let keeps = |position: &usize| (position + 1) * wanted / found > position * wanted / found;
    (0..found).filter(keeps).map(|position| all[position]).collect()
}

/// The mosaic.
pub fn montage() -> Workload {
    let mut montage = Montage { workload: Workload::new("montage") };
    let raw: Vec<FileId> = (0..IMAGES).map(|_| montage.workload.file(RAW_BYTES)).collect();
    let (_, raw_table) = montage.table("mImgtbl", 1_000, Vec::new(), Vec::new());
    let (_, region) = montage.table("mMakeHdr", 100, vec![raw_table], Vec::new());
    let (_, overlaps) = montage.table("mOverlaps", 100, vec![raw_table], Vec::new());
    let mut projecting = Vec::new();
    let mut projected = Vec::new();
    for image in &raw {
        let (task, files) = montage.step(Step {
            rule: "mProjectPP",
            compute_ms: 754,
            inputs: vec![*image, region],
            outputs: vec![PROJECTED_BYTES; 2],
            after: Vec::new(),
        });
        projecting.push(task);
        projected.push(files);
    }
    let planes = differences(&mut montage, &projected, region, overlaps);
    let (_, table) = montage.table("mImgtbl", 1_000, Vec::new(), projecting);
    let (_, fits) = montage.table("mConcatFit", 100, planes, Vec::new());
    let (_, corrections) = montage.table("mBgModel", 0, vec![table, fits], Vec::new());
    let mut shrinking = Vec::new();
    for files in projected {
        let (_, corrected) = montage.step(Step {
            rule: "mBackground",
            compute_ms: 68,
            inputs: vec![files[0], files[1], corrections],
            outputs: vec![PROJECTED_BYTES; 2],
            after: Vec::new(),
        });
        let (task, _) = montage.step(Step {
            rule: "mShrink",
            compute_ms: 42,
            inputs: corrected,
            outputs: vec![SHRUNKEN_BYTES; 2],
            after: Vec::new(),
        });
        shrinking.push(task);
    }
    montage.table("mImgtbl", 1_000, Vec::new(), shrinking);
    montage.workload
}

/// The planes that are fitted to the differences of pairs.
fn differences(
    montage: &mut Montage,
    projected: &[Vec<FileId>],
    region: FileId,
    overlaps: FileId,
) -> Vec<FileId> {
    let mut planes = Vec::new();
    for (one, other) in pairs() {
        let mut inputs = projected[one].clone();
        inputs.extend(&projected[other]);
        inputs.extend([region, overlaps]);
        let (_, files) = montage.step(Step {
            rule: "mDiff",
            compute_ms: 200,
            inputs,
            outputs: vec![DIFFERENCE_BYTES; 2],
            after: Vec::new(),
        });
        let (_, plane) = montage.step(Step {
            rule: "mFitplane",
            compute_ms: 381,
            inputs: vec![files[0]],
            outputs: vec![PLANE_BYTES],
            after: Vec::new(),
        });
        planes.extend(plane);
    }
    planes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_papers_tasks_files_and_bytes() {
        let workload = montage();
        let left_out = workload.rules.iter().position(|rule| rule == "mBgModel").unwrap();
        let counted = workload.tasks.iter().filter(|task| task.rule.index() != left_out);
        assert_eq!(counted.count(), 2_707);
        let between: Vec<u64> = workload.files[IMAGES..].to_vec();
        assert_eq!(workload.files.len() - IMAGES, 4_690);
        let gigabytes = between.iter().sum::<u64>() / 100_000_000;
        assert_eq!(gigabytes, 635);
    }
}
