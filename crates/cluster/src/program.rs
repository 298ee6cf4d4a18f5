//! The engine's own program, as it is shipped to hosts: its content and what that is called; and who has it already.
//!
//! Hosts that share a home share the program, too: the one that asks first is sent it, and the others wait for that.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::error::ClusterError;

/// Who has been sent the program, by the identity of the cache folder.
#[derive(Debug, Default)]
pub(crate) struct Depot {
    folders: RefCell<BTreeMap<String, Shipment>>,
    program: OnceCell<Result<Rc<Program>, String>>,
}

#[derive(Debug, Clone)]
enum Shipment {
    /// Someone is being sent it; told when that is over.
    UnderWay(Rc<Notify>),
    Done,
}

/// What a host that wants the program is to be told.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is sent the program.
    Take,
    /// It is there by now.
    Look,
}

/// The program.
#[derive(Debug)]
pub(crate) struct Program {
    pub bytes: Vec<u8>,
    /// BLAKE3 of `bytes`, in hexadecimal.
    pub name: String,
}

/// What this program's folder is called on hosts.
pub fn program_name() -> Result<String, ClusterError> {
    Program::own().map(|program| program.name)
}

impl Program {
    fn own() -> Result<Self, ClusterError> {
        let bytes = std::fs::read("/proc/self/exe").map_err(ClusterError::Program)?;
        let name = blake3::hash(&bytes).to_hex().to_string();
        Ok(Self { bytes, name })
    }
}

impl Depot {
    /// Read once, when the first host is connected.
    pub fn program(&self) -> Result<Rc<Program>, String> {
        let read = || Program::own().map(Rc::new).map_err(|error| error.to_string());
        self.program.get_or_init(read).clone()
    }

    /// A host says that the program is not in `folder`; waits while another one is being sent it.
    /// `again`: it was told to look before, in vain.
    pub async fn answer(&self, folder: &str, again: bool) -> Answer {
        loop {
            let known = self.folders.borrow().get(folder).cloned();
            match known {
                Some(Shipment::UnderWay(over)) => over.notified().await,
                Some(Shipment::Done) if !again => return Answer::Look,
                Some(Shipment::Done) => return Answer::Take,
                None => {
                    let under_way = Shipment::UnderWay(Rc::new(Notify::new()));
                    self.folders.borrow_mut().insert(folder.to_owned(), under_way);
                    return Answer::Take;
                }
            }
        }
    }

    /// The host that was sent the program has it, or not.
    pub fn on_sent(&self, folder: &str, well: bool) {
        let mut folders = self.folders.borrow_mut();
        let before = if well {
            folders.insert(folder.to_owned(), Shipment::Done)
        } else {
            folders.remove(folder)
        };
        if let Some(Shipment::UnderWay(over)) = before {
            over.notify_waiters();
        }
    }
}
