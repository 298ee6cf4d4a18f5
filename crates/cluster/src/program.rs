//! The engine's programs, as they are shipped to hosts: their content, its name, and which hosts have which already.
//!
//! Hosts of another machine type than this one get `rakudad-MACHINE`, which lies beside the engine's own program. A
//! host says itself what type it is of: the script that starts the program there chooses. Hosts that share a home share
//! the program, too: the first one that asks gets it, and the others wait for that.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tokio::sync::{Notify, OnceCell};
use tokio::task::spawn_blocking;

use crate::error::ClusterError;

/// Hosts that have got the program, by the identity of the cache folder.
#[derive(Debug, Default)]
pub(crate) struct Depot {
    folders: RefCell<BTreeMap<String, Shipment>>,
    programs: OnceCell<Result<Rc<Programs>, String>>,
}

#[derive(Debug, Clone)]
enum Shipment {
    /// A host is getting it; notified when that is over.
    UnderWay(Rc<Notify>),
    Done,
}

/// The answer to a host that wants the program.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The program follows.
    Take,
    /// It is there by now.
    Look,
}

/// A program, and which hosts can run it.
#[derive(Debug)]
pub(crate) struct Program {
    /// As `uname -m` says it.
    pub machine: String,
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// BLAKE3 of `bytes`, in hexadecimal.
    pub name: String,
}

/// All that there are; the engine's own comes first.
#[derive(Debug)]
pub(crate) struct Programs(Vec<Program>);

/// Shell words that take a program from stdin and put it into place, when it is whole. `b` is its
/// size, `t` a name for it meanwhile, `p` its place. `head` takes no byte more than that.
pub(crate) const RECEIVE: &str = "head -c $b > \"$t\" && test $(wc -c < \"$t\") -eq $b && chmod 700 \"$t\" && mv -f \"$t\" \"$p\"";

/// What the names of programs for other machine types begin with; the type follows.
const OTHERS: &str = "rakudad-";

/// What this program's folder is called on hosts.
pub fn program_name() -> Result<String, ClusterError> {
    let own = Program::read(PathBuf::from("/proc/self/exe"), std::env::consts::ARCH);
    own.map(|program| program.name).map_err(ClusterError::Program)
}

/// Machine types that programs beside this one are for, sorted.
pub fn other_machines() -> Vec<String> {
    let own = std::env::current_exe().unwrap_or_default();
    beside(&own).into_keys().collect()
}

impl Program {
    fn read(path: PathBuf, machine: &str) -> std::io::Result<Self> {
        let bytes = std::fs::read(&path)?;
        let name = blake3::hash(&bytes).to_hex().to_string();
        Ok(Self { machine: machine.to_owned(), path, bytes, name })
    }
}

impl Programs {
    /// The engine's own, and those beside it.
    fn find() -> Result<Self, ClusterError> {
        let path = std::env::current_exe().map_err(ClusterError::Program)?;
        // Its file may have been replaced since; its content is still there.
        let mut own = Program::read(PathBuf::from("/proc/self/exe"), std::env::consts::ARCH)
            .map_err(ClusterError::Program)?;
        own.path = path;
        let mut programs = vec![own];
        for (machine, path) in beside(&programs[0].path) {
            let other = Program::read(path.clone(), &machine);
            programs.push(other.map_err(|why| ClusterError::OtherProgram { path, why })?);
        }
        Ok(Self(programs))
    }

    /// For the machine type, when there is one.
    pub fn of(&self, machine: &str) -> Option<&Program> {
        self.0.iter().find(|program| program.machine == machine)
    }

    /// Shell words that set `m` to the machine type of a host, and of the program for it `n` to the
    /// name, `b` to the size, and what `more` says of it; where there is none, they say so and end.
    /// Without any quote but `"`, and without backslash, exclamation mark and line end, if `more`
    /// has none.
    pub fn choice(&self, more: impl Fn(&Program) -> String) -> String {
        let ours = self.0.iter().map(|program| {
            let Program { machine, name, bytes, .. } = program;
            format!("{machine}) n={name} b={}{} ;;", bytes.len(), more(program))
        });
        let ours = ours.collect::<Vec<_>>().join(" ");
        let folder = self.0[0].path.parent().unwrap_or(Path::new("/")).to_string_lossy();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-@,:=".contains(&byte);
        let folder = if folder.bytes().all(is_plain) { &*folder } else { "the engine" };
        format!(
            "m=$(uname -m); case \"$m\" in {ours} *) echo \"its machine type is $m, and there is no engine for that: expected {OTHERS}$m beside {folder}/rakudad, where rakuda runs (make dist MACHINE=$m makes it)\" >&2; exit 1 ;; esac"
        )
    }
}

/// Programs for other machine types than this one's in the folder of `own`, sorted by type.
fn beside(own: &Path) -> BTreeMap<String, PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let machine = name.strip_prefix(OTHERS)?;
        let is_type = machine.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_other = is_type && !machine.is_empty() && machine != std::env::consts::ARCH;
        (is_other && entry.path().is_file()).then(|| (machine.to_owned(), entry.path()))
    });
    named.collect()
}

impl Depot {
    /// Read once, when the first host is connected, on a thread of its own: links are served meanwhile.
    pub async fn programs(&self) -> Result<Rc<Programs>, String> {
        self.programs_by(Programs::find).await
    }

    async fn programs_by(
        &self,
        find: impl FnOnce() -> Result<Programs, ClusterError> + Send + 'static,
    ) -> Result<Rc<Programs>, String> {
        let read = || async {
            match spawn_blocking(find).await {
                Ok(found) => found.map(Rc::new).map_err(|error| error.to_string()),
                Err(error) => Err(format!("read the engine's own program: {error}")),
            }
        };
        self.programs.get_or_init(read).await.clone()
    }

    /// A host says that the program for its machine type is not in a folder; `folder` names both. Waits while another
    /// host is getting it. `again`: it was asked to look before, in vain.
    pub async fn answer(&self, folder: &str, again: bool) -> Answer {
        loop {
            let known = self.folders.borrow().get(folder).cloned();
            match known {
                Some(Shipment::UnderWay(over)) => over.notified().await,
                Some(Shipment::Done) if !again => return Answer::Look,
                Some(Shipment::Done) => return Answer::Take,
                None => {
                    let under_way = Shipment::UnderWay(Rc::new(Notify::new()));
                    self.folders.borrow_mut().insert(folder.to_owned(), under_way);
                    return Answer::Take;
                }
            }
        }
    }

    /// The host that was sent the program has it, or not.
    pub fn on_sent(&self, folder: &str, well: bool) {
        let mut folders = self.folders.borrow_mut();
        let before = if well {
            folders.insert(folder.to_owned(), Shipment::Done)
        } else {
            folders.remove(folder)
        };
        if let Some(Shipment::UnderWay(over)) = before {
            over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn program(machine: &str, path: &str) -> Program {
        let bytes = machine.as_bytes().to_vec();
        Program {
            machine: machine.into(),
            path: path.into(),
            bytes,
            name: format!("hash_{machine}"),
        }
    }

    /// What a host of a machine type does with the choice: its status, and what it prints.
    #[expect(clippy::disallowed_methods, reason = "the shell that reads it, in a test")]
    fn on(machine: &str, programs: &Programs) -> (Option<i32>, String) {
        let choice = programs.choice(|program| format!(" p={}", program.machine));
        assert!(!choice.contains(['\'', '!', '\\', '\n']), "{choice}");
        let script = format!("uname() {{ echo {machine}; }}; {choice}; echo $m $n $b $p");
        let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let words = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.code(), String::from_utf8(words).unwrap().trim().to_owned())
    }

    #[tokio::test]
    async fn links_are_served_while_programs_are_read() {
        let (go_on, waited) = std::sync::mpsc::channel();
        let depot = Depot::default();
        let limit = std::time::Duration::from_secs(60);
        let read = depot.programs_by(move || {
            waited.recv_timeout(limit).expect("the thread of the links goes on meanwhile");
            Ok(Programs(vec![program("x86_64", "/opt/l/rakudad")]))
        });
        let (programs, ()) = tokio::join!(read, async { go_on.send(()).unwrap() });
        assert!(programs.unwrap().of("x86_64").is_some());
        let again = depot.programs_by(|| unreachable!("they are read once")).await;
        assert!(again.is_ok());
    }

    #[test]
    fn a_host_takes_the_program_of_its_machine_type() {
        let programs = Programs(vec![
            program("x86_64", "/opt/l/rakudad"),
            program("aarch64", "/opt/l/rakudad-aarch64"),
        ]);
        assert_eq!(on("x86_64", &programs), (Some(0), "x86_64 hash_x86_64 6 x86_64".into()));
        let expected = "aarch64 hash_aarch64 7 aarch64";
        assert_eq!(on("aarch64", &programs), (Some(0), expected.into()));
        assert_eq!(programs.of("aarch64").unwrap().name, "hash_aarch64");
        assert!(programs.of("riscv64").is_none());
    }

    #[test]
    fn a_host_without_a_program_for_it_says_which_file_is_missing() {
        let (status, words) = on("riscv64", &Programs(vec![program("x86_64", "/opt/l/rakudad")]));
        assert_eq!(status, Some(1));
        assert!(words.contains("machine type is riscv64"), "{words}");
        assert!(words.contains("rakudad-riscv64 beside /opt/l/rakudad"), "{words}");
        let (_, words) = on("riscv64", &Programs(vec![program("x86_64", "/it's/rakudad")]));
        assert!(words.contains("beside the engine/rakudad"), "{words}");
    }

    #[test]
    fn programs_of_other_types_are_those_beside_with_a_type_in_their_name() {
        let folder = std::env::temp_dir().join(format!("rakuda-others-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("rakudad-folder")).unwrap();
        let own = format!("rakudad-{}", std::env::consts::ARCH);
        for name in ["rakudad", "rakudad-riscv64", "rakudad-", "rakudad-a b", "rakudad.d", &own] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let found: Vec<String> = beside(&folder.join("rakudad")).into_keys().collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["riscv64"]);
        assert!(beside(Path::new("/there/is/none")).is_empty());
    }
}
