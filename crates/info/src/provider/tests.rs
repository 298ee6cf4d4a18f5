//! Each provider on a machine that is made of files, and all on the real one.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A folder that stands for `/`, removed at the end.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder =
            std::env::temp_dir().join(format!("rakuda-info-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let machine = Self(folder);
        for (path, text) in files {
            machine.write(path, text.as_bytes());
        }
        machine
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn root(&self) -> Root {
        Root::new(&self.0)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(ms: u64) -> Moment {
    Moment { now: Time(ms * 1_000_000), file_ns: 1_800_000_000_000_000_000 }
}

fn shown(sample: &[Reading]) -> Vec<String> {
    sample
        .iter()
        .map(|reading| {
            let name = match &reading.instance {
                Some(instance) => instance_name(reading.name, instance),
                None => reading.name.to_owned(),
            };
            match &reading.value {
                Value::Number(number) => format!("{name} = {number}"),
                Value::Text(text) => format!("{name} = {text}"),
                Value::Undefined(why) => format!("{name}: {why}"),
            }
        })
        .collect()
}

#[test]
fn a_host_says_what_it_is() {
    let machine = Machine::new(
        "host",
        &[
            ("proc/sys/kernel/hostname", "node7\n"),
            ("proc/sys/kernel/arch", "aarch64\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/kernel/version", "#1 SMP Debian 6.12.1-1\n"),
            ("proc/uptime", "12345.67 1.0\n"),
            ("proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0\nbtime 1795300000\n"),
            ("etc/os-release", "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
        ],
    );
    assert_eq!(
        shown(&host::Host.sample(&machine.root(), at(0))),
        [
            "host = node7",
            "arch = aarch64",
            "os = Debian GNU/Linux 12",
            "os_type = Linux",
            "kernel = 6.12.1",
            "kernel_version = #1 SMP Debian 6.12.1-1",
            "boot_time = 1795300000",
            "uptime = 12345.67",
        ]
    );
}

#[test]
fn sockets_cores_and_threads_are_told_apart() {
    let machine = Machine::new(
        "cpu",
        &[
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\n\nprocessor\t: 1\n"),
            ("sys/devices/system/cpu/online", "0-3,6-7\n"),
            ("sys/devices/system/node/online", "0-1\n"),
        ],
    );
    for (cpu, package, siblings) in
        [(0, 0, "0-1"), (1, 0, "0-1"), (2, 0, "2-3"), (3, 0, "2-3"), (6, 1, "6-7"), (7, 1, "6-7")]
    {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        machine
            .write(&format!("{topology}/physical_package_id"), format!("{package}\n").as_bytes());
        machine.write(&format!("{topology}/thread_siblings_list"), siblings.as_bytes());
    }
    assert_eq!(
        shown(&cpu::Cpu.sample(&machine.root(), at(0))),
        [
            "cpu_model = Some CPU @ 2GHz",
            "sockets = 2",
            "cores = 3",
            "threads = 6",
            "numa_nodes = 2",
        ]
    );
    fs::remove_dir_all(machine.0.join("sys")).unwrap();
    let without = shown(&cpu::Cpu.sample(&machine.root(), at(0)));
    assert_eq!(without[3], "threads = 2", "/proc counts them, too");
    assert_eq!(without[1], "sockets: the kernel does not say");
}

#[test]
fn shares_of_the_processors_are_of_the_time_between_two_samples() {
    let machine = Machine::new(
        "load",
        &[
            ("proc/loadavg", "0.52 1.00 2.25 3/198 24831\n"),
            ("proc/stat", "cpu  100 10 50 1000 40 5 5 0 0 0\ncpu0 1 1 1 1 1\n"),
        ],
    );
    let mut load = load::Load::default();
    let first = shown(&load.sample(&machine.root(), at(0)));
    assert_eq!(first[..4], ["load1 = 0.52", "load5 = 1", "load15 = 2.25", "runnable = 3"]);
    assert_eq!(first[4], "cpu_user: it takes a second sample");
    // 40 of 100 ticks in programs, 20 in the kernel, 10 waiting, 25 idle, 5 stolen.
    machine.write("proc/stat", b"cpu  130 20 60 1025 50 10 10 5 0 0\n");
    let second = shown(&load.sample(&machine.root(), at(1000)));
    assert_eq!(
        second[4..],
        ["cpu_user = 40", "cpu_system = 20", "cpu_iowait = 10", "cpu_idle = 25"]
    );
    machine.write("proc/stat", b"cpu  rubbish\n");
    assert_eq!(
        shown(&load.sample(&machine.root(), at(2000)))[4],
        "cpu_user: /proc/stat has no line of cpu"
    );
}

#[test]
fn memory_is_in_bytes_and_what_is_missing_says_so() {
    let machine = Machine::new(
        "memory",
        &[(
            "proc/meminfo",
            "MemTotal:  16384 kB\nMemFree: 1 kB\nSwapTotal: 0 kB\nSwapFree: 99999999999999999999 kB\n",
        )],
    );
    assert_eq!(
        shown(&memory::Memory.sample(&machine.root(), at(0))),
        [
            "mem_total = 16777216",
            "mem_free = 1024",
            "mem_available: /proc/meminfo does not say",
            "swap_total = 0",
            "swap_free: /proc/meminfo does not say",
        ]
    );
    fs::remove_file(machine.0.join("proc/meminfo")).unwrap();
    let gone = shown(&memory::Memory.sample(&machine.root(), at(0)));
    assert_eq!(gone[0], "mem_total: /proc/meminfo cannot be read: there is no such file");
}

#[test]
fn disks_and_interfaces_have_rates() {
    let machine = Machine::new(
        "rates",
        &[
            (
                "proc/diskstats",
                " 8 0 sda 1 0 100 0 1 0 200 0 0 50 0\n 8 1 sda1 1 0 9 0 1 0 9 0 0 9 0\n 7 0 loop0 1 0 9 0 1 0 9 0 0 9 0\n",
            ),
            ("sys/block/sda/size", "1"),
            ("sys/block/loop0/size", "1"),
            (
                "proc/net/dev",
                "Inter-| Receive\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n  eth0: 1000 0 0 0 0 0 0 0 500 0 0 0 0 0 0 0\nveth12: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n",
            ),
            ("sys/class/net/eth0/speed", "1000\n"),
        ],
    );
    let (mut disks, mut network) = (disks::Disks::default(), network::Network::default());
    assert_eq!(
        shown(&disks.sample(&machine.root(), at(0)))[0],
        "disk_read('sda'): it takes a second sample"
    );
    network.sample(&machine.root(), at(0));
    machine.write("proc/diskstats", b" 8 0 sda 1 0 300 0 1 0 600 0 0 300 0\n");
    machine.write("proc/net/dev", b"  eth0: 3000 0 0 0 0 0 0 0 400 0 0 0 0 0 0 0\n");
    assert_eq!(
        shown(&disks.sample(&machine.root(), at(500))),
        ["disk_read('sda') = 204800", "disk_write('sda') = 409600", "disk_busy('sda') = 50",]
    );
    assert_eq!(
        shown(&network.sample(&machine.root(), at(500))),
        [
            "net_receive('eth0') = 4000",
            "net_send('eth0'): its counter began anew",
            "net_speed('eth0') = 1000",
        ]
    );
}

#[test]
fn file_systems_that_keep_data_are_found_once_each() {
    let machine = Machine::new(
        "fs",
        &[(
            "proc/self/mountinfo",
            "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n\
         28 27 254:0 /home /home rw - ext4 /dev/vda rw\n29 27 0:40 / /my\\040data rw shared:1 - nfs4 server:/x rw\n\
         30 27 0:41 / /gone rw - xfs /dev/vdb rw\n",
        )],
    );
    fs::create_dir_all(machine.0.join("my data")).unwrap();
    let sample = FileSystems::new(Vec::new()).sample(&machine.root(), at(0));
    let lines = shown(&sample);
    assert_eq!(lines[0], "fs_type('/') = ext4");
    let places: Vec<&str> = sample.iter().filter_map(|it| it.instance.as_deref()).collect();
    let mut once = places.clone();
    once.dedup();
    assert_eq!(once, ["/", "/gone", "/my data"]);
    assert!(matches!(sample[1].value, Value::Number(bytes) if bytes > 0.0), "{lines:?}");
    assert!(
        lines.contains(&"fs_size('/gone'): /gone: there is no such file".to_owned()),
        "{lines:?}"
    );
    let watched = FileSystems::new(vec!["/my data".to_owned()]).sample(&machine.root(), at(0));
    assert_eq!(shown(&watched)[0], "fs_type('/my data') = nfs4");
    assert_eq!(watched.len(), 4);
}

#[test]
fn folders_that_are_named_have_the_file_system_that_they_are_on() {
    let machine = Machine::new(
        "named",
        &[(
            "proc/self/mountinfo",
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n29 27 0:40 / /data rw shared:1 - nfs4 server:/x rw\n",
        )],
    );
    fs::create_dir_all(machine.0.join("data/scratch")).unwrap();
    let named = ["/data/scratch", "/", "/nosuch", "relative"].map(str::to_owned);
    let mut file_systems = FileSystems::new(Vec::new()).with(move || named.to_vec());
    let lines = shown(&file_systems.sample(&machine.root(), at(0)));
    let kinds: Vec<&String> = lines.iter().filter(|line| line.starts_with("fs_type")).collect();
    assert_eq!(
        kinds,
        [
            "fs_type('/') = ext4",
            "fs_type('/data') = nfs4",
            "fs_type('/data/scratch') = nfs4",
            "fs_type('/nosuch'): /nosuch: there is no such file",
        ]
    );
    let free = |line: &&String| line.starts_with("fs_free('/data/scratch') = ");
    assert_eq!(lines.iter().filter(free).count(), 1, "{lines:?}");
}

#[test]
fn a_root_that_is_no_mount_point_has_the_kind_that_its_number_tells() {
    let machine = Machine::new(
        "chroot",
        &[("proc/self/mountinfo", "29 27 0:40 / /data rw shared:1 - nfs4 server:/x rw\n")],
    );
    fs::create_dir_all(machine.0.join("data/run")).unwrap();
    std::os::unix::fs::symlink("/dev/shm", machine.0.join("shm")).unwrap();
    let watched = ["/shm", "/data/run"].map(str::to_owned).to_vec();
    let lines = shown(&FileSystems::new(watched).sample(&machine.root(), at(0)));
    let kinds: Vec<&String> = lines.iter().filter(|line| line.starts_with("fs_type")).collect();
    assert_eq!(kinds, ["fs_type('/shm') = tmpfs", "fs_type('/data/run') = nfs4"]);
    let all = FileSystems::new(Vec::new()).sample(&machine.root(), at(0));
    let places: Vec<&str> = all.iter().filter_map(|it| it.instance.as_deref()).collect();
    assert!(places.contains(&"/data"), "{places:?}");
    // Where the folder that stands for it is in memory, nobody's data are kept.
    let kind = super::file_systems::kind_by_number(&machine.root(), "/");
    assert_eq!(places.contains(&"/"), !["tmpfs", "ramfs"].contains(&kind), "{places:?}");
}

#[test]
fn users_are_found_by_utmp_or_by_sessions() {
    let machine = Machine::new("users", &[("dev/pts/3", "")]);
    assert_eq!(
        shown(&users::Users.sample(&machine.root(), at(0))),
        ["users = 0", "user_idle: nobody is logged in"]
    );
    let mut record = vec![0; 384];
    record[0] = 7;
    record[8..13].copy_from_slice(b"pts/3");
    record[44..47].copy_from_slice(b"ann");
    let mut records = vec![0; 384];
    records.extend(&record);
    records.extend(b"torn");
    machine.write("run/utmp", &records);
    let used = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_799_999_880);
    let times = fs::FileTimes::new().set_accessed(used);
    fs::File::options()
        .write(true)
        .open(machine.0.join("dev/pts/3"))
        .unwrap()
        .set_times(times)
        .unwrap();
    assert_eq!(
        shown(&users::Users.sample(&machine.root(), at(0))),
        ["users = 1", "user_idle = 120"]
    );
    fs::remove_file(machine.0.join("run/utmp")).unwrap();
    machine.write("run/systemd/sessions/4", b"USER=ann\nCLASS=user\nTTY=pts/3\nSTATE=active\n");
    machine.write("run/systemd/sessions/c1", b"USER=gdm\nCLASS=greeter\n");
    assert_eq!(
        shown(&users::Users.sample(&machine.root(), at(0))),
        ["users = 1", "user_idle = 120"]
    );
}

#[test]
fn the_least_limit_of_all_control_groups_counts() {
    let machine = Machine::new(
        "limits",
        &[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/memory.current", "4096\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
        ],
    );
    assert_eq!(
        shown(&limits::Limits.sample(&machine.root(), at(0))),
        ["limit_cores = 1.5", "limit_memory = 1073741824", "limit_memory_used = 4096",]
    );
    let old = Machine::new(
        "limits-old",
        &[
            ("proc/self/cgroup", "3:cpu:/x\n2:memory:/x\n"),
            (
                "proc/self/mountinfo",
                "30 29 0:26 / /c/cpu rw - cgroup cgroup rw,cpu\n31 29 0:27 / /c/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("c/cpu/x/cpu.cfs_quota_us", "-1\n"),
            ("c/cpu/x/cpu.cfs_period_us", "100000\n"),
            ("c/memory/x/memory.limit_in_bytes", "9223372036854771712\n"),
        ],
    );
    assert_eq!(
        shown(&limits::Limits.sample(&old.root(), at(0)))[..2],
        ["limit_cores: no control group limits it", "limit_memory: no control group limits it",]
    );
}

#[test]
fn pressure_is_that_of_ten_seconds() {
    let machine = Machine::new(
        "psi",
        &[(
            "proc/pressure/cpu",
            "some avg10=14.79 avg60=10.91 avg300=4.95 total=62998055\nfull avg10=0.00 avg60=0 avg300=0 total=0\n",
        )],
    );
    assert_eq!(
        shown(&pressure::Pressure.sample(&machine.root(), at(0))),
        [
            "psi_cpu = 14.79",
            "psi_memory: /proc/pressure/memory cannot be read: there is no such file",
            "psi_io: /proc/pressure/io cannot be read: there is no such file",
        ]
    );
}

#[test]
fn this_machine_tells_what_every_machine_knows() {
    let root = Root::new("/");
    let mut table = Table::new();
    let node = table.node(None, "here");
    for ms in [1000, 2000] {
        for mut provider in quick() {
            let sample = provider.sample(&root, at(ms));
            note(&mut table, node, provider.name(), &sample, Time(ms * 1_000_000));
        }
    }
    for name in
        ["host", "kernel", "threads", "load1", "mem_total", "mem_available", "uptime", "users"]
    {
        let id = table.registry().find(name).unwrap();
        assert!(table.has(node, id), "{name}: {:?}", table.cell(node, id));
    }
    // Others than these tell the rest.
    let is_quick = |provider: &str| quick().iter().any(|it| it.name() == provider);
    for (id, attribute) in table.registry().iter().filter(|(_, it)| is_quick(&it.provider)) {
        assert!(table.cell(node, id).is_some(), "nobody says anything of {}", attribute.name);
    }
}

#[test]
fn what_a_provider_no_longer_sees_is_gone() {
    let mut table = Table::new();
    let node = table.node(None, "here");
    let sample = |names: &[&str]| -> Vec<Reading> {
        names.iter().map(|name| Reading::of("fs_size", name, Value::Number(1.0))).collect()
    };
    note(&mut table, node, "file_systems", &sample(&["/", "/usb"]), Time(1));
    note(&mut table, node, "file_systems", &sample(&["/"]), Time(2));
    let usb = table.registry().find("fs_size('/usb')").unwrap();
    assert_eq!(table.cell(node, usb).unwrap().value, Value::undefined("it is gone"));
    note(&mut table, node, "file_systems", &sample(&["/"]), Time(3));
    assert_eq!(crate::query::oldest(&table, node, "file_systems"), Some(Time(3)));
}
