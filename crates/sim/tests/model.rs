//! The model against times that can be worked out by hand.

use rakuda_sim::{
    Cluster, Compute, Experiment, FileSystem, GIB, Log, MIB, Outcome, Policy, SECOND_NS, Settings,
    Simulation, TaskSpec, Workload, workloads,
};

/// No time passes but in tasks.
fn cluster(nodes: u32, cores: u32) -> Cluster {
    Cluster { nodes, cores, dispatch_ns: 0, fact_ns: 0, ..Cluster::default() }
}

fn run(workload: &Workload, settings: Settings) -> Outcome {
    let (outcome, _) = Simulation::new(workload, settings, Log::off()).unwrap().run();
    assert!(outcome.is_well());
    outcome
}

/// Reads 700 MiB, computes a second, writes 590 MiB; then the same file is read once more.
fn two_readers(overlapped: bool) -> Workload {
    let mut workload = Workload::new("two readers");
    let rule = workload.rule("read");
    let input = workload.file(700 * MIB);
    let output = workload.file(590 * MIB);
    let first = workload.task(TaskSpec {
        inputs: vec![input],
        outputs: vec![output],
        overlapped,
        ..TaskSpec::new(rule, Compute::Fixed(SECOND_NS))
    });
    let after = vec![first];
    let again = TaskSpec { inputs: vec![input], after, ..TaskSpec::new(rule, Compute::Fixed(0)) };
    workload.task(again);
    workload
}

fn milliseconds(outcome: &Outcome) -> u64 {
    outcome.makespan_ns.div_ceil(1_000_000)
}

#[test]
fn a_task_reads_computes_and_writes_one_after_the_other_and_memory_is_read_faster() {
    let settings = Settings { cluster: cluster(1, 1), ..Settings::default() };
    let outcome = run(&two_readers(false), settings);
    // 10 s from disk, 1 s, 10 s to disk, 1.182 s from memory.
    assert!(milliseconds(&outcome).abs_diff(22_182) < 10, "{}", milliseconds(&outcome));
    assert_eq!(outcome.reads().cached_bytes, 700 * MIB);
    assert_eq!(outcome.network_bytes, 0);
}

#[test]
fn an_overlapped_task_has_to_share_the_disk_with_itself() {
    let settings = Settings { cluster: cluster(1, 1), ..Settings::default() };
    let outcome = run(&two_readers(true), settings);
    // Both need the disk for 10 s, so it is busy for 20 s.
    assert!(milliseconds(&outcome).abs_diff(21_182) < 10, "{}", milliseconds(&outcome));
}

#[test]
fn on_a_duplex_disk_an_overlapped_task_reads_and_writes_at_full_speed() {
    let cluster = Cluster { duplex_disks: true, ..cluster(1, 1) };
    let outcome = run(&two_readers(true), Settings { cluster, ..Settings::default() });
    // 10 s for reading and writing together, 1.182 s from memory.
    assert!(milliseconds(&outcome).abs_diff(11_182) < 10, "{}", milliseconds(&outcome));
}

#[test]
fn with_write_back_a_write_goes_to_memory_and_the_disk_follows() {
    let cluster = Cluster { write_back: true, ..cluster(1, 1) };
    let outcome = run(&two_readers(false), Settings { cluster, ..Settings::default() });
    // 10 s from disk, 1 s, 0.997 s to memory, 1.182 s from memory.
    assert!(milliseconds(&outcome).abs_diff(13_179) < 10, "{}", milliseconds(&outcome));
}

#[test]
fn a_server_of_files_is_read_and_written_through_its_link() {
    let cluster = Cluster { file_system: FileSystem::Nfs, ..cluster(1, 1) };
    let outcome = run(&two_readers(false), Settings { cluster, ..Settings::default() });
    // 17.949 s from the server's disk, 1 s, 10 s, 1.182 s from the client's memory.
    assert!(milliseconds(&outcome).abs_diff(30_131) < 10, "{}", milliseconds(&outcome));
    assert_eq!(outcome.network_bytes, 1_290 * MIB);
}

#[test]
fn four_copies_to_one_disk_take_as_long_as_one_after_the_other() {
    let mut workload = Workload::new("writers");
    let rule = workload.rule("write");
    for _ in 0..4 {
        let outputs = vec![workload.file(59 * MIB)];
        workload.task(TaskSpec { outputs, ..TaskSpec::new(rule, Compute::Fixed(0)) });
    }
    let settings = Settings { cluster: cluster(1, 4), ..Settings::default() };
    let outcome = run(&workload, settings);
    assert!(milliseconds(&outcome).abs_diff(4_000) < 5, "{}", milliseconds(&outcome));
    assert!(outcome.utilisation() > 0.999);
}

#[test]
fn memory_that_tasks_use_is_not_there_for_files() {
    let mut workload = two_readers(false);
    workload.tasks[0].memory_bytes = 30 * GIB + 500 * MIB;
    let settings = Settings { cluster: cluster(1, 1), ..Settings::default() };
    let outcome = run(&workload, settings);
    assert_eq!(outcome.reads().cached_bytes, 0);
}

fn copyfile(policy: Policy, locality: bool) -> rakuda_sim::CellResult {
    let cluster = Cluster { nodes: 10, cores: 1, ..Cluster::default() };
    let experiment = Experiment {
        base: Settings { cluster, ..Settings::default() },
        nodes: vec![10],
        policies: vec![policy],
        locality: vec![locality],
        stealing: vec![true],
        repeat: 3,
    };
    let workload = workloads::copyfile(100, 3 * GIB, false);
    experiment.run(&workload, experiment.cells()[0]).unwrap()
}

#[test]
fn copies_of_copies_are_fastest_where_the_first_copy_lies_while_it_is_in_memory() {
    let best = copyfile(Policy::Lifo, true);
    // Ten times a node reads from disk, writes, reads from memory, writes.
    let expected = 10.0 * 3072.0 * (1.0 / 70.0 + 1.0 / 592.0 + 2.0 / 59.0);
    assert!((best.makespan_s - expected).abs() < 1.0, "{}", best.makespan_s);
    assert!((best.local_share.bytes - 1.0).abs() < 1e-9);
    let evicted = copyfile(Policy::Fifo, true);
    assert!(evicted.cache_hit < 1e-9);
    let ratio = evicted.makespan_s / best.makespan_s;
    assert!((1.2..1.35).contains(&ratio), "{ratio}");
    // A node goes on with the copy that it has just made, if that is the youngest task: table 3 of the paper.
    for (policy, expected, local) in
        [(Policy::Lifo, 1.4..1.8, 0.99..1.1), (Policy::Fifo, 2.0..2.6, 0.0..0.3)]
    {
        let blind = copyfile(policy, false);
        assert!(blind.local_share.by_rule["A"] < 0.3, "{:?}", blind.local_share);
        assert!(local.contains(&blind.local_share.by_rule["B"]), "{:?}", blind.local_share);
        let ratio = blind.makespan_s / best.makespan_s;
        assert!(expected.contains(&ratio), "{policy:?}: {ratio}");
    }
}
