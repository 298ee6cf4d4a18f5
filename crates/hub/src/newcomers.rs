//! Nodes that were not known when the run began: how they become part of it, and when they are let go again.
//!
//! A node is let go only when nothing runs on it, nothing waits for it, and whatever it can run
//! another node can run, too. So the last node stays. Where they come from is the business of
//! `rakuda_cluster`.

pub(crate) mod state;

use std::path::{Path, PathBuf};

use rakuda_cluster::Newcomer;
use rakuda_core::{Event, Input, NodeId, NodeInput, NodeLimits, NodeOrigin, RequirementId};
use rakuda_proto::front::RequirementDefinition;
use rakuda_proto::journal::NodeGone;

use crate::agents::Member;
use crate::hub::Hub;
use crate::requirements::allowed_nodes;
use state::InvitationFile;

impl Hub {
    /// A node is part of the run from now on.
    pub(crate) fn on_node_appeared(&mut self, newcomer: Newcomer) {
        let name = newcomer.name.clone();
        let id = self.agents.add(newcomer);
        let known = NodeInput::Known { origin: NodeOrigin::Awaited, limits: NodeLimits::default() };
        self.tell(Input::Node { id, input: known });
        self.inputs.on_node_added(id, &name.0);
        let name = name.to_display();
        let admits = |(requirement, definition): &(u32, RequirementDefinition)| {
            let nodes = allowed_nodes(definition, std::iter::once((id, name.clone())));
            nodes.is_some_and(|nodes| !nodes.is_empty()).then_some(*requirement)
        };
        let admitting: Vec<u32> = self.newcomers.choosy.iter().filter_map(admits).collect();
        let core = |front| self.times.allow(front, id);
        let requirements: Vec<RequirementId> = admitting.into_iter().flat_map(core).collect();
        for requirement in requirements {
            self.event(Event::NodeAllowed { requirement, id });
        }
        if let Some(idle_ns) = self.idle_ns() {
            self.newcomers.idle.on_node_added(self.now.time, idle_ns);
        }
    }

    /// Timeout for a node without work, after which it is let go. Where files lie on nodes, they would go with it.
    fn idle_ns(&self) -> Option<u64> {
        let idle_ns = self.settings.cluster.as_ref()?.idle_ns?;
        let config = &self.settings.config;
        (!config.files_on_nodes || config.files_apart).then_some(idle_ns)
    }

    /// The run has a name and a folder: an agent that may read it there may join.
    pub(crate) fn write_invitation(&mut self) {
        if self.newcomers.invitation.is_none() || self.record.folder_if_open().is_none() {
            return;
        }
        let text = self.newcomers.invitation.take().unwrap_or_default();
        let running = self.record.running_folder();
        let folder = running.parent().unwrap_or(Path::new(".")).join("join");
        match write_private(&folder, self.record.run(), &text) {
            Ok(path) => self.newcomers.written = Some(InvitationFile(path)),
            Err(error) => {
                self.warn(&format!(
                    "no node can join: cannot write into {}: {error}",
                    folder.display()
                ));
            }
        }
    }

    /// Lets nodes go that have run nothing for long enough.
    pub(crate) fn let_idle_nodes_go(&mut self) {
        let is_due = self.newcomers.idle.due().is_some_and(|due| due <= self.now.time);
        let Some(idle_ns) = self.idle_ns().filter(|_| is_due) else { return };
        let dial_ins = self.agents.places().filter(|(_, place)| place.is_dial_in);
        let done = |(id, place): (NodeId, &Member)| (id, self.is_idle(id).then_some(place.done));
        let dial_ins: Vec<_> = dial_ins.map(done).collect();
        for id in self.newcomers.idle.look(self.now.time, idle_ns, dial_ins) {
            if !self.run.scheduler().is_only_choice(id) {
                self.let_go(id, idle_ns);
            }
        }
    }

    fn is_idle(&self, id: NodeId) -> bool {
        let view = self.run.scheduler().node(id);
        self.run.nodes().is_up(id)
            && view.is_some_and(|node| node.running == 0 && node.queued == 0)
            && !self.commands.values().any(|running| running.node == id)
            && self.agents.node(id).port.unreported() == 0
            // A task that has ended there belongs to a gang that goes on.
            && !self.run.scheduler().is_awaiting_peers_on(id)
            && !self.streams.is_passing(id)
    }

    fn let_go(&mut self, id: NodeId, idle_ns: u64) {
        let place = self.agents.place_mut(id);
        let why = format!("it ran nothing for {} s", idle_ns / 1_000_000_000);
        place.trouble = Some(why);
        place.node.port.close();
        self.tell(Input::Node { id, input: NodeInput::LetGo });
    }

    /// A node that the run let go has gone.
    pub(crate) fn on_node_gone(&mut self, id: NodeId) {
        let reason = self.agents.place(id).trouble.clone();
        self.record.node_gone(NodeGone { time_ns: self.now.journal_ns(), node: id.0, reason });
    }
}

/// Writes a file that its owner alone may read.
fn write_private(folder: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(name);
    rakuda_link::private_file::write_new(&path, text.as_bytes())?;
    Ok(path)
}
