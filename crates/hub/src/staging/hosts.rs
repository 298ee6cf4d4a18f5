//! Whom to ask for the files of each node: this process for those of its own machine, a data link
//! for those of others, made when it is first needed.
//!
//! It does not know what is asked.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rakuda_agent::files;
use rakuda_cluster::DataDial;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::NodeId;
use rakuda_link::mux::{self, Opener};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

/// Size of the buffer of a conversation in this process, in each direction.
const BUFFER_BYTES: usize = 256 << 10;
/// Timeout for making a data link: a node that is gone counts as lost before that, and then nobody waits here.
const DIAL_LIMIT: Duration = Duration::from_secs(30);
/// Time before the first further try; it doubles from try to try.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A conversation about one file.
pub(crate) trait Conversation: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Conversation for T {}

/// The hosts whose files can be had, and their data links.
#[derive(Default)]
pub(crate) struct FileHosts {
    links: RefCell<BTreeMap<NodeId, Rc<NodeLink>>>,
}

struct NodeLink {
    dial: Rc<dyn DataDial>,
    live: Mutex<Option<Live>>,
}

/// Ends when it is dropped.
struct Connection(tokio::task::AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Live {
    streams: Opener,
    _connection: Connection,
    _keeper: Box<dyn Any>,
}

impl FileHosts {
    /// A node is there, and its files can be asked for so.
    pub fn add(&self, node: NodeId, dial: Rc<dyn DataDial>) {
        let link = NodeLink { dial, live: Mutex::new(None) };
        self.links.borrow_mut().insert(node, Rc::new(link));
    }

    /// The same, if it is not known yet.
    pub fn add_once(&self, node: NodeId, dial: Rc<dyn DataDial>) {
        if !self.links.borrow().contains_key(&node) {
            self.add(node, dial);
        }
    }

    /// A node is gone, and its data link with it.
    pub fn remove(&self, node: NodeId) {
        self.links.borrow_mut().remove(&node);
    }

    /// The run is over.
    pub fn remove_all(&self) {
        self.links.borrow_mut().clear();
    }

    /// Begins a conversation with a node.
    pub async fn open(&self, node: NodeId) -> Result<Box<dyn Conversation>, String> {
        if node == LOCAL_NODE {
            let (here, there) = tokio::io::duplex(BUFFER_BYTES);
            tokio::task::spawn_local(files::answer(there));
            return Ok(Box::new(here));
        }
        let link = self.links.borrow().get(&node).cloned();
        match link {
            Some(link) => link.open().await,
            None => Err("the node is gone".into()),
        }
    }
}

impl NodeLink {
    async fn open(&self) -> Result<Box<dyn Conversation>, String> {
        // Who comes meanwhile waits for the same link.
        let mut live = self.live.lock().await;
        if let Some(link) = &*live
            && let Some(stream) = link.streams.open().await
        {
            return Ok(Box::new(stream));
        }
        *live = None;
        let limit = tokio::time::sleep(DIAL_LIMIT);
        tokio::pin!(limit);
        let mut pause = FIRST_PAUSE;
        loop {
            let why = match self.dial.dial().await {
                Ok(connection) => {
                    let (streams, carried) = mux::connect(connection.reader, connection.writer);
                    let carried = Connection(tokio::task::spawn_local(carried).abort_handle());
                    let opened = streams.open().await;
                    let keeper = connection.keeper;
                    *live = Some(Live { streams, _connection: carried, _keeper: keeper });
                    match opened {
                        Some(stream) => return Ok(Box::new(stream)),
                        None => "it was closed".to_owned(),
                    }
                }
                Err(why) => why,
            };
            tokio::select! {
                biased;
                () = &mut limit => return Err(format!("open a data link: {why}")),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}
