//! The leader of a host group, on its host: the hub asks it for channels, and each leads to a
//! program that the leader starts on a host of its group, with its own ssh, or on its own host.
//!
//! Links are between the hub and the agents, and it passes their frames on as they are, but for two
//! kinds that it answers for: how nodes are, and beats. Of these it makes one report and one beat for
//! all of its agents, on its own link to the hub; what the hub says there is a beat for all of them.
//! When the connection to the hub ends, or the hub is silent, it ends; what it has started ends with it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use rakuda_agent::remote::{SaidOfNode, node_facts};
use rakuda_link::agent::{AgentLink, Identity};
use rakuda_link::frame::{self, Kind};
use rakuda_link::group::Group;
use rakuda_link::hub::{Reader, Writer};
use rakuda_link::io::{Ending, StateSource};
use rakuda_link::session::Nanoseconds;
use rakuda_link::sieve::Sieve;
use rakuda_link::{mux, relay};
use rakuda_proto::Text;
use rakuda_proto::cluster::{Call, CallFailed, FromAgent};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::program::Depot;
use crate::ssh::{self, LaunchError, Launched};

/// Timeout for the hub to say where a channel is to lead.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Timeout for the ssh of a program that has ended to say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Timeout for the end of a program after the hub has closed its channel.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Time for which what agents say of their nodes is collected; it goes to the hub together.
const REPORT_DELAY: Duration = Duration::from_millis(50);
/// Number of beats for all agents in the time after which the hub counts as gone: one more than a link's own, which is
/// then not needed.
const BEATS_IN_SILENCE: u32 = 6;
/// Maximum silence of an agent, in beats. One that is silent for longer is named.
const BEATS_UNHEARD: u64 = 2;
/// Minimum time between two messages that tell agents that the hub is there.
const HEARD_AGAIN_NS: Nanoseconds = 500_000_000;
/// Maximum bytes that are passed on at once.
const PASSED_BYTES: usize = 16 << 10;

/// Leads until the hub ends that, or the connection to it does, and returns why. Must run inside a
/// `tokio::task::LocalSet`.
pub async fn lead(reader: Reader, writer: Writer) -> String {
    let leader = Rc::new(Leader::new());
    let (sender, mut channels) = mpsc::unbounded_channel();
    let connection = mux::accept(reader, writer, move |channel| drop(sender.send(channel)));
    tokio::pin!(connection);
    loop {
        tokio::select! {
            why = &mut connection => return why,
            () = leader.over.notified() => return leader.why.take(),
            Some(channel) = channels.recv() => {
                let leader = Rc::clone(&leader);
                tokio::task::spawn_local(leader.answer(channel));
            }
        }
    }
}

struct Leader {
    depot: Depot,
    /// Why the link to the hub is over.
    why: RefCell<String>,
    /// It is.
    over: Notify,
    /// Its agents, and what they have reported.
    group: RefCell<Group>,
    /// What it says to each of them by itself.
    own_words: RefCell<BTreeMap<u32, Rc<OwnWords>>>,
    /// An agent has reported something.
    news: Notify,
    /// Where its time begins.
    start: Instant,
    /// When it last reported to its agents that the hub is there.
    beaten_ns: Cell<Nanoseconds>,
}

/// Frames of the leader that go to an agent between two of the hub's.
#[derive(Default)]
struct OwnWords {
    frames: RefCell<Vec<u8>>,
    added: Notify,
}

impl OwnWords {
    fn say(&self, kind: Kind) {
        frame::encode(&mut self.frames.borrow_mut(), kind, b"");
        self.added.notify_one();
    }
}

/// An agent for whose states and beats the leader answers; not any more when it is dropped.
struct Member {
    leader: Rc<Leader>,
    number: u32,
    own_words: Rc<OwnWords>,
}

impl Member {
    fn new(leader: &Rc<Leader>, number: u32) -> Self {
        let own_words = Rc::<OwnWords>::default();
        leader.group.borrow_mut().add(number, leader.now());
        leader.own_words.borrow_mut().insert(number, Rc::clone(&own_words));
        Self { leader: Rc::clone(leader), number, own_words }
    }

    /// Takes what the agent tells of its node.
    fn tell(&self, delta: Vec<u8>) -> std::io::Result<()> {
        let (leader, now) = (&self.leader, self.leader.now());
        leader.group.borrow_mut().tell(self.number, delta, now).map_err(std::io::Error::other)?;
        leader.news.notify_one();
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leader.group.borrow_mut().remove(self.number);
        self.leader.own_words.borrow_mut().remove(&self.number);
    }
}

impl Leader {
    fn new() -> Self {
        #[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can turn")]
        let start = Instant::now();
        Self {
            depot: Depot::default(),
            why: RefCell::default(),
            over: Notify::new(),
            group: RefCell::default(),
            own_words: RefCell::default(),
            news: Notify::new(),
            start,
            beaten_ns: Cell::new(0),
        }
    }

    fn now(&self) -> Nanoseconds {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Serves one channel. Whatever is wrong with it ends it, and nothing else.
    async fn answer(self: Rc<Self>, channel: mux::Channel) {
        let (mut reader, mut writer) = tokio::io::split(channel);
        let call = tokio::time::timeout(CALL_LIMIT, relay::read_call(&mut reader)).await;
        let (host, options, role, member) = match call {
            Ok(Ok(Call::Start { host, ssh_options, role, member })) => {
                (host, ssh_options, role, member)
            }
            Ok(Ok(Call::Leader)) => {
                self.why.replace(serve_own_link(&self, reader, writer).await);
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
            Ok(launched) => {
                let member = member.map(|number| Member::new(&self, number));
                pass_on(launched, member, reader, &mut writer).await
            }
            Err(LaunchError { why, passing }) => {
                relay::say_failed(&mut writer, &CallFailed { why, passing }).await
            }
        };
        let _ = writer.shutdown().await;
    }
}

impl StateSource for Leader {
    /// The connection is the only one there is.
    fn restart(&self) {}

    fn take(&self) -> Option<Vec<u8>> {
        self.group.borrow_mut().take(self.now())
    }

    fn on_taken(&self) {
        let settled = self.group.borrow_mut().settle();
        let own_words = self.own_words.borrow();
        settled.iter().filter_map(|member| own_words.get(member)).for_each(|words| {
            words.say(Kind::StateTaken);
        });
        if self.group.borrow().has_news() {
            self.news.notify_one();
        }
    }

    /// The hub is there: passes that on to agents at once, so none of them takes it for gone later than by a link
    /// without a leader; but not for each of many frames.
    fn on_heard(&self) {
        let now = self.now();
        if now < self.beaten_ns.get() + HEARD_AGAIN_NS {
            return;
        }
        self.beaten_ns.set(now);
        self.own_words.borrow().values().for_each(|words| words.say(Kind::Beat));
    }
}

/// Serves the link to the hub, with what the leader reports for its agents and the beats of both, until one of the two
/// has nothing more to say. Returns why that was.
async fn serve_own_link(
    leader: &Rc<Leader>,
    reader: ReadHalf<mux::Channel>,
    mut writer: WriteHalf<mux::Channel>,
) -> String {
    let session = rakuda_agent::processes::random();
    let identity =
        Identity { token: Text::default(), session, facts: node_facts(&SaidOfNode::default()) };
    let link = AgentLink::new(identity);
    if let Err(error) = relay::say_started(&mut writer).await {
        return error.to_string();
    }
    match link.greet(Box::new(reader), Box::new(writer)).await {
        Err(error) => error.to_string(),
        Ok(connection) => {
            let silence = Duration::from_millis(connection.welcome.settings.silence_ms.into());
            link.set_state_source(Rc::clone(leader) as Rc<dyn StateSource>);
            // What is said goes out in the place of the link's own beat, where both are due.
            let ending = tokio::select! {
                biased;
                never = beat(leader, &link, silence / BEATS_IN_SILENCE) => match never {},
                never = report(leader, &link) => match never {},
                ending = link.serve(connection, |_| ()) => ending,
            };
            match ending {
                Ending::Bye(_) | Ending::SaidBye => "the hub has ended the link".into(),
                Ending::Broken(why) => why,
                Ending::Wrong(error) => error.to_string(),
            }
        }
    }
}

/// Passes reports of agents on to the hub, soon after the first of them has come.
async fn report(leader: &Leader, link: &AgentLink) -> Infallible {
    loop {
        leader.news.notified().await;
        tokio::time::sleep(REPORT_DELAY).await;
        link.offer_state();
    }
}

/// Tells the hub which agents are there.
async fn beat(leader: &Leader, link: &AgentLink, period: Duration) -> Infallible {
    let bearable_ns = BEATS_UNHEARD * u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    loop {
        tokio::time::sleep(period.max(Duration::from_millis(1))).await;
        let silent = leader.group.borrow().silent(leader.now(), bearable_ns);
        link.send(&FromAgent::Beats { silent });
    }
}

/// Passes bytes on in both directions until the program, or the hub, has ended the channel.
async fn pass_on(
    launched: Launched,
    member: Option<Member>,
    mut from_hub: ReadHalf<mux::Channel>,
    to_hub: &mut WriteHalf<mux::Channel>,
) -> std::io::Result<()> {
    let Launched { mut reader, mut writer, ssh } = launched;
    relay::say_started(to_hub).await?;
    let to_program = async {
        let _ = match &member {
            Some(member) => pass_down(member, &mut from_hub, &mut writer).await,
            None => tokio::io::copy(&mut from_hub, &mut writer).await.map(|_| ()),
        };
        drop(writer);
        tokio::time::sleep(CLOSE_LIMIT).await;
    };
    let from_program = async {
        match &member {
            Some(member) => pass_up(member, &mut reader, to_hub).await,
            None => relay::pass_pieces(&mut reader, to_hub).await,
        }
    };
    let passed = tokio::select! {
        passed = from_program => passed,
        () = to_program => Ok(()),
    };
    drop(member);
    if let Err(error) = passed {
        return relay::say_ended(to_hub, error.to_string()).await;
    }
    let _ = tokio::time::timeout(LAST_WORDS, ssh.ended()).await;
    relay::say_ended(to_hub, ssh.words()).await
}

/// What an agent says, but for what the leader answers for, until it ends.
async fn pass_up(
    member: &Member,
    from_agent: &mut (impl AsyncRead + Unpin),
    to_hub: &mut WriteHalf<mux::Channel>,
) -> std::io::Result<()> {
    let mut sieve = Sieve::upwards();
    let (mut buffer, mut passed, mut states) = (vec![0; PASSED_BYTES], Vec::new(), Vec::new());
    loop {
        let length = from_agent.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        member.leader.group.borrow_mut().hear(member.number, member.leader.now());
        sieve.sift(&buffer[..length], &mut passed, &mut states);
        states.drain(..).try_for_each(|delta| member.tell(delta))?;
        relay::pass_bytes(to_hub, &passed).await?;
        passed.clear();
    }
}

/// What the hub says to an agent, and what the leader does, until the hub has ended the channel.
async fn pass_down(
    member: &Member,
    from_hub: &mut ReadHalf<mux::Channel>,
    to_agent: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let mut sieve = Sieve::downwards();
    let (mut buffer, mut passed) = (vec![0; PASSED_BYTES], Vec::new());
    loop {
        let length = tokio::select! {
            length = from_hub.read(&mut buffer) => match length? {
                0 => return Ok(()),
                length => length,
            },
            () = member.own_words.added.notified() => 0,
        };
        sieve.put_in(&member.own_words.frames.take());
        sieve.sift(&buffer[..length], &mut passed, &mut Vec::new());
        to_agent.write_all(&passed).await?;
        to_agent.flush().await?;
        passed.clear();
    }
}
