//! Actions that wait for one another for ever: the front sees that none of them can go on by
//! itself, and gets an answer when the core sees that nothing else can happen (`core::Stuck`).
//!
//! Knows no Ruby: what the actions wait for is the front's business, and so is what it does about it.

use rakuda_core::UnderWay;
use rakuda_proto::front::HubMessage;

use crate::hub::Hub;

impl Hub {
    /// Answers `Stuck` once nothing is left that would send the front a message or start something.
    pub(crate) fn tell_nothing_left(&mut self) {
        let turn = self.front_stuck.answer(|| UnderWay {
            tasks: self.run.scheduler().counts(),
            has_commands: !self.commands.is_empty(),
            has_looks: !self.facts_wanted.is_empty() || !self.file_probes.is_empty(),
            holds_invocation: self.run.holds_invocation(),
            has_signals: self.run.stopping().due().is_some(),
            may_nodes_come: self.settings.cluster.is_some(),
        });
        if let Some(turn) = turn {
            self.link.push(&HubMessage::NothingLeft { turn });
            self.flush_urgent = true;
        }
    }
}
