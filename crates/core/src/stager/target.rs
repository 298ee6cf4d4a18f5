//! Which of two targets counts when an action has ended well, where nodes share no file system: the one on the node of
//! its commands, or the one at home, which Ruby code may have written, or have had staged out. And where the one at
//! home belongs.
//!
//! It knows no paths, and not what tells one state of a file from another: the shell compares them.

/// A target at home and on a node, as both were when its action had ended well. `T` is how the shell has seen one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoTargets<T> {
    /// Nodes share no file system. If they do there is only one.
    pub is_staged: bool,
    /// The one at home.
    pub home: Option<T>,
    /// That is not what was there when the attempt began.
    pub is_home_changed: bool,
    /// The one on the node of the commands.
    pub there: Option<T>,
}

/// Which target counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichTarget<T> {
    /// What was seen on the node: there is no other, if there is one at all.
    Seen(Option<T>),
    /// The one on the node.
    There(T),
    /// The one at home; the other one is on the node.
    Home(T, Option<T>),
}

impl<T> TwoTargets<T> {
    /// The younger one counts. The one at home may have been there all the time: then it counts only where the node has
    /// none.
    pub fn which(self, modified_ns: impl Fn(&T) -> i128) -> WhichTarget<T> {
        let is_home_younger = |home: &T, there: &T| modified_ns(home) >= modified_ns(there);
        match (self.home, self.there) {
            (_, there) if !self.is_staged => WhichTarget::Seen(there),
            (None, None) => WhichTarget::Seen(None),
            (Some(home), None) => WhichTarget::Home(home, None),
            (Some(home), Some(there)) if self.is_home_changed && is_home_younger(&home, &there) => {
                WhichTarget::Home(home, Some(there))
            }
            (_, Some(there)) => WhichTarget::There(there),
        }
    }
}

/// The surroundings of a target at home that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AroundHome {
    /// Files go with it that are on the node of the commands.
    pub has_secondary: bool,
    /// A target is there, in whatever state.
    pub is_any_there: bool,
    /// The same target is there.
    pub is_same_there: bool,
    /// That node is at home.
    pub is_home_node: bool,
}

/// Where a target at home belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeTargetTo {
    /// Where it is.
    Stay {
        /// It is settled on the node, too.
        settles_there: bool,
        /// It is settled at home at once: what is said of it later would change nothing.
        settles_home: bool,
    },
    /// Beside its secondary files.
    Secondary {
        /// It is not there yet.
        moves: bool,
    },
}

impl AroundHome {
    /// Where the target belongs.
    pub fn place(&self) -> HomeTargetTo {
        if self.has_secondary {
            HomeTargetTo::Secondary { moves: !self.is_same_there && !self.is_home_node }
        } else {
            HomeTargetTo::Stay {
                settles_there: self.is_same_there,
                settles_home: self.is_any_there,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use WhichTarget::{Home, Seen, There};

    /// Of targets that are nothing but the time at which they were modified, ns.
    fn which(home: Option<i128>, is_home_changed: bool, there: Option<i128>) -> WhichTarget<i128> {
        TwoTargets { is_staged: true, home, is_home_changed, there }
            .which(|modified_ns| *modified_ns)
    }

    #[test]
    fn the_younger_of_two_targets_counts_and_of_equal_ones_that_at_home() {
        assert_eq!(which(Some(5), true, Some(6)), There(6));
        assert_eq!(which(Some(6), true, Some(6)), Home(6, Some(6)), "it was staged out");
        assert_eq!(which(Some(7), true, Some(6)), Home(7, Some(6)));
    }

    #[test]
    fn a_target_at_home_that_is_as_it_was_counts_only_where_there_is_no_other() {
        assert_eq!(which(Some(7), false, Some(6)), There(6));
        assert_eq!(which(Some(7), false, None), Home(7, None));
        assert_eq!(which(Some(7), true, None), Home(7, None));
    }

    #[test]
    fn one_target_counts_and_none_is_none() {
        assert_eq!(which(None, false, Some(6)), There(6));
        assert_eq!(which(None, false, None), Seen(None));
    }

    #[test]
    fn where_nodes_share_a_file_system_what_the_node_has_seen_counts() {
        for (home, there) in [(None, Some(6)), (Some(7), Some(6)), (Some(7), None), (None, None)] {
            let targets = TwoTargets { is_staged: false, home, is_home_changed: true, there };
            assert_eq!(targets.which(|modified_ns| *modified_ns), Seen(there));
        }
    }

    fn place(has_secondary: bool, any_same: (bool, bool), is_home_node: bool) -> HomeTargetTo {
        let (is_any_there, is_same_there) = any_same;
        AroundHome { has_secondary, is_any_there, is_same_there, is_home_node }.place()
    }

    #[test]
    fn a_target_at_home_follows_its_secondary_files_unless_it_is_there() {
        let follows = |moves| HomeTargetTo::Secondary { moves };
        assert_eq!(place(true, (false, false), false), follows(true));
        assert_eq!(place(true, (true, false), false), follows(true), "another one is there");
        assert_eq!(place(true, (true, true), false), follows(false));
        assert_eq!(place(true, (false, false), true), follows(false));
    }

    #[test]
    fn a_target_alone_stays_at_home_and_on_the_node_that_has_the_same() {
        let stays =
            |settles_there, settles_home| HomeTargetTo::Stay { settles_there, settles_home };
        assert_eq!(place(false, (false, false), false), stays(false, false));
        assert_eq!(place(false, (true, false), false), stays(false, true));
        assert_eq!(place(false, (true, true), false), stays(true, true));
    }
}
