//! Kinds and choices of the protocol: enums here, words on the wire. A task's kind and flags are numbers there, because
//! a run sends them for each of its tasks, and a descriptor is the kernel's number.
//!
//! A word, or a number, that stands for nothing is an error that names it. The words of the user's choices are those of
//! the command line and of the record.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::agent::OutputDescriptor;

/// Reads one word of an enum.
struct WordVisitor<T> {
    /// What the enum is, for the message.
    what: &'static str,
    words: &'static [&'static str],
    named: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for WordVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a {} as a word", self.what)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        (self.named)(word).ok_or_else(|| {
            let words = match self.words {
                [others @ .., last] if !others.is_empty() => {
                    format!("{} or {last}", others.join(", "))
                }
                words => words.concat(),
            };
            E::custom(format!("protocol: unknown {} '{word}': expected {words}", self.what))
        })
    }
}

/// An enum whose variants are words on the wire.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident is $what:literal: $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            /// Its word.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// What a word stands for.
            pub fn named(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let words = &[$($word),+];
                deserializer.deserialize_str(WordVisitor { what: $what, words, named: Self::named })
            }
        }
    };
}

/// What the hub may decide of a task by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum TaskKind {
    /// It always runs, and its time is now.
    Plain,
    /// Its target is a file.
    File,
    /// Its target is a folder.
    Directory,
    /// Its class says whether it is needed, and its time.
    Asked,
}

/// A number that is no [`TaskKind`].
#[derive(Debug, thiserror::Error)]
#[error("protocol: unknown task kind {0}")]
pub struct UnknownTaskKind(u8);

impl TryFrom<u8> for TaskKind {
    type Error = UnknownTaskKind;

    fn try_from(number: u8) -> Result<Self, UnknownTaskKind> {
        match number {
            0 => Ok(Self::Plain),
            1 => Ok(Self::File),
            2 => Ok(Self::Directory),
            3 => Ok(Self::Asked),
            other => Err(UnknownTaskKind(other)),
        }
    }
}

impl From<TaskKind> for u8 {
    fn from(kind: TaskKind) -> Self {
        match kind {
            TaskKind::Plain => 0,
            TaskKind::File => 1,
            TaskKind::Directory => 2,
            TaskKind::Asked => 3,
        }
    }
}

/// What else is said of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskFlag {
    /// The task has an action.
    HasAction,
    /// A prerequisite could not be resolved yet.
    Deferred,
    /// It invokes others, or acts, in a way of its own, so that it is run in a dry run too.
    OwnWay,
}

impl TaskFlag {
    const ALL: [Self; 3] = [Self::HasAction, Self::Deferred, Self::OwnWay];

    const fn bit(self) -> u8 {
        match self {
            Self::HasAction => 1,
            Self::Deferred => 2,
            Self::OwnWay => 4,
        }
    }
}

/// A set of [`TaskFlag`]s; on the wire the sum of their bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct TaskFlags(u8);

impl TaskFlags {
    /// Those that are in `flags`.
    pub fn of(flags: &[TaskFlag]) -> Self {
        Self(flags.iter().fold(0, |bits, flag| bits | flag.bit()))
    }

    /// Whether `flag` is one of them.
    pub const fn has(self, flag: TaskFlag) -> bool {
        self.0 & flag.bit() != 0
    }
}

/// A number with a bit that is no [`TaskFlag`].
#[derive(Debug, thiserror::Error)]
#[error("protocol: unknown flags of a task: {0}")]
pub struct UnknownTaskFlags(u8);

impl TryFrom<u8> for TaskFlags {
    type Error = UnknownTaskFlags;

    fn try_from(bits: u8) -> Result<Self, UnknownTaskFlags> {
        let known = Self::of(&TaskFlag::ALL).0;
        if bits & !known == 0 { Ok(Self(bits)) } else { Err(UnknownTaskFlags(bits)) }
    }
}

impl From<TaskFlags> for u8 {
    fn from(flags: TaskFlags) -> Self {
        flags.0
    }
}

/// A descriptor by its number.
pub(super) mod descriptor {
    use super::{Deserialize, Deserializer, Error, OutputDescriptor, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(
        descriptor: &OutputDescriptor,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(match descriptor {
            OutputDescriptor::Stdout => 1,
            OutputDescriptor::Stderr => 2,
        })
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<OutputDescriptor, D::Error> {
        match u8::deserialize(deserializer)? {
            1 => Ok(OutputDescriptor::Stdout),
            2 => Ok(OutputDescriptor::Stderr),
            other => Err(D::Error::custom(format!("protocol: unknown descriptor {other}"))),
        }
    }
}

words! {
    /// How an action ended.
    ActionOutcome is "outcome of an action":
    /// It returned.
    Ok = "ok",
    /// It raised.
    Failed = "failed",
    /// It called `exit`.
    Exit = "exit",
}

words! {
    /// How to stop a run.
    StopHow is "way to stop":
    /// SIGINT, after a grace SIGTERM, after a grace SIGKILL.
    Interrupt = "interrupt",
    /// SIGKILL at once.
    Kill = "kill",
}

words! {
    /// What became of a task.
    SettledHow is "end of a task":
    /// Its action ran, or it was needed and had none.
    Executed = "executed",
    /// It was up to date.
    NotNeeded = "not_needed",
    /// Its last attempt failed.
    Failed = "failed",
    /// Something that it needs failed, or the run stopped.
    Abandoned = "abandoned",
}

words! {
    /// Where a file is that Ruby code of an action has named.
    FileAnswer is "answer about a file":
    /// On this machine now.
    Here = "here",
    /// On a node; it is a file.
    File = "file",
    /// On a node; it is a folder.
    Folder = "folder",
    /// It was renamed, or removed, on its node.
    Done = "done",
    /// The hub knows nothing of it.
    Nowhere = "nowhere",
}

words! {
    /// The form of a plan.
    PlanFormat is "form of a plan":
    /// Each task with its reasons.
    Text = "text",
    /// As text, by rule where it is long.
    Short = "short",
    /// One JSON document.
    Json = "json",
}

words! {
    /// Which of two lists of nodes has the last word: the second.
    ListOrder is "order":
    /// A node must be allowed, and must not be denied.
    AllowDeny = "allow,deny",
    /// A node that both lists name is allowed.
    DenyAllow = "deny,allow",
}

words! {
    /// A field of a requirement that can be strict.
    StrictField is "strict field":
    /// `cores`.
    Cores = "cores",
    /// `memory_bytes`.
    MemoryBytes = "memory_bytes",
    /// `resources`.
    Resources = "resources",
    /// `where`.
    Where = "where",
    /// `prefer`.
    Prefer = "prefer",
}

words! {
    /// The order of ready tasks; the core says what each does.
    PolicyChoice is "policy":
    /// The one that has been ready longest.
    Fifo = "fifo",
    /// The one that became ready last.
    Lifo = "lifo",
    /// As `Lifo`, but the highest rank first at its end.
    LifoHrf = "lifo_hrf",
    /// A random rank, the likelier the shorter its tasks ran.
    RankHrf = "rank_hrf",
    /// The one with the greatest part of its input in the node's memory.
    Cached = "cached",
    /// As `Lifo`, but the highest level first at the end of the plan.
    LifoHlfet = "lifo_hlfet",
    /// One action at a time, in rake's own order.
    Serial = "serial",
}

words! {
    /// What a failure does to the tasks that do not depend on it.
    FailureTermination is "FAILURE_TERMINATION":
    /// Nothing more starts; what runs goes on.
    Wait = "wait",
    /// Nothing more starts; what runs is aborted.
    Kill = "kill",
    /// They run.
    Continue = "continue",
}

words! {
    /// What happens to the target of an attempt that failed.
    #[derive(Default)]
    FailedTarget is "FAILED_TARGET":
    /// To `NAME._fail_`, for a look at it.
    #[default]
    Rename = "rename",
    /// Removed.
    Delete = "delete",
    /// Left in place, but remembered as unfinished.
    Leave = "leave",
}

words! {
    /// When the output of commands is shown.
    OutputChoice is "output":
    /// Line by line.
    Line = "line",
    /// When the task's action ends.
    Task = "task",
    /// Commands write themselves.
    None = "none",
}

words! {
    /// The system of continuous integration whose log this is.
    CiSystem is "ci":
    /// GitHub Actions.
    Github = "github",
    /// GitLab CI/CD.
    Gitlab = "gitlab",
}

words! {
    /// Where progress is shown.
    ProgressMode is "progress":
    /// At the bottom of the terminal that stderr is.
    Live = "live",
    /// In lines on stderr, now and then.
    Plain = "plain",
    /// Nowhere.
    Off = "off",
}

words! {
    /// Where commands read from.
    StdinChoice is "stdin":
    /// From nothing.
    Null = "null",
    /// From the front's own stdin.
    Inherit = "inherit",
}

words! {
    /// A reason to run again beyond rake's.
    RerunOn is "RERUN_ON":
    /// The actions' source or parameters have changed.
    Command = "command",
    /// The set of prerequisites has changed.
    Inputs = "inputs",
    /// The content of a prerequisite has changed.
    Content = "content",
    /// The chosen environment has changed.
    Env = "env",
}

words! {
    /// Where the nodes of a run come from.
    ClusterKind is "kind of cluster":
    /// This machine, and the nodes that join.
    Local = "local",
    /// Hosts that ssh reaches.
    Ssh = "ssh",
    /// An allocation of Slurm.
    Slurm = "slurm",
    /// A command line of the user starts agents.
    Launch = "launch",
}

words! {
    /// What nodes share.
    Filesystem is "FILESYSTEM":
    /// They have the run's directory.
    Shared = "shared",
    /// Gfarm is mounted where they have not.
    Gfarm = "gfarm",
    /// Each has a directory of its own.
    Local = "local",
}

words! {
    /// What a command is to be held by at the gate of a synchronised start.
    #[derive(Default)]
    GateChoice is "gate":
    /// The library where the program is dynamic, else the helper.
    #[default]
    Auto = "auto",
    /// The library that is loaded before the program's own code.
    Preload = "preload",
    /// The helper, which executes the program when it has waited.
    Exec = "exec",
    /// The program's own call.
    Call = "call",
    /// Nothing: it starts as soon as it is asked for, as in the paper of 2016. For comparison.
    None = "none",
}

words! {
    /// What held a command at the gate of a synchronised start.
    #[derive(Default)]
    GateKind is "gate":
    /// The library, in the program.
    Preload = "preload",
    /// The helper, before the program was executed.
    Exec = "exec",
    /// The program's own call.
    Call = "call",
    /// The library or the helper, in the shell that has run its line.
    Shell = "shell",
    /// The library or the helper, in the interpreter of a script, which it reads when it has waited.
    Script = "script",
    /// Nothing.
    #[default]
    None = "none",
}

words! {
    /// What a round of a synchronised start is for.
    #[derive(Default)]
    RoundKind is "kind of round":
    /// Its lag and its programs are what the user wants to know.
    #[default]
    Counted = "counted",
    /// To have caches and connections warm.
    WarmUp = "warm_up",
    /// Of programs that do nothing: what a synchronised start costs.
    Null = "null",
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
        rmp_serde::from_slice(bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_kind_of_task_is_one_byte_and_an_unknown_one_is_named() {
        let kinds = [TaskKind::Plain, TaskKind::File, TaskKind::Directory, TaskKind::Asked];
        for (number, kind) in (0..).zip(kinds) {
            assert_eq!(rmp_serde::to_vec(&kind).unwrap(), [number]);
            assert_eq!(read::<TaskKind>(&[number]), Ok(kind));
        }
        assert_eq!(read::<TaskKind>(&[7]).unwrap_err(), "protocol: unknown task kind 7");
    }

    #[test]
    fn flags_of_a_task_are_one_byte_and_an_unknown_one_is_named() {
        for (number, flag) in [1, 2, 4].into_iter().zip(TaskFlag::ALL) {
            let flags = TaskFlags::of(&[flag]);
            assert_eq!(rmp_serde::to_vec(&flags).unwrap(), [number]);
            assert_eq!(read::<TaskFlags>(&[number]), Ok(flags));
            assert!(TaskFlag::ALL.iter().all(|other| flags.has(*other) == (*other == flag)));
        }
        assert_eq!(read::<TaskFlags>(&[0]), Ok(TaskFlags::default()));
        assert_eq!(read::<TaskFlags>(&[7]), Ok(TaskFlags::of(&TaskFlag::ALL)));
        let error = read::<TaskFlags>(&[9]).unwrap_err();
        assert_eq!(error, "protocol: unknown flags of a task: 9");
    }

    #[test]
    fn a_descriptor_is_its_number_and_an_unknown_one_is_named() {
        use crate::Text;
        use crate::front::FrontMessage;

        let message = |descriptor| {
            let name = b"\x81\xabWriteOutput\x93\x07".to_vec();
            [name, vec![descriptor], b"\xa1x".to_vec()].concat()
        };
        for (number, it) in [(1, OutputDescriptor::Stdout), (2, OutputDescriptor::Stderr)] {
            let wanted = FrontMessage::WriteOutput(Some(7), it, Text::from("x"));
            assert_eq!(rmp_serde::to_vec(&wanted).unwrap(), message(number));
            assert_eq!(read::<FrontMessage>(&message(number)), Ok(wanted));
        }
        let error = read::<FrontMessage>(&message(3)).unwrap_err();
        assert_eq!(error, "protocol: unknown descriptor 3");
    }

    #[test]
    fn an_unknown_word_is_named_with_those_that_are_known() {
        assert_eq!(read(b"\xa4json"), Ok(PlanFormat::Json));
        assert_eq!(rmp_serde::to_vec(&ListOrder::AllowDeny).unwrap(), b"\xaaallow,deny");
        assert_eq!(
            read::<PlanFormat>(b"\xa3xml").unwrap_err(),
            "protocol: unknown form of a plan 'xml': expected text, short or json"
        );
        let error = read::<FailedTarget>(&[3]).unwrap_err();
        assert!(error.contains("expected a FAILED_TARGET as a word"), "{error}");
    }
}
