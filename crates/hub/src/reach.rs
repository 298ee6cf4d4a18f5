//! Which files in Gfarm can be read, as the hub finds it out: rounds of questions run, names stand
//! for numbers, and users get warnings.
//!
//! What is asked, when, and what follows for files and failures is the core's
//! (`rakuda_core::Reachability`, docs/design/reach.md). How it is found out is
//! `rakuda_locate::reach`'s business.

pub(crate) mod state;

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rakuda_core::{
    ActionOutcome, Event, FilePlaces as _, HostId, Input, Reach, ReachEffect, ReachInput,
    ReachWarning, TaskId,
};
use rakuda_locate::Reached;

use crate::hub::Hub;
use state::RoundAnswer;

/// Maximum number of files that a warning names.
const NAMED: usize = 3;

impl Hub {
    /// Does what reachability wants.
    pub(crate) fn perform_for_reach(&mut self, effect: ReachEffect) {
        match effect {
            ReachEffect::Ask { round, files } => self.ask_who_hands_out(round, &files),
            ReachEffect::PassOn { id } => {
                self.forget_left(id);
                self.finish_attempt(id, ActionOutcome::Failed);
            }
            ReachEffect::HandedOut { id, hosts } => {
                let hosts: Vec<Vec<u8>> =
                    hosts.iter().map(|host| self.reach.hosts.name(*host).to_vec()).collect();
                self.inputs.set_found(id, &hosts);
            }
            ReachEffect::Back { files } => {
                let files = files.into_iter().map(|id| (id, self.inputs.places_of(id))).collect();
                self.event(Event::FilesFound { files });
            }
            ReachEffect::Event(event) => self.event(event),
            ReachEffect::Warn(warning) => self.warn_of_reach(&warning),
            ReachEffect::FreeName { id } => self.reach.to_free = Some(id),
            // Done by the run and by `tell`.
            ReachEffect::Attribute { .. } | ReachEffect::Continue => {}
        }
    }

    /// Runs a round of questions beside the loop.
    fn ask_who_hands_out(&mut self, round: u32, files: &[TaskId]) {
        let Some(mount) = &self.reach.mount else { return };
        let question = |id: &TaskId| {
            let file = self.settings.directory.join(OsStr::from_bytes(self.names.name(*id)));
            Some((id.0, mount.path_of(&file)?.into_os_string().into_vec()))
        };
        let questions: Vec<_> = files.iter().filter_map(question).collect();
        let sender = self.reach.sender.clone();
        tokio::task::spawn_local(async move {
            // The hub is gone only when the run is over.
            let _ = sender.send((round, rakuda_locate::reach(&questions).await));
        });
    }

    /// Takes the answers of a round.
    pub(crate) fn on_reached(&mut self, (round, reached): RoundAnswer) {
        let input = match reached {
            Ok(Reached { files, unresponsive }) => {
                let hosts = &mut self.reach.hosts;
                let files = files.into_iter().map(|(id, reach)| {
                    let reach = match reach {
                        rakuda_locate::Reach::Hosts(names) => {
                            Reach::Hosts(names.into_iter().map(|name| hosts.number(name)).collect())
                        }
                        rakuda_locate::Reach::Nowhere => Reach::Nowhere,
                        rakuda_locate::Reach::Unknown => Reach::Unknown,
                    };
                    (TaskId(id), reach)
                });
                let files = files.collect();
                let unresponsive = unresponsive.into_iter();
                let unresponsive =
                    unresponsive.map(|(name, file)| (hosts.number(name), TaskId(file))).collect();
                ReachInput::Answered { round, files, unresponsive }
            }
            Err(reason) => {
                self.reach.reason = reason;
                ReachInput::Unanswered { round }
            }
        };
        self.tell(Input::Reach(input));
    }

    fn warn_of_reach(&mut self, warning: &ReachWarning) {
        let seconds = |ns: u64| ns / 1_000_000_000;
        let hosts = |unresponsive: &[HostId]| self.reach.hosts.list(unresponsive);
        let text = match warning {
            ReachWarning::CannotAsk => {
                let reason = &self.reach.reason;
                format!(
                    "cannot find out which files in Gfarm can be read (failed to {reason}): none is made again"
                )
            }
            ReachWarning::OutOfReach { files, unresponsive } => {
                let why = match unresponsive.as_slice() {
                    [] => "no host that is up has it".to_owned(),
                    unresponsive => format!("no answer from gfsd on {}", hosts(unresponsive)),
                };
                format!(
                    "{} out of reach in Gfarm ({why}); what is needed is made again",
                    self.subject(files)
                )
            }
            ReachWarning::InputAwaited { id, wait_ns } => format!(
                "{} is needed, and out of reach in Gfarm; nothing makes it: waiting for it for {} s",
                self.display_name(*id),
                seconds(*wait_ns)
            ),
            ReachWarning::InputGivenUp { id, wait_ns } => format!(
                "{} was out of reach in Gfarm for {} s: given up; start gfsd where it lies (`gfwhere`), and run again",
                self.display_name(*id),
                seconds(*wait_ns)
            ),
            ReachWarning::FailureDeferred { id, unresponsive } => format!(
                "{} failed while gfsd on {} does not answer: such tasks are tried again when Gfarm takes the host for gone, or it answers",
                self.display_name(*id),
                hosts(unresponsive)
            ),
        };
        self.warn(&text);
    }

    /// Files as the subject of a sentence.
    fn subject(&self, files: &[TaskId]) -> String {
        let names = |ids: &[TaskId]| {
            ids.iter().map(|id| self.display_name(*id)).collect::<Vec<_>>().join(", ")
        };
        match files {
            [_] => format!("{} is", names(files)),
            few if few.len() <= NAMED => format!("{} are", names(few)),
            many => format!("{} and {} more are", names(&many[..NAMED]), many.len() - NAMED),
        }
    }

    /// The catalogue says that no host that is up holds a file. Whether that is news to the core.
    pub(crate) fn on_held_by_none(&mut self, id: TaskId) -> bool {
        let before = self.run.reach().is_lost(id);
        self.tell(Input::Reach(ReachInput::HeldByNone { id }));
        !before && self.run.reach().is_lost(id)
    }

    /// Hosts that a failed task waits for.
    pub(crate) fn waits_for_unresponsive(&self, id: TaskId) -> Option<String> {
        let hosts = self.run.reach().waits_for(id)?;
        Some(self.reach.hosts.list(&hosts))
    }

    /// A task begins: whether its file is out of reach, and its name has been made free for the new one.
    pub(crate) fn make_room_for(&mut self, id: TaskId, target: &std::path::Path) -> bool {
        self.tell(Input::Reach(ReachInput::MakingBegan { id }));
        if self.reach.has_servers() {
            self.inputs.forget(id);
        }
        if self.reach.to_free.take() != Some(id) {
            return false;
        }
        rakuda_agent::operations::count(target, 1);
        // Where it cannot be removed, the command says so that writes to it.
        std::fs::remove_file(target).is_ok()
    }
}
