//! Runs one external provider, for ever: by its period, sooner when it is asked, later when it fails.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rakuda_agent::clock;
use rakuda_agent::programs::{Program, Runner};
use rakuda_agent::providers::ExternalProvider;
use rakuda_info::external::{OUTPUT_BYTES_MAX, parse, wait_ns};
use tokio::sync::mpsc::UnboundedSender;

use crate::sampling::{Ask, Found, moment};

/// A long-lived provider that has lived so long was no fault of its start.
const LIVED_NS: u64 = 60_000_000_000;

/// Until nobody listens any more.
pub(crate) fn serve(
    provider: &ExternalProvider,
    mark: &str,
    asked: &Receiver<Ask>,
    found: &UnboundedSender<Found>,
) {
    let mut runner = Runner::new();
    let program = Program {
        words: provider.command.clone(),
        mark: mark_of(mark, &provider.name),
        limit: provider.limit,
        bytes_max: OUTPUT_BYTES_MAX,
    };
    let mut faults = 0;
    let mut asks: Vec<Ask> = Vec::new();
    loop {
        if found.is_closed() {
            return;
        }
        let begun_ns = clock::monotonic_ns();
        let fault = run(provider, &program, &mut runner, found);
        let Ok(fault) = fault else { return };
        for ask in asks.drain(..) {
            let _ = found.send(Found::Asked(ask.done));
        }
        let has_lived = clock::monotonic_ns() - begun_ns >= LIVED_NS;
        faults = match fault {
            true if provider.limit.is_none() && has_lived => 1,
            true => faults + 1,
            false => 0,
        };
        let due_ns = begun_ns.saturating_add(wait_ns(provider.period.as_nanos() as u64, faults));
        let Some(wait) = due_ns.checked_sub(clock::monotonic_ns()) else { continue };
        match asked.recv_timeout(Duration::from_nanos(wait)) {
            // One that fails is not tried sooner because it is asked.
            Ok(ask) if faults > 0 => {
                let _ = found.send(Found::Asked(ask.done));
                let left = due_ns.saturating_sub(clock::monotonic_ns());
                if !pass(left, asked, found) {
                    return;
                }
            }
            Ok(ask) => asks.push(ask),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What a provider's processes carry.
pub(crate) fn mark_of(mark: &str, provider: &str) -> String {
    format!("{mark}/{provider}")
}

/// Lets time pass; who asks meanwhile is answered at once. False: nobody listens any more.
fn pass(left_ns: u64, asked: &Receiver<Ask>, found: &UnboundedSender<Found>) -> bool {
    let due_ns = clock::monotonic_ns().saturating_add(left_ns);
    loop {
        let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
        match asked.recv_timeout(Duration::from_nanos(left_ns)) {
            Ok(ask) => drop(found.send(Found::Asked(ask.done))),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// One run; whether it failed. `Err`: nobody listens.
fn run(
    provider: &ExternalProvider,
    program: &Program,
    runner: &mut Runner,
    found: &UnboundedSender<Found>,
) -> Result<bool, ()> {
    let name = || provider.name.clone();
    let mut on_line = |line: &[u8]| {
        let (output, at) = (parse(line), moment().now);
        found.send(Found::External { provider: name(), output, is_line: true, at }).is_ok()
    };
    let result = runner.run(program, &mut on_line);
    let at = moment().now;
    let failed = |why: String| Found::Failed { provider: name(), why, at };
    let (news, is_fault) = match result {
        Ok(bytes) => {
            let output = parse(&bytes);
            match output.complaints.first().filter(|_| output.values.is_empty()) {
                Some(complaint) => (
                    failed(format!("provider {} printed rubbish: {complaint}", provider.name)),
                    true,
                ),
                None => (Found::External { provider: name(), output, is_line: false, at }, false),
            }
        }
        Err(fault) => (failed(format!("provider {} {fault}", provider.name)), true),
    };
    found.send(news).map(|()| is_fault).map_err(|_| ())
}
