//! The common stop of a round's workers (stonewall): which commands were sent SIGTERM for it, which did not heed it,
//! and what the end of each counts as. It sends nothing and knows no time.

use std::collections::BTreeMap;
use std::time::Duration;

use rakuda_proto::agent::CommandId;

/// Commands that a common stop is ending.
#[derive(Debug, Default)]
pub struct RoundStops {
    /// Of those that have not exited: after what time they were killed, if they were.
    sent: BTreeMap<CommandId, Option<Duration>>,
}

impl RoundStops {
    /// SIGTERM is on its way to it.
    pub fn terminated(&mut self, command: CommandId) {
        self.sent.insert(command, None);
    }

    /// Those that have not exited `grace` after that: they are to be killed.
    pub fn overdue(&mut self, commands: &[CommandId], grace: Duration) -> Vec<CommandId> {
        let left: Vec<_> =
            commands.iter().filter(|command| self.sent.contains_key(command)).copied().collect();
        self.sent.extend(left.iter().map(|command| (*command, Some(grace))));
        left
    }

    /// What the status of a command counts as that has exited, and why, where that is due to the stop: one that has
    /// ended by SIGTERM has ended well, and so has one that exits when it gets it, in its own way (fio with 128).
    pub fn ended(&mut self, command: CommandId, status: i32) -> (i32, Option<String>) {
        match self.sent.remove(&command) {
            // This holds even if SIGKILL was sent because it was slow to end.
            Some(_) if status == libc::SIGTERM || libc::WIFEXITED(status) => (0, None),
            Some(Some(grace)) if status == libc::SIGKILL => {
                let why = format!(
                    "killed: it did not end within {} s of the stop of its round (stop_after:)",
                    grace.as_secs_f64()
                );
                (status, Some(why))
            }
            _ => (status, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_by_the_stop_ends_well_and_who_does_not_is_killed_for_it() {
        let mut stops = RoundStops::default();
        let all = [1, 2, 3].map(CommandId);
        for command in all {
            stops.terminated(command);
        }
        assert_eq!(stops.ended(CommandId(1), libc::SIGTERM), (0, None));
        assert_eq!(stops.overdue(&all, Duration::from_millis(1500)), [2, 3].map(CommandId));
        let (status, why) = stops.ended(CommandId(2), libc::SIGKILL);
        assert_eq!(status, libc::SIGKILL);
        assert!(why.unwrap().contains("did not end within 1.5 s of the stop"));
        assert_eq!(stops.ended(CommandId(3), libc::SIGTERM), (0, None), "it was slow to end");
        stops.terminated(CommandId(3));
        assert_eq!(stops.ended(CommandId(3), 128 << 8), (0, None), "it handles the signal");
        stops.terminated(CommandId(3));
        assert_eq!(stops.ended(CommandId(3), libc::SIGSEGV), (libc::SIGSEGV, None));
        assert_eq!(stops.ended(CommandId(4), 3 << 8), (3 << 8, None), "it ended before");
        assert_eq!(stops.ended(CommandId(4), libc::SIGTERM), (libc::SIGTERM, None));
    }
}
