//! Opens files that others may have made: only ordinary ones. A named pipe would keep its reader
//! waiting for ever, a device might do anything.
//!
//! It does not know what is in them.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};

/// Opens the ordinary file at `path`, or where a link there leads.
///
/// # Errors When there is no such file, or it may not be read.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check(File::from(open(path, flags(), Mode::empty())?))
}

/// Opens the ordinary file at `path` to read it and to add to it, and makes it with the permissions `mode`, less the
/// umask, when it is not there.
///
/// # Errors
/// When it is no ordinary file, or may not be written.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(mode);
    check(File::from(open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, mode)?))
}

/// Opens the ordinary file `name` below `folder`; no link on the way may lead out of it, and the file itself is no
/// link.
///
/// # Errors When there is no such file, it may not be read, or the kernel cannot make sure of that.
pub fn open_below(folder: &Path, name: &Path) -> io::Result<File> {
    let flags_of_folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, folder, flags_of_folder, Mode::empty())?;
    let stays = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(folder, name, flags() | OFlags::NOFOLLOW, Mode::empty(), stays)?;
    check(File::from(file))
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

fn check(file: File) -> io::Result<File> {
    let found = file.metadata()?.file_type();
    if found.is_file() {
        return Ok(file);
    }
    let kind = if found.is_dir() { "a folder" } else { "no ordinary file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_ordinary_files_are_opened_and_below_a_folder_only_what_is_there() {
        let folder = std::env::temp_dir().join(format!("rakuda-regular-{}", std::process::id()));
        let inner = folder.join("inner");
        fs::create_dir_all(inner.join("deep")).unwrap();
        fs::write(folder.join("outside"), "").unwrap();
        fs::write(inner.join("deep/file"), "").unwrap();
        symlink("../outside", inner.join("out")).unwrap();
        symlink("deep/file", inner.join("in")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        let pipe = inner.join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let names = ["deep/file", "pipe", "deep", "out", "in", "up/outside", "../outside"];
        let below = names.map(|name| open_below(&inner, Path::new(name)).is_ok());
        let absolute = open_below(&inner, &folder.join("outside")).is_ok();
        let anywhere = names.map(|name| open_regular(&inner.join(name)).is_ok());
        let to_append = names.map(|name| open_to_append(&inner.join(name), 0o666).is_ok());
        let made = open_to_append(&inner.join("new"), 0o666).is_ok() && inner.join("new").is_file();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(below, [true, false, false, false, false, false, false]);
        assert!(!absolute);
        assert_eq!(anywhere, [true, false, false, true, true, true, true]);
        assert_eq!(to_append, anywhere);
        assert!(made);
    }
}
