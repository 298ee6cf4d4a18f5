//! One line for all nodes of a host group that are lost together, with their leader or their network.
//!
//! Only that line waits here. The core and the record learn of each node at once (`membership`).

pub(crate) mod state;

use rakuda_core::NodeId;

use crate::hub::Hub;
use state::Loss;

/// Time that the report of a group's first lost node waits for others, ns. A leader's nodes are lost within one second.
const TOGETHER_NS: u64 = 2_000_000_000;

/// Maximum number of nodes that a line names.
const NAMED: usize = 4;

impl Hub {
    /// Reports that a node was lost: at once, unless others of its group may be lost with it.
    pub(crate) fn tell_loss(&mut self, loss: Loss) {
        let outermost = self.groups_of(loss.node).first().cloned();
        let is_other = |id: NodeId| self.groups_of(id).first() == outermost.as_ref();
        let others_there = outermost.is_some()
            && self.agents.places().any(|(id, _)| self.run.nodes().is_there(id) && is_other(id));
        self.group_losses.losses.push(loss);
        if others_there {
            let due_ns = self.now.time.0 + TOGETHER_NS;
            self.group_losses.due_ns.get_or_insert(due_ns);
        } else {
            self.tell_losses_of(outermost.as_deref());
        }
    }

    /// Reports losses that have waited long enough.
    pub(crate) fn tell_due_losses(&mut self) {
        if self.group_losses.due_ns.is_some_and(|due_ns| due_ns <= self.now.time.0) {
            self.tell_losses();
        }
    }

    /// Reports all losses that wait, before something that must come after them.
    pub(crate) fn tell_losses(&mut self) {
        while let Some(first) = self.group_losses.losses.first() {
            let outermost = self.groups_of(first.node).first().cloned();
            self.tell_losses_of(outermost.as_deref());
        }
    }

    fn tell_losses_of(&mut self, outermost: Option<&str>) {
        let losses = std::mem::take(&mut self.group_losses.losses);
        let is_of =
            |loss: &Loss| self.groups_of(loss.node).first().map(String::as_str) == outermost;
        let (of_group, others): (Vec<Loss>, Vec<Loss>) = losses.into_iter().partition(is_of);
        self.group_losses.losses = others;
        if self.group_losses.losses.is_empty() {
            self.group_losses.due_ns = None;
        }
        match of_group.as_slice() {
            [] => {}
            [loss] => {
                let name = self.agents.node(loss.node).name.to_display();
                let again = again(loss.reruns);
                self.warn(&format!("node {name} was lost ({}){again}", loss.why));
            }
            losses => self.warn(&self.line_of(losses)),
        }
    }

    /// One line for several nodes that have at least their outermost group in common.
    fn line_of(&self, losses: &[Loss]) -> String {
        let mut nodes: Vec<NodeId> = losses.iter().map(|loss| loss.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut common = self.groups_of(nodes[0]).to_vec();
        for node in &nodes {
            let same = common.iter().zip(self.groups_of(*node)).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
        let all = self.agents.places().filter(|(id, _)| self.groups_of(*id).starts_with(&common));
        let names = nodes.iter().take(NAMED).map(|id| self.agents.node(*id).name.to_display());
        let mut names = names.collect::<Vec<_>>().join(", ");
        if nodes.len() > NAMED {
            names += ", ...";
        }
        format!(
            "{} of {} nodes of group {} were lost ({names}: {}){}",
            nodes.len(),
            all.count(),
            common.join("/"),
            losses[0].why,
            again(losses.iter().map(|loss| loss.reruns).sum())
        )
    }

    /// The host groups of a node, outermost first.
    fn groups_of(&self, id: NodeId) -> &[String] {
        self.settings.cluster.as_ref().map_or(&[], |plan| plan.groups_of(id))
    }
}

fn again(reruns: usize) -> String {
    match reruns {
        0 => String::new(),
        1 => ": 1 task runs again elsewhere".to_owned(),
        count => format!(": {count} tasks run again elsewhere"),
    }
}
