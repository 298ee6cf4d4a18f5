//! libgfarm, as far as replicas go.
//!
//! Signatures as in gfarm/gfs.h and gfarm/gfarm_misc.h of Gfarm 2.7. One thread only.
#![allow(unsafe_code, reason = "a C library that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::{Library, Symbol};

/// What the loader is asked for; Debian's package libgfarm1 has it.
const NAME: &str = "libgfarm.so.1";

/// `GFARM_FILE_RDONLY`.
const READ_ONLY: c_int = 0;
/// `GFARM_ERR_NO_SUCH_OBJECT`: the file is there, and no host that is up holds it.
const NO_SUCH_OBJECT: c_int = 74;

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GfarmError {
    /// It is not there.
    #[error("load {NAME}: {source}; install it (Debian: package libgfarm1)")]
    Missing {
        /// What the loader says.
        source: libloading::Error,
    },
    /// It is another version.
    #[error("find a function in {NAME}: {source}; version 2.7 of Gfarm is known to do")]
    Strange {
        /// What the loader says.
        source: libloading::Error,
    },
    /// Gfarm says no.
    #[error("initialise Gfarm: {reason}; see whether `gfhost` works on this machine")]
    Refused {
        /// What it says.
        reason: String,
    },
}

type Initialize = unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Open = unsafe extern "C" fn(*const c_char, c_int, *mut *mut c_void) -> c_int;
type SetViewSection = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_int) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
type ReplicaInfoByName = unsafe extern "C" fn(*const c_char, c_int, *mut *mut c_void) -> c_int;
type ReplicaInfoNumber = unsafe extern "C" fn(*mut c_void) -> c_int;
type ReplicaInfoNthHost = unsafe extern "C" fn(*mut c_void, c_int) -> *const c_char;
type ReplicaInfoFree = unsafe extern "C" fn(*mut c_void);

/// An initialised libgfarm. It stays loaded until the process ends.
pub struct Gfarm {
    error_string: ErrorString,
    by_name: ReplicaInfoByName,
    number: ReplicaInfoNumber,
    nth_host: ReplicaInfoNthHost,
    free: ReplicaInfoFree,
    open: Open,
    /// Chooses the host; gfexport does it so, though no header has it.
    set_view_section: SetViewSection,
    read: Read,
    close: Close,
}

impl Gfarm {
    /// Loads it and connects to the catalogue that the user's settings name.
    pub fn load() -> Result<Self, GfarmError> {
        // SAFETY: what it runs when it is loaded are the initialisers of libgfarm and of the OpenSSL that it uses.
        let library =
            unsafe { Library::new(NAME) }.map_err(|source| GfarmError::Missing { source })?;
        // Nothing of it may be used after it was unloaded: it never is.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the signatures are those of the headers of version 2.
        let (initialize, gfarm) = unsafe {
            let initialize: Initialize = function(library, b"gfarm_initialize\0")?;
            let gfarm = Self {
                error_string: function(library, b"gfarm_error_string\0")?,
                by_name: function(library, b"gfs_replica_info_by_name\0")?,
                number: function(library, b"gfs_replica_info_number\0")?,
                nth_host: function(library, b"gfs_replica_info_nth_host\0")?,
                free: function(library, b"gfs_replica_info_free\0")?,
                open: function(library, b"gfs_pio_open\0")?,
                set_view_section: function(library, b"gfs_pio_internal_set_view_section\0")?,
                read: function(library, b"gfs_pio_read\0")?,
                close: function(library, b"gfs_pio_close\0")?,
            };
            (initialize, gfarm)
        };
        // SAFETY: it takes null for a command line without words of its own.
        let error = unsafe { initialize(ptr::null_mut(), ptr::null_mut()) };
        match error {
            0 => Ok(gfarm),
            _ => Err(GfarmError::Refused { reason: gfarm.words_for(error) }),
        }
    }

    /// The hosts that have a whole and current replica of `path` and are up; or why that is not known.
    pub fn replicas(&self, path: &CStr) -> Result<Vec<Vec<u8>>, String> {
        let mut info = ptr::null_mut();
        // SAFETY: the path ends in NUL; without an error there is a structure in `info`, which is freed below.
        let error = unsafe { (self.by_name)(path.as_ptr(), 0, &raw mut info) };
        if error == NO_SUCH_OBJECT {
            return Ok(Vec::new());
        }
        if error != 0 {
            return Err(self.words_for(error));
        }
        // SAFETY: the structure lives until it is freed, and with it the names in it, which are copied before.
        unsafe {
            let count = (self.number)(info);
            let host = |index| {
                let name = (self.nth_host)(info, index);
                (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes().to_vec())
            };
            let hosts = (0..count).filter_map(host).collect();
            (self.free)(info);
            Ok(hosts)
        }
    }

    /// Whether `host` hands out the first byte of `path`; or why the catalogue did not allow the question.
    pub fn hands_out(&self, host: &CStr, path: &CStr) -> Result<bool, String> {
        let mut file = ptr::null_mut();
        // SAFETY: the path ends in NUL; without an error there is a handle in `file`, which is closed below.
        let error = unsafe { (self.open)(path.as_ptr(), READ_ONLY, &raw mut file) };
        match error {
            0 => {}
            NO_SUCH_OBJECT => return Ok(false),
            _ => return Err(self.words_for(error)),
        }
        let mut byte = 0_u8;
        let mut length = 0;
        // SAFETY: the handle is open, the host's name ends in NUL and is only read, and one byte is
        // written into one byte.
        unsafe {
            let mut error = (self.set_view_section)(file, host.as_ptr());
            if error == 0 {
                error = (self.read)(file, (&raw mut byte).cast(), 1, &raw mut length);
            }
            (self.close)(file);
            Ok(error == 0)
        }
    }

    fn words_for(&self, error: c_int) -> String {
        // SAFETY: it answers any number with a string that is never freed.
        unsafe {
            let words = (self.error_string)(error);
            if words.is_null() {
                return format!("error {error}");
            }
            CStr::from_ptr(words).to_string_lossy().into_owned()
        }
    }
}

/// # Safety
/// `T` must be the type of the function of that name.
unsafe fn function<T: Copy + 'static>(
    library: &'static Library,
    name: &[u8],
) -> Result<T, GfarmError> {
    // SAFETY: the caller's promise.
    let symbol: Result<Symbol<'static, T>, _> = unsafe { library.get(name) };
    symbol.map(|symbol| *symbol).map_err(|source| GfarmError::Strange { source })
}
