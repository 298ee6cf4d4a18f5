//! Data links: a second connection to a host, apart from that of its agent, reached in the same way.

use std::rc::Rc;

use rakuda_proto::cluster::Role;

use super::nodes::Launcher;
use super::way::{Reached, Way};
use crate::data_link::{DataConnection, DataDial, Dialled};

/// Connects to the files of a host.
pub(super) struct Data {
    host: String,
    way: Rc<Way>,
    launcher: Rc<Launcher>,
}

impl Data {
    pub fn new(host: &str, way: &Rc<Way>, launcher: &Rc<Launcher>) -> Self {
        Self { host: host.to_owned(), way: Rc::clone(way), launcher: Rc::clone(launcher) }
    }
}

impl DataDial for Data {
    fn dial(&self) -> Dialled {
        let (host, way) = (self.host.clone(), Rc::clone(&self.way));
        let launcher = Rc::clone(&self.launcher);
        Box::pin(async move {
            let reached = way.launch(&host, Role::Files, &launcher).await;
            let Reached { reader, writer, carrier } = reached.map_err(|error| error.why)?;
            Ok(DataConnection { reader, writer, keeper: Box::new(carrier) })
        })
    }
}
