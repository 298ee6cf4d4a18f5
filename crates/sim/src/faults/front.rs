//! The front: actions, from their first command to their end. It dies with the hub.
//!
//! Messages in each direction stay in order; an action takes some time before it goes on, and much
//! more before it is unwound.

pub(crate) mod state;

use rakuda_core::ActionOutcome;

use super::chaos::Chaos;
use super::messages::Happening;
use crate::units::SECOND_NS;
use state::{Action, FromFront, Front, ToFront};

const MILLISECOND_NS: u64 = 1_000_000;

impl Chaos {
    /// A hub begins: its front has no actions.
    pub(crate) fn start_front(&mut self) {
        self.front = Front::default();
    }

    fn front_delay_ns(&mut self) -> u64 {
        let at_most = if self.scenario.short { MILLISECOND_NS / 5 } else { 20 * MILLISECOND_NS };
        1 + self.random.below(at_most)
    }

    fn arrival_ns(&mut self, direction: usize) -> u64 {
        let at = self.now + self.front_delay_ns();
        let last_ns = &mut self.front.last_ns[direction];
        *last_ns = at.max(*last_ns + 1);
        *last_ns
    }

    /// The hub says something to the front.
    pub(crate) fn say_to_front(&mut self, task: u32, what: ToFront) {
        let (at, life) = (self.arrival_ns(0), self.hub.life);
        self.queue.push(at, Happening::ToFront { life, task, what });
    }

    fn say_to_hub(&mut self, task: u32, what: FromFront) {
        let (at, life) = (self.arrival_ns(1), self.hub.life);
        self.queue.push(at, Happening::FromFront { life, task, what });
    }

    pub(crate) fn on_front(&mut self, life: u64, task: u32, what: &ToFront) {
        if !self.hub.is_up() || life != self.hub.life {
            return;
        }
        if let ToFront::Run { attempt, leased } = *what {
            let waits = !leased && self.random.below(4) == 0;
            let action = Action { attempt, waits, ..Action::default() };
            let other = self.front.actions.insert(task, action);
            assert!(other.is_none(), "two attempts of {task} in the front");
            if waits {
                self.say_to_hub(task, FromFront::WantLease);
            } else {
                self.think(task, false);
            }
            return;
        }
        // What it ends by itself may cross what the hub says of it.
        let Some(action) = self.front.actions.get_mut(&task) else { return };
        match *what {
            ToFront::Run { .. } => unreachable!("handled above"),
            ToFront::Leased if action.waits => {
                action.waits = false;
                self.think(task, false);
            }
            ToFront::Leased if action.asks => {
                action.asks = false;
                self.think(task, false);
            }
            ToFront::Leased => {}
            ToFront::CommandEnded { command, well } => {
                assert!(action.open.remove(&command), "command {command} of {task} ends twice");
                action.failed |= !well;
                if !action.lost {
                    self.think(task, false);
                }
            }
            ToFront::InvocationEnded { attempt, well } => {
                if action.attempt == attempt && action.calls {
                    action.calls = false;
                    action.failed |= !well;
                    if !action.lost {
                        self.think(task, false);
                    }
                }
            }
            ToFront::Abort => {
                // What it asked for meanwhile is ended by the hub before the next attempt; here it ends by itself.
                action.failed = true;
                action.told = true;
                (action.waits, action.asks, action.calls) = (false, false, false);
                if action.open.is_empty() && !action.lost {
                    self.think(task, false);
                }
            }
            ToFront::Lost => {
                action.lost = true;
                self.think(task, true);
            }
        }
    }

    /// An action goes on after a while.
    fn think(&mut self, task: u32, unwound: bool) {
        let mut for_ns = self.front_delay_ns();
        if unwound {
            let at_most = if self.random.below(4) == 0 { 30 } else { 2 };
            for_ns += self.random.below(at_most * SECOND_NS);
        }
        let life = self.hub.life;
        let Some(action) = self.front.actions.get_mut(&task) else { return };
        action.thinks = true;
        let attempt = action.attempt;
        let step = Happening::FrontStep { life, task, attempt, unwound };
        self.queue.push(self.now + for_ns, step);
    }

    pub(crate) fn on_front_step(&mut self, life: u64, of: (u32, u32), unwound: bool) {
        let (task, attempt) = of;
        if !self.hub.is_up() || life != self.hub.life {
            return;
        }
        let plan = &self.scenario.tasks[task as usize];
        let (commands, together, may_wait_for) = (plan.commands, plan.together, plan.calls);
        let Some(action) = self.front.actions.get_mut(&task) else { return };
        if action.attempt != attempt || !action.thinks || action.lost != unwound {
            return;
        }
        action.thinks = false;
        if unwound {
            return self.end_action(task, ActionOutcome::Failed);
        }
        let left = commands - action.wanted;
        let may_call = !action.called && action.wanted > 0 && left > 0 && !action.failed;
        let called = may_wait_for.filter(|_| may_call);
        if let Some(called) = called.filter(|_| self.random.below(3) == 0) {
            (action.called, action.calls) = (true, true);
            self.say_to_hub(task, FromFront::Invoke { attempt, called });
        }
        let Some(action) = self.front.actions.get_mut(&task) else { return };
        // Two threads go on whatever becomes of each other's commands; the last command is for all of them.
        let now = if together && left > 1 && !action.told {
            (left - 1).min(2_u32.saturating_sub(action.open.len() as u32))
        } else if !action.open.is_empty() || action.asks || action.calls {
            0
        } else if action.failed || left == 0 {
            let outcome =
                if action.failed { ActionOutcome::Failed } else { ActionOutcome::Succeeded };
            return self.end_action(task, outcome);
        } else {
            1
        };
        if now == 0 {
            return;
        }
        if self.random.below(4) == 0 {
            self.say_to_hub(task, FromFront::Changed);
        }
        for number in 0..now {
            self.serials += 1;
            let command = self.serials;
            let action = self.front.actions.get_mut(&task).expect("it is there");
            action.wanted += 1;
            action.open.insert(command);
            let is_last = number + 1 == left;
            self.say_to_hub(task, FromFront::Want { attempt, command, is_last });
        }
        if together && self.scenario.stages() && self.serials.is_multiple_of(3) {
            self.count("cores wanted by code beside commands");
            self.front.actions.get_mut(&task).expect("it is there").asks = true;
            self.say_to_hub(task, FromFront::WantLease);
        }
    }

    fn end_action(&mut self, task: u32, outcome: ActionOutcome) {
        let Some(Action { attempt, .. }) = self.front.actions.remove(&task) else { return };
        self.say_to_hub(task, FromFront::Ended { attempt, outcome });
    }

    /// Nothing is left at the end.
    pub(crate) fn check_front(&self) {
        assert!(self.front.actions.is_empty(), "actions are left: {:?}", self.front.actions);
    }
}
