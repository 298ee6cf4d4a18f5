//! What NVIDIA's driver says of the GPUs of this machine: a provider that is there where its library (NVML) is.
//!
//! Signatures as in nvml.h, whose functions keep theirs; newer ones have other names. It looks alone: no process gets a
//! context on a GPU by it.
#![allow(unsafe_code, reason = "a C library that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use libloading::{Library, Symbol};
use rakuda_info::provider::{Moment, NO_GPUS, Provider, Reading, Root};
use rakuda_info::value::Value;

/// The provider's name.
pub const PROVIDER: &str = "gpus";
/// What the loader is asked for; the driver installs it.
const NAME: &str = "libnvidia-ml.so.1";
/// Its attributes that are no family.
const NUMBERS: [&str; 4] = ["gpu", "gpu_free", "gpu_memory_free", "gpu_load"];
/// Maximum number of GPUs of a node.
const GPUS_MAX: u32 = 64;
/// Bytes of a name of a GPU: `NVML_DEVICE_NAME_V2_BUFFER_SIZE`.
const NAME_BYTES: usize = 96;
/// `NVML_ERROR_INSUFFICIENT_SIZE`: there is more to tell than there is room for.
const INSUFFICIENT_SIZE: c_int = 7;

type Device = *mut c_void;
type Init = unsafe extern "C" fn() -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Count = unsafe extern "C" fn(*mut c_uint) -> c_int;
type ByIndex = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type DeviceName = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type MemoryInfo = unsafe extern "C" fn(Device, *mut Memory) -> c_int;
type UtilizationRates = unsafe extern "C" fn(Device, *mut Utilization) -> c_int;
type Processes = unsafe extern "C" fn(Device, *mut c_uint, *mut c_void) -> c_int;

/// `nvmlMemory_t`, bytes.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlUtilization_t`, percent.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// The library, loaded; it stays so until the process ends.
pub struct Gpus {
    init: Init,
    error_string: ErrorString,
    count: Count,
    by_index: ByIndex,
    name: DeviceName,
    memory: MemoryInfo,
    utilization: UtilizationRates,
    processes: Processes,
    /// It was initialised.
    is_begun: bool,
}

/// What one GPU says of itself. `None`: it does not say that.
#[derive(Debug, PartialEq)]
struct Gpu {
    name: Option<String>,
    memory_free: Option<u64>,
    load: Option<u32>,
    /// No process computes on it.
    is_free: Option<bool>,
}

impl Gpus {
    /// `None`: this machine has no such library, or one without the functions that are needed.
    pub fn load() -> Option<Self> {
        Self::open(Path::new(NAME))
    }

    fn open(library: &Path) -> Option<Self> {
        // SAFETY: what it runs when it is loaded are the initialisers of the driver's own library.
        let library = unsafe { Library::new(library) }.ok()?;
        // Nothing of it may be used after it was unloaded: it never is.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the signatures are those of nvml.h.
        unsafe {
            Some(Self {
                init: function(library, b"nvmlInit_v2\0")?,
                error_string: function(library, b"nvmlErrorString\0")?,
                count: function(library, b"nvmlDeviceGetCount_v2\0")?,
                by_index: function(library, b"nvmlDeviceGetHandleByIndex_v2\0")?,
                name: function(library, b"nvmlDeviceGetName\0")?,
                memory: function(library, b"nvmlDeviceGetMemoryInfo\0")?,
                utilization: function(library, b"nvmlDeviceGetUtilizationRates\0")?,
                processes: function(library, b"nvmlDeviceGetComputeRunningProcesses\0")?,
                is_begun: false,
            })
        }
    }

    /// All GPUs, or why there is nothing to be said of them.
    fn look(&mut self) -> Result<Vec<Gpu>, String> {
        if !self.is_begun {
            // SAFETY: it takes nothing, and may be called again after it has failed.
            self.check(unsafe { (self.init)() })?;
            self.is_begun = true;
        }
        let mut count = 0;
        // SAFETY: it fills a number that lives through the call.
        self.check(unsafe { (self.count)(&raw mut count) })?;
        Ok((0..count.min(GPUS_MAX)).map(|index| self.gpu(index)).collect())
    }

    fn gpu(&self, index: c_uint) -> Gpu {
        let mut device = ptr::null_mut();
        // SAFETY: it fills a handle that lives through the call, and stays good until the library is shut down: never.
        if unsafe { (self.by_index)(index, &raw mut device) } != 0 {
            return Gpu { name: None, memory_free: None, load: None, is_free: None };
        }
        let mut name: [c_char; NAME_BYTES] = [0; NAME_BYTES];
        let (mut memory, mut utilization) = (Memory::default(), Utilization::default());
        let mut processes = 0;
        // SAFETY: the handle is good, and what is filled lives through the calls and is as long as is said. Without
        // room for processes their number alone is asked for. The name ends in NUL, since its last byte stays so.
        unsafe {
            let named = (self.name)(device, name.as_mut_ptr(), NAME_BYTES as c_uint - 1) == 0;
            let text = named.then(|| CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned());
            let has_memory = (self.memory)(device, &raw mut memory) == 0;
            let has_load = (self.utilization)(device, &raw mut utilization) == 0;
            let is_free = match (self.processes)(device, &raw mut processes, ptr::null_mut()) {
                0 => Some(processes == 0),
                INSUFFICIENT_SIZE => Some(false),
                _ => None,
            };
            Gpu {
                name: text,
                memory_free: has_memory.then_some(memory.free),
                load: has_load.then_some(utilization.gpu),
                is_free,
            }
        }
    }

    fn check(&self, error: c_int) -> Result<(), String> {
        if error == 0 {
            return Ok(());
        }
        // SAFETY: it gives a text that is always there, or null.
        let words = unsafe {
            let words = (self.error_string)(error);
            (!words.is_null()).then(|| CStr::from_ptr(words).to_string_lossy().into_owned())
        };
        Err(format!("NVML says: {}", words.unwrap_or_else(|| format!("error {error}"))))
    }
}

/// A function of the library.
///
/// # Safety
///
/// `T` is the type of the function of that name.
unsafe fn function<T: Copy + 'static>(library: &'static Library, name: &[u8]) -> Option<T> {
    // SAFETY: as the caller says.
    let symbol: Symbol<'static, T> = unsafe { library.get(name) }.ok()?;
    Some(*symbol)
}

impl Provider for Gpus {
    fn name(&self) -> &'static str {
        PROVIDER
    }

    fn sample(&mut self, _: &Root, _: Moment) -> Vec<Reading> {
        match self.look() {
            Ok(gpus) => readings(&gpus),
            Err(why) => NUMBERS.map(|name| reading(name, None, Value::undefined(&*why))).into(),
        }
    }
}

/// In the place of [`Gpus`] on machines without GPUs: a task that waits for GPUs is to know that none come.
pub struct NoGpus;

impl Provider for NoGpus {
    fn name(&self) -> &'static str {
        PROVIDER
    }

    fn sample(&mut self, _: &Root, _: Moment) -> Vec<Reading> {
        vec![reading("gpu", None, Value::undefined(NO_GPUS))]
    }
}

fn reading(name: &'static str, instance: Option<String>, value: Value) -> Reading {
    Reading { name, instance, value }
}

/// The readings of all GPUs together, and their names.
fn readings(gpus: &[Gpu]) -> Vec<Reading> {
    const SILENT: &str = "a GPU does not say so";
    let count = |number: usize| Value::count(number as u64);
    let free: Option<Vec<bool>> = gpus.iter().map(|gpu| gpu.is_free).collect();
    let memory = gpus.iter().filter_map(|gpu| gpu.memory_free).max();
    let loads: Option<Vec<f64>> = gpus.iter().map(|gpu| gpu.load.map(f64::from)).collect();
    let load = loads.filter(|loads| !loads.is_empty()).map(|loads| {
        let sum: f64 = loads.iter().sum();
        Value::number(sum / f64::from(u32::try_from(loads.len()).unwrap_or(u32::MAX)))
    });
    let free = free.map(|free| count(free.iter().filter(|it| **it).count()));
    let mut all = vec![
        reading("gpu", None, count(gpus.len())),
        reading("gpu_free", None, free.unwrap_or_else(|| Value::undefined(SILENT))),
        reading(
            "gpu_memory_free",
            None,
            memory.map_or_else(|| Value::undefined(SILENT), Value::count),
        ),
        reading("gpu_load", None, load.unwrap_or_else(|| Value::undefined(SILENT))),
    ];
    for (index, gpu) in gpus.iter().enumerate() {
        if let Some(name) = &gpu.name {
            all.push(reading("gpu_name", Some(index.to_string()), Value::text(name.as_str())));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// Stands in for NVML: two GPUs, on the second of which a process computes; or a driver that is not there.
    const STAND_IN: &str = r#"
        #include <string.h>
        static int numbers[2] = {0, 1};
        typedef struct { unsigned long long total, free, used; } memory;
        typedef struct { unsigned gpu, memory; } utilization;
        int nvmlInit_v2(void) { return INIT; }
        const char *nvmlErrorString(int error) { return error == 9 ? "Driver Not Loaded" : 0; }
        int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
            *device = &numbers[index];
            return 0;
        }
        int nvmlDeviceGetName(void *device, char *name, unsigned length) {
            strncpy(name, *(int *)device ? "Second" : "First", length);
            return 0;
        }
        int nvmlDeviceGetMemoryInfo(void *device, memory *info) {
            info->total = 8000; info->free = *(int *)device ? 1000 : 7000; info->used = 0;
            return 0;
        }
        int nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
            rates->gpu = *(int *)device ? 90 : 0; rates->memory = 0;
            return 0;
        }
        int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *infos) {
            if (*(int *)device && *count < 1) { *count = 1; return 7; }
            *count = 0;
            return 0;
        }
    "#;

    #[expect(clippy::disallowed_methods, reason = "a test may start what it likes")]
    fn stand_in(name: &str, init: &str) -> PathBuf {
        let name = format!("rakuda-nvml-{name}-{}", std::process::id());
        let source = std::env::temp_dir().join(format!("{name}.c"));
        let library = source.with_extension("so");
        std::fs::write(&source, STAND_IN.replace("INIT", init)).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .unwrap();
        std::fs::remove_file(&source).unwrap();
        assert!(made.success());
        library
    }

    fn told(library: &Path) -> Vec<String> {
        let mut gpus = Gpus::open(library).unwrap();
        std::fs::remove_file(library).unwrap();
        let at = Moment { now: rakuda_info::Time(1), file_ns: 1 };
        let sample = gpus.sample(&Root::new("/"), at);
        let shown = |it: &Reading| {
            let value = match &it.value {
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text.to_string(),
                Value::Undefined(why) => why.to_string(),
            };
            format!("{}{} {value}", it.name, it.instance.as_deref().unwrap_or_default())
        };
        sample.iter().map(shown).collect()
    }

    #[test]
    fn gpus_are_counted_and_named() {
        let expected = [
            "gpu 2",
            "gpu_free 1",
            "gpu_memory_free 7000",
            "gpu_load 45",
            "gpu_name0 First",
            "gpu_name1 Second",
        ];
        assert_eq!(told(&stand_in("good", "0")), expected);
    }

    #[test]
    fn a_driver_that_fails_is_the_reason() {
        let why = "NVML says: Driver Not Loaded";
        let expected = NUMBERS.map(|name| format!("{name} {why}"));
        assert_eq!(told(&stand_in("failing", "9")), expected);
    }

    #[test]
    fn without_the_library_there_is_no_provider() {
        assert!(Gpus::open(Path::new("/nowhere/libnvidia-ml.so.1")).is_none());
    }

    #[test]
    fn a_gpu_that_does_not_say_something_leaves_it_undefined() {
        let gpu = Gpu { name: None, memory_free: None, load: Some(3), is_free: None };
        let undefined: Vec<&str> = readings(&[gpu])
            .iter()
            .filter(|it| it.value.kind().is_none())
            .map(|it| it.name)
            .collect();
        assert_eq!(undefined, ["gpu_free", "gpu_memory_free"]);
    }
}
