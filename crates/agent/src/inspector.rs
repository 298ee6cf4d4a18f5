//! Answers the hub's file probes, and probes for what commands have left behind, away from the
//! thread that watches commands: a file system that hangs holds up no command.
//!
//! `Look`, `LookAround` and `AskResident` are answered in order, by one thread; each `Expect` and
//! `EndLeft` waits for itself. It remembers what it has seen of files (`seen`), so that it looks at
//! each once to vouch for it and to measure what is in memory.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rakuda_proto::Text;
use rakuda_proto::agent::CommandId;
use rakuda_proto::cluster::{FromAgent, ToAgent};
use rakuda_proto::journal::FileIdentity;
use tokio::sync::mpsc::UnboundedSender;

use crate::seen::SeenFiles;
use crate::visibility::{expect, seen_of, wait_until_gone};
use crate::{operations, processes, residency, secondary, stamps, trees};

/// Answers file probes through a channel.
#[derive(Debug)]
pub struct Inspector {
    probes: Sender<(PathBuf, ToAgent)>,
    answers: UnboundedSender<FromAgent>,
    files: Arc<Mutex<SeenFiles>>,
}

impl Inspector {
    /// One that answers to `answers`.
    pub fn new(answers: UnboundedSender<FromAgent>) -> std::io::Result<Self> {
        let (probes, asked) = channel();
        let to = answers.clone();
        let files = Arc::<Mutex<SeenFiles>>::default();
        let known = Arc::clone(&files);
        std::thread::Builder::new()
            .name("inspector".to_owned())
            .spawn(move || answer_all(&asked, &to, &known))?;
        Ok(Self { probes, answers, files })
    }

    /// Takes a file probe; relative names start at `base`. Any other message is given back.
    /// Must be called inside a `tokio::task::LocalSet`.
    pub fn ask(&self, base: &Path, message: ToAgent) -> Option<ToAgent> {
        match message {
            ToAgent::Look { .. } | ToAgent::LookAround { .. } | ToAgent::AskResident { .. } => {
                // The thread ends only with this inspector.
                let _ = self.probes.send((base.to_path_buf(), message));
                None
            }
            ToAgent::TellTime { probe } => {
                let _ = self.answers.send(FromAgent::Time { probe, now_ns: stamps::moment_ns() });
                None
            }
            ToAgent::Expect { probe, files, gone, limit_ms } => {
                let (base, answers) = (base.to_path_buf(), self.answers.clone());
                let known = Arc::clone(&self.files);
                tokio::task::spawn_local(async move {
                    let limit = Duration::from_millis(u64::from(limit_ms));
                    if let Some(name) = gone {
                        wait_until_gone(&base.join(name.as_path()), limit).await;
                    }
                    // While something hangs that is measured, this thread must not wait for it;
                    // what is not noted is looked at again.
                    let note = |path: &Path, seen| {
                        if let Ok(mut files) = known.try_lock() {
                            files.note(path, seen);
                        }
                    };
                    let wrong = expect(&base, &files, limit, note).await;
                    let operations = operations::take();
                    let _ = answers.send(FromAgent::Seen { probe, wrong, operations });
                });
                None
            }
            ToAgent::EndLeft { probe, commands } => {
                let answers = self.answers.clone();
                tokio::task::spawn_local(async move {
                    let ending = tokio::task::spawn_blocking(move || end_left(&commands));
                    let killed = ending.await.unwrap_or(0);
                    let _ = answers.send(FromAgent::LeftEnded { probe, killed });
                });
                None
            }
            ToAgent::Request(_)
            | ToAgent::SignalAll { .. }
            | ToAgent::EndAll
            | ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. }
            | ToAgent::Sample { .. }
            | ToAgent::SampleNow { .. }
            | ToAgent::TellExactly { .. } => Some(message),
        }
    }
}

/// Ends what commands have left behind that carries their marks; how many processes there were.
fn end_left(commands: &[CommandId]) -> u32 {
    let Some(mark) = processes::own_mark() else { return 0 };
    let marks = commands.iter().map(|command| processes::command_mark(&mark, *command));
    let marks = marks.map(String::into_bytes).collect();
    u32::try_from(trees::kill_all_with(processes::COMMAND_VARIABLE, &marks)).unwrap_or(u32::MAX)
}

fn lock(files: &Mutex<SeenFiles>) -> std::sync::MutexGuard<'_, SeenFiles> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at a file and remembers what was seen.
fn look(path: &Path, known: &Mutex<SeenFiles>) -> Option<FileIdentity> {
    let seen = seen_of(path)?;
    lock(known).note(path, seen);
    Some(seen.identity)
}

fn answer_all(
    asked: &Receiver<(PathBuf, ToAgent)>,
    answers: &UnboundedSender<FromAgent>,
    known: &Mutex<SeenFiles>,
) {
    while let Ok((base, message)) = asked.recv() {
        let answer = match message {
            ToAgent::Look { probe, paths } => {
                let look = |path: &Text| look(&base.join(path.as_path()), known);
                let files = paths.iter().map(look).collect();
                FromAgent::Looked { probe, files, operations: operations::take() }
            }
            ToAgent::LookAround { probe, path, searches } => {
                let path = base.join(path.as_path());
                let target = look(&path, known);
                let each = searches.iter().map(|search| secondary::find(&base, &path, search));
                let (found, more): (Vec<_>, Vec<bool>) = each.unzip();
                let (more, operations) = (more.contains(&true), operations::take());
                FromAgent::LookedAround { probe, target, found, more, operations }
            }
            ToAgent::AskResident { probe, files } => {
                let files = residency::of_all(&base, &files, &mut lock(known));
                FromAgent::Resident { probe, files }
            }
            ToAgent::Expect { .. }
            | ToAgent::TellTime { .. }
            | ToAgent::Sample { .. }
            | ToAgent::SampleNow { .. }
            | ToAgent::TellExactly { .. }
            | ToAgent::Request(_)
            | ToAgent::SignalAll { .. }
            | ToAgent::EndAll
            | ToAgent::EndLeft { .. }
            | ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. } => continue,
        };
        if answers.send(answer).is_err() {
            // Whoever wanted answers is gone.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visibility::identity_of;
    use rakuda_proto::files::FileVersion;

    /// Operations are counted for the whole process, from one answer to the next.
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    #[tokio::test(flavor = "current_thread")]
    async fn probes_are_answered_in_order_and_other_messages_given_back() {
        let _alone = ALONE.lock().await;
        let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let inspector = Inspector::new(sender).unwrap();
        let base = Path::new(env!("CARGO_MANIFEST_DIR"));
        let paths = vec![Text::from("Cargo.toml".to_owned()), Text::from("none".to_owned())];
        let look = ToAgent::Look { probe: 1, paths: paths.clone() };
        assert_eq!(inspector.ask(base, look), None);
        let version = FileVersion { bytes: 1, modified_ns: 1 };
        let files = paths.into_iter().map(|path| (path, version)).collect();
        assert_eq!(inspector.ask(base, ToAgent::AskResident { probe: 2, files }), None);
        let other = ToAgent::SignalAll { signal: 0 };
        assert_eq!(inspector.ask(base, other.clone()), Some(other));
        let Some(FromAgent::Looked { probe: 1, files, operations }) = answers.recv().await else {
            panic!("expected to hear what the files are first");
        };
        assert_eq!(files, [identity_of(&base.join("Cargo.toml")), None]);
        assert!(operations.all >= 2);
        let Some(FromAgent::Resident { probe: 2, files }) = answers.recv().await else {
            panic!("expected to hear what is in memory second");
        };
        assert_eq!(files.len(), 2);
        assert_eq!(files[1], None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_not_seen_in_time_is_reported() {
        let _alone = ALONE.lock().await;
        let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let inspector = Inspector::new(sender).unwrap();
        let name = Text::from("none".to_owned());
        let vouched = identity_of(Path::new("/")).unwrap();
        let files = vec![(name.clone(), vouched)];
        let message = ToAgent::Expect { probe: 3, files, gone: Some(name.clone()), limit_ms: 0 };
        let local = tokio::task::LocalSet::new();
        let answer = local
            .run_until(async {
                assert_eq!(inspector.ask(Path::new("/nonexistent"), message), None);
                answers.recv().await
            })
            .await;
        let Some(FromAgent::Seen { probe: 3, wrong, operations }) = answer else {
            panic!("expected to hear what was not seen");
        };
        assert_eq!(wrong, Some((name, None)));
        assert!(operations.all >= 1);
    }
}
