//! The hub's end of an agent elsewhere: requests go over its link while there is one.
//!
//! It counts the commands whose end the agent owes, so that the hub can wait for them and stop waiting. It does not know
//! how the link came to be, nor what a command is for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_link::hub::LinkHandle;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::cluster::{FromAgent, ToAgent};
use tokio::sync::Notify;

use crate::agents::AgentPort;
use crate::data_link::DataDial;

/// What port and life of a node share.
#[derive(Default)]
pub(super) struct Shared {
    link: RefCell<Option<LinkHandle>>,
    /// Commands whose end the agent owes.
    owed: RefCell<BTreeSet<CommandId>>,
    /// Process groups there, as the agent said last; before that, those that may be.
    groups: Cell<usize>,
    /// The run is over: nothing is started again.
    pub closing: Cell<bool>,
    /// The life of the node is over, too.
    pub over: Cell<bool>,
    /// Something of these has changed.
    pub changed: Notify,
    /// The run's directory here and there, when they differ.
    places: RefCell<Option<(PathBuf, PathBuf)>>,
    /// The run's directory here.
    here: PathBuf,
    /// How the node's own files are got at.
    data: RefCell<Option<Rc<dyn DataDial>>>,
}

impl Shared {
    pub fn new(here: &Path) -> Self {
        Self { here: here.to_path_buf(), ..Self::default() }
    }

    /// The agent has found the run's directory, or made it.
    pub fn set_directory(&self, there: &Text) {
        let there = there.as_path();
        let places = (there != self.here).then(|| (self.here.clone(), there.to_path_buf()));
        self.places.replace(places);
    }

    /// Its files cannot be got at any more; who leads to it need not stay for that.
    pub fn forget_data(&self) {
        self.data.replace(None);
    }

    /// The node's files are its own, and can be got at so.
    pub fn set_data(&self, dial: Rc<dyn DataDial>) {
        self.data.replace(Some(dial));
    }

    /// A link is there.
    pub fn connect(&self, link: LinkHandle) {
        if self.closing.get() {
            link.close();
        }
        self.link.replace(Some(link));
    }

    /// Waits until the link, if there is one, has been closed.
    pub async fn linked_end(&self) {
        let link = self.link.borrow().clone();
        if let Some(link) = link {
            link.ended().await;
        }
    }

    /// It is gone, and all that was owed with it.
    pub fn disconnect(&self) {
        self.link.replace(None);
        self.owed.borrow_mut().clear();
        self.groups.set(0);
    }

    /// Takes what the agent says about itself; gives back what is for the hub.
    pub fn receive(&self, message: FromAgent) -> Result<AgentEvent, Option<FromAgent>> {
        match message {
            FromAgent::Event(event) => {
                if let AgentEvent::CommandExited { command, .. } = &event {
                    self.owed.borrow_mut().remove(command);
                }
                Ok(event)
            }
            FromAgent::Signalled { groups } => {
                self.groups.set(groups as usize);
                Err(None)
            }
            answer => Err(Some(answer)),
        }
    }

    fn send(&self, message: &ToAgent) {
        if let Some(link) = &*self.link.borrow() {
            link.send(message);
        }
    }

    /// A directory below the run's, as it is called on the node.
    fn translate(&self, directory: &mut Text) {
        if let Some((here, there)) = &*self.places.borrow()
            && let Ok(below) = directory.as_path().strip_prefix(here)
        {
            *directory = Text(there.join(below).into_os_string().into_encoded_bytes());
        }
    }
}

/// See the file's head.
pub(super) struct RemotePort(pub Rc<Shared>);

impl AgentPort for RemotePort {
    fn handle(&self, mut request: AgentRequest) {
        let shared = &self.0;
        match &mut request {
            AgentRequest::Start { command, options, .. } => {
                if shared.link.borrow().is_some() {
                    shared.owed.borrow_mut().insert(*command);
                    shared.groups.set(shared.groups.get().max(1));
                }
                if let Some(directory) =
                    options.as_mut().and_then(|options| options.directory.as_mut())
                {
                    shared.translate(directory);
                }
            }
            AgentRequest::ChangeDirectory { directory } => shared.translate(directory),
            AgentRequest::DefineEnvironment { .. }
            | AgentRequest::ForgetEnvironments { .. }
            | AgentRequest::Signal { .. } => {}
        }
        shared.send(&ToAgent::Request(request));
    }

    fn signal_all(&self, signal: i32) -> usize {
        self.0.send(&ToAgent::SignalAll { signal });
        self.0.groups.get()
    }

    fn pause_output(&self, paused: bool) {
        self.0.send(&ToAgent::PauseOutput { paused });
    }

    fn ask(&self, mut question: ToAgent) {
        match &mut question {
            ToAgent::Look { paths, .. } | ToAgent::AskResident { paths, .. } => {
                for path in paths {
                    self.0.translate(path);
                }
            }
            ToAgent::Expect { files, .. } => {
                for (path, _) in files {
                    self.0.translate(path);
                }
            }
            ToAgent::LookAround { path, .. } => self.0.translate(path),
            ToAgent::Request(_)
            | ToAgent::TellTime { .. }
            | ToAgent::SignalAll { .. }
            | ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. } => {}
        }
        self.0.send(&question);
    }

    fn path_there(&self, here: &Path) -> PathBuf {
        let mut path = Text(here.as_os_str().as_encoded_bytes().to_vec());
        self.0.translate(&mut path);
        path.as_path().to_path_buf()
    }

    fn data(&self) -> Option<Rc<dyn DataDial>> {
        self.0.data.borrow().clone()
    }

    fn unreported(&self) -> usize {
        self.0.owed.borrow().len()
    }

    fn close(&self) {
        self.0.closing.set(true);
        if let Some(link) = &*self.0.link.borrow() {
            link.close();
        }
        self.0.changed.notify_waiters();
    }

    fn is_closed(&self) -> bool {
        self.0.over.get()
    }

    fn give_up(&self) {
        self.0.closing.set(true);
        if let Some(link) = self.0.link.borrow_mut().take() {
            link.abort();
        }
        self.0.disconnect();
        self.0.changed.notify_waiters();
    }
}
