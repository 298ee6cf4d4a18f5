//! How a host is reached: by ssh from here, or by the leader of its group. Either way there are two
//! directions of bytes to a program there, and words about its end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rakuda_link::hub::{LinkHandle, Reader, Writer};
use rakuda_link::relay::LastWords;
use rakuda_proto::cluster::Role;

use crate::launcher::Launcher;
use crate::leaders::{Carried, Leader, Membership};
use crate::ssh::{self, LaunchError, Launched};
use crate::watched::Watched;

/// Timeout for what carried a link that was lost to say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How a host is reached.
pub(crate) enum Route {
    /// By ssh from this machine.
    Ssh,
    /// By the leader of its group.
    Through(Membership),
}

/// A program on a host, started.
pub(crate) struct Reached {
    pub reader: Reader,
    pub writer: Writer,
    pub carrier: Carrier,
}

/// What has it, and may know why it ended. Dropping it ends it.
pub(crate) enum Carrier {
    Ssh(Watched),
    /// A channel through a leader.
    Channel {
        words: LastWords,
        leader: Rc<Leader>,
        /// Which of its starts that was.
        start: u32,
        /// It answers for the states and beats of the agent at the other end.
        carried: Option<Carried>,
    },
}

impl Route {
    /// Starts the engine's program on `host` as `role`.
    pub async fn launch(
        &self,
        host: &str,
        role: Role,
        launcher: &Launcher,
    ) -> Result<Reached, LaunchError> {
        match self {
            Self::Ssh => {
                let permit = launcher.permits.acquire().await;
                let options = &launcher.ssh_options;
                let launched = ssh::launch(host, options, &launcher.depot, role).await?;
                drop(permit);
                let Launched { reader, writer, ssh } = launched;
                let (reader, writer) = (Box::new(reader), Box::new(writer));
                Ok(Reached { reader, writer, carrier: Carrier::Ssh(ssh) })
            }
            Self::Through(membership) => membership.leader().launch(host, role).await,
        }
    }

    /// Whether no host can be reached on this route any more.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Ssh => false,
            Self::Through(membership) => membership.leader().is_over(),
        }
    }
}

impl Carrier {
    /// The link that it carries, before that has greeted.
    pub fn set_link(&self, link: &LinkHandle, up: &Rc<Cell<bool>>) {
        if let Self::Channel { carried: Some(carried), .. } = self {
            carried.set_link(link, up);
        }
    }

    /// `why` a link has ended, with what ssh, the program on its stderr, or the leader has said about it.
    pub async fn explain(&self, why: String) -> String {
        let words = match self {
            Self::Ssh(ssh) => {
                let _ = tokio::time::timeout(LAST_WORDS, ssh.ended()).await;
                ssh.words()
            }
            Self::Channel { words, leader, start, carried: _ } => {
                let said = words.borrow().clone();
                if said.is_empty() {
                    // The leader's own loss is known when its ssh has said why.
                    let lost = leader.loss(*start);
                    tokio::time::timeout(2 * LAST_WORDS, lost).await.unwrap_or_default()
                } else {
                    said
                }
            }
        };
        if words.is_empty() { why } else { format!("{why}: {words}") }
    }
}
