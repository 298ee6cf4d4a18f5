//! What goes wrong, and when it is right again.

use rakuda_core::{Input, NodeId, NodeInput};

use super::chaos::Chaos;
use super::messages::Happening;
use crate::units::SECOND_NS;

impl Chaos {
    /// Injects one fault, and draws the time of the next.
    pub(crate) fn inject(&mut self) {
        if self.heals() {
            return;
        }
        let node = self.random.below(self.agents.len() as u64) as u32;
        let for_ns = self.how_long();
        // With Gfarm, and with data links, more may go wrong.
        let kinds = if self.scenario.shared { 14 } else { 20 };
        match self.random.below(kinds) {
            14.. if self.scenario.stages() => self.break_data(for_ns),
            14.. => self.freeze_server(),
            0..=2 => self.kill_machine(node, for_ns),
            3 | 4 => self.cut_link(node, for_ns),
            5 | 6 => self.slow_link(node, for_ns),
            7 | 8 => self.stall_agent(node, for_ns),
            9 => self.restart_hub(for_ns),
            10 | 11 => self.abort_some(),
            _ => self.blink(node),
        }
        let next = self.random.below(2 * self.scenario.between_ns);
        self.queue.push(self.now + next.max(1), Happening::Fault);
    }

    /// How long a fault lasts: mostly short enough not to be noticed, sometimes much longer. All is well again soon
    /// after the time at which faults end.
    fn how_long(&mut self) -> u64 {
        let at_most = if self.random.below(3) == 0 { 90 } else { 12 };
        self.random.below(at_most * SECOND_NS)
    }

    fn kill_machine(&mut self, node: u32, for_ns: u64) {
        if !self.agents[node as usize].up {
            return;
        }
        // A file that nothing can make again is not destroyed: such a workflow could not finish.
        let holds_inputs =
            self.scenario.tasks.iter().any(|plan| !plan.has_action && plan.place == node);
        let disk_kept = holds_inputs || self.random.below(2) == 0;
        let for_ns = self.bound_by_inputs(node, for_ns);
        self.note(format_args!("node {node} dies, disk kept {disk_kept}"));
        self.count(if disk_kept { "machines die" } else { "machines die with their disk" });
        self.on_machine_down(node, disk_kept);
        self.queue.push(self.now + for_ns, Happening::MachineUp { node });
    }

    /// Restarts a machine before anything can have noticed.
    fn blink(&mut self, node: u32) {
        let for_ns = self.random.below(2 * SECOND_NS);
        self.kill_machine(node, for_ns);
    }

    fn cut_link(&mut self, node: u32, for_ns: u64) {
        let link = &mut self.links[node as usize];
        if !std::mem::replace(&mut link.cut, true) {
            self.note(format_args!("link {node} is cut"));
            self.count("links cut");
            self.queue.push(self.now + for_ns, Happening::LinkUp { node });
        }
    }

    /// Kills a leader, and draws the time of the next one's death: the links of all nodes behind it end at once, with
    /// all that is on its way, and are made anew over another leader.
    pub(crate) fn kill_leader(&mut self) {
        if self.heals() {
            return;
        }
        let leaders = self.scenario.leaders;
        let leader = self.random.below(u64::from(leaders)) as u32;
        let for_ns = self.how_long();
        self.note(format_args!("leader {leader} dies"));
        self.count("leaders die");
        for node in (0..self.agents.len() as u32).filter(|node| node % leaders == leader) {
            self.end_link(node, for_ns);
        }
        let next = self.random.below(10 * self.scenario.between_ns);
        self.queue.push(self.now + next.max(1), Happening::LeaderDies);
    }

    /// Ends a link, which both ends see. If it is cut nothing of that comes: silence ends it.
    fn end_link(&mut self, node: u32, for_ns: u64) {
        if self.links[node as usize].cut || self.ended {
            return;
        }
        self.count("links that end with their leader");
        if self.agents[node as usize].up {
            self.end_session(node);
        }
        let id = NodeId(node);
        let link = self.hub.run.nodes().link(id).filter(|_| self.hub.is_up());
        if let Some(incarnation) = link {
            let input = NodeInput::LinkDown { incarnation, again: true };
            self.tell(Input::Node { id, input });
        }
        self.links[node as usize].cut = true;
        self.queue.push(self.now + for_ns, Happening::LinkUp { node });
    }

    fn slow_link(&mut self, node: u32, for_ns: u64) {
        let slowness = 10 + self.random.below(400);
        if self.links[node as usize].slowness == 1 {
            self.links[node as usize].slowness = slowness;
            self.note(format_args!("link {node} is slow by {slowness}"));
            self.count("links slowed");
            self.queue.push(self.now + for_ns, Happening::LinkFast { node });
        }
    }

    fn stall_agent(&mut self, node: u32, for_ns: u64) {
        let agent = &mut self.agents[node as usize];
        if agent.up && !std::mem::replace(&mut agent.stalled, true) {
            self.note(format_args!("agent {node} stalls"));
            self.count("agents stall");
            self.queue.push(self.now + for_ns, Happening::AgentGoesOn { node });
        }
    }

    fn restart_hub(&mut self, for_ns: u64) {
        // A run that is to end is not taken up again.
        if self.hub.is_up() && !self.is_stopping() {
            self.count("hub restarts");
            self.stop_hub();
            self.queue.push(self.now + for_ns, Happening::HubUp);
        }
    }
}
