//! Pressure stall information: the share of time in which something had to wait.

use super::{Moment, Provider, Reading, Root};
use crate::value::Value;

const FILES: [(&str, &str); 3] = [
    ("psi_cpu", "/proc/pressure/cpu"),
    ("psi_memory", "/proc/pressure/memory"),
    ("psi_io", "/proc/pressure/io"),
];

pub(super) struct Pressure;

impl Provider for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let read = |name, file| match root.text(file) {
            Ok(text) => {
                Reading::defined(name, some(&text).map(Value::number), "it is not as expected")
            }
            Err(why) => Reading::new(name, Value::undefined(why)),
        };
        FILES.iter().map(|(name, file)| read(name, file)).collect()
    }
}

fn some(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}
