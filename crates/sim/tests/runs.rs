//! Any workflow under any policy: it ends, it is repeatable, it is never faster than the bound, and
//! the scheduler's books agree after every event.

use proptest::prelude::*;
use rakuda_sim::{
    Cluster, Compute, FileSystem, Log, MIB, Policy, SECOND_NS, Settings, Sharing, Simulation,
    TaskSpec, Workload, lower_bound, workloads,
};

/// What a task is made of: seconds, cores, bytes, who comes before it, whether it is overlapped.
type Made = (u64, u32, u64, Vec<prop::sample::Index>, bool);

fn workflow(made: &[Made]) -> Workload {
    let mut workload = Workload::new("made up");
    let rule = workload.rule("task");
    let given = workload.file(5 * MIB);
    let mut outputs = Vec::new();
    for (number, (seconds, cores, bytes, before, overlapped)) in made.iter().enumerate() {
        let mut inputs = vec![given];
        if number > 0 {
            inputs.extend(before.iter().map(|index| outputs[index.index(number)]));
        }
        let output = workload.file(*bytes);
        outputs.push(output);
        workload.task(TaskSpec {
            cores: *cores,
            inputs,
            outputs: vec![output],
            overlapped: *overlapped,
            ..TaskSpec::new(rule, Compute::Fixed(seconds * SECOND_NS))
        });
    }
    workload
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    let before = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    let task = (0..9_u64, 1..4_u32, 0..300 * MIB, before, any::<bool>());
    prop::collection::vec(task, 1..40)
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let kinds = prop::sample::select(vec![FileSystem::Gfarm, FileSystem::Nfs, FileSystem::Local]);
    let sharing = prop::sample::select(vec![Sharing::MaxMin, Sharing::Equal]);
    (1..5_u32, 1..5_u32, kinds, sharing, any::<bool>(), prop::option::of(10..200_u64)).prop_map(
        |(nodes, cores, file_system, sharing, write_back, switch)| Cluster {
            nodes,
            cores,
            file_system,
            sharing: Some(sharing),
            write_back,
            switch: switch.map(|mib| mib * MIB),
            memory_bytes: 2_000 * MIB,
            ..Cluster::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn every_workflow_ends_not_before_its_bound_and_again_in_the_same_way(
        made in made(),
        cluster in cluster(),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        (locality, stealing, seed) in (any::<bool>(), any::<bool>(), any::<u64>()),
    ) {
        let workload = workflow(&made);
        let bound = lower_bound(&workload, &cluster, seed).unwrap();
        let settings = Settings { cluster, policy, locality, stealing, seed, check: true, ..Settings::default() };
        let (outcome, log) =
            Simulation::new(&workload, settings.clone(), Log::kept()).unwrap().run();
        prop_assert!(outcome.is_well());
        prop_assert!(outcome.tasks.iter().all(Option::is_some));
        prop_assert!(outcome.utilisation() <= 1.0);
        // Rates are rounded down, times up: nothing is faster than it should be by more than that.
        prop_assert!(outcome.makespan_ns + 1_000 >= bound.ns(), "{} < {bound:?}", outcome.makespan_ns);
        let (_, again) = Simulation::new(&workload, settings, Log::kept()).unwrap().run();
        prop_assert_eq!(log.text(), again.text());
        prop_assert_eq!(log.sum(), again.sum());
    }
}

#[test]
fn the_mosaic_ends_under_every_policy_and_another_seed_gives_another_run() {
    let workload = workloads::montage();
    let mut sums = Vec::new();
    for policy in [Policy::Fifo, Policy::Lifo, Policy::LifoHrf, Policy::RankHrf] {
        for seed in [1, 2] {
            let settings = Settings { policy, seed, ..Settings::default() };
            let bound = lower_bound(&workload, &settings.cluster, seed).unwrap();
            let (outcome, log) = Simulation::new(&workload, settings, Log::summed()).unwrap().run();
            assert!(outcome.is_well());
            assert!(outcome.makespan_ns >= bound.ns());
            sums.push(log.sum());
        }
    }
    sums.sort_unstable();
    sums.dedup();
    assert_eq!(sums.len(), 8);
}

#[test]
fn with_locality_the_mosaic_reads_more_on_its_own_nodes_and_is_faster() {
    let workload = workloads::montage();
    for policy in [Policy::Fifo, Policy::Lifo, Policy::LifoHrf, Policy::RankHrf] {
        let run = |locality| {
            let settings = Settings { policy, locality, ..Settings::default() };
            Simulation::new(&workload, settings, Log::off()).unwrap().run().0
        };
        let (with, without) = (run(true), run(false));
        assert!(with.reads().local() > without.reads().local(), "{policy:?}");
        assert!(with.makespan_ns < without.makespan_ns, "{policy:?}");
        assert!(with.network_bytes < without.network_bytes, "{policy:?}");
    }
}
