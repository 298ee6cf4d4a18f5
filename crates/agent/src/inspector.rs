//! Answers the hub's questions about files, away from the thread that watches commands: a file system that hangs holds up no command.
//!
//! `Look`, `LookAround` and `AskResident` are answered in order, by one thread; each `Expect` waits for itself. It remembers nothing.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rakuda_proto::cluster::{FromAgent, ToAgent};
use tokio::sync::mpsc::UnboundedSender;

use crate::beside::beside;
use crate::visibility::{expect, identity_of};
use crate::{clock, operations, residency};

/// Answers questions through a channel.
#[derive(Debug)]
pub struct Inspector {
    questions: Sender<(PathBuf, ToAgent)>,
    answers: UnboundedSender<FromAgent>,
}

impl Inspector {
    /// One that answers to `answers`.
    pub fn new(answers: UnboundedSender<FromAgent>) -> std::io::Result<Self> {
        let (questions, asked) = channel();
        let to = answers.clone();
        std::thread::Builder::new()
            .name("inspector".to_owned())
            .spawn(move || answer_all(&asked, &to))?;
        Ok(Self { questions, answers })
    }

    /// Takes a question; relative names start at `base`. What is no question about files is given back. Must be called inside a
    /// `tokio::task::LocalSet`.
    pub fn ask(&self, base: &Path, question: ToAgent) -> Option<ToAgent> {
        match question {
            ToAgent::Look { .. } | ToAgent::LookAround { .. } | ToAgent::AskResident { .. } => {
                // The thread ends only with this inspector.
                let _ = self.questions.send((base.to_path_buf(), question));
                None
            }
            ToAgent::TellTime { question } => {
                let _ = self.answers.send(FromAgent::Time { question, now_ns: clock::file_ns() });
                None
            }
            ToAgent::Expect { question, files, limit_ms } => {
                let (base, answers) = (base.to_path_buf(), self.answers.clone());
                tokio::task::spawn_local(async move {
                    let limit = Duration::from_millis(u64::from(limit_ms));
                    let wrong = expect(&base, &files, limit).await;
                    let operations = operations::take();
                    let _ = answers.send(FromAgent::Seen { question, wrong, operations });
                });
                None
            }
            ToAgent::Request(_)
            | ToAgent::SignalAll { .. }
            | ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. } => Some(question),
        }
    }
}

fn answer_all(asked: &Receiver<(PathBuf, ToAgent)>, answers: &UnboundedSender<FromAgent>) {
    while let Ok((base, question)) = asked.recv() {
        let answer = match question {
            ToAgent::Look { question, paths } => {
                let look = |path: &rakuda_proto::Text| identity_of(&base.join(path.as_path()));
                let files = paths.iter().map(look).collect();
                FromAgent::Looked { question, files, operations: operations::take() }
            }
            ToAgent::LookAround { question, path, since_ns } => {
                let path = base.join(path.as_path());
                let target = identity_of(&path);
                let (beside, more) = beside(&path, since_ns);
                let operations = operations::take();
                FromAgent::LookedAround { question, target, beside, more, operations }
            }
            ToAgent::AskResident { question, paths } => {
                FromAgent::Resident { question, files: residency::of_all(&base, &paths) }
            }
            ToAgent::Expect { .. }
            | ToAgent::TellTime { .. }
            | ToAgent::Request(_)
            | ToAgent::SignalAll { .. }
            | ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. } => continue,
        };
        if answers.send(answer).is_err() {
            // Nobody wants answers any more.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::Text;

    #[tokio::test(flavor = "current_thread")]
    async fn questions_are_answered_in_order_and_other_messages_given_back() {
        let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let inspector = Inspector::new(sender).unwrap();
        let base = Path::new(env!("CARGO_MANIFEST_DIR"));
        let paths = vec![Text::from("Cargo.toml".to_owned()), Text::from("none".to_owned())];
        let look = ToAgent::Look { question: 1, paths: paths.clone() };
        assert_eq!(inspector.ask(base, look), None);
        assert_eq!(inspector.ask(base, ToAgent::AskResident { question: 2, paths }), None);
        let other = ToAgent::SignalAll { signal: 0 };
        assert_eq!(inspector.ask(base, other.clone()), Some(other));
        let Some(FromAgent::Looked { question: 1, files, operations }) = answers.recv().await
        else {
            panic!("expected to be told what the files are first");
        };
        assert_eq!(files, [identity_of(&base.join("Cargo.toml")), None]);
        assert!(operations >= 2);
        let Some(FromAgent::Resident { question: 2, files }) = answers.recv().await else {
            panic!("expected to be told what is in memory second");
        };
        assert_eq!(files.len(), 2);
        assert_eq!(files[1], None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_not_seen_in_time_is_told() {
        let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let inspector = Inspector::new(sender).unwrap();
        let name = Text::from("none".to_owned());
        let vouched = identity_of(Path::new("/")).unwrap();
        let question =
            ToAgent::Expect { question: 3, files: vec![(name.clone(), vouched)], limit_ms: 0 };
        let local = tokio::task::LocalSet::new();
        let answer = local
            .run_until(async {
                assert_eq!(inspector.ask(Path::new("/nonexistent"), question), None);
                answers.recv().await
            })
            .await;
        let Some(FromAgent::Seen { question: 3, wrong, operations }) = answer else {
            panic!("expected to be told what was not seen");
        };
        assert_eq!(wrong, Some((name, None)));
        assert!(operations >= 1);
    }
}
