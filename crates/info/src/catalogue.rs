//! The built-in attributes, and the names that other systems have for them.
//!
//! The names of MDS are those of its schema of 2002 (`MdsCpu`, `MdsMemory`, `MdsFs`, ...), where a
//! size is in units of 2^20 bytes and a load is free processors times 100; those of node_exporter
//! are in base units, as ours are.

use crate::registry::{Attribute, Threshold, split_instance};
use crate::value::Kind;

/// An attribute, or a family of them, that Rakuda itself provides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuiltIn {
    /// Its name, or that of the family.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// By how much a value must move to be worth telling.
    pub threshold: Threshold,
    /// The provider that samples it.
    pub provider: &'static str,
    /// A node may have several, by instance.
    pub is_family: bool,
    /// One line for people.
    pub help: &'static str,
}

impl BuiltIn {
    /// The attribute of this name, which is its own or has an instance.
    pub fn attribute(&self, name: String) -> Attribute {
        let (unit, provider) = (self.unit.to_owned(), self.provider.to_owned());
        Attribute { name, unit, kind: self.kind, threshold: self.threshold, provider }
    }
}

/// The provider that samples file systems.
pub const FILE_SYSTEMS: &str = "file_systems";

/// The family of what is wrong with providers; each provider sets its own instance.
pub const FAULTS: &str = crate::words::FAULTS;

/// Whether a name is one of [`FAULTS`].
pub fn is_fault(name: &str) -> bool {
    name.strip_prefix(FAULTS).is_some_and(|rest| rest.starts_with('('))
}

/// The built-in attribute or family of this name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.name == name)
}

/// The built-in attribute or family that an attribute belongs to, whose name may have an instance.
pub fn of(name: &str) -> Option<&'static BuiltIn> {
    find(name.split_once('(').map_or(name, |(family, _)| family))
}

/// The folder whose file system an attribute of that name is of.
pub fn folder_of(name: &str) -> Option<String> {
    let (family, folder) = split_instance(name)?;
    find(family).is_some_and(|it| it.provider == FILE_SYSTEMS).then_some(folder)
}

/// Whether a name is an instance of a family of which a node reports all that it has, or all that was asked for, at
/// once: what is missing then does not come.
pub fn is_told_whole(name: &str) -> bool {
    let told = [FILE_SYSTEMS, "disks", "network"];
    name.contains('(') && of(name).is_some_and(|it| told.contains(&it.provider))
}

const fn text(name: &'static str, provider: &'static str, help: &'static str) -> BuiltIn {
    let threshold = Threshold { absolute: 0.0, relative: 0.0 };
    BuiltIn { name, unit: "", kind: Kind::Text, threshold, provider, is_family: false, help }
}

const fn number(
    name: &'static str,
    unit: &'static str,
    provider: &'static str,
    steps: (f64, f64),
    help: &'static str,
) -> BuiltIn {
    let threshold = Threshold { absolute: steps.0, relative: steps.1 };
    BuiltIn { name, unit, kind: Kind::Number, threshold, provider, is_family: false, help }
}

const fn family(built_in: BuiltIn) -> BuiltIn {
    BuiltIn { is_family: true, ..built_in }
}

/// Threshold of attributes of which every change is sent.
const ANY: (f64, f64) = (0.0, 0.0);
/// Threshold of loads.
const LOAD: (f64, f64) = (0.05, 0.02);
/// Threshold of shares.
const SHARE: (f64, f64) = (2.0, 0.0);
/// Threshold of memory. Tasks choose by what is left of it on a node, to this precision.
const MEMORY: (f64, f64) = (1_048_576.0, 0.001);
/// Threshold of space in file systems.
const SPACE: (f64, f64) = (1_048_576.0, 0.001);
/// Threshold of rates.
const RATE: (f64, f64) = (4096.0, 0.05);
/// Threshold of clocks, which only grow: they are sent when nothing was for long.
const CLOCK: (f64, f64) = (3600.0, 0.0);

/// All built-in attributes, by provider.
pub const BUILT_IN: &[BuiltIn] = &[
    text("host", "host", "name of the machine"),
    text("arch", "host", "architecture of its processors, as uname -m has it"),
    text("os", "host", "name and version of its system"),
    text("os_type", "host", "its kernel, as uname -s has it"),
    text("kernel", "host", "release of its kernel"),
    text("kernel_version", "host", "which build of that release it is, as uname -v has it"),
    number("boot_time", "s", "host", ANY, "when it was started, seconds since 1970"),
    number("uptime", "s", "host", CLOCK, "seconds since it was started"),
    text("cpu_model", "cpu", "name of its processors"),
    number("sockets", "", "cpu", ANY, "processors as one buys them"),
    number("cores", "", "cpu", ANY, "cores of all sockets"),
    number("threads", "", "cpu", ANY, "hardware threads that are online"),
    number("numa_nodes", "", "cpu", ANY, "parts of the memory with cores of their own"),
    number("load1", "", "load", LOAD, "threads that run or wait for a disk, mean of 1 minute"),
    number("load5", "", "load", LOAD, "mean of 5 minutes"),
    number("load15", "", "load", LOAD, "mean of 15 minutes"),
    number("runnable", "", "load", ANY, "threads that run or could, at that moment"),
    number("cpu_user", "%", "load", SHARE, "share of all processors in programs"),
    number("cpu_system", "%", "load", SHARE, "share in the kernel"),
    number("cpu_iowait", "%", "load", SHARE, "share idle while something waits for a disk"),
    number("cpu_idle", "%", "load", SHARE, "share idle"),
    number("mem_total", "B", "memory", ANY, "memory"),
    number("mem_free", "B", "memory", MEMORY, "memory that nothing uses"),
    number(
        "mem_available",
        "B",
        "memory",
        MEMORY,
        "memory that programs can have without swapping",
    ),
    number("swap_total", "B", "memory", ANY, "swap space"),
    number("swap_free", "B", "memory", MEMORY, "swap space that is free"),
    number(
        "psi_cpu",
        "%",
        "pressure",
        SHARE,
        "share of the last 10 s in which some thread waited for a processor",
    ),
    number("psi_memory", "%", "pressure", SHARE, "for memory"),
    number("psi_io", "%", "pressure", SHARE, "for a disk"),
    family(text("fs_type", "file_systems", "kind of a file system")),
    family(number("fs_size", "B", "file_systems", ANY, "its size")),
    family(number("fs_free", "B", "file_systems", SPACE, "what users may still write")),
    family(number(
        "fs_inodes_free",
        "",
        "file_systems",
        (1000.0, 0.01),
        "files that can still be made",
    )),
    family(number("disk_read", "B/s", "disks", RATE, "read from a disk")),
    family(number("disk_write", "B/s", "disks", RATE, "written to it")),
    family(number(
        "disk_busy",
        "%",
        "disks",
        SHARE,
        "share of time in which it had something to do",
    )),
    family(number("net_receive", "B/s", "network", RATE, "received by an interface")),
    family(number("net_send", "B/s", "network", RATE, "sent by it")),
    family(number("net_speed", "Mbit/s", "network", ANY, "speed of its link")),
    number("users", "", "users", ANY, "people who are logged in"),
    number("user_idle", "s", "users", (10.0, 0.1), "since a terminal of theirs was used last"),
    number("limit_cores", "", "limits", ANY, "processors that the control group allows"),
    number("limit_memory", "B", "limits", ANY, "memory that the control group allows"),
    number("limit_memory_used", "B", "limits", MEMORY, "what the control group uses of it"),
    number("gpu", "", "gpus", ANY, "GPUs of NVIDIA"),
    number("gpu_free", "", "gpus", ANY, "those of them on which no process computes"),
    number("gpu_memory_free", "B", "gpus", MEMORY, "free memory of the one that has most of it"),
    number("gpu_load", "%", "gpus", SHARE, "share of time in which they computed, mean of all"),
    family(text("gpu_name", "gpus", "model of a GPU")),
];

/// Names of other systems, each with the expression that it stands for. A family stands for a family.
pub const ALIASES: &[(&str, &str)] = &[
    ("Mds-Host-hn", "host"),
    ("Mds-Computer-isa", "arch"),
    ("Mds-Computer-platform", "arch"),
    ("Mds-Os-name", "os_type"),
    ("Mds-Os-release", "kernel"),
    ("Mds-Os-version", "kernel_version"),
    ("Mds-Cpu-model", "cpu_model"),
    ("Mds-Cpu-Total-count", "threads"),
    ("Mds-Cpu-Smp-size", "threads"),
    // Whole numbers, as MDS has them. A load has hundredths, which no double has: 33 may come out a little below.
    ("Mds-Cpu-Free-1minX100", "floor(100 * max(0, threads - load1) / threads + 0.001)"),
    ("Mds-Cpu-Free-5minX100", "floor(100 * max(0, threads - load5) / threads + 0.001)"),
    ("Mds-Cpu-Free-15minX100", "floor(100 * max(0, threads - load15) / threads + 0.001)"),
    ("Mds-Cpu-Total-Free-1minX100", "floor(100 * max(0, threads - load1) + 0.001)"),
    ("Mds-Cpu-Total-Free-5minX100", "floor(100 * max(0, threads - load5) + 0.001)"),
    ("Mds-Cpu-Total-Free-15minX100", "floor(100 * max(0, threads - load15) + 0.001)"),
    ("Mds-Memory-Ram-Total-sizeMB", "floor(mem_total / 1MiB)"),
    ("Mds-Memory-Ram-sizeMB", "floor(mem_total / 1MiB)"),
    ("Mds-Memory-Ram-Total-freeMB", "floor(mem_available / 1MiB)"),
    ("Mds-Memory-Ram-freeMB", "floor(mem_available / 1MiB)"),
    ("Mds-Memory-Vm-Total-sizeMB", "floor(swap_total / 1MiB)"),
    ("Mds-Memory-Vm-sizeMB", "floor(swap_total / 1MiB)"),
    ("Mds-Memory-Vm-Total-freeMB", "floor(swap_free / 1MiB)"),
    ("Mds-Memory-Vm-freeMB", "floor(swap_free / 1MiB)"),
    ("LoadAvg", "load1"),
    ("Cpus", "threads"),
    ("Memory", "floor(mem_total / 1MiB)"),
    ("node_load1", "load1"),
    ("node_load5", "load5"),
    ("node_load15", "load15"),
    ("node_boot_time_seconds", "boot_time"),
    ("node_procs_running", "runnable"),
    ("node_memory_MemTotal_bytes", "mem_total"),
    ("node_memory_MemFree_bytes", "mem_free"),
    ("node_memory_MemAvailable_bytes", "mem_available"),
    ("node_memory_SwapTotal_bytes", "swap_total"),
    ("node_memory_SwapFree_bytes", "swap_free"),
    ("node_filesystem_size_bytes", "fs_size"),
    ("node_filesystem_avail_bytes", "fs_free"),
    ("node_filesystem_files_free", "fs_inodes_free"),
    // Bits of 10^6 a second; the other system has bytes.
    ("node_network_speed_bytes", "net_speed * 125000"),
];

/// Whether the meaning of an alias computes something with a family.
pub fn is_reckoned_with_family(meaning: &str) -> bool {
    meaning.split_once(' ').is_some_and(|(first, _)| find(first).is_some_and(|it| it.is_family))
}

/// What an alias stands for.
pub fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, meaning)| *meaning)
}
