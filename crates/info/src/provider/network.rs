//! Interfaces of the network, but the loopback, and those that containers and virtual machines have one end of: they
//! come and go under ever new names, and what goes through them goes through others, too.

use std::collections::BTreeMap;

use super::rate::Rates;
use super::{INSTANCES_MAX, Moment, Provider, Reading, Root};
use crate::value::Value;

#[derive(Default)]
pub(super) struct Network {
    /// Bytes received, bytes sent.
    rates: Rates<String, 2>,
}

impl Provider for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn sample(&mut self, root: &Root, at: Moment) -> Vec<Reading> {
        let text = root.text("/proc/net/dev").unwrap_or_default();
        let counters: BTreeMap<String, [u64; 2]> = text
            .lines()
            .filter_map(counters)
            .filter(|(name, _)| name != "lo" && !is_of_guest(name))
            .take(INSTANCES_MAX)
            .collect();
        let mut readings = Vec::new();
        for (interface, [receive, send]) in self.rates.rates(at.now, counters) {
            let speed = root.number(&format!("/sys/class/net/{interface}/speed"));
            let speed = speed.filter(|speed| *speed > 0.0).map(Value::number);
            let speed = speed.unwrap_or_else(|| Value::undefined("its link does not say"));
            readings.push(Reading::of("net_receive", &interface, receive));
            readings.push(Reading::of("net_send", &interface, send));
            readings.push(Reading::of("net_speed", &interface, speed));
        }
        readings
    }
}

/// As Docker, Kubernetes' networks, LXC and libvirt call them.
fn is_of_guest(name: &str) -> bool {
    ["veth", "cali", "lxc", "tap", "vnet"].iter().any(|prefix| name.starts_with(prefix))
}

fn counters(line: &str) -> Option<(String, [u64; 2])> {
    let (name, counts) = line.rsplit_once(':')?;
    let counts: Vec<&str> = counts.split_whitespace().collect();
    let count = |index: usize| -> Option<u64> { counts.get(index)?.parse().ok() };
    Some((name.trim().to_owned(), [count(0)?, count(8)?]))
}
