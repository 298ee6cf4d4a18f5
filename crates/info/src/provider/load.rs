//! How busy the processors are.

use super::rate::FIRST;
use super::{Moment, Provider, Reading, Root};
use crate::value::Value;

/// Ticks of all processors since the start: user, system, iowait, idle, and all there were.
type Ticks = [u64; 5];

#[derive(Default)]
pub(super) struct Load {
    last: Option<Ticks>,
}

const SHARES: [&str; 4] = ["cpu_user", "cpu_system", "cpu_iowait", "cpu_idle"];

impl Provider for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let mut readings = match root.text("/proc/loadavg") {
            Ok(text) => loads(&text),
            Err(why) => Reading::none(&["load1", "load5", "load15", "runnable"], &why),
        };
        match root.text("/proc/stat").map(|text| ticks(&text)) {
            Ok(Some(ticks)) => readings.extend(self.shares(ticks)),
            Ok(None) => readings.extend(Reading::none(&SHARES, "/proc/stat has no line of cpu")),
            Err(why) => readings.extend(Reading::none(&SHARES, &why)),
        }
        readings
    }
}

impl Load {
    #[expect(clippy::cast_precision_loss, reason = "ticks of a moment are few")]
    fn shares(&mut self, ticks: Ticks) -> Vec<Reading> {
        let Some(last) = self.last.replace(ticks) else { return Reading::none(&SHARES, FIRST) };
        let all = ticks[4].saturating_sub(last[4]);
        if all == 0 {
            return Reading::none(&SHARES, "no tick has passed since the last sample");
        }
        let share = |index: usize| {
            // Idle and iowait are known to step back now and then.
            let grown = ticks[index].saturating_sub(last[index]) as f64;
            Value::number((grown / all as f64 * 10_000.0).round() / 100.0)
        };
        SHARES.iter().enumerate().map(|(index, name)| Reading::new(name, share(index))).collect()
    }
}

fn loads(text: &str) -> Vec<Reading> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |name, word: Option<&str>| {
        let number = word.and_then(|word| word.parse().ok()).map(Value::number);
        Reading::defined(name, number, "/proc/loadavg is not as expected")
    };
    let runnable = words.get(3).and_then(|word| word.split_once('/')).map(|(first, _)| first);
    vec![
        number("load1", words.first().copied()),
        number("load5", words.get(1).copied()),
        number("load15", words.get(2).copied()),
        number("runnable", runnable),
    ]
}

fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; what guests take is in user already.
    let counts: Vec<u64> =
        line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, rest @ ..] = counts.as_slice() else { return None };
    let interrupts: u64 = rest.iter().take(2).sum();
    let all = counts.iter().sum();
    Some([user + nice, system + interrupts, *iowait, *idle, all])
}
