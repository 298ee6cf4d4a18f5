//! What slow readers leave behind, in memory, for the tests of streams.

use rakuda_core::streams::Flow;

/// What was spilled, as a shell keeps it: a log, and where each reader is that is behind.
#[derive(Default)]
pub struct Log {
    pub pieces: Vec<(Vec<u8>, u64)>,
    pub next: Vec<Option<usize>>,
    pub bytes_max: usize,
    /// Bytes that were written, all in all.
    pub total: usize,
}

impl Log {
    /// Bytes that a reader may still ask for.
    pub fn held(&self) -> usize {
        let first = self.next.iter().flatten().min().copied().unwrap_or(self.pieces.len());
        self.pieces[first..].iter().map(|(bytes, _)| bytes.len()).sum()
    }

    /// Whoever has caught up, or left, asks for nothing more.
    pub fn look(&mut self, flow: &Flow) {
        for (number, next) in self.next.iter_mut().enumerate() {
            if !flow.is_behind(number) {
                *next = None;
            }
        }
    }

    /// Takes what is to be spilled, as far as it may grow.
    pub fn take_from(&mut self, flow: &mut Flow) -> bool {
        let mut moved = false;
        self.look(flow);
        while let Some((bytes, records)) = flow.to_spill() {
            if self.held() + bytes.len() > self.bytes_max {
                flow.on_spill_full();
                break;
            }
            self.total += bytes.len();
            self.pieces.push((bytes.to_vec(), records));
            for reader in flow.on_spilled() {
                assert!(self.next[reader].is_none(), "it was behind already");
                self.next[reader] = Some(self.pieces.len() - 1);
            }
            moved = true;
        }
        moved
    }

    /// Gives a reader what it has next.
    pub fn give_to(&mut self, flow: &mut Flow, reader: usize) {
        self.look(flow);
        flow.on_spill_room();
        if flow.wants_load(reader) {
            let next = self.next[reader].as_mut().expect("it was told of");
            let (bytes, records) = &self.pieces[*next];
            flow.load_space(reader).extend_from_slice(bytes);
            flow.on_loaded(reader, *records);
            *next += 1;
        }
    }
}
