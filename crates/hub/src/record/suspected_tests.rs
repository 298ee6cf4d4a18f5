//! What a record that does not tell all may do to targets: nothing that could harm a good one, and
//! nothing in silence; and folders that were copied or renamed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rakuda_core::{Now, Time};
use rakuda_proto::journal::RunOutcome;
use rakuda_record::marks::marks;

use super::tests::{World, break_journal, stamp_ns};
use super::*;

/// Two targets: `good` is finished, `half` is being made. Returns the journal when both are noted.
fn good_and_half(name: &str) -> (World, PathBuf) {
    let mut world = World::new(name, None, &["good", "half"]);
    world.begin(0);
    world.begin(1);
    world.record.flush().unwrap();
    world.write("good");
    world.write("half");
    world.end(0);
    world.record.flush().unwrap();
    let journal = world.journal();
    (world, journal)
}

fn is_unfinished(world: &World, name: &str) -> bool {
    World::record(&world.directory, None).is_unfinished(name.as_bytes())
}

fn is_suspected(world: &World, name: &str) -> bool {
    let file = crate::facts::identity_of(&world.directory.join(name)).unwrap();
    World::record(&world.directory, None).suspected_period(file.modified_ns).is_some()
}

#[test]
fn what_a_full_disk_kept_out_of_the_journal_is_neither_renamed_nor_taken_as_good() {
    let mut world = World::new("suspected-full", None, &["good", "half", "unknown"]);
    world.begin(0);
    world.begin(1);
    world.record.flush().unwrap();
    world.write("good");
    world.write("half");
    let good = break_journal(&mut world);
    world.end(0);
    world.record.flush().unwrap_err();
    world.record.disable(stamp_ns());
    world.begin(2);
    world.write("unknown");
    // Killed here.
    world.record.open = None;
    drop(good);
    let told = recover(&world.directory);
    assert!(told[0].contains("could not be written to its end"), "{told:?}");
    for name in ["good", "half", "unknown"] {
        assert!(world.has(name) && !world.has(&format!("{name}._fail_")), "{name}");
        assert!(is_unfinished(&world, name) != (name == "unknown"), "{name}");
    }
    assert!(is_suspected(&world, "unknown"));
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(recover(&world.directory), Vec::<String>::new(), "told once");
}

#[test]
fn a_journal_that_lost_its_end_does_not_have_good_targets_renamed() {
    let whole = { fs::read(good_and_half("suspected-size").1).unwrap() };
    for cut in (0..whole.len()).step_by(11) {
        let (mut world, journal) = good_and_half(&format!("suspected-cut-{cut}"));
        world.record.open = None;
        fs::write(&journal, &whole[..cut]).unwrap();
        let told = recover(&world.directory);
        assert!(told.first().is_some_and(|line| line.contains("is damaged")), "{cut}: {told:?}");
        assert!(world.has("good"), "{cut}: {told:?}");
        let half = is_unfinished(&world, "half") || is_suspected(&world, "half");
        assert!(world.has("half") && half, "{cut}: {told:?}");
    }
}

#[test]
fn lines_that_became_zeros_neither_harm_a_good_target_nor_hide_a_half_one() {
    let whole = { fs::read(good_and_half("suspected-length").1).unwrap() };
    for start in (0..whole.len()).step_by(17) {
        let (mut world, journal) = good_and_half(&format!("suspected-zeros-{start}"));
        world.record.open = None;
        let mut damaged = whole.clone();
        let end = whole.len().min(start + 100);
        damaged[start..end].fill(0);
        fs::write(&journal, damaged).unwrap();
        let told = recover(&world.directory);
        assert!(told[0].contains("is damaged"), "{start}: {told:?}");
        assert!(world.has("good"), "{start}: {told:?}");
        let half =
            !world.has("half") || is_unfinished(&world, "half") || is_suspected(&world, "half");
        assert!(half, "{start}: {told:?}");
    }
}

#[test]
fn a_mark_that_lost_its_content_is_looked_after_with_care() {
    let (mut world, _) = good_and_half("suspected-mark");
    world.record.open = None;
    let root = world.directory.join(".rakuda");
    fs::write(&marks(&root)[0].path, "").unwrap();
    let told = recover(&world.directory);
    assert!(world.has("good") && world.has("half") && is_unfinished(&world, "half"), "{told:?}");
    assert!(marks(&root).is_empty());
}

#[test]
fn a_mark_stays_when_what_is_unfinished_cannot_be_noted() {
    let mut world = World::new("suspected-stays", None, &["half"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("half");
    world.record.mark_unfinished(b"half");
    let list = world.directory.join(".rakuda/unfinished");
    fs::create_dir(&list).unwrap();
    world.record.flush().unwrap_err();
    world.record.disable(stamp_ns());
    world.record.finish(RunOutcome::Stopped, Now::default()).unwrap_err();
    world.record.open = None;
    fs::remove_dir(&list).unwrap();
    assert_eq!(marks(&world.directory.join(".rakuda")).len(), 1);
    let told = recover(&world.directory);
    assert!(world.has("half") && is_unfinished(&world, "half"), "{told:?}");
}

/// Renames the world's folder; returns the new one.
fn moved(world: &World) -> PathBuf {
    let to = world.directory.with_extension("moved");
    fs::rename(&world.directory, &to).unwrap();
    to
}

/// Copies it.
fn copied(world: &World) -> PathBuf {
    let to = world.directory.with_extension("copy");
    copy(&world.directory, &to);
    to
}

/// As `cp -a` does. No process is started for that: until it executes something it would hold the locks of all records
/// that tests beside this one have just closed, whose runs would seem to live.
fn copy(from: &Path, to: &Path) {
    let seen = fs::symlink_metadata(from).unwrap();
    if seen.is_symlink() {
        return symlink(fs::read_link(from).unwrap(), to).unwrap();
    }
    if seen.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
    File::open(to).unwrap().set_modified(seen.modified().unwrap()).unwrap();
}

#[test]
fn a_folder_that_was_renamed_after_its_run_was_cut_off_is_settled() {
    let (mut world, _) = good_and_half("suspected-renamed");
    world.record.open = None;
    let new = moved(&world);
    let told = recover(&new);
    let left = (new.join("good").exists(), new.join("half").exists());
    let renamed = new.join("half._fail_").exists();
    fs::remove_dir_all(&new).unwrap();
    assert_eq!((left, renamed, told.len()), ((true, false), true, 1), "{told:?}");
}

#[test]
fn a_copy_of_a_folder_is_settled_and_the_original_is_not_touched() {
    let (mut world, journal) = good_and_half("suspected-copied");
    world.record.open = None;
    let new = copied(&world);
    let before = fs::read(&journal).unwrap();
    let told = recover(&new);
    let settled = new.join("good").exists() && new.join("half._fail_").exists();
    let root_of_copy = new.join(".rakuda");
    let left = marks(&root_of_copy).len();
    fs::remove_dir_all(&new).unwrap();
    assert!(settled && left == 0, "{told:?}");
    assert_eq!(fs::read(&journal).unwrap(), before);
    assert!(world.has("half"));
    assert_eq!(recover(&world.directory).len(), 1, "the original is looked after, too");
    assert!(world.has("half._fail_") && world.has("good"));
}

#[test]
fn in_a_copy_an_old_target_is_as_it_was_and_what_is_outside_is_left_alone() {
    let outside = std::env::temp_dir().join(format!("rakuda-shared-{}", std::process::id()));
    let name = outside.to_str().unwrap();
    let mut world = World::new("suspected-outside", None, &["old", name]);
    world.write("old");
    world.begin(0);
    world.begin(1);
    world.record.flush().unwrap();
    fs::write(&outside, "half").unwrap();
    world.record.open = None;
    let new = copied(&world);
    let told = recover(&new);
    let old = new.join("old").exists();
    let counted = World::record(&new, None).is_unfinished(name.as_bytes());
    fs::remove_dir_all(&new).unwrap();
    let still_there = outside.exists();
    let of_original = recover(&world.directory);
    let put_away = Path::new(&format!("{name}._fail_")).exists();
    let _ = fs::remove_file(format!("{name}._fail_"));
    assert!(old && counted && still_there, "{told:?}");
    assert!(put_away && world.has("old"), "{of_original:?}");
}

#[test]
fn a_record_goes_on_where_its_folder_is_renamed_to() {
    let mut world = World::new("suspected-moves", None, &["a"]);
    world.begin(0);
    world.record.flush().unwrap();
    let new = moved(&world);
    world.record.mark_unfinished(b"a");
    world.end(0);
    world.record.flush().unwrap();
    world.record.finish(RunOutcome::Done, Time(1).into()).unwrap();
    let ended = marks(&new.join(".rakuda")).is_empty();
    let counted = World::record(&new, None).is_unfinished(b"a");
    fs::remove_dir_all(&new).unwrap();
    assert!(ended && counted && !world.directory.exists());
}

#[test]
fn a_pipe_among_the_marks_keeps_nobody_waiting() {
    let (mut world, _) = good_and_half("suspected-pipe");
    world.record.open = None;
    let running = world.directory.join(".rakuda/running");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    for name in ["pipe", ".pipe"] {
        let (folder, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(folder, running.join(name), kind, mode, 0).unwrap();
    }
    assert_eq!(recover(&world.directory).len(), 1);
    assert!(world.has("half._fail_"));
}

#[test]
fn a_socket_whose_mark_is_gone_is_removed_and_that_of_a_live_run_is_not() {
    let (mut world, _) = good_and_half("suspected-socket");
    let running = world.directory.join(".rakuda/running");
    let live = running.join(format!("{}.sock", world.record.run()));
    let stale = running.join("20260101-000000.000-1.sock");
    fs::write(&live, "").unwrap();
    fs::write(&stale, "").unwrap();
    assert_eq!(recover(&world.directory), Vec::<String>::new());
    assert!(live.exists() && !stale.exists());
    world.record.open = None;
    recover(&world.directory);
    assert!(!live.exists(), "it went with its mark");
}

#[test]
fn who_is_to_wait_for_another_that_looks_after_dead_runs_knows_it() {
    let (mut world, _) = good_and_half("suspected-turn");
    let path = world.directory.join(".rakuda/recovery.lock");
    let other = lock::wait_for(&path).unwrap();
    assert!(take_turn(&world.directory).is_some(), "nobody is to be waited for: nothing is left");
    world.record.open = None;
    assert!(take_turn(&world.directory).is_none());
    drop(other);
    let turn = take_turn(&world.directory).unwrap();
    assert!(take_turn(&world.directory).is_none(), "it is taken");
    assert_eq!(recover_in_turn(&world.directory, turn, stamp_ns()).len(), 1);
    assert!(world.has("half._fail_"));
}

/// What is suspected of a journal whose last line is lost, by files' times that are that far from the
/// one that the journal has then.
fn is_suspected_at(name: &str, ahead_ns: &[i64], from_then_ns: i64) -> bool {
    let (mut world, journal) = good_and_half(name);
    for ahead_ns in ahead_ns {
        let (time_ns, wall_ns) = (0, *ahead_ns);
        world.record.clock_stepped(ClockStepped { time_ns, wall_ns });
    }
    world.record.flush().unwrap();
    world.record.open = None;
    let then_ns = stamp_ns();
    let mut text = fs::read(&journal).unwrap();
    text.extend_from_slice(b"\0\0\0\n");
    fs::write(&journal, text).unwrap();
    recover(&world.directory);
    let file_ns = i128::from(then_ns) + i128::from(from_then_ns);
    World::record(&world.directory, None).suspected_period(file_ns).is_some()
}

#[test]
fn what_was_made_by_a_clock_that_was_set_back_is_suspected_too() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    assert!(!is_suspected_at("step-none", &[], -HOUR_NS), "before the run");
    assert!(is_suspected_at("step-back", &[-2 * HOUR_NS], -HOUR_NS));
    assert!(is_suspected_at("step-twice", &[-2 * HOUR_NS, 0], -HOUR_NS));
    assert!(!is_suspected_at("step-further", &[-2 * HOUR_NS], -3 * HOUR_NS));
    // Set ahead, and back again before the next run: those files seem to be of the future.
    assert!(!is_suspected_at("step-future", &[], HOUR_NS));
    assert!(is_suspected_at("step-ahead", &[2 * HOUR_NS, 0], HOUR_NS));
}
