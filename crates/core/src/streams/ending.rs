//! How streams that are open together end: what counts as their fault, which member is to blame for it, which members
//! end because of it, and whether the end of the last action waits for the accounts.
//!
//! It knows no words, accounts or nodes. `F` is what the shell says of a fault, `E` what it keeps of the end of an
//! action that waits.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ids::TaskId;

/// What has become so far of streams that are open together.
#[derive(Debug)]
pub struct Ending<F, E> {
    /// Members whose action has not ended.
    left: BTreeSet<TaskId>,
    /// One of the members did not end well, or a stream is at fault.
    failed: bool,
    /// All has gone through, or a stream is at fault; what nodes report later does not count.
    is_over: bool,
    /// Why they failed by themselves.
    fault: Option<F>,
    /// Members whose commands were to end because of that.
    ended: BTreeSet<TaskId>,
    /// The last member, whose action has ended well, until the accounts are there. While it is held none has failed.
    held: Option<(TaskId, E)>,
}

/// How the action of a member has ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionEnd {
    /// Well.
    Well,
    /// With an exception.
    Failed,
    /// It called `exit`.
    Exited,
}

/// What the end of a member comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberEnd {
    /// Whether readers may take what it has printed as whole.
    pub is_well: bool,
    /// What follows.
    pub then: AfterMember,
}

/// What follows from the end of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterMember {
    /// Others are left.
    GoOn,
    /// It was the last: its end waits for the accounts.
    Hold,
    /// It was the last, and nothing is waited for: the streams are closed.
    Close,
}

/// What follows when streams are over.
#[derive(Debug, PartialEq, Eq)]
pub struct Over<E> {
    /// Who is at fault.
    pub verdict: Verdict,
    /// The end that has waited: the streams are closed, and the action has ended well unless a stream is at fault.
    pub held: Option<(TaskId, E)>,
}

/// Who is at fault when streams are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody: all has gone through.
    Well,
    /// A member had failed before. What follows from that is not said, and nobody else is to blame.
    Follows,
    /// The output of this member is no good: its attempt fails, though its action has ended well.
    Blames(TaskId),
    /// No attempt that could fail for it: the commands of these members end, and so their actions do not end well.
    Ends(Vec<TaskId>),
}

/// What becomes of streams when a node goes over which something may still pass.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeLoss<E> {
    /// Nothing.
    Nothing,
    /// They were only about to go over it, and keep the way that they have.
    KeepWay,
    /// Members were there, and the core ends the gang. An end that was held is let go: the streams are closed, and that
    /// action fails.
    LetGo(Option<(TaskId, E)>),
    /// They are at fault, which uses up no retry of these members.
    Fault(Vec<TaskId>),
}

/// The fault that counts when nodes have reported: what a node says itself comes before a difference between the
/// accounts of all. `are_all`: while reports are missing, there is a difference.
pub fn fault_of_reports<F>(are_all: bool, of_node: Option<F>, difference: Option<F>) -> Option<F> {
    of_node.or(difference.filter(|_| are_all))
}

impl<F, E> Ending<F, E> {
    /// Streams that are open for these members.
    pub fn new(members: impl IntoIterator<Item = TaskId>) -> Self {
        Self {
            left: members.into_iter().collect(),
            failed: false,
            is_over: false,
            fault: None,
            ended: BTreeSet::new(),
            held: None,
        }
    }

    /// Streams that could not be opened: their members have nothing to read and write.
    pub fn not_opened(members: impl IntoIterator<Item = TaskId>, fault: F) -> Self {
        Self { failed: true, is_over: true, fault: Some(fault), ..Self::new(members) }
    }

    /// Members whose action has not ended.
    pub fn left(&self) -> &BTreeSet<TaskId> {
        &self.left
    }

    /// Whether a member did not end well, or a stream is at fault.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether all has gone through, or a stream is at fault.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether bytes still pass, and nothing has failed.
    pub fn is_going_well(&self) -> bool {
        !self.is_over && !self.failed
    }

    /// Whether what had gone through is still to be noted when the streams are closed.
    pub fn is_interrupted(&self) -> bool {
        self.failed && !self.is_over
    }

    /// Why commands find no streams that work.
    pub fn fault(&self) -> Option<&F> {
        self.fault.as_ref()
    }

    /// The fault that counts in place of how the action of a member has ended. One that ends well all the same has not
    /// read, or was not read, as it should have been. One that fails as its command was ended is not to blame.
    pub fn fault_of_action(&self, member: TaskId, end: ActionEnd) -> Option<&F> {
        match end {
            ActionEnd::Well => self.fault.as_ref(),
            ActionEnd::Failed => self.fault_of_command(member, false),
            ActionEnd::Exited => None,
        }
    }

    /// The fault that counts in place of how a command of a member has ended: one that had to end did nothing wrong.
    pub fn fault_of_command(&self, member: TaskId, is_well: bool) -> Option<&F> {
        self.fault.as_ref().filter(|_| !is_well && self.ended.contains(&member))
    }

    /// The action of a member has ended, well or not; `end` makes what the shell keeps of it if that waits. `None`: it
    /// is none that has to end.
    pub fn on_member_ended(
        &mut self,
        member: TaskId,
        is_well: bool,
        end: impl FnOnce() -> E,
    ) -> Option<MemberEnd> {
        if !self.left.remove(&member) {
            return None;
        }
        let is_well = is_well && self.fault.is_none();
        self.failed |= !is_well;
        let then = if !self.left.is_empty() {
            AfterMember::GoOn
        } else if self.is_going_well() {
            self.held = Some((member, end()));
            AfterMember::Hold
        } else {
            AfterMember::Close
        };
        Some(MemberEnd { is_well, then })
    }

    /// The attempt of a member was lost with its node. True: no action is left, so the streams are closed, and an end
    /// that was held ([`Self::let_go`]) is none that went well.
    pub fn on_member_lost(&mut self, member: TaskId) -> bool {
        self.failed = true;
        self.left.remove(&member);
        self.left.is_empty()
    }

    /// Takes the end that is held.
    pub fn let_go(&mut self) -> Option<(TaskId, E)> {
        self.held.take()
    }

    /// Whether the streams are over with what a node reports: with the last report, or the first fault.
    pub fn is_over_with(&self, are_all: bool, has_fault: bool) -> bool {
        !self.is_over && (are_all || has_fault)
    }

    /// The streams are over. `fault`: why they did not go well, with the member whose commands are to blame though they
    /// have ended well, if there is one. `can_fail`: whether the attempt of a member that has ended well can still
    /// fail. `runs_command`: whether a member runs one. `None`: they were over before.
    pub fn on_over(
        &mut self,
        fault: Option<(F, Option<TaskId>)>,
        can_fail: impl Fn(TaskId) -> bool,
        runs_command: impl Fn(TaskId) -> bool,
    ) -> Option<Over<E>> {
        if self.is_over {
            return None;
        }
        self.is_over = true;
        let failed_before = self.failed;
        self.failed |= fault.is_some();
        let culprit = fault.as_ref().map(|(_, culprit)| *culprit);
        self.fault = fault.map(|(fault, _)| fault);
        let verdict = match culprit {
            _ if failed_before => Verdict::Follows,
            None => Verdict::Well,
            Some(Some(member)) if can_fail(member) => Verdict::Blames(member),
            Some(_) => {
                self.ended = self.left.iter().copied().filter(|id| runs_command(*id)).collect();
                Verdict::Ends(self.left.iter().copied().collect())
            }
        };
        Some(Over { verdict, held: self.held.take() })
    }

    /// A node is gone over which something may still pass. `is_joining`: nothing goes over it yet. `has_member`: a
    /// member is, or was, there.
    pub fn on_node_lost(&mut self, is_joining: bool, has_member: bool) -> NodeLoss<E> {
        if self.is_over {
            NodeLoss::Nothing
        } else if is_joining {
            NodeLoss::KeepWay
        } else if has_member {
            self.failed = true;
            NodeLoss::LetGo(self.held.take())
        } else {
            let held = self.held.as_ref().map(|(member, _)| *member);
            NodeLoss::Fault(self.left.iter().copied().chain(held).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const WRITER: TaskId = TaskId(1);
    const READER: TaskId = TaskId(2);
    const OTHER: TaskId = TaskId(3);
    const WHY: &str = "torn";

    type Streams = Ending<&'static str, u8>;

    fn open() -> Streams {
        Ending::new([WRITER, READER])
    }

    fn end(streams: &mut Streams, member: TaskId, is_well: bool) -> Option<MemberEnd> {
        streams.on_member_ended(member, is_well, || 7)
    }

    /// They are over; who has ended well can fail, and the reader runs a command.
    fn over(streams: &mut Streams, fault: Option<(&'static str, Option<TaskId>)>) -> Over<u8> {
        let left = streams.left().clone();
        streams.on_over(fault, |id| !left.contains(&id), |id| id == READER).expect("it is news")
    }

    #[test]
    fn the_end_of_the_last_member_waits_until_all_has_gone_through() {
        let mut streams = open();
        let went_on = MemberEnd { is_well: true, then: AfterMember::GoOn };
        assert_eq!(end(&mut streams, READER, true), Some(went_on));
        assert_eq!(end(&mut streams, READER, true), None, "it has ended");
        let held = MemberEnd { is_well: true, then: AfterMember::Hold };
        assert_eq!(end(&mut streams, WRITER, true), Some(held));
        let well = Over { verdict: Verdict::Well, held: Some((WRITER, 7)) };
        assert_eq!(over(&mut streams, None), well);
        assert!(streams.is_over() && !streams.has_failed() && streams.fault().is_none());
        assert_eq!(streams.on_over(Some((WHY, None)), |_| true, |_| true), None);
        assert!(streams.fault().is_none(), "what is said afterwards does not count");
    }

    #[test]
    fn no_end_is_held_after_a_failure_or_when_all_has_gone_through() {
        let closed = |is_well| Some(MemberEnd { is_well, then: AfterMember::Close });
        let mut streams = open();
        let failed = MemberEnd { is_well: false, then: AfterMember::GoOn };
        assert_eq!(end(&mut streams, READER, false), Some(failed));
        assert!(streams.is_interrupted() && !streams.is_going_well());
        assert_eq!(end(&mut streams, WRITER, true), closed(true));
        let mut streams = open();
        assert_eq!(over(&mut streams, None).verdict, Verdict::Well);
        assert!(!streams.is_interrupted() && !streams.is_going_well());
        end(&mut streams, READER, true);
        assert_eq!(end(&mut streams, WRITER, true), closed(true));
        let mut streams = open();
        end(&mut streams, READER, true);
        assert_eq!(end(&mut streams, WRITER, false), closed(false));
    }

    #[test]
    fn a_member_whose_output_is_no_good_is_blamed_and_nobody_is_ended() {
        let mut streams = open();
        end(&mut streams, WRITER, true);
        let blamed = Over { verdict: Verdict::Blames(WRITER), held: None };
        assert_eq!(over(&mut streams, Some((WHY, Some(WRITER)))), blamed);
        assert!(streams.has_failed());
        assert_eq!(streams.fault(), Some(&WHY));
        assert_eq!(streams.fault_of_command(READER, false), None, "the gang ends it");
    }

    #[test]
    fn members_that_are_left_end_where_nobody_can_be_blamed() {
        for culprit in [None, Some(READER)] {
            let mut streams = open();
            let ended = Verdict::Ends(vec![WRITER, READER]);
            assert_eq!(over(&mut streams, Some((WHY, culprit))).verdict, ended);
            assert_eq!(streams.fault_of_command(READER, false), Some(&WHY));
            assert_eq!(streams.fault_of_command(READER, true), None, "it has ended by itself");
            assert_eq!(streams.fault_of_command(WRITER, false), None, "it ran none");
        }
    }

    #[test]
    fn a_fault_fails_the_action_whose_end_was_held() {
        let mut streams = open();
        end(&mut streams, READER, true);
        end(&mut streams, WRITER, true);
        let over = over(&mut streams, Some((WHY, None)));
        assert_eq!(over, Over { verdict: Verdict::Ends(vec![]), held: Some((WRITER, 7)) });
        assert_eq!(streams.fault_of_action(WRITER, ActionEnd::Well), Some(&WHY));
    }

    #[test]
    fn what_follows_from_the_failure_of_a_member_is_nobodys_fault() {
        for fault in [None, Some((WHY, None)), Some((WHY, Some(WRITER)))] {
            let mut streams = open();
            end(&mut streams, WRITER, false);
            assert_eq!(over(&mut streams, fault).verdict, Verdict::Follows);
            assert_eq!(streams.fault(), fault.map(|_| &WHY));
            assert_eq!(streams.fault_of_command(READER, false), None);
        }
    }

    #[test]
    fn a_fault_counts_in_place_of_good_ends_and_of_those_that_it_has_caused() {
        let mut streams = open();
        assert_eq!(streams.fault_of_action(READER, ActionEnd::Well), None);
        over(&mut streams, Some((WHY, None)));
        let of = |member, end| streams.fault_of_action(member, end).is_some();
        assert!(of(READER, ActionEnd::Well) && of(WRITER, ActionEnd::Well));
        assert!(of(READER, ActionEnd::Failed), "its command was ended");
        assert!(!of(WRITER, ActionEnd::Failed), "it has failed by itself");
        assert!(!of(READER, ActionEnd::Exited));
        let failed = MemberEnd { is_well: false, then: AfterMember::GoOn };
        assert_eq!(end(&mut streams, READER, true), Some(failed), "whatever its action says");
    }

    #[test]
    fn streams_that_could_not_be_opened_fail_who_uses_them() {
        let mut streams: Streams = Ending::not_opened([WRITER], WHY);
        assert_eq!(streams.fault(), Some(&WHY));
        assert!(streams.is_over() && streams.has_failed() && !streams.is_interrupted());
        let closed = MemberEnd { is_well: false, then: AfterMember::Close };
        assert_eq!(end(&mut streams, WRITER, true), Some(closed));
    }

    #[test]
    fn reports_end_streams_when_all_are_there_or_one_tells_a_fault() {
        let mut streams = open();
        assert!(!streams.is_over_with(false, false));
        assert!(streams.is_over_with(true, false) && streams.is_over_with(false, true));
        over(&mut streams, None);
        assert!(!streams.is_over_with(true, true));
        assert_eq!(fault_of_reports(true, Some(1), Some(2)), Some(1));
        assert_eq!(fault_of_reports(true, None, Some(2)), Some(2));
        assert_eq!(fault_of_reports(false, None, Some(2)), None);
        assert_eq!(fault_of_reports(false, Some(1), None), Some(1));
    }

    #[test]
    fn with_the_last_member_that_is_lost_the_streams_are_closed() {
        let mut streams = open();
        assert!(!streams.on_member_lost(READER));
        assert!(streams.is_interrupted());
        assert!(streams.on_member_lost(WRITER));
        let mut streams = open();
        end(&mut streams, WRITER, true);
        end(&mut streams, READER, true);
        assert!(streams.on_member_lost(WRITER), "its attempt counts again");
        assert!(streams.has_failed());
        assert_eq!((streams.let_go(), streams.let_go()), (Some((READER, 7)), None));
    }

    #[test]
    fn a_lost_node_is_a_fault_that_is_not_charged_unless_the_gang_ends_anyway() {
        let mut streams: Streams = Ending::new([WRITER, READER, OTHER]);
        assert_eq!(streams.on_node_lost(true, true), NodeLoss::KeepWay);
        end(&mut streams, READER, true);
        let left = NodeLoss::Fault(vec![WRITER, OTHER]);
        assert_eq!(streams.on_node_lost(false, false), left, "no end is held");
        assert!(streams.is_going_well(), "the fault is still to come");
        assert_eq!(streams.on_node_lost(false, true), NodeLoss::LetGo(None));
        assert!(streams.is_interrupted());
        over(&mut streams, None);
        assert_eq!(streams.on_node_lost(false, false), NodeLoss::Nothing);
    }

    #[test]
    fn an_end_that_is_held_is_not_charged_with_a_lost_node_or_let_go() {
        let mut streams = open();
        end(&mut streams, WRITER, true);
        end(&mut streams, READER, true);
        assert_eq!(streams.on_node_lost(false, false), NodeLoss::Fault(vec![READER]));
        assert_eq!(streams.on_node_lost(false, true), NodeLoss::LetGo(Some((READER, 7))));
        assert!(streams.has_failed());
        assert_eq!(streams.let_go(), None);
    }
}
