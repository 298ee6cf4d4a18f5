//! Words of `rakudactl sim` that say how large and how fast things are: a node's memory, what a
//! transfer reaches, the files of `copyfile`. Whether that makes a cluster is not its business.

use clap::Args;
use rakuda_sim::{GIB, MIB, Rates, Workload, workloads};

/// Maximum memory of a node, MiB. This and the limits below are above what is of use, and low enough that nothing
/// overflows.
const MEMORY_MIB_MAX: u64 = 1 << 30;
/// Maximum size of an input of `copyfile`, MiB.
const FILE_MIB_MAX: u64 = 1 << 30;
/// Maximum number of inputs of `copyfile`.
const FILES_MAX: i64 = 10_000_000;
/// Maximum speed of a transfer, MiB/s.
const RATE_MIB_MAX: u64 = 1 << 20;

/// Number of speeds that `--rates` has.
const RATES: usize = 5;

/// Sizes and speeds.
#[derive(Args)]
pub struct Sizes {
    /// Memory of a node: GiB, or MiB with an M behind it (256M).
    #[arg(long, value_name = "GIB", default_value = "32", value_parser = memory)]
    memory: u64,

    /// What of a node's memory is never page cache, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(..=MEMORY_MIB_MAX))]
    system: u64,

    /// What one transfer alone reaches, MiB/s: read from the own disk, from the own memory, from
    /// another node's disk, from another node's memory, write.
    #[arg(long, value_name = "MIB,...", default_value = "70,592,39,71,59", value_parser = rates)]
    rates: Rates,

    /// Disks read and write at the same time, each at full speed.
    #[arg(long)]
    duplex_disks: bool,

    /// Number of inputs of `copyfile`.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=FILES_MAX))]
    files: u32,

    /// Size of each, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 3072, value_parser = clap::value_parser!(u64).range(1..=FILE_MIB_MAX))]
    file_size: u64,
}

impl Sizes {
    pub fn memory_bytes(&self) -> u64 {
        self.memory
    }

    pub fn system_bytes(&self) -> u64 {
        self.system * MIB
    }

    pub fn rates(&self) -> Rates {
        self.rates
    }

    pub fn duplex_disks(&self) -> bool {
        self.duplex_disks
    }

    /// The workload of that name.
    pub fn copyfile(&self, overlapped: bool) -> Workload {
        workloads::copyfile(self.files, self.file_size * MIB, overlapped)
    }
}

/// Bytes.
fn memory(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix('M') {
        Some(number) => (number, MIB),
        None => (text, GIB),
    };
    let number = number.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| (MIB..=MEMORY_MIB_MAX * MIB).contains(bytes)).ok_or_else(|| {
        "expected GiB, or MiB with an M behind it, from 1M to 1048576 GiB".to_owned()
    })
}

fn rates(text: &str) -> Result<Rates, String> {
    let numbers: Vec<u64> = text
        .split(',')
        .filter_map(|word| word.parse().ok().filter(|rate| (1..=RATE_MIB_MAX).contains(rate)))
        .map(|rate: u64| rate * MIB)
        .collect();
    let words = text.split(',').count();
    match <[u64; RATES]>::try_from(numbers) {
        Ok([own_disk, own_memory, other_disk, other_memory, write]) if words == RATES => {
            Ok(Rates {
                local_disk_read: own_disk,
                local_cached_read: own_memory,
                remote_disk_read: other_disk,
                remote_cached_read: other_memory,
                local_write: write,
            })
        }
        _ => Err(format!(
            "expected {RATES} whole numbers from 1 to {RATE_MIB_MAX}, such as 70,592,39,71,59"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_gibibytes_or_mebibytes() {
        assert_eq!(memory("32"), Ok(32 * GIB));
        assert_eq!(memory("256M"), Ok(256 * MIB));
        for wrong in ["", "0", "0M", "M", "-1", "1.5", "2G", "18446744073709551615"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_five() {
        assert_eq!(rates("70,592,39,71,59"), Ok(Rates::default()));
        for wrong in ["", "1,2,3,4", "1,2,3,4,5,6", "1,2,3,4,0", "1,2,x,4,5,6", "1,2,3,4,5.0"] {
            assert!(rates(wrong).is_err(), "{wrong}");
        }
    }
}
