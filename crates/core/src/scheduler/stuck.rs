//! Something waits for ever: whether anything else can still happen. The front's actions may wait for one another
//! ([`Stuck`]), and tasks for what nothing makes any more ([`Calm`]).
//!
//! It does not know what actions and tasks wait for, nor what is done about it.

use super::view::counts::Counts;
use crate::time::Time;

/// The question of the front, until it is answered or taken back.
#[derive(Debug, Default)]
pub struct Stuck {
    /// The number of the front's turn.
    turn: Option<u32>,
}

/// What is under way, by tasks and beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Tasks by state.
    pub tasks: Counts,
    /// Commands run, or are to start.
    pub has_commands: bool,
    /// Files are to be looked at, or nodes are asked about some.
    pub has_looks: bool,
    /// An invocation has not begun, as something is to be known before.
    pub holds_invocation: bool,
    /// A signal is to follow if what got the last one does not end.
    pub has_signals: bool,
    /// Nodes may come as long as something waits for one.
    pub may_nodes_come: bool,
}

impl UnderWay {
    /// Whether all that is under way is the front's own code. Tasks that are ready wait for nodes, or for what actions
    /// have that wait themselves.
    fn is_with_front_alone(&self) -> bool {
        let Counts { deciding, inspecting, lost, ready, .. } = self.tasks;
        (deciding, inspecting, lost) == (0, 0, 0)
            && !self.has_commands
            && !self.has_looks
            && !self.holds_invocation
            && !self.has_signals
            && (!self.may_nodes_come || ready == 0)
    }
}

impl Stuck {
    /// The front asks, in a turn of its own.
    pub fn on_asked(&mut self, turn: u32) {
        self.turn = Some(turn);
    }

    /// The front has sent something else: it can go on.
    pub fn on_message(&mut self) {
        self.turn = None;
    }

    /// The turn in which the front has asked, once nothing is left that could happen. `under_way` is called only while
    /// there is a question.
    pub fn answer(&mut self, under_way: impl FnOnce() -> UnderWay) -> Option<u32> {
        self.turn.take_if(|_| under_way().is_with_front_alone())
    }
}

/// Since when nothing has run that could make what tasks lack, as far as that was seen.
#[derive(Debug, Default)]
pub struct Calm {
    has_started: bool,
    since: Option<Time>,
}

impl Calm {
    /// Something has started.
    pub fn on_started(&mut self) {
        *self = Self { has_started: true, since: None };
    }

    /// Something has run until now, or may start.
    pub fn on_busy(&mut self) {
        self.since = None;
    }

    /// Nothing runs. Gives the time since when a look counts; before anything has started, any does.
    pub fn on_calm(&mut self, now: Time) -> Option<Time> {
        let since = *self.since.get_or_insert(now);
        self.has_started.then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_that_comes_after_the_last_thing_that_could_make_something() {
        let mut calm = Calm::default();
        assert_eq!(calm.on_calm(Time(3)), None, "nothing has run: there is nothing that was made");
        calm.on_started();
        assert_eq!(calm.on_calm(Time(5)), Some(Time(5)));
        assert_eq!(calm.on_calm(Time(7)), Some(Time(5)), "it has been calm since");
        calm.on_busy();
        assert_eq!(calm.on_calm(Time(9)), Some(Time(9)));
        calm.on_started();
        assert_eq!(calm.on_calm(Time(11)), Some(Time(11)));
    }

    fn asked() -> Stuck {
        let mut stuck = Stuck::default();
        stuck.on_asked(7);
        stuck
    }

    #[test]
    fn a_question_is_answered_once_and_not_when_it_was_taken_back() {
        let mut stuck = Stuck::default();
        assert_eq!(stuck.answer(|| unreachable!("nobody has asked")), None);
        stuck.on_asked(7);
        assert_eq!(stuck.answer(UnderWay::default), Some(7));
        assert_eq!(stuck.answer(UnderWay::default), None);
        stuck.on_asked(8);
        stuck.on_message();
        assert_eq!(stuck.answer(UnderWay::default), None);
    }

    #[test]
    fn no_answer_comes_while_anything_may_still_happen() {
        let none = UnderWay::default();
        let tasks = Counts::default();
        let may_happen = [
            UnderWay { tasks: Counts { deciding: 1, ..tasks }, ..none },
            UnderWay { tasks: Counts { inspecting: 1, ..tasks }, ..none },
            UnderWay { tasks: Counts { lost: 1, ..tasks }, ..none },
            UnderWay { tasks: Counts { ready: 1, ..tasks }, may_nodes_come: true, ..none },
            UnderWay { has_commands: true, ..none },
            UnderWay { has_looks: true, ..none },
            UnderWay { holds_invocation: true, ..none },
            UnderWay { has_signals: true, ..none },
        ];
        let mut stuck = asked();
        for under_way in may_happen {
            assert_eq!(stuck.answer(|| under_way), None, "{under_way:?}");
        }
        assert_eq!(stuck.answer(|| none), Some(7), "the question has waited");
    }

    #[test]
    fn what_waits_for_the_actions_themselves_does_not_put_off_the_answer() {
        let tasks = Counts { running: 2, waiting: 3, ready: 1, defined: 1, ..Counts::default() };
        assert_eq!(asked().answer(|| UnderWay { tasks, ..UnderWay::default() }), Some(7));
        let tasks = Counts { ready: 0, ..tasks };
        let may_nodes_come = true;
        let under_way = UnderWay { tasks, may_nodes_come, ..UnderWay::default() };
        assert_eq!(asked().answer(|| under_way), Some(7), "no node is wanted");
    }
}
