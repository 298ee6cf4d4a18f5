//! From a request to something that can be started: the program looked up, files opened,
//! descriptors in order.

use std::ffi::{CString, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rakuda_proto::front::{CommandOptions, OpenMode, Program, RedirectTarget};

use crate::lookup::{Programs, Wanted};
use crate::program::{SHELL, needs_shell, words_of};
use crate::spawn::{DescriptorAction, EnvironmentBlock, SpawnError};

/// A launch whose memory and open files it owns.
#[derive(Debug)]
pub struct PreparedLaunch {
    /// The file to execute.
    pub program: CString,
    /// Its words.
    pub words: Vec<CString>,
    /// Where it runs.
    pub directory: Option<CString>,
    /// What its descriptors become.
    pub descriptors: Vec<DescriptorAction>,
    /// Files that `descriptors` refers to; closed after the start.
    files: Vec<File>,
    /// Of a program that was not looked up for this launch: what it would have been looked up by.
    remembered: Option<(Vec<u8>, Option<PathBuf>)>,
}

impl PreparedLaunch {
    /// Looks up and opens all that `program` needs. `base` is where it runs by itself (`None`: where this process is),
    /// `descriptors` what 0, 1 and 2 are without redirections. Where `programs` were found before is believed: see
    /// [`Self::look_again`].
    pub fn new(
        program: Program,
        options: Option<&CommandOptions>,
        environment: &EnvironmentBlock,
        base: Option<&Path>,
        descriptors: Vec<DescriptorAction>,
        programs: &mut Programs,
    ) -> Result<Self, SpawnError> {
        // As in Ruby: a line with shell syntax is not subject to PATH, and costs no look-up.
        let is_script = matches!(&program, Program::Line(line) if needs_shell(&line.0));
        let mut words = words_of(program);
        let directory = options.and_then(|options| options.directory.as_ref());
        let directory: Option<PathBuf> = match (directory, base) {
            (Some(path), Some(base)) => Some(base.join(path.as_path())),
            (Some(path), None) => Some(path.as_path().to_path_buf()),
            (None, base) => base.map(Path::to_path_buf),
        };
        let name = words.first().cloned().unwrap_or_default();
        let umask = options.and_then(|options| options.umask);
        let search_path = environment.search_path.as_slice();
        let wanted = Wanted { name: &name, search_path, directory: directory.as_deref() };
        let (found, is_remembered) = if is_script {
            (PathBuf::from(SHELL), false)
        } else {
            // Behind a shell nobody would hear that what is remembered is gone.
            let found =
                if umask.is_some() { programs.look_up(&wanted) } else { programs.find(&wanted) };
            let found = found.ok_or_else(|| not_found(&name))?;
            (found.path, found.remembered)
        };
        let remembered = is_remembered.then(|| (name.clone(), directory.clone()));
        let mut program = found.into_os_string().into_vec();
        if let Some(name) = options.and_then(|options| options.argv0.as_ref()) {
            words[0].clone_from(&name.0);
        }
        if let Some(umask) = umask {
            words[0].clone_from(&program);
            let script = format!("umask {umask:03o}; exec \"$@\"");
            words.splice(
                0..0,
                [b"sh".to_vec(), b"-c".to_vec(), script.into_bytes(), b"sh".to_vec()],
            );
            program = SHELL.into();
        }
        let mut launch = Self {
            program: c_string(program)?,
            words: words.into_iter().map(c_string).collect::<Result<_, _>>()?,
            directory: match &directory {
                Some(directory) => Some(c_string(directory.as_os_str().as_bytes().to_vec())?),
                None => None,
            },
            descriptors,
            files: Vec::new(),
            remembered,
        };
        let folder = directory.as_deref().unwrap_or(Path::new(""));
        for (descriptor, target) in options.map_or(&[][..], |options| &options.redirects) {
            launch.redirect(*descriptor, target, folder)?;
        }
        Ok(launch)
    }

    /// The kernel did not execute the program. `true`: its place was only remembered, it is elsewhere now, and it is to
    /// be started there. `false`: what the kernel says holds.
    pub fn look_again(
        &mut self,
        error: &io::Error,
        environment: &EnvironmentBlock,
        programs: &mut Programs,
    ) -> Result<bool, SpawnError> {
        use rustix::io::Errno;
        let is_gone = matches!(
            Errno::from_io_error(error),
            Some(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP | Errno::STALE)
        );
        let Some((name, directory)) = self.remembered.take().filter(|_| is_gone) else {
            return Ok(false);
        };
        let search_path = environment.search_path.as_slice();
        let wanted = Wanted { name: &name, search_path, directory: directory.as_deref() };
        let found = programs.look_up(&wanted).ok_or_else(|| not_found(&name))?;
        let program = c_string(found.path.into_os_string().into_vec())?;
        let is_elsewhere = program != self.program;
        self.program = program;
        Ok(is_elsewhere)
    }

    /// Whether what is executed is the shell, for a line.
    pub fn is_shell_line(&self) -> bool {
        self.program.as_bytes() == SHELL.as_bytes()
            && self.words.get(1).is_some_and(|word| word.as_bytes() == b"-c")
    }

    /// The command is to get these descriptors, too; and `helper` is executed, with the program as its first word.
    pub fn hold(&mut self, descriptors: Vec<DescriptorAction>, helper: Option<CString>) {
        self.descriptors.extend(descriptors);
        if let Some(helper) = helper {
            let program = std::mem::replace(&mut self.program, helper.clone());
            self.words.splice(0..0, [helper, program]);
            self.remembered = None;
        }
    }

    fn redirect(
        &mut self,
        to: RawFd,
        target: &RedirectTarget,
        folder: &Path,
    ) -> Result<(), SpawnError> {
        let action = match target {
            RedirectTarget::Close => DescriptorAction::Close { to },
            RedirectTarget::Null => {
                let mode = if to == 0 { OpenMode::Read } else { OpenMode::Write };
                self.open(Path::new("/dev/null"), mode, 0o666, to)?
            }
            RedirectTarget::Fd(from) => DescriptorAction::Duplicate { from: *from, to },
            RedirectTarget::File(path, mode, permissions) => {
                self.open(&folder.join(path.as_path()), *mode, *permissions, to)?
            }
        };
        self.descriptors.push(action);
        Ok(())
    }

    fn open(
        &mut self,
        path: &Path,
        mode: OpenMode,
        permissions: u32,
        to: RawFd,
    ) -> Result<DescriptorAction, SpawnError> {
        use OpenMode::{Append, AppendRead, Read, ReadWrite, Write, WriteRead};

        let empties = matches!(mode, Write | WriteRead);
        let mut options = OpenOptions::new();
        options
            .read(!matches!(mode, Write | Append))
            .write(empties || mode == ReadWrite)
            .append(matches!(mode, Append | AppendRead))
            .truncate(empties)
            .create(!matches!(mode, Read | ReadWrite))
            .mode(permissions);
        let mut opened = options.open(path);
        if empties && opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            opened = open_forgotten(&options, path, opened);
        }
        let file = opened.map_err(|source| SpawnError::Redirect {
            path: path.to_string_lossy().into_owned(),
            descriptor: to,
            source,
        })?;
        let from = file.as_raw_fd();
        self.files.push(file);
        Ok(DescriptorAction::Duplicate { from, to })
    }
}

/// Opens a file that could not be created, for the second time. On a mount of FUSE the kernel
/// remembers for a second that a file is there; when another host has removed it meanwhile,
/// creating it fails with ENOENT, as though its folder were missing. To remove it, too, makes the
/// kernel forget.
fn open_forgotten(
    options: &OpenOptions,
    path: &Path,
    failed: io::Result<File>,
) -> io::Result<File> {
    if !path.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir()) {
        return failed;
    }
    // It is not there; that is what this fails with.
    let _ = fs::remove_file(path);
    options.open(path)
}

fn not_found(name: &[u8]) -> SpawnError {
    SpawnError::NotFound { name: String::from_utf8_lossy(name).into_owned() }
}

fn c_string(bytes: Vec<u8>) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|_| SpawnError::Nul)
}

/// The environment of this process as names and values.
pub fn own_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}
