//! How many `true` a second the agent starts and reaps, with 1, 2 and 4 at once. A task here is a
//! process. Compare with `bench/peers`, whose floor is the same loop in C.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::time::Instant;

use rakuda_agent::{Agent, AgentConfig, StdinSource};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::front::Program;
use tokio::sync::mpsc::unbounded_channel;

const COMMANDS: u32 = 3000;

async fn round(slots: u32) -> f64 {
    let (sender, mut events) = unbounded_channel();
    let directory = std::env::temp_dir();
    let config =
        AgentConfig { directory, stdin: StdinSource::Null, collect_output: true, join_group: None };
    let agent = Agent::new(config, sender).expect("set up the agent");
    let start = |number: u32| {
        let program = Program::Line(Text::from("true"));
        agent.handle(AgentRequest::Start { command: CommandId(number), program, options: None });
    };
    let begin = Instant::now();
    (0..slots).for_each(start);
    let (mut started, mut ended) = (slots, 0);
    while ended < COMMANDS {
        if let Some(AgentEvent::CommandExited { .. }) = events.recv().await {
            ended += 1;
            if started < COMMANDS {
                start(started);
                started += 1;
            }
        }
    }
    f64::from(COMMANDS) / begin.elapsed().as_secs_f64()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    println!("slots  commands/s: median [min-max] of 5");
    for slots in [1, 2, 4] {
        let mut rates: Vec<f64> = (0..5).map(|_| local.block_on(&runtime, round(slots))).collect();
        rates.sort_by(f64::total_cmp);
        println!("{slots:5}  {:8.0} [{:.0}-{:.0}]", rates[2], rates[0], rates[4]);
    }
}
