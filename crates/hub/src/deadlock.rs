//! Actions that wait for one another for ever: the front sees that none of them can go on by
//! itself, and here it is seen whether anything else can still happen.
//!
//! Knows no Ruby: what the actions wait for is the front's business, and so is what it does about it.

use rakuda_proto::front::HubMessage;

use crate::hub::Hub;

impl Hub {
    /// Answers `Stuck` once nothing is left that would send the front a message or start something.
    pub(crate) fn tell_nothing_left(&mut self) {
        if self.front_stuck.is_some()
            && self.is_all_with_the_front()
            && let Some(turn) = self.front_stuck.take()
        {
            self.link.push(&HubMessage::NothingLeft { turn });
            self.flush_urgent = true;
        }
    }

    /// Whether all that is under way is the front's own code. Nodes may come as long as something waits for one.
    fn is_all_with_the_front(&self) -> bool {
        let counts = self.run.scheduler().counts();
        let decided = counts.deciding == 0 && counts.inspecting == 0 && counts.lost == 0;
        let alone = self.settings.cluster.is_none();
        decided
            && self.commands.is_empty()
            && self.facts_wanted.is_empty()
            && !self.run.holds_invocation()
            && self.file_probes.is_empty()
            && (alone || counts.ready == 0)
            && self.run.stopping().due().is_none()
    }
}
