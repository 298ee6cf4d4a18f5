//! Runs one external provider, for ever: by its period, sooner when it is asked, later when it fails.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rakuda_agent::clock;
use rakuda_agent::programs::{Program, Runner};
use rakuda_agent::providers::ExternalProvider;
use rakuda_info::external::{OUTPUT_BYTES_MAX, parse, wait_ns};

use crate::sampling::{Ask, Found, Telling, moment};

/// Time after which the fault of a long-lived provider was not that of its start.
const LIVED_NS: u64 = 60_000_000_000;

/// Runs a provider until nobody listens any more.
pub(crate) fn serve(
    provider: &ExternalProvider,
    mark: String,
    asked: &Receiver<Ask>,
    telling: &Telling,
) {
    let mut runner = Runner::new();
    let program = Program {
        words: provider.command.clone(),
        mark,
        limit: provider.limit,
        bytes_max: OUTPUT_BYTES_MAX,
    };
    let mut faults = 0;
    let mut asks: Vec<Ask> = Vec::new();
    loop {
        if telling.is_over() {
            return;
        }
        let begun_ns = clock::monotonic_ns();
        let fault = run(provider, &program, &mut runner, telling);
        let Ok(fault) = fault else { return };
        for ask in asks.drain(..) {
            telling.tell(Found::Asked(ask.done));
        }
        let has_lived = clock::monotonic_ns() - begun_ns >= LIVED_NS;
        faults = match fault {
            true if provider.limit.is_none() && has_lived => 1,
            true => faults + 1,
            false => 0,
        };
        let due_ns = begun_ns.saturating_add(wait_ns(provider.period.as_nanos() as u64, faults));
        // Questions are heard even when it is due at once, as one that takes longer than its period.
        let wait = due_ns.saturating_sub(clock::monotonic_ns());
        match asked.recv_timeout(Duration::from_nanos(wait)) {
            // One that fails is not tried sooner because it is asked.
            Ok(ask) if faults > 0 => {
                telling.tell(Found::Asked(ask.done));
                let left = due_ns.saturating_sub(clock::monotonic_ns());
                if !pass(left, asked, telling) {
                    return;
                }
            }
            Ok(ask) => asks.extend(std::iter::once(ask).chain(asked.try_iter())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Lets time pass, and answers questions at once meanwhile. `false`: nobody listens any more.
fn pass(left_ns: u64, asked: &Receiver<Ask>, telling: &Telling) -> bool {
    let due_ns = clock::monotonic_ns().saturating_add(left_ns);
    loop {
        let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
        match asked.recv_timeout(Duration::from_nanos(left_ns)) {
            Ok(ask) => drop(telling.tell(Found::Asked(ask.done))),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Runs it once, and returns whether it failed. `Err`: nobody listens.
fn run(
    provider: &ExternalProvider,
    program: &Program,
    runner: &mut Runner,
    telling: &Telling,
) -> Result<bool, ()> {
    let name = || provider.name.clone();
    let mut on_line = |line: &[u8]| {
        let (output, at) = (parse(line), moment().now);
        telling.tell(Found::External { provider: name(), output, is_line: true, at })
    };
    let begun = moment().now;
    let result = runner.run(program, &mut on_line);
    let at = moment().now;
    let failed = |why: String| Found::Failed { provider: name(), why, at };
    let (news, is_fault) = match result {
        Ok(bytes) => {
            let output = parse(&bytes);
            let rubbish = output.complaints.first().filter(|_| output.values.is_empty());
            if let Some(complaint) = rubbish {
                (failed(format!("provider {} printed rubbish: {complaint}", provider.name)), true)
            } else {
                // It may have looked as soon as it began.
                let provider = name();
                (Found::External { provider, output, is_line: false, at: begun }, false)
            }
        }
        Err(fault) => (failed(format!("provider {} {fault}", provider.name)), true),
    };
    if telling.tell(news) { Ok(is_fault) } else { Err(()) }
}
