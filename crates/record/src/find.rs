//! The task that someone names, in a run, and what was meant when there is none of that name.

use rakuda_proto::Text;

use crate::run::Run;

/// Maximum number of names that are suggested.
const NEAR_MAX: usize = 3;

/// The number of the task `name`. Of several (a definition that was completed later) the one that
/// was attempted, else the last.
pub fn find_task(run: &Run, name: &Text) -> Option<u32> {
    let named = run.tasks.iter().flatten().filter(|task| task.defined.name == *name);
    let best = named.max_by_key(|task| (!task.attempts.is_empty(), task.defined.task));
    best.map(|task| task.defined.task)
}

/// Names of tasks that `name` may have been meant to be: with the same last part, else those that
/// have it in theirs, else those that differ least, if that is little.
pub fn near_names(run: &Run, name: &Text) -> Vec<Text> {
    let tasks = || run.tasks.iter().flatten().map(|task| &task.defined.name);
    let base = last_part(&name.0);
    let alike = tasks().filter(|other| last_part(&other.0) == base || has_end(&name.0, &other.0));
    let alike: Vec<Text> = alike.take(NEAR_MAX).cloned().collect();
    if !alike.is_empty() {
        return alike;
    }
    let mut holding: Vec<&Text> = tasks().filter(|other| holds(&other.0, base)).collect();
    // `chr1.bam` before `chr10.bam`, and that before `all_chr1.bam`.
    holding.sort_by_key(|other| (!last_part(&other.0).starts_with(base), other.0.len(), *other));
    holding.dedup();
    if !holding.is_empty() {
        holding.truncate(NEAR_MAX);
        return holding.into_iter().cloned().collect();
    }
    let limit = (name.0.len() / 4).clamp(1, 8);
    // A name without a folder means the last part.
    let whole = name.0.contains(&b'/');
    let mut near: Vec<(usize, &Text)> = tasks()
        .filter_map(|other| {
            Some((
                distance(&name.0, if whole { &other.0 } else { last_part(&other.0) }, limit)?,
                other,
            ))
        })
        .collect();
    near.sort();
    near.truncate(NEAR_MAX);
    near.into_iter().map(|(_, name)| name.clone()).collect()
}

/// Whether the last part of a name has what was typed in it, which must be more than a letter.
fn holds(other: &[u8], typed: &[u8]) -> bool {
    typed.len() > 1 && last_part(other).windows(typed.len()).any(|part| part == typed)
}

/// A name that the user has shortened or lengthened by folders.
fn has_end(name: &[u8], other: &[u8]) -> bool {
    let below = |long: &[u8], short: &[u8]| {
        long.strip_suffix(short).is_some_and(|rest| rest.ends_with(b"/"))
    };
    below(name, other) || below(other, name)
}

fn last_part(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'/').next().unwrap_or(name)
}

/// Levenshtein's distance, when it is at most `limit`. One row of the table is kept.
fn distance(one: &[u8], other: &[u8], limit: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > limit {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, byte) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..other.len() {
            let replaced = diagonal + usize::from(other[column] != *byte);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
        if row.iter().min().is_some_and(|least| *least > limit) {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use rakuda_proto::journal::{JournalEvent, TaskDefined};

    use super::*;

    fn run(names: &[&str]) -> Run {
        let mut run = Run::default();
        for (task, name) in (0..).zip(names) {
            let defined = TaskDefined { task, name: (*name).into(), ..TaskDefined::default() };
            run.add(JournalEvent::TaskDefined(defined));
        }
        run
    }

    fn near(run: &Run, name: &str) -> Vec<String> {
        near_names(run, &name.into()).iter().map(Text::to_display).collect()
    }

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(distance(b"kitten", b"sitting", 5), Some(3));
        assert_eq!(distance(b"kitten", b"sitting", 2), None);
        assert_eq!(distance(b"", b"ab", 5), Some(2));
        assert_eq!(distance(b"same", b"same", 0), Some(0));
    }

    #[test]
    fn misspelt_and_shortened_names_are_recognised() {
        let run = run(&["out/a.fits", "out/b.fits", "mosaic.png"]);
        assert_eq!(find_task(&run, &"mosaic.png".into()), Some(2));
        assert_eq!(find_task(&run, &"mosiac.png".into()), None);
        assert_eq!(near(&run, "mosiac.png"), ["mosaic.png"]);
        assert_eq!(near(&run, "b.fit"), ["out/b.fits"]);
        assert_eq!(near(&run, "a.fits"), ["out/a.fits"]);
        assert_eq!(near(&run, "/data/out/b.fits"), ["out/b.fits"]);
        assert_eq!(near(&run, "nothing alike"), [""; 0]);
    }

    #[test]
    fn the_beginning_or_a_part_of_a_name_is_recognised() {
        let run = run(&["chr2.bam", "all_chr1.bam", "out/chr10.bam", "chr1.bam", "chr3"]);
        assert_eq!(near(&run, "chr1"), ["chr1.bam", "out/chr10.bam", "all_chr1.bam"]);
        assert_eq!(near(&run, "work/chr2"), ["chr2.bam"]);
        assert_eq!(near(&run, "x"), [""; 0]);
    }
}
