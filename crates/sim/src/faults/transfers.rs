//! Data links: files on their way from one disk to another through the hub, and copies that are removed.
//!
//! As `rakuda_hub`'s relay: a transfer that breaks is tried again, a data link that cannot be had
//! is waited for, and what is on a disk under its name is whole. It does not know why a file is wanted.

use rakuda_core::TaskId;
use rakuda_core::stager::{MoveFailure, StagerInput};

use super::chaos::Chaos;
use super::messages::Happening;
use super::staging::state::{Arriving, DataHappening, Moving, Removal, Version};
use crate::units::SECOND_NS;

/// Timeout for dialling a data link.
const DIAL_NS: u64 = 30 * SECOND_NS;
/// Maximum number of tries of a transfer.
const TRIES: u32 = 3;
/// Maximum time for which a file is on its way, over a link that is not slow.
const MOVE_NS_MAX: u64 = SECOND_NS;
/// Maximum slowness of a data link; other links may be slower.
const SLOWNESS_MAX: u64 = 40;
/// Time between two tries, and between two looks at what is in the way.
const PAUSE_NS: u64 = SECOND_NS / 5;
/// Maximum time for which a disk is full.
const FULL_NS_MAX: u64 = 2 * SECOND_NS;

impl Chaos {
    fn push_data(&mut self, after_ns: u64, what: DataHappening) {
        self.queue.push(self.now + after_ns, Happening::Data(what));
    }

    /// A moment within this time; sooner in seeds with short actions.
    fn within(&mut self, at_most_ns: u64) -> u64 {
        let at_most_ns = if self.scenario.short { at_most_ns / 1000 } else { at_most_ns };
        1 + self.random.below(at_most_ns)
    }

    fn is_home(&self, node: u32) -> bool {
        node == self.scenario.home()
    }

    pub(crate) fn begin_move(
        &mut self,
        transfer: u32,
        (file, version): (u32, Version),
        from: u32,
        to: u32,
    ) {
        self.count("transfers begun");
        let moving = Moving { file, version, from, to, turn: 0, tries: 1 };
        let other = self.hub.staging.moves.insert(transfer, moving);
        assert!(other.is_none(), "transfer {transfer} begins twice");
        self.pass(transfer);
    }

    /// The source begins to hand out a file.
    fn pass(&mut self, transfer: u32) {
        let Some(moving) = self.hub.staging.moves.get(&transfer).copied() else { return };
        let slowness = [moving.from, moving.to].into_iter().filter(|node| !self.is_home(*node));
        let slowness: u64 = slowness.map(|node| self.links[node as usize].slowness).sum();
        let after_ns = self.within(MOVE_NS_MAX) * slowness.clamp(1, SLOWNESS_MAX);
        let (life, turn) = (self.hub.life, moving.turn);
        self.push_data(after_ns, DataHappening::Passed { life, transfer, turn });
    }

    pub(crate) fn cancel_move(&mut self, transfer: u32) {
        let moving = self.hub.staging.moves.remove(&transfer);
        assert!(moving.is_some(), "transfer {transfer} is not under way");
        self.count("transfers cancelled");
    }

    pub(crate) fn on_data(&mut self, what: DataHappening) {
        match what {
            DataHappening::Passed { life, transfer, turn } => {
                if let Some(moving) = self.moving(life, transfer, turn) {
                    self.on_passed(transfer, moving);
                }
            }
            DataHappening::Placed { life, transfer, turn, arriving } => {
                self.on_placed(life, transfer, turn, arriving);
            }
            DataHappening::Moved { life, transfer, result } => {
                if self.hub.is_up() && life == self.hub.life {
                    self.hub.staging.moves.remove(&transfer);
                    self.stage(StagerInput::Moved { transfer, result });
                }
            }
            DataHappening::Remove { life, removal, until_ns } => {
                self.on_remove(life, removal, until_ns);
            }
        }
    }

    fn moving(&self, life: u64, transfer: u32, turn: u32) -> Option<Moving> {
        let moving = self.hub.staging.moves.get(&transfer).copied();
        let is_now = self.hub.is_up() && life == self.hub.life;
        moving.filter(|moving| is_now && moving.turn == turn)
    }

    /// Until when a machine cannot be reached over its data link, as far as is known; `None` if it can.
    fn out_of_reach(&self, node: u32) -> Option<u64> {
        if self.is_home(node) {
            return None;
        }
        if !self.agents[node as usize].up {
            return Some(self.now + SECOND_NS);
        }
        let until_ns = self.data[node as usize].cut_until_ns;
        (until_ns > self.now).then_some(until_ns)
    }

    /// All of a file has been handed out, if nothing was in the way.
    fn on_passed(&mut self, transfer: u32, moving: Moving) {
        let Moving { file, version, from, to, turn, .. } = moving;
        for node in [from, to] {
            if let Some(until_ns) = self.out_of_reach(node) {
                self.count("transfers held up by a data link");
                let waits_ns = until_ns - self.now;
                if self.agents[node as usize].up && waits_ns >= DIAL_NS {
                    return self.fail(transfer, DIAL_NS, node == from, true);
                }
                // A machine that is gone is lost some time, or it is back.
                return self.try_again(transfer, waits_ns);
            }
        }
        if self.truth.version(file, from) != Some(version.modified_ns) {
            self.count("transfers that the source refuses");
            return self.fail(transfer, 0, true, false);
        }
        if self.data[to as usize].full_until_ns > self.now {
            self.count("transfers to a full disk");
            return self.fail(transfer, 0, false, true);
        }
        if self.truth.is_received(file, to) {
            // Two would not be written there at a time.
            return self.try_again(transfer, PAUSE_NS);
        }
        let content = self.truth.read(file, from);
        assert!(content.is_some(), "{file} on {from} is {version:?}, and not whole");
        let start = self.start_of(to);
        let arriving = Arriving { file, version, content, to, start };
        let at_most = if self.random.below(10) == 0 { 2 * SECOND_NS } else { SECOND_NS / 100 };
        let after_ns = self.within(at_most);
        let life = self.hub.life;
        self.truth.receive(file, to);
        self.push_data(after_ns, DataHappening::Placed { life, transfer, turn, arriving });
    }

    fn start_of(&self, node: u32) -> u32 {
        if self.is_home(node) { 0 } else { self.agents[node as usize].starts }
    }

    /// The destination has all of a file: only the end of its machine can stop it now.
    fn on_placed(&mut self, life: u64, transfer: u32, turn: u32, arriving: Arriving) {
        let Arriving { file, version, content, to, start } = arriving;
        self.truth.name_received(file, to);
        let is_up = self.is_home(to) || self.agents[to as usize].up;
        if is_up && self.start_of(to) == start {
            self.truth.write(file, to, content, version.modified_ns);
        }
        let Some(moving) = self.moving(life, transfer, turn) else {
            return self.count("copies that come when nobody waits for them");
        };
        if !is_up || self.start_of(to) != start {
            return self.try_again(transfer, SECOND_NS);
        }
        if !self.heals() && moving.tries < TRIES && self.random.below(16) == 0 {
            self.count("transfers whose answer is lost");
            self.hub.staging.moves.get_mut(&transfer).expect("it is under way").tries += 1;
            return self.try_again(transfer, PAUSE_NS);
        }
        if self.random.below(16) == 0 {
            self.count("transfers told twice");
            let again = DataHappening::Moved { life, transfer, result: Ok(()) };
            let after_ns = self.within(MOVE_NS_MAX);
            self.push_data(after_ns, again);
        }
        self.push_data(0, DataHappening::Moved { life, transfer, result: Ok(()) });
    }

    fn try_again(&mut self, transfer: u32, after_ns: u64) {
        let moving = self.hub.staging.moves.get_mut(&transfer).expect("it is under way");
        moving.turn += 1;
        let (life, turn) = (self.hub.life, moving.turn);
        self.push_data(after_ns, DataHappening::Passed { life, transfer, turn });
    }

    /// A transfer comes to nothing. `is_fault`: of a data link or a disk, and no node need be lost.
    fn fail(&mut self, transfer: u32, after_ns: u64, at_source: bool, is_fault: bool) {
        let moving = self.hub.staging.moves.get_mut(&transfer).expect("it is under way");
        moving.turn += 1;
        let key = (moving.file, moving.to);
        if is_fault {
            self.hub.staging.tainted.insert(key);
        }
        self.count("transfers that fail");
        let result = Err(MoveFailure { at_source, reason: "move it".to_owned() });
        let life = self.hub.life;
        self.push_data(after_ns, DataHappening::Moved { life, transfer, result });
    }

    pub(crate) fn remove_copies(&mut self, number: u32, node: u32, files: Vec<(TaskId, Version)>) {
        if !self.hub.run.nodes().is_there(rakuda_core::NodeId(node)) {
            return self.stage(StagerInput::Removed { removal: number });
        }
        let after_ns = self.within(MOVE_NS_MAX);
        let (life, until_ns) = (self.hub.life, self.now + DIAL_NS);
        self.hub.staging.removals.insert(number);
        let removal = Removal { number, node, files };
        self.push_data(after_ns, DataHappening::Remove { life, removal, until_ns });
    }

    fn on_remove(&mut self, life: u64, removal: Removal, until_ns: u64) {
        let is_now = self.hub.is_up() && life == self.hub.life;
        if !is_now || !self.hub.staging.removals.contains(&removal.number) {
            return;
        }
        let node = removal.node;
        let is_in_reach = self.out_of_reach(node).is_none();
        if !is_in_reach && self.now < until_ns {
            return self.push_data(SECOND_NS, DataHappening::Remove { life, removal, until_ns });
        }
        if is_in_reach {
            // What is about to get its name is removed when it has it.
            if removal.files.iter().any(|(file, _)| self.truth.is_received(file.0, node)) {
                self.count("removals that wait for what comes");
                return self.push_data(PAUSE_NS, DataHappening::Remove { life, removal, until_ns });
            }
            for (file, version) in &removal.files {
                self.truth.remove_version(file.0, node, version.modified_ns);
            }
        }
        self.hub.staging.removals.remove(&removal.number);
        self.stage(StagerInput::Removed { removal: removal.number });
    }

    /// A data process dies, a data link is cut, or a disk is full, and its node goes on.
    pub(crate) fn break_data(&mut self, for_ns: u64) {
        let kind = self.random.below(3);
        let machines = self.data.len() as u64 - u64::from(kind < 2);
        let node = self.random.below(machines) as u32;
        let until_ns = self.now + for_ns;
        match kind {
            0 => self.kill_data_process(node),
            1 => {
                self.count("data links cut");
                self.note(format_args!("the data link of {node} is cut"));
                self.data[node as usize].cut_until_ns = until_ns;
            }
            _ => {
                self.count("disks full");
                self.note(format_args!("the disk of {node} is full"));
                // Not for long: an attempt whose inputs are refused is tried again at once.
                self.data[node as usize].full_until_ns = self.now + self.within(FULL_NS_MAX);
            }
        }
    }

    /// All that it was moving begins again, a few times.
    fn kill_data_process(&mut self, node: u32) {
        self.count("data processes die");
        self.note(format_args!("the data process of {node} dies"));
        let moves = self.hub.staging.moves.iter();
        let its = moves.filter(|(_, moving)| moving.from == node || moving.to == node);
        let its: Vec<(u32, Moving)> = its.map(|(transfer, moving)| (*transfer, *moving)).collect();
        for (transfer, moving) in its {
            self.count("transfers cut");
            if moving.tries == TRIES {
                self.fail(transfer, 0, moving.from == node, true);
            } else {
                let moving = self.hub.staging.moves.get_mut(&transfer).expect("it is under way");
                moving.tries += 1;
                self.try_again(transfer, PAUSE_NS);
            }
        }
    }
}
