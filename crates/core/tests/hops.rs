//! The two ends of an edge between hosts, with whatever lies between them: nothing is lost or mixed,
//! what is under way is bounded, an end is seen only when all was taken, and nobody waits for ever.

use proptest::prelude::*;
use rakuda_core::Time;
use rakuda_core::streams::{
    HOP_WINDOW_BYTES, HOP_WINDOW_BYTES_MAX, HopReceiver, HopSender, SenderState,
};

/// A small generator, so that one number decides a life.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// Bytes on their way, which come in any pieces.
#[derive(Default)]
struct Wire(Vec<u8>);

impl Wire {
    fn some(&mut self, dice: &mut Dice) -> Vec<u8> {
        let most = match dice.below(3) {
            0 => 1 + dice.below(7),
            _ => 1 + dice.below(300_000),
        };
        let rest = self.0.split_off(most.min(self.0.len()));
        std::mem::replace(&mut self.0, rest)
    }
}

/// Whether anything moved.
fn step(
    dice: &mut Dice,
    there: &mut Wire,
    back: &mut Wire,
    sender: &mut HopSender,
    receiver: &mut HopReceiver,
) -> bool {
    match dice.below(4) {
        0 => {
            let bytes = 1 + dice.below(sender.to_write().len().max(1));
            let bytes = bytes.min(sender.to_write().len());
            there.0.extend_from_slice(&sender.to_write()[..bytes]);
            sender.on_written(bytes);
            bytes > 0
        }
        1 => {
            let bytes = there.some(dice);
            receiver.on_received(&bytes).unwrap();
            !bytes.is_empty()
        }
        2 => {
            back.0.extend_from_slice(receiver.to_write());
            let bytes = receiver.to_write().len();
            receiver.on_written(bytes);
            bytes > 0
        }
        _ => {
            let bytes = back.some(dice);
            // A sender that is over hears nothing more: its connection is closed.
            let is_over = matches!(sender.state(), SenderState::Done | SenderState::Left);
            assert!(is_over || sender.on_received(&bytes).is_ok());
            !bytes.is_empty()
        }
    }
}

fn live(seed: u64) {
    let mut dice = Dice(seed);
    let length = [0, 1, 5_000, 700_000, 3 * HOP_WINDOW_BYTES][dice.below(5)];
    let source: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
    let leaves_at = (dice.below(3) == 0).then(|| dice.below(length + 1));
    let (mut sender, mut receiver) = (HopSender::default(), HopReceiver::default());
    let (mut there, mut back) = (Wire::default(), Wire::default());
    let (mut given, mut taken) = (0, Vec::new());
    let mut left = false;
    let mut idle = 0;
    // Where steps are long, the window grows while all this goes on.
    let (mut now, pace) = (0, [1, 2_000_000, 50_000_000][dice.below(3)]);
    while !matches!(sender.state(), SenderState::Done | SenderState::Left) {
        now += dice.below(pace) as u64;
        receiver.on_time(Time(now));
        let mut moved = step(&mut dice, &mut there, &mut back, &mut sender, &mut receiver);
        if given < length {
            let most = 1 + dice.below(200_000);
            let piece = &source[given..(given + most).min(length)];
            let some = sender.take([piece].into_iter());
            given += some;
            moved |= some > 0;
        } else if sender.to_write().is_empty() {
            sender.finish(7);
        }
        // What is under way and not taken is bounded, whatever lies between.
        let window = receiver.window_bytes();
        assert!((HOP_WINDOW_BYTES..=HOP_WINDOW_BYTES_MAX).contains(&window));
        assert!(left || given - taken.len() <= window);
        assert!(receiver.pending().len() <= window);
        let wanted = 1 + dice.below(150_000);
        let some = receiver.pending()[..wanted.min(receiver.pending().len())].to_vec();
        receiver.on_taken(some.len());
        moved |= !some.is_empty();
        taken.extend(some);
        if let Some(records) = receiver.ended() {
            assert_eq!((records, taken.len()), (7, length));
            receiver.finish();
        } else if !left && leaves_at.is_some_and(|at| taken.len() >= at) && !taken.is_empty() {
            receiver.leave();
            left = true;
        }
        idle = if moved { 0 } else { idle + 1 };
        assert!(idle < 1_000, "nobody waits for ever");
    }
    assert_eq!(taken, source[..taken.len()]);
    match sender.state() {
        SenderState::Done => {
            assert_eq!(taken.len(), length);
            assert!(receiver.is_over() || receiver.to_write().is_empty());
        }
        _ => assert!(left),
    }
    sender.on_closed().unwrap();
    // What was still on its way is dropped where nobody reads.
    receiver.on_received(&there.0).unwrap();
    receiver.on_closed().unwrap();
    assert!(receiver.is_over());
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_or_is_known_to_be_unwanted(seed in any::<u64>()) {
        live(seed);
    }
}
