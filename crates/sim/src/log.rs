//! What happened, a line each: kept, or only summed up in a number that differs when any line differs.
//!
//! Does not know what the lines mean.

use std::fmt::{self, Write};

/// A log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Whether lines are made at all.
    enabled: bool,
    /// The lines, when they are kept.
    text: Option<String>,
    /// Where each line goes at once.
    sink: Option<fn(&str)>,
    sum: Sum,
}

impl Log {
    /// Makes a log that notes nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Makes a log that sums lines up and forgets them.
    pub fn summed() -> Self {
        Self { enabled: true, ..Self::default() }
    }

    /// Makes a log that keeps lines.
    pub fn kept() -> Self {
        Self { enabled: true, text: Some(String::new()), ..Self::default() }
    }

    /// Makes a log that hands each line to `sink` when it is noted: also those before a panic.
    pub fn told(sink: fn(&str)) -> Self {
        Self { enabled: true, sink: Some(sink), ..Self::default() }
    }

    /// The lines, if they were kept.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// A number (FNV-1a) of all lines.
    pub fn sum(&self) -> u64 {
        self.sum.0
    }

    pub(crate) fn note(&mut self, now_ns: u64, line: fmt::Arguments<'_>) {
        if !self.enabled {
            return;
        }
        let written = writeln!(self.sum, "{now_ns} {line}");
        written.expect("a number takes any text");
        if let Some(sink) = self.sink {
            sink(&format!("{now_ns} {line}\n"));
        }
        if let Some(text) = &mut self.text {
            writeln!(text, "{now_ns} {line}").expect("a string takes any text");
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Write for Sum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        Ok(())
    }
}
