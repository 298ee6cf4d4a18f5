//! An engine whose commands end at once: the real hub with a fake agent. `bench/front` uses it (RAKUDA_ENGINE) to
//! measure what the Ruby front sustains. Started as `rakudad --front-fd FD`; at the end it writes
//! `actions SECONDS` to the file that INSTANT_ENGINE_RESULT names.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and the environment")]
#![allow(unsafe_code, reason = "a descriptor that was handed over by number")]

#[path = "support/instant_agent.rs"]
mod support;

use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use rakuda_cluster::Node;
use rakuda_proto::Text;
use support::{Count, InstantAgent};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, flag, descriptor, ..] = words.as_slice() else { panic!("usage: --front-fd FD") };
    assert_eq!(flag, "--front-fd");
    // SAFETY: the front left this descriptor open for us and nothing else uses it.
    let stream = unsafe { UnixStream::from_raw_fd(descriptor.parse().expect("a descriptor")) };
    let count = Rc::new(Count::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let hub = rakuda_hub::run_with(stream, rakuda_hub::Guard::default(), |settings, events| {
        Ok(vec![Node {
            name: Text::from("instant"),
            capacity: settings.capacity.clone(),
            port: Box::new(InstantAgent { events, count: Rc::clone(&count) }),
        }])
    });
    local.block_on(&runtime, hub).expect("the hub ends well");
    if let (Some(first), Some(last), Ok(path)) =
        (count.first.get(), count.last.get(), std::env::var("INSTANT_ENGINE_RESULT"))
    {
        let line = format!("{} {}\n", count.commands.get(), (last - first).as_secs_f64());
        std::fs::write(path, line).expect("write the result");
    }
}
