//! What a machine is called, and what runs on it.

use super::{Moment, Provider, Reading, Root};
use crate::value::Value;

pub(super) struct Host;

impl Provider for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let line = |name, file: &str| {
            let text = root.text(file).map(|text| text.trim().to_owned());
            Reading::new(name, text.map_or_else(Value::undefined, Value::text))
        };
        // Kernels before 6.1 do not say it in a file.
        let arch = root.text("/proc/sys/kernel/arch").map(|text| text.trim().to_owned());
        let arch = arch.unwrap_or_else(|_| std::env::consts::ARCH.to_owned());
        let stat = root.text("/proc/stat").unwrap_or_default();
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        let uptime = root.number("/proc/uptime").map(|seconds| (seconds * 100.0).round() / 100.0);
        vec![
            line("host", "/proc/sys/kernel/hostname"),
            Reading::new("arch", Value::text(arch)),
            os(root),
            line("os_type", "/proc/sys/kernel/ostype"),
            line("kernel", "/proc/sys/kernel/osrelease"),
            line("kernel_version", "/proc/sys/kernel/version"),
            Reading::defined("boot_time", boot.map(Value::number), "/proc/stat has no btime"),
            Reading::defined("uptime", uptime.map(Value::number), "/proc/uptime is no number"),
        ]
    }
}

fn os(root: &Root) -> Reading {
    let release = root.text("/etc/os-release").or_else(|_| root.text("/usr/lib/os-release"));
    let value = |text: String| {
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            found.map(|value| value.trim_matches(['"', '\'']).to_owned())
        };
        field("PRETTY_NAME").or_else(|| field("NAME"))
    };
    match release {
        Ok(text) => {
            Reading::defined("os", value(text).map(Value::text), "/etc/os-release has no name")
        }
        Err(why) => Reading::new("os", Value::undefined(why)),
    }
}
