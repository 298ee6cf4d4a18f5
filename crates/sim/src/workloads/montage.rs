//! `montage`: the mosaic of the paper (Tanaka, Tatebe 2014, section 5.3) as a graph: 421 images,
//! 2,707 tasks, 4,720 images and 63.5 GB between them.
//!
//! Its steps are those of the Rakefile that the paper names (pwrake-demo, `montage/Rakefile`). What
//! is known, what was measured and what had to be guessed stands in `docs/design/simulator.md`.
//! `mBgModel`, the last `mAdd` and `mJPEG`, which are serial, are left out as in the paper: the
//! first is only a point that all wait for, the others are not there.

use crate::ids::{FileId, RuleId};
use crate::units::SECOND_NS;
use crate::workload::{Compute, TaskSpec, Workload};

const IMAGES: usize = 421;
/// Pairs of images that overlap.
const PAIRS: usize = 1_176;
/// Images side by side in the piece of sky; each column is shifted by half an image against the one before.
const COLUMNS: usize = 15;
/// Tiles of the mosaic side by side, and one above the other.
const TILES: (usize, usize) = (12, 19);
const RAW_BYTES: u64 = 2_520_000;
const PROJECTED_BYTES: u64 = 24_600_000;
const DIFFERENCE_BYTES: u64 = 1_460_000;
const TILE_BYTES: u64 = 40_700_000;
const SHRUNKEN_BYTES: u64 = 407_000;
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

    /// A task with one small output that looks at the heads of files only, so that it waits for
    /// their tasks but reads nothing.
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

/// Pairs of neighbours: the next in the column, and two in the next column; a few are left out evenly.
fn pairs() -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for image in 0..IMAGES {
        let (row, column) = (image / COLUMNS, image % COLUMNS);
        let mut pair = |row: usize, column: usize| {
            let other = row * COLUMNS + column;
            if column < COLUMNS && other < IMAGES {
                all.push((image.min(other), image.max(other)));
            }
        };
        pair(row, column + 1);
        pair(row + 1, column);
        if column % 2 == 1 {
            pair(row + 1, column + 1);
        } else if row > 0 {
            pair(row - 1, column + 1);
        }
    }
    all.sort_unstable();
    let (wanted, found) = (PAIRS, all.len());
    let keeps = |position: &usize| (position + 1) * wanted / found > position * wanted / found;
    (0..found).filter(keeps).map(|position| all[position]).collect()
}

/// The images that a tile has a part of, as if they lay in straight rows.
fn images_of(tile: usize) -> impl Iterator<Item = usize> {
    let span = |at: usize, tiles: usize, images: usize| {
        at * images / tiles..((at + 1) * images).div_ceil(tiles)
    };
    let columns = span(tile % TILES.0, TILES.0, COLUMNS);
    let rows = span(tile / TILES.0, TILES.1, IMAGES.div_ceil(COLUMNS));
    let images = rows.flat_map(move |row| columns.clone().map(move |at| row * COLUMNS + at));
    images.filter(|image| *image < IMAGES)
}

/// The mosaic.
pub fn montage() -> Workload {
    let mut montage = Montage { workload: Workload::new("montage") };
    let raw: Vec<FileId> = (0..IMAGES).map(|_| montage.workload.file(RAW_BYTES)).collect();
    let projected: Vec<Vec<FileId>> = raw.iter().map(|image| montage.project(*image)).collect();
    let planes = pairs().into_iter().map(|(one, other)| {
        let inputs = [projected[one].as_slice(), projected[other].as_slice()].concat();
        montage.difference(inputs)
    });
    let planes: Vec<FileId> = planes.collect();
    let (_, fits) = montage.table("fits.tbl", 100, planes, Vec::new());
    let (_, corrections) = montage.table("mBgModel", 0, vec![fits], Vec::new());
    let (_, loaded) = montage.table("load_corrections", 10, vec![corrections], Vec::new());
    let (mut correcting, mut corrected) = (Vec::new(), Vec::new());
    for files in projected {
        let (task, files) = montage.step(Step {
            rule: "mBackground",
            compute_ms: 68,
            inputs: vec![files[0], files[1], loaded],
            outputs: vec![PROJECTED_BYTES; 2],
            after: Vec::new(),
        });
        correcting.push(task);
        corrected.push(files);
    }
    let (_, table) = montage.table("cimages.tbl", 100, Vec::new(), correcting);
    let tiles = (0..TILES.0 * TILES.1).map(|tile| montage.tile(tile, &corrected, table));
    let shrinking: Vec<u32> = tiles.collect();
    montage.table("simages.tbl", 100, Vec::new(), shrinking);
    montage.workload
}

impl Montage {
    /// An image, and its weights, in the projection of the mosaic.
    fn project(&mut self, image: FileId) -> Vec<FileId> {
        let (_, files) = self.step(Step {
            rule: "mProjectPP",
            compute_ms: 754,
            inputs: vec![image],
            outputs: vec![PROJECTED_BYTES; 2],
            after: Vec::new(),
        });
        files
    }

    /// The plane that is fitted to the difference of two images: two programs in one task, as in the paper.
    fn difference(&mut self, inputs: Vec<FileId>) -> FileId {
        let (_, files) = self.step(Step {
            rule: "mDiff",
            compute_ms: 55,
            inputs,
            outputs: vec![DIFFERENCE_BYTES, DIFFERENCE_BYTES, PLANE_BYTES],
            after: Vec::new(),
        });
        files[2]
    }

    /// A tile of the mosaic, added up and shrunken; the last of its tasks.
    fn tile(&mut self, tile: usize, corrected: &[Vec<FileId>], table: FileId) -> u32 {
        let (_, covered) = self.table("mCoverageCheck", 10, vec![table], Vec::new());
        let mut inputs = vec![covered];
        inputs.extend(images_of(tile).flat_map(|image| corrected[image].iter().copied()));
        let (_, files) = self.step(Step {
            rule: "mAdd",
            compute_ms: 160,
            inputs,
            outputs: vec![TILE_BYTES; 2],
            after: Vec::new(),
        });
        let (task, _) = self.step(Step {
            rule: "mShrink",
            compute_ms: 35,
            inputs: vec![files[0]],
            outputs: vec![SHRUNKEN_BYTES],
            after: Vec::new(),
        });
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_papers_tasks_images_and_bytes() {
        let workload = montage();
        assert_eq!(workload.tasks.len(), 2_707);
        let between: Vec<u64> = workload.files[IMAGES..].to_vec();
        let images = between.iter().filter(|bytes| **bytes > TABLE_BYTES);
        assert_eq!(images.count(), 4_720);
        let gigabytes = between.iter().sum::<u64>() / 100_000_000;
        assert_eq!(gigabytes, 635);
    }

    #[test]
    fn every_tile_has_images_and_every_image_a_tile() {
        let tiles: Vec<Vec<usize>> =
            (0..TILES.0 * TILES.1).map(|tile| images_of(tile).collect()).collect();
        assert!(tiles.iter().all(|images| !images.is_empty()));
        let mut images = tiles.concat();
        images.sort_unstable();
        images.dedup();
        assert_eq!(images.len(), IMAGES);
    }

    #[test]
    fn there_are_as_many_pairs_as_wanted() {
        let pairs = pairs();
        assert_eq!(pairs.len(), PAIRS);
        assert!(pairs.windows(2).all(|two| two[0] < two[1]), "each once");
    }
}
