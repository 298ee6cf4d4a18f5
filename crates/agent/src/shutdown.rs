//! Which commands end because their node is taken away: a batch system signals all processes at
//! once, the agent among them.
//!
//! It knows how a command ended and whether this process was asked to end, and sends nothing.

use std::cell::Cell;
use std::time::Duration;

use rakuda_proto::agent::AgentEvent;
use tokio::sync::Notify;

/// Timeout for the signal to this process after a command got one that the hub did not send.
const TOLD_WITHIN: Duration = Duration::from_millis(200);

/// Whether this process was asked to end.
#[derive(Default)]
pub(crate) struct Shutdown {
    told: Cell<bool>,
    changed: Notify,
    /// The hub itself has sent signals, and is to know what came of them.
    hub_signals: Cell<bool>,
}

impl Shutdown {
    /// Notes that this process was asked to end.
    pub fn tell(&self) {
        self.told.set(true);
        self.changed.notify_waiters();
    }

    /// The hub has signalled commands.
    pub fn on_signal_of_hub(&self) {
        self.hub_signals.set(true);
    }

    /// Whether the end of a command belongs to that of this node. A batch system signals all
    /// processes at once, so the command may end a moment before this process knows.
    pub async fn takes_along(&self, event: &AgentEvent) -> bool {
        let AgentEvent::CommandExited { status, .. } = event else { return false };
        if self.hub_signals.get() || !was_told_to_end(*status) {
            return false;
        }
        let told = async {
            while !self.told.get() {
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(TOLD_WITHIN, told).await.is_ok()
    }
}

/// By its status as wait(2) gives it: killed by such a signal, or a shell's word for that.
fn was_told_to_end(status: i32) -> bool {
    let signal = match status & 127 {
        0 => (status >> 8 & 255) - 128,
        signal => signal,
    };
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGKILL].contains(&signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_tell_to_end_count() {
        for status in [libc::SIGTERM, libc::SIGKILL, (128 + libc::SIGTERM) << 8] {
            assert!(was_told_to_end(status), "{status}");
        }
        for status in [0, 1 << 8, 15 << 8, libc::SIGSEGV, 127 << 8] {
            assert!(!was_told_to_end(status), "{status}");
        }
    }
}
