use super::*;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use rakuda_core::{Config, Event, Now, Requirement, RequirementId, TaskKind as CoreKind, Time};

use rakuda_proto::journal::{InputBytes, RunOutcome};
use rakuda_record::history::RunSummary;

use crate::facts::identity_of;

/// What the file system stamps files with now, ns since 1970: what is suspected of files goes by that.
pub(super) fn stamp_ns() -> i64 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("rakuda-stamp-{}-{number}", std::process::id()));
    fs::write(&path, b"").unwrap();
    let stamp = fs::metadata(&path).unwrap();
    fs::remove_file(&path).unwrap();
    stamp.mtime() * 1_000_000_000 + stamp.mtime_nsec()
}

/// A folder with a record, and the tasks that are noted in it.
pub(super) struct World {
    pub directory: PathBuf,
    pub record: Record,
    scheduler: Scheduler,
    names: Names,
}

impl World {
    /// File tasks of these names.
    pub fn new(name: &str, log_dir: Option<&str>, tasks: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut world = Self {
            record: Self::record(&directory, log_dir),
            directory,
            scheduler: Scheduler::new(Config::default()),
            names: Names::default(),
        };
        let mut out = Vec::new();
        let requirement = Requirement::default();
        let id = RequirementId(0);
        let defined = Event::RequirementDefined { id, requirement };
        world.scheduler.handle(Time(0), defined, &mut out);
        for (number, name) in (0..).zip(tasks) {
            world.names.push(name.as_bytes(), true);
            world.record.add_task(0, 0);
            let defined = Event::TaskDefined {
                id: TaskId(number),
                kind: CoreKind::File,
                has_action: true,
                deferred: false,
                requirement: RequirementId(0),
                prerequisites: &[],
            };
            world.scheduler.handle(Time(0), defined, &mut out);
        }
        world
    }

    pub fn record(directory: &Path, log_dir: Option<&str>) -> Record {
        Record::new(RecordConfig {
            directory: directory.to_path_buf(),
            log_dir: log_dir.map(PathBuf::from),
            enabled: true,
            keeps_output: true,
            limits: Limits { runs: 100, bytes: 1 << 30 },
            started: RunStarted {
                time_ns: stamp_ns(),
                failed_target: "rename".into(),
                ..RunStarted::default()
            },
        })
    }

    pub fn begin(&mut self, task: u32) {
        let path =
            self.directory.join(String::from_utf8_lossy(self.names.name(TaskId(task))).as_ref());
        let start = AttemptStart {
            time_ns: 0,
            task,
            attempt: 1,
            node: 0,
            cores: 1,
            elsewhere: &[],
            memory_bytes: None,
            early: false,
            before: identity_of(&path),
            target: None,
        };
        self.record.attempt_started(&self.scheduler, &self.names, &start, &[]);
    }

    pub fn end(&mut self, task: u32) {
        let end = AttemptEnd {
            time_ns: 0,
            task,
            outcome: Outcome::Done,
            message: b"",
            retried: false,
            after: None,
            target: None,
            secondary: &[],
            contents: &[],
            inputs: InputBytes::default(),
            held: &[],
        };
        self.record.attempt_ended(&self.names, &end, 1);
    }

    pub fn write(&self, name: &str) {
        fs::write(self.directory.join(name), name).unwrap();
    }

    pub fn has(&self, name: &str) -> bool {
        self.directory.join(name).exists()
    }

    pub fn journal(&self) -> PathBuf {
        self.record.open.as_ref().unwrap().folder.join("journal.jsonl")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn the_target_of_an_attempt_that_was_cut_off_is_renamed_by_the_next_hub() {
    let mut world = World::new("record", None, &["done", "half", "untouched"]);
    world.write("untouched");
    for task in 0..3 {
        world.begin(task);
    }
    world.write("done");
    world.write("half");
    world.end(0);
    world.record.flush().unwrap();
    assert_eq!(recover(&world.directory), Vec::<String>::new(), "its owner lives");
    let journal = world.journal();
    world.record.open = None;
    let lines = recover(&world.directory);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(world.has("done") && world.has("untouched") && world.has("half._fail_"));
    assert!(!world.has("half"));
    assert_eq!(recover(&world.directory), Vec::<String>::new(), "settled once");
    let left = rakuda_record::Unfinished::read(File::open(journal).unwrap(), None).unwrap();
    assert_eq!(left.ended.unwrap().how, RunOutcome::Recovered);
}

#[test]
fn a_torn_last_line_is_ended_before_the_journal_is_closed() {
    let mut world = World::new("torn", None, &["a", "b"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("a");
    let journal = world.journal();
    // As much of the next line as was written when the machine was out of memory, say.
    let mut file = fs::OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(b"{\"event\":\"attempt_sta").unwrap();
    world.record.open = None;
    assert_eq!(recover(&world.directory).len(), 1, "of the next nobody had been told");
    assert!(world.has("a._fail_"));
    let text = fs::read_to_string(&journal).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("{\"event\":\"run_ended\""), "{last}");
    assert!(text.ends_with('\n'));
}

#[test]
fn a_run_that_executes_nothing_writes_nothing() {
    let mut world = World::new("nothing", None, &["a"]);
    world.record.invocation_started(InvocationId(0), 0, &[TaskId(0)], None);
    world.record.invocation_ended(InvocationId(0), 0, 0, 0);
    world.record.stop_requested(0, "interrupt");
    world.record.flush().unwrap();
    world.record.finish(RunOutcome::Done, Now::default()).unwrap();
    assert!(!world.has(".rakuda"));
}

#[test]
fn a_folder_of_the_users_choice_is_linked_and_nothing_in_it_is_lost() {
    let mut world = World::new("chosen", Some("logs"), &["a"]);
    for round in 0..2 {
        world.begin(0);
        world.end(0);
        world.record.flush().unwrap();
        let folder = world.record.open.as_ref().unwrap().folder.clone();
        let run = world.record.run().to_owned();
        let expected = if round == 0 { "logs".into() } else { format!("logs/{run}") };
        assert_eq!(folder, world.directory.join(expected));
        let link = world.directory.join(".rakuda/runs").join(run);
        let relative = Path::new("../..").join(folder.strip_prefix(&world.directory).unwrap());
        assert_eq!(fs::read_link(&link).unwrap(), relative);
        assert_eq!(link.canonicalize().unwrap(), folder.canonicalize().unwrap());
        world.record.finish(RunOutcome::Done, Time(1).into()).unwrap();
        assert!(RunSummary::read(&folder).is_some());
        world.record = World::record(&world.directory, Some("logs"));
        world.record.started.run += "-next";
        world.record.add_task(0, 0);
    }
}

/// Lets writes to the journal fail; returns what they went to.
pub(super) fn break_journal(world: &mut World) -> File {
    let read_only = File::open(world.journal()).unwrap();
    std::mem::replace(&mut world.record.open.as_mut().unwrap().journal, read_only)
}

#[test]
fn a_write_that_fails_leaves_whole_lines() {
    let mut world = World::new("full", None, &["a"]);
    world.begin(0);
    world.record.flush().unwrap();
    let journal = world.journal();
    fs::OpenOptions::new().append(true).open(&journal).unwrap().write_all(b"{\"event\":").unwrap();
    world.record.disable(stamp_ns());
    let text = fs::read_to_string(&journal).unwrap();
    assert!(text.ends_with("}\n"), "{text}");
}

#[test]
fn what_could_not_be_written_for_a_while_is_written_when_the_run_ends() {
    let mut world = World::new("full-once", None, &["a", "b", "c"]);
    world.begin(0);
    world.begin(1);
    world.record.flush().unwrap();
    let journal = world.journal();
    let good = break_journal(&mut world);
    world.end(0);
    world.record.flush().unwrap_err();
    world.record.disable(stamp_ns());
    world.end(1);
    world.begin(2);
    world.end(2);
    world.record.mark_unfinished(b"c");
    world.record.flush().unwrap();
    world.record.open.as_mut().unwrap().journal = good;
    world.record.finish(RunOutcome::Done, Now::default()).unwrap();
    let left = rakuda_record::Unfinished::read(File::open(journal).unwrap(), None).unwrap();
    assert_eq!((left.attempts, left.ended.unwrap().how), (vec![], RunOutcome::Done));
    assert!(World::record(&world.directory, None).is_unfinished(b"c"));
    assert!(rakuda_record::marks::marks(&world.directory.join(".rakuda")).is_empty());
}

#[test]
fn a_run_whose_journal_could_not_be_ended_leaves_nothing_to_be_settled() {
    let mut world = World::new("full-for-ever", None, &["a"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("a");
    let good = break_journal(&mut world);
    world.end(0);
    world.record.flush().unwrap_err();
    world.record.disable(stamp_ns());
    world.record.finish(RunOutcome::Done, Now::default()).unwrap();
    world.record.open = None;
    drop(good);
    assert_eq!(recover(&world.directory), Vec::<String>::new());
    assert!(world.has("a"), "it was finished, though nothing tells it");
    assert!(rakuda_record::marks::marks(&world.directory.join(".rakuda")).is_empty());
}

#[test]
fn a_run_that_is_looked_at_while_it_is_dead_is_looked_after() {
    use rustix::fs::{FlockOperation, flock};
    let mut world = World::new("looked-at", None, &["half"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("half");
    world.record.open = None;
    let marks = rakuda_record::marks::marks(&world.directory.join(".rakuda"));
    let looking = File::open(&marks[0].path).unwrap();
    flock(&looking, FlockOperation::LockShared).unwrap();
    assert_eq!(recover(&world.directory).len(), 1);
    assert!(world.has("half._fail_"));
}

#[test]
fn a_run_that_starts_waits_for_one_that_looks_after_a_dead_one() {
    let mut world = World::new("waits", None, &["half"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("half");
    world.record.open = None;
    let root = world.directory.join(".rakuda");
    let path = root.join("recovery.lock");
    let other = lock::wait_for(&path).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
    let directory = world.directory.clone();
    let second = std::thread::spawn(move || recover(&directory));
    let waits = |line: &str| line.contains("->") && line.contains(&format!(":{inode} "));
    while !fs::read_to_string("/proc/locks").unwrap().lines().any(waits) {
        assert!(!second.is_finished(), "it went on");
        std::thread::yield_now();
    }
    // The first settles it and removes the mark.
    fs::rename(world.directory.join("half"), world.directory.join("half._fail_")).unwrap();
    fs::remove_file(&rakuda_record::marks::marks(&root)[0].path).unwrap();
    drop(other);
    assert_eq!(second.join().unwrap(), Vec::<String>::new());
}

#[test]
fn a_run_that_could_not_be_looked_after_is_kept_for_the_next() {
    let mut world = World::new("kept", None, &["half"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("half");
    let journal = world.journal();
    world.record.open = None;
    let good = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, good.replace("\"version\":2", "\"version\":99")).unwrap();
    let told = recover(&world.directory);
    assert!(told[0].contains("version 99") && told[0].contains("remove "), "{told:?}");
    assert!(world.has("half"));
    fs::write(&journal, good).unwrap();
    assert_eq!(recover(&world.directory).len(), 1);
    assert!(world.has("half._fail_"));
}

#[test]
fn a_journal_that_is_gone_is_told() {
    let mut world = World::new("gone", None, &["half"]);
    world.begin(0);
    world.record.flush().unwrap();
    fs::remove_dir_all(world.journal().parent().unwrap()).unwrap();
    world.record.open = None;
    let told = recover(&world.directory);
    assert!(told[0].contains("half-written; what was changed since"), "{told:?}");
    assert!(!told[0].contains("remove "), "{told:?}");
    assert_eq!(recover(&world.directory), Vec::<String>::new(), "told once");
}

#[test]
fn a_journal_on_a_disk_that_is_away_is_waited_for() {
    let mut world = World::new("away", Some("disk"), &["half"]);
    world.begin(0);
    world.record.flush().unwrap();
    world.write("half");
    world.record.open = None;
    let (disk, away) = (world.directory.join("disk"), world.directory.join("away"));
    fs::rename(&disk, &away).unwrap();
    for _ in 0..2 {
        let told = recover(&world.directory);
        assert!(told[0].contains("half-written") && told[0].contains("; remove "), "{told:?}");
    }
    fs::rename(&away, &disk).unwrap();
    assert_eq!(recover(&world.directory).len(), 1);
    assert!(world.has("half._fail_"));
}

#[test]
fn what_a_run_left_that_ended_before_it_was_marked_is_removed() {
    let mut world = World::new("unset", None, &["a"]);
    let root = world.directory.join(".rakuda");
    let run = world.record.run().to_owned();
    let living = Marker::prepare(&root, "living").unwrap();
    drop(Marker::prepare(&root, &run).unwrap());
    drop(folder::make(&root, &run, &root.join("runs").join(&run)).unwrap());
    assert_eq!(recover(&world.directory), Vec::<String>::new());
    assert!(!root.join("runs").join(&run).exists());
    let left: Vec<_> = fs::read_dir(root.join("running")).unwrap().collect();
    assert_eq!(left.len(), 1, "that of a run that begins: {left:?}");
    drop(living);
    world.begin(0);
    world.record.flush().unwrap();
    assert!(world.journal().exists());
}

#[test]
fn a_link_out_of_the_project_is_absolute() {
    let outside = std::env::temp_dir().join(format!("rakuda-outside-{}", std::process::id()));
    let mut world = World::new("inside", outside.to_str(), &["a"]);
    world.begin(0);
    world.record.flush().unwrap();
    let link = world.directory.join(".rakuda/runs").join(world.record.run());
    assert_eq!(fs::read_link(link).unwrap(), outside);
    fs::remove_dir_all(outside).unwrap();
}

#[test]
fn of_two_runs_at_once_the_later_one_knows_the_other() {
    let mut one = World::new("two-runs", None, &["a"]);
    one.begin(0);
    one.record.flush().unwrap();
    assert!(one.record.take_other_runs().is_empty());
    let mut two = World::record(&one.directory, None);
    two.started.run += "-next";
    two.add_task(0, 0);
    std::mem::swap(&mut one.record, &mut two);
    one.begin(0);
    one.record.flush().unwrap();
    assert_eq!(one.record.take_other_runs(), [two.run()]);
    assert!(one.record.take_other_runs().is_empty(), "told once");
}
