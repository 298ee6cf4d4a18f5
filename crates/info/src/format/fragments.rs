//! Whole rows of the object of nodes, kept as they were written last.
//!
//! A row is written anew only when the state of its node has changed, or which values it has; where
//! values have changed, they alone are put in the place of those before. Ages change all the time, so
//! a kept row has none: it has the places at which they stand, and each answer puts them in from the
//! times of the samples. So every age is that of the moment of the answer, and the bytes are those
//! that `json` writes without this (`fragments_tests.rs` holds both against one another).

use rakuda_core::Time;

use super::json::{Digits, age_digits, put_number, put_text, put_text_field};
use crate::registry::AttributeId;
use crate::table::{NodeId, Table};
use crate::value::Value;

/// Maximum bytes of all kept rows together; rows beyond it are written anew each time.
const BYTES_MAX: usize = 128 << 20;
/// Bytes for an age that is not known yet: the digits of an age of less than a day, and a comma.
const AGE_BYTES: usize = 10;
/// Bytes that are copied at once between two ages, where the text there is no longer: a copy of a known length costs a
/// tenth of a call. Bytes that were copied in excess are written over.
const PIECE_BYTES: usize = 96;

/// Where a value stands in a row, and its age.
#[derive(Debug, Clone, Copy)]
struct ValuePosition {
    attribute: AttributeId,
    /// Beginning and end of its value in the text.
    value: (u32, u32),
    /// Where its age goes in the text.
    age: u32,
}

/// A row, without ages.
#[derive(Debug, Default)]
struct Fragment {
    /// The change that it shows ([`Table::touched`]); 0 if it is not kept.
    touched: u64,
    text: String,
    /// The positions of all values, in the order of the text.
    positions: Vec<ValuePosition>,
}

fn put_value(out: &mut String, table: &Table, node: NodeId, attribute: AttributeId) {
    let number = table.number(node, attribute);
    if !number.is_nan() {
        put_number(out, number);
    } else if let Some(text) = table.text(node, attribute) {
        put_text(out, text);
    } else {
        out.push_str("null");
    }
}

impl Fragment {
    fn bytes(&self) -> usize {
        self.text.capacity() + self.positions.capacity() * size_of::<ValuePosition>()
    }

    /// Writes what `json` writes of a node with all that is known of it.
    fn render(&mut self, table: &Table, node: NodeId) {
        self.touched = table.touched(node);
        self.text.clear();
        self.positions.clear();
        let out = &mut self.text;
        let known = table.get_node(node);
        out.push('{');
        if let Some(run) = &known.run {
            put_text_field(out, "run", run);
        }
        put_text_field(out, "node", &known.name);
        put_text_field(out, "state", known.state.word());
        out.push_str("\"values\":{");
        for id in table.registry().by_name() {
            let Some(cell) = table.cell(node, id) else { continue };
            if !self.positions.is_empty() {
                out.push(',');
            }
            let attribute = table.registry().get(id);
            put_text(out, &attribute.name);
            out.push_str(":{\"value\":");
            let begin = out.len() as u32;
            put_value(out, table, node, id);
            let value = (begin, out.len() as u32);
            out.push_str(",\"unit\":");
            put_text(out, &attribute.unit);
            out.push_str(",\"age_s\":");
            self.positions.push(ValuePosition { attribute: id, value, age: out.len() as u32 });
            if let Value::Undefined(why) = &cell.value
                && !why.is_empty()
            {
                out.push_str(",\"why\":");
                put_text(out, why);
            }
            out.push('}');
        }
        out.push_str("}}");
    }

    /// The same of a row that has the right values in the right places, but for some that have changed since.
    fn refill(&mut self, table: &Table, node: NodeId, changes: &[&[u64]], before: &mut String) {
        std::mem::swap(&mut self.text, before);
        let out = &mut self.text;
        out.clear();
        out.reserve(before.len());
        let mut copied = 0;
        // How much longer the text is up to here.
        let mut moved = 0_i32;
        for position in &mut self.positions {
            let (begin, end) = position.value;
            if changes[position.attribute.index()][node.index()] > self.touched {
                out.push_str(&before[copied..begin as usize]);
                let begin = out.len() as u32;
                put_value(out, table, node, position.attribute);
                position.value = (begin, out.len() as u32);
                moved = position.value.1.wrapping_sub(end).cast_signed();
                copied = end as usize;
            } else {
                position.value = (begin.wrapping_add_signed(moved), end.wrapping_add_signed(moved));
            }
            position.age = position.age.wrapping_add_signed(moved);
        }
        out.push_str(&before[copied..]);
        self.touched = table.touched(node);
    }

    /// Appends the row with its ages. It is put together in `room`, which is as long as need be.
    fn put(&self, out: &mut Vec<u8>, room: &mut Vec<u8>, node: NodeId, times: &Times<'_>) {
        let text = self.text.as_bytes();
        let mut digits = Digits::default();
        let most = text.len() + self.positions.len() * digits.len() + PIECE_BYTES;
        if room.len() < most {
            room.resize(most, 0);
        }
        let (mut begin, mut at) = (0, 0);
        for position in &self.positions {
            let end = position.age as usize;
            copy_piece(&mut room[at..], text, begin, end);
            at += end - begin;
            let sampled = times.sampled[position.attribute.index()][node.index()];
            let first = age_digits(sampled, times.now, &mut digits);
            let age = &digits[first..];
            for (place, digit) in room[at..at + age.len()].iter_mut().zip(age) {
                *place = *digit;
            }
            at += age.len();
            begin = end;
        }
        out.extend_from_slice(&room[..at]);
        out.extend_from_slice(&text[begin..]);
    }
}

/// What ages of an answer rest on.
struct Times<'a> {
    /// By attribute, then node.
    sampled: Vec<&'a [Time]>,
    now: Time,
}

/// Copies a piece of a text, and what is behind it.
fn copy_piece(to: &mut [u8], text: &[u8], begin: usize, end: usize) {
    let whole = text.get(begin..begin + PIECE_BYTES).filter(|_| end - begin <= PIECE_BYTES);
    match whole.zip(to.first_chunk_mut::<PIECE_BYTES>()) {
        Some((from, to)) => to.copy_from_slice(from),
        None => to[..end - begin].copy_from_slice(&text[begin..end]),
    }
}

/// Rows of one table; for another one they would be wrong.
#[derive(Debug, Default)]
pub struct Fragments {
    /// The rows, by number of the node.
    nodes: Vec<Fragment>,
    bytes: usize,
    /// For a row that is refilled: room for its text before.
    before: String,
    /// For a row that is put together.
    room: Vec<u8>,
}

impl Fragments {
    /// Makes an empty set of rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// The object of version 2 (UTF-8) with these nodes and all that is known of them.
    pub fn write(&mut self, table: &Table, nodes: &[NodeId], now: Time) -> Vec<u8> {
        self.nodes.resize_with(table.rows(), Fragment::default);
        let ids = || table.registry().iter().map(|(id, _)| id);
        let changes: Vec<&[u64]> = ids().map(|id| table.value_changes(id)).collect();
        let times = Times { sampled: ids().map(|id| table.sample_times(id)).collect(), now };
        let kept = nodes.iter().map(|node| &self.nodes[node.index()]);
        let bytes: usize = kept.map(|it| it.text.len() + it.positions.len() * AGE_BYTES + 1).sum();
        let mut head = String::new();
        super::json::put_head(&mut head, table.change(), false);
        // Rows may become longer; what is not written costs nothing.
        let mut out = Vec::with_capacity(bytes + bytes / 8 + 64);
        out.extend_from_slice(head.as_bytes());
        let mut passing = Fragment::default();
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            // Whatever is written anew is put in at once, as it is in the processor's cache.
            self.renew(table, *node, &changes);
            let kept = &self.nodes[node.index()];
            if kept.touched == table.touched(*node) {
                kept.put(&mut out, &mut self.room, *node, &times);
            } else {
                passing.render(table, *node);
                passing.put(&mut out, &mut self.room, *node, &times);
            }
        }
        out.extend_from_slice(b"]}");
        out
    }

    /// Brings a row up to date, as far as there is room for it.
    fn renew(&mut self, table: &Table, node: NodeId, changes: &[&[u64]]) {
        let fragment = &mut self.nodes[node.index()];
        if fragment.touched == table.touched(node) {
            return;
        }
        let before = fragment.bytes();
        if fragment.touched == 0 || table.reshaped(node) > fragment.touched {
            fragment.render(table, node);
        } else {
            fragment.refill(table, node, changes, &mut self.before);
        }
        self.bytes = self.bytes - before + fragment.bytes();
        if self.bytes > BYTES_MAX {
            self.bytes -= fragment.bytes();
            *fragment = Fragment::default();
        }
    }
}

#[cfg(test)]
#[path = "fragments_tests.rs"]
mod tests;
