//! The leader of a host group, on its host: the hub asks it for streams, and each leads to a
//! program that the leader starts on a host of its group, with its own ssh, or on its own host.
//!
//! It passes bytes on and looks at none of them: links are between the hub and the agents. When the
//! connection to the hub ends, or the hub is silent, it ends; what it has started ends with it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rakuda_agent::remote::{SaidOfNode, node_facts};
use rakuda_link::agent::{AgentLink, Identity};
use rakuda_link::hub::{Reader, Writer};
use rakuda_link::io::Ending;
use rakuda_link::{mux, relay};
use rakuda_proto::Text;
use rakuda_proto::cluster::{Call, CallFailed};
use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};

use crate::program::Depot;
use crate::ssh::{self, LaunchError, Launched};

/// The hub has so long to say where a stream is to lead.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// After a program's end its ssh has so long to say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// After the hub has closed a stream its program has so long to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Leads until the hub ends that, or the connection to it does; says why. Must run inside a `tokio::task::LocalSet`.
pub async fn lead(reader: Reader, writer: Writer) -> String {
    let leader = Rc::<Leader>::default();
    let (sender, mut streams) = mpsc::unbounded_channel();
    let connection = mux::accept(reader, writer, move |stream| drop(sender.send(stream)));
    tokio::pin!(connection);
    loop {
        tokio::select! {
            why = &mut connection => return why,
            () = leader.over.notified() => return leader.why.take(),
            Some(stream) = streams.recv() => {
                let leader = Rc::clone(&leader);
                tokio::task::spawn_local(async move { leader.answer(stream).await });
            }
        }
    }
}

#[derive(Default)]
struct Leader {
    depot: Depot,
    /// Why the link to the hub is over.
    why: RefCell<String>,
    /// It is.
    over: Notify,
}

impl Leader {
    /// Serves one stream. Whatever is wrong with it ends it, and nothing else.
    async fn answer(&self, stream: mux::Stream) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let call = tokio::time::timeout(CALL_LIMIT, relay::read_call(&mut reader)).await;
        let (host, options, role) = match call {
            Ok(Ok(Call::Start { host, ssh_options, role })) => (host, ssh_options, role),
            Ok(Ok(Call::Leader)) => {
                self.why.replace(beat(reader, writer).await);
                return self.over.notify_one();
            }
            Ok(Err(_)) | Err(_) => return,
        };
        let options: Vec<Vec<u8>> = options.into_iter().map(|word| word.0).collect();
        let launched = match host {
            Some(host) => ssh::launch(&host, &options, &self.depot, role).await,
            None => ssh::launch_here(role),
        };
        // When the hub has gone meanwhile there is nobody to tell.
        let _ = match launched {
            Ok(launched) => pass_on(launched, reader, &mut writer).await,
            Err(LaunchError { why, passing }) => {
                relay::say_failed(&mut writer, &CallFailed { why, passing }).await
            }
        };
        let _ = writer.shutdown().await;
    }
}

/// The link to the hub: beats in both directions, until one of the two has nothing more to say.
/// Gives back why that was.
async fn beat(reader: ReadHalf<mux::Stream>, mut writer: WriteHalf<mux::Stream>) -> String {
    let session = rakuda_agent::processes::random();
    let identity =
        Identity { token: Text::default(), session, facts: node_facts(&SaidOfNode::default()) };
    let link = AgentLink::new(identity);
    if let Err(error) = relay::say_started(&mut writer).await {
        return error.to_string();
    }
    match link.greet(Box::new(reader), Box::new(writer)).await {
        Err(error) => error.to_string(),
        Ok(connection) => match link.serve(connection, |_| ()).await {
            Ending::Bye(_) | Ending::SaidBye => "the hub has ended the link".into(),
            Ending::Broken(why) => why,
            Ending::Wrong(error) => error.to_string(),
        },
    }
}

/// Passes bytes on in both directions until the program, or the hub, has ended the stream.
async fn pass_on(
    launched: Launched,
    mut from_hub: ReadHalf<mux::Stream>,
    to_hub: &mut WriteHalf<mux::Stream>,
) -> std::io::Result<()> {
    let Launched { mut reader, mut writer, ssh } = launched;
    relay::say_started(to_hub).await?;
    let to_program = async move {
        let _ = tokio::io::copy(&mut from_hub, &mut writer).await;
        drop(writer);
        tokio::time::sleep(CLOSE_LIMIT).await;
    };
    tokio::select! {
        passed = relay::pass_pieces(&mut reader, to_hub) => passed?,
        () = to_program => {}
    }
    let _ = tokio::time::timeout(LAST_WORDS, ssh.ended()).await;
    relay::say_ended(to_hub, ssh.words()).await
}
