//! Streams between the commands of this node: pipes, and threads that pass on what comes.
//!
//! `Openings` keeps the ends of pipes that commands get; `relay` is the thread of one opening; `hops` are ends of edges
//! to other hosts, `carrier` connects them, and `cost` measures what a message takes there; `spool` keeps what goes
//! through a stream in a file, and `spill` what slow readers have not read; `holders` finds the processes that keep the
//! pipe of a task that has ended. What goes where is decided in `rakuda_core::streams`.

mod carrier;
mod cost;
mod holders;
mod hops;
mod relay;
mod spill;
mod spool;
mod stalls;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rakuda_link::credentials::Credentials;
use rakuda_link::peers::Key;
use rakuda_proto::Text;
use rakuda_proto::agent::AgentEvent;
use rakuda_proto::streams::{HopSet, OpeningId, StreamEnd, StreamEvent, StreamPlan, StreamRequest};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::sync::mpsc::UnboundedSender;

use carrier::Carrier;
pub(crate) use carrier::pass_on;
use hops::{HopIntake, HopOutlet};
use relay::{Intake, Outlet, Relay, RelayHandle, Through};
use spool::{KeptSpools, files_allowed};

/// Bytes that the kernel is asked to keep in each pipe. The limit of a user for all pipes together
/// (pipe-user-pages-soft) allows 64 MiB of them, after which pipes stay as they are.
const PIPE_BYTES: usize = 256 << 10;

/// The ends that the commands of one task get.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// For descriptor 0.
    stdin: Option<OwnedFd>,
    /// For descriptor 1.
    stdout: Option<OwnedFd>,
    /// All readers of what it writes have left.
    pub unread: Arc<AtomicBool>,
}

impl Ends {
    /// For descriptor 0.
    pub fn stdin(&self) -> Option<RawFd> {
        self.stdin.as_ref().map(OwnedFd::as_raw_fd)
    }

    /// For descriptor 1.
    pub fn stdout(&self) -> Option<RawFd> {
        self.stdout.as_ref().map(OwnedFd::as_raw_fd)
    }

    /// The status of a command of it that counts. As in a shell, a program that dies because it writes what nobody
    /// reads any more has not failed.
    pub fn status_of(&self, status: i32) -> i32 {
        let by_signal = status & 0x7f == libc::SIGPIPE;
        let by_shell = status == (128 + libc::SIGPIPE) << 8;
        let ended_well = (by_signal || by_shell) && self.unread.load(Ordering::Acquire);
        if ended_well { 0 } else { status }
    }
}

/// One component in one attempt.
#[derive(Debug)]
struct Opening {
    relay: RelayHandle,
    members: BTreeMap<u32, Rc<Ends>>,
    /// By edge to another host: what its connection begins with.
    keys: BTreeMap<u32, Key>,
}

/// All that are open.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    open: BTreeMap<OpeningId, Opening>,
    /// Started with the first edge to another host.
    carrier: Option<Carrier>,
    spools: KeptSpools,
}

/// Ends of edges, by number, until their streams have them.
type HopEnds = BTreeMap<u32, (UnixStream, String)>;

impl Openings {
    /// Does what the hub asks.
    pub fn handle(&mut self, request: StreamRequest, events: &UnboundedSender<AgentEvent>) {
        match request {
            StreamRequest::Open(id, plans, hops) => {
                let ends = plans.iter().map(|plan| plan.writers.len() + plan.readers.len()).sum();
                if let Err(error) = self.open(id, plans, hops.as_deref(), events) {
                    let why = words_of(&error, ends);
                    let why = format!("could not open its streams: {why}").into();
                    let ended = StreamEvent::Ended(id, Vec::new(), Some(why));
                    let _ = events.send(AgentEvent::Streams(ended));
                }
            }
            StreamRequest::Dial(id, edge, addresses) => {
                let key = self.open.get(&id).and_then(|opening| opening.keys.get(&edge));
                if let (Some(key), Some(carrier)) = (key, &self.carrier) {
                    let read = |text: &Text| text.to_display().parse::<SocketAddr>().ok();
                    carrier.dial(id, edge, *key, addresses.iter().filter_map(read).collect());
                }
            }
            StreamRequest::EndMember(id, task, well) => {
                if let Some(opening) = self.open.get_mut(&id) {
                    // The ends of the pipes go first: then the thread sees what is true.
                    opening.members.remove(&task);
                    opening.relay.end_member(task, well);
                    if opening.members.is_empty() && opening.relay.is_finished() {
                        self.open.remove(&id);
                    }
                }
            }
            StreamRequest::Reroute(id, plans, hops) => {
                if let Err(error) = self.reroute(id, plans, hops.as_deref(), events) {
                    let prepared = StreamEvent::Prepared(id, Some(Text::from(error.to_string())));
                    let _ = events.send(AgentEvent::Streams(prepared));
                }
            }
            StreamRequest::Switch(id) => {
                if let Some(opening) = self.open.get(&id) {
                    opening.relay.switch();
                }
            }
            StreamRequest::Keep(id) => {
                if let Some(opening) = self.open.get(&id) {
                    opening.relay.keep();
                }
            }
            StreamRequest::Forget(spools) => self.spools.forget(&spools),
            StreamRequest::Close(id) => {
                if let Some(opening) = self.open.remove(&id) {
                    opening.relay.stop();
                    if let Some(carrier) = &self.carrier {
                        carrier.forget(opening.keys.into_values().collect());
                    }
                }
            }
        }
    }

    /// What a command of a task gets.
    pub fn ends_of(&self, id: OpeningId, task: u32) -> Option<Rc<Ends>> {
        self.open.get(&id).and_then(|opening| opening.members.get(&task)).cloned()
    }

    fn open(
        &mut self,
        id: OpeningId,
        plans: Vec<StreamPlan>,
        hops: Option<&HopSet>,
        events: &UnboundedSender<AgentEvent>,
    ) -> io::Result<()> {
        self.open.retain(|_, opening| !opening.relay.is_finished() || !opening.members.is_empty());
        let mut members: BTreeMap<u32, Ends> = BTreeMap::new();
        let (mut ends, keys) = match hops {
            Some(hops) => self.expect_hops(hops, events)?,
            None => Default::default(),
        };
        let streams = open_streams(plans, Some(&mut members), &mut ends, &mut self.spools)?;
        let members = members.into_iter().map(|(task, ends)| (task, Rc::new(ends))).collect();
        let patience_ms = hops.map_or(0, |hops| hops.patience_ms);
        let relay = Relay::start(id, streams, patience_ms, events.clone())?;
        self.open.insert(id, Opening { relay, members, keys });
        hops.map_or(Ok(()), |hops| self.listen(id, hops))
    }

    /// Makes streams that follow those of an opening. An opening whose thread has ended needs none, and has reported
    /// its end.
    fn reroute(
        &mut self,
        id: OpeningId,
        plans: Vec<StreamPlan>,
        hops: Option<&HopSet>,
        events: &UnboundedSender<AgentEvent>,
    ) -> io::Result<()> {
        let Some(hops) = hops.filter(|_| self.open.contains_key(&id)) else { return Ok(()) };
        let (mut ends, keys) = self.expect_hops(hops, events)?;
        let streams = open_streams(plans, None, &mut ends, &mut self.spools)?;
        if let Some(opening) = self.open.get_mut(&id) {
            opening.keys.extend(keys);
            opening.relay.reroute(streams);
        }
        self.listen(id, hops)
    }

    /// Takes connections for edges, and says where.
    fn listen(&self, id: OpeningId, hops: &HopSet) -> io::Result<()> {
        if let Some(carrier) = &self.carrier {
            let read = Credentials::from_bytes(&hops.credentials.0);
            carrier.listen(id, read.map_err(io::Error::other)?);
        }
        Ok(())
    }

    /// Makes both ends of each edge: one for the relay, one for the connection.
    fn expect_hops(
        &mut self,
        hops: &HopSet,
        events: &UnboundedSender<AgentEvent>,
    ) -> io::Result<(HopEnds, BTreeMap<u32, Key>)> {
        let carrier = match &mut self.carrier {
            Some(carrier) => carrier,
            none => none.insert(Carrier::start(events.clone())?),
        };
        let (mut ends, mut keys) = (HopEnds::new(), BTreeMap::new());
        for hop in &hops.hops {
            let key = Key::try_from(&hop.key.0[..]).map_err(io::Error::other)?;
            let (near, far) = UnixStream::pair()?;
            near.set_nonblocking(true)?;
            far.set_nonblocking(true)?;
            carrier.expect(key, far);
            ends.insert(hop.edge, (near, hop.peer.to_display()));
            keys.insert(hop.edge, key);
        }
        Ok((ends, keys))
    }
}

/// Why streams with `ends` ends could not be opened.
fn words_of(error: &io::Error, ends: usize) -> String {
    if error.raw_os_error() != Some(libc::EMFILE) {
        return error.to_string();
    }
    format!(
        "{error}: its {ends} readers and writers take {} descriptors, and {}",
        ends * 2,
        files_allowed()
    )
}

/// Without `members` tasks have their pipes already, and hand them on.
fn open_streams(
    plans: Vec<StreamPlan>,
    mut members: Option<&mut BTreeMap<u32, Ends>>,
    hops: &mut HopEnds,
    spools: &mut KeptSpools,
) -> io::Result<Vec<Through>> {
    plans.into_iter().map(|plan| open_stream(plan, members.as_deref_mut(), hops, spools)).collect()
}

fn open_stream(
    plan: StreamPlan,
    mut members: Option<&mut BTreeMap<u32, Ends>>,
    hops: &mut HopEnds,
    spools: &mut KeptSpools,
) -> io::Result<Through> {
    let mut hop = |edge: u32| {
        let end = hops.remove(&edge).map(|(end, peer)| (OwnedFd::from(end), peer));
        end.ok_or_else(|| io::Error::other(format!("there is no edge {edge}")))
    };
    let unread = Arc::new(AtomicBool::new(false));
    let (mut intakes, mut outlets) = (Vec::new(), Vec::new());
    for writer in &plan.writers {
        intakes.push(match writer {
            StreamEnd::Task(task) => {
                let Some(members) = &mut members else {
                    intakes.push(Intake::Closed);
                    continue;
                };
                let (reading, writing) = pipe()?;
                rustix::fs::fcntl_setfl(&reading, rustix::fs::OFlags::NONBLOCK)?;
                let ends = members.entry(*task).or_default();
                (ends.stdout, ends.unread) = (Some(writing), Arc::clone(&unread));
                Intake::Pipe(reading)
            }
            StreamEnd::Spool(name) => Intake::Spool(spools.read(name)),
            StreamEnd::Hop(edge) => {
                let (socket, peer) = hop(*edge)?;
                Intake::Hop(Box::new(HopIntake::new(socket, *edge, peer)))
            }
        });
    }
    for reader in &plan.readers {
        outlets.push(match reader {
            StreamEnd::Task(task) => {
                let Some(members) = &mut members else {
                    outlets.push(Outlet::Closed);
                    continue;
                };
                let (reading, writing) = pipe()?;
                rustix::fs::fcntl_setfl(&writing, rustix::fs::OFlags::NONBLOCK)?;
                members.entry(*task).or_default().stdin = Some(reading);
                Outlet::Pipe(writing)
            }
            StreamEnd::Spool(name) => Outlet::Spool(spools.create(name, plan.spool_bytes_max)?),
            StreamEnd::Hop(edge) => {
                let (socket, peer) = hop(*edge)?;
                Outlet::Hop(Box::new(HopOutlet::new(socket, peer)))
            }
        });
    }
    Ok(Through::new(plan, intakes, outlets, unread))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    // Where the user's limit is reached it stays smaller.
    let _ = fcntl_setpipe_size(&writing, PIPE_BYTES);
    Ok((reading, writing))
}
