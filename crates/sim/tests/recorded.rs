//! Recorded runs as workloads, from journals that are written out here.

use rakuda_record::Run;
use rakuda_sim::workloads::{RecordedTimes, recorded};
use rakuda_sim::{Cluster, Log, Outcome, Settings, Simulation, Workload};

/// `b` is made of the file `a` in 3 s, after 1 s in which it waits for a core; then `c` of `b` in 4
/// s, after the task `between` that has no action. The commands use the processor for half the
/// time.
const CHAIN: &str = r#"
{"event":"run_started","version":2,"time_ns":0,"run":"r","cores":2}
{"event":"node_joined","time_ns":0,"node":0,"name":"here","cores":2,"memory_bytes":1000000000}
{"event":"task_defined","task":0,"name":"a","kind":"file","up_to_date":true,"bytes":100}
{"event":"task_defined","task":1,"name":"b","kind":"file","prerequisites":[0],"action":true}
{"event":"attempt_started","time_ns":1000000000,"task":1,"attempt":1,"node":0,"cores":1}
{"event":"command_started","time_ns":2000000000,"command":0,"task":1,"words":["/usr/bin/cp","a","b"]}
{"event":"command_ended","time_ns":5000000000,"command":0,"status":0,"wall_ns":3000000000,"user_us":1000000,"system_us":500000}
{"event":"attempt_ended","time_ns":5000000000,"task":1,"outcome":"done","after":{"modified_ns":1,"changed_ns":1,"bytes":200,"inode":1},"held_ns":[1000000000,4000000000]}
{"event":"task_defined","task":2,"name":"between","kind":"plain","prerequisites":[1]}
{"event":"task_defined","task":3,"name":"c","kind":"file","prerequisites":[2],"action":true}
{"event":"attempt_started","time_ns":5000000000,"task":3,"attempt":1,"node":0,"cores":2}
{"event":"command_started","time_ns":5000000000,"command":1,"task":3,"line":"sort b > c"}
{"event":"command_ended","time_ns":9000000000,"command":1,"status":0,"wall_ns":4000000000,"user_us":2000000,"system_us":0}
{"event":"attempt_ended","time_ns":9000000000,"task":3,"outcome":"done","after":{"modified_ns":1,"changed_ns":1,"bytes":300,"inode":2}}
{"event":"run_ended","time_ns":9000000000,"how":"done"}
"#;

/// The action of `all` runs for a second, invokes `late`, which takes 2 s, and runs for a second
/// more. `late` needs nothing, `all` needs `early`.
const NESTED: &str = r#"
{"event":"run_started","version":2,"time_ns":0,"run":"r","cores":1}
{"event":"invocation_started","time_ns":0,"invocation":0,"tasks":["all"]}
{"event":"task_defined","task":0,"name":"early","kind":"plain","action":true}
{"event":"attempt_started","time_ns":0,"task":0,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":0,"outcome":"done"}
{"event":"task_defined","task":1,"name":"all","kind":"plain","prerequisites":[0],"action":true}
{"event":"attempt_started","time_ns":3000000000,"task":1,"attempt":1,"node":0,"cores":1}
{"event":"invocation_started","time_ns":4000000000,"invocation":1,"tasks":["late"],"caller":1}
{"event":"task_defined","task":2,"name":"late","kind":"plain","action":true}
{"event":"attempt_started","time_ns":4000000000,"task":2,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":6000000000,"task":2,"outcome":"done"}
{"event":"invocation_ended","time_ns":6000000000,"invocation":1,"failed":0,"abandoned":0}
{"event":"attempt_ended","time_ns":7000000000,"task":1,"outcome":"done","held_ns":[0,1000000000,3000000000,4000000000]}
{"event":"run_ended","time_ns":7000000000,"how":"done"}
"#;

fn workload(journal: &str, times: RecordedTimes) -> Workload {
    let run = Run::read(journal.trim_start().as_bytes()).unwrap();
    recorded(&run, times).unwrap()
}

fn seconds(workload: &Workload, nodes: u32) -> u64 {
    let cluster = Cluster { nodes, cores: 2, dispatch_ns: 0, fact_ns: 0, ..Cluster::default() };
    let settings = Settings { cluster, check: true, ..Settings::default() };
    let (outcome, _): (Outcome, _) = Simulation::new(workload, settings, Log::off()).unwrap().run();
    assert!(outcome.is_well());
    (outcome.makespan_ns + 500_000_000) / 1_000_000_000
}

#[test]
fn a_chain_takes_as_long_as_its_commands_did() {
    let workload = workload(CHAIN, RecordedTimes::Wall);
    assert_eq!(workload.rules, ["cp", "sort"]);
    assert_eq!(workload.tasks[1].cores, 2);
    assert_eq!(workload.files, [0, 0, 0]);
    assert_eq!(seconds(&workload, 4), 7);
}

#[test]
fn with_processor_times_files_have_their_bytes() {
    let workload = workload(CHAIN, RecordedTimes::Processor);
    let mut files = workload.files.clone();
    files.sort_unstable();
    assert_eq!(files, [100, 200, 300]);
    assert_eq!(seconds(&workload, 1), 4);
}

#[test]
fn what_an_action_invoked_comes_after_its_prerequisites_and_before_its_own_time() {
    let workload = workload(NESTED, RecordedTimes::Wall);
    assert_eq!(workload.tasks.len(), 3);
    // 3 s, then 2 s, then the caller's own 2.
    assert_eq!(seconds(&workload, 4), 7);
}

#[test]
fn a_run_that_executed_nothing_is_refused() {
    let first = CHAIN.trim_start().lines().next().unwrap();
    let run = Run::read(format!("{first}\n").as_bytes()).unwrap();
    let refused = recorded(&run, RecordedTimes::Wall).unwrap_err();
    assert_eq!(refused.to_string(), "nothing was executed in this run");
}
