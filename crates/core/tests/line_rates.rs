//! How fast a line is, as it is found out by edges over it: virtual lines of known rates, with buffers before them and
//! delays, over which one edge goes or several.

use std::collections::VecDeque;

use rakuda_core::streams::{GroupId, Groups, HopReceiver, HopSender, LineRates};
use rakuda_core::{NodeId, Time};

const MS: u64 = 1_000_000;
const PIECE: &[u8] = &[7; 128 << 10];

/// What lies between two sites, and what their programs do. All rates are bytes a millisecond.
#[derive(Clone, Copy)]
struct World {
    /// One way, ms.
    delay: u64,
    wire: usize,
    /// Bytes of each edge that wait before the line: those of sockets.
    buffer: usize,
    /// What a writer writes.
    writer: usize,
    /// What a reader takes.
    reader: usize,
    /// Of each half second the receiving host does nothing for this time.
    sleeps: u64,
}

const USUAL: World = World {
    delay: 5,
    wire: 12_500,
    buffer: 4 << 20,
    writer: usize::MAX,
    reader: usize::MAX,
    sleeps: 0,
};

/// One edge and what is under way on it.
#[derive(Default)]
struct Edge {
    sender: HopSender,
    receiver: HopReceiver,
    /// Written and not read by the sender.
    written: usize,
    before: VecDeque<Vec<u8>>,
    there: VecDeque<(u64, Vec<u8>)>,
    back: VecDeque<(u64, Vec<u8>)>,
}

impl Edge {
    /// The sending host does what it can within a millisecond.
    fn send(&mut self, now: u64, world: &World) {
        self.written = self.written.saturating_add(world.writer).min(4 << 20);
        while self.back.front().is_some_and(|(due, _)| *due <= now) {
            self.sender.on_received(&self.back.pop_front().unwrap().1).unwrap();
        }
        loop {
            let piece = &PIECE[..self.written.min(PIECE.len())];
            self.written -= self.sender.take([piece].into_iter());
            let waiting: usize = self.before.iter().map(Vec::len).sum();
            let room = world.buffer.saturating_sub(waiting);
            let bytes = self.sender.to_write();
            let bytes = bytes[..bytes.len().min(room)].to_vec();
            if bytes.is_empty() {
                break;
            }
            self.sender.on_written(bytes.len());
            self.before.push_back(bytes);
        }
    }

    /// So many bytes go onto the line; how many there were.
    fn carry(&mut self, now: u64, world: &World, bytes: usize) -> usize {
        let Some(mut front) = self.before.pop_front() else { return 0 };
        if front.len() > bytes {
            self.before.push_front(front.split_off(bytes));
        }
        let length = front.len();
        self.there.push_back((now + world.delay, front));
        length
    }

    /// The receiving host does what it can within a millisecond; what it has seen of the line.
    fn receive(&mut self, now: u64, world: &World) -> Option<u64> {
        if now % 500 < world.sleeps {
            return None;
        }
        self.receiver.on_time(Time(now * MS));
        while self.there.front().is_some_and(|(due, _)| *due <= now) {
            self.receiver.on_received(&self.there.pop_front().unwrap().1).unwrap();
        }
        self.receiver.on_taken(self.receiver.pending().len().min(world.reader));
        let bytes = self.receiver.to_write().to_vec();
        self.receiver.on_written(bytes.len());
        self.back.push_back((now + world.delay, bytes));
        if now % 1_000 == 999 { self.receiver.take_line_rate() } else { None }
    }
}

/// What is known of the line from one site to the other after a number of seconds, bytes a second; each edge is between
/// two hosts of its own.
fn found(world: &World, edges: u32, seconds: u64) -> Option<u64> {
    let mut groups = Groups::default();
    groups.group_of.extend((0..2 * edges).map(|host| (NodeId(host), GroupId(host % 2))));
    let mut all: Vec<Edge> = (0..edges).map(|_| Edge::default()).collect();
    let mut rates = LineRates::default();
    for now in 0..seconds * 1_000 {
        for edge in &mut all {
            edge.send(now, world);
        }
        // In turn, some packets each.
        let mut free = world.wire;
        while free > 0 {
            let before = free;
            for edge in &mut all {
                free -= edge.carry(now, world, free.min(world.wire / 8));
            }
            if free == before {
                break;
            }
        }
        for (edge, number) in all.iter_mut().zip(0..) {
            if let Some(rate) = edge.receive(now, world) {
                let ends = (NodeId(2 * number), NodeId(2 * number + 1));
                rates.observe(Time(now * MS), (1, number), ends, rate, &groups);
            }
        }
    }
    rates.between(&groups).get(&(GroupId(0), GroupId(1))).copied()
}

/// Whether a line was found to carry what it does, within a twentieth.
fn check(world: &World, edges: u32) {
    let (is, rate) = (world.wire as u64 * 1_000, found(world, edges, 5).expect("it is known"));
    assert!(rate.abs_diff(is) <= is / 20, "{rate} of {is}");
}

#[test]
fn a_line_that_is_kept_busy_is_known_after_some_seconds_to_a_twentieth() {
    for wire in [1_250, 12_500, 125_000] {
        for (delay, buffer) in [(0, 256 << 10), (1, 4 << 20), (25, 256 << 10), (25, 4 << 20)] {
            check(&World { delay, wire, buffer, ..USUAL }, 1);
        }
    }
}

#[test]
fn edges_that_share_a_line_know_it_together() {
    for edges in [2, 5] {
        check(&World { wire: 50_000, ..USUAL }, edges);
    }
}

#[test]
fn edges_that_follow_one_another_are_not_added() {
    let ends = (NodeId(0), NodeId(1));
    let mut groups = Groups::default();
    groups.group_of.extend([(ends.0, GroupId(0)), (ends.1, GroupId(1))]);
    let mut rates = LineRates::default();
    for (second, edge) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)] {
        rates.observe(Time(second * 1_000 * MS), (1, edge), ends, 5_000_000, &groups);
    }
    assert_eq!(rates.between(&groups).values().copied().collect::<Vec<_>>(), [5_000_000]);
}

#[test]
fn a_host_that_is_often_busy_does_not_make_a_line_much_faster() {
    let world = World { sleeps: 40, ..USUAL };
    let (is, rate) = (world.wire as u64 * 1_000, found(&world, 1, 4).unwrap());
    assert!((is * 3 / 4..=is * 5 / 4).contains(&rate), "{rate} of {is}");
}

#[test]
fn a_writer_or_a_reader_that_is_slower_than_the_line_says_nothing_of_it() {
    for slower in [1_000, 6_000, 11_000] {
        assert_eq!(found(&World { reader: slower, ..USUAL }, 1, 4), None, "reader of {slower}");
        assert_eq!(found(&World { writer: slower, ..USUAL }, 1, 4), None, "writer of {slower}");
    }
}

#[test]
fn a_line_that_the_largest_window_does_not_fill_is_not_taken_for_a_slow_one() {
    // 1 GB/s with a round trip of 200 ms.
    let world = World { delay: 100, wire: 1_000_000, buffer: 32 << 20, ..USUAL };
    assert_eq!(found(&world, 1, 5), None);
}
