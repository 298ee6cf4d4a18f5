//! Lines of the journal, written by hand into a buffer: the five of each task cost more through
//! serde than all else that the record does. A test reads each back with the types of
//! `rakuda_proto::journal`, which say what they are.
//!
//! It does not know when a line is due.

use rakuda_proto::Text;
use rakuda_proto::front::{Program, Usage};
use rakuda_proto::journal::{
    CommandEnvironment, FileIdentity, InputBytes, JournalEvent, Outcome, Reason, TargetFate,
    TaskKind,
};

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_core::{Held, TaskId};

/// Any event; for those that are rare.
pub(super) fn event(out: &mut Vec<u8>, event: &JournalEvent) {
    serde_json::to_writer(&mut *out, event).expect("plain data into memory always encodes");
    out.push(b'\n');
}

/// `{"event":"NAME"` and what follows.
struct LineWriter<'a>(&'a mut Vec<u8>);

impl LineWriter<'_> {
    fn number(&mut self, key: &str, number: impl Into<i128>) {
        self.0.extend_from_slice(key.as_bytes());
        push_number(self.0, number.into());
    }

    fn text(&mut self, key: &str, text: &[u8]) {
        self.0.extend_from_slice(key.as_bytes());
        push_text(self.0, text);
    }

    fn file(&mut self, key: &str, file: Option<FileIdentity>) {
        let Some(file) = file else { return };
        self.number(key, file.modified_ns);
        self.number(r#","changed_ns":"#, file.changed_ns);
        self.number(r#","bytes":"#, file.bytes);
        self.number(r#","inode":"#, file.inode);
        self.0.push(b'}');
    }

    fn numbers(&mut self, key: &str, numbers: impl Iterator<Item = u32>) {
        let mut any = false;
        for number in numbers {
            self.0.extend_from_slice(if any { b"," } else { key.as_bytes() });
            push_number(self.0, number.into());
            any = true;
        }
        if any {
            self.0.push(b']');
        }
    }

    /// A list, also an empty one; `key` ends with its bracket.
    fn texts(&mut self, key: &str, texts: &[Text]) {
        self.0.extend_from_slice(key.as_bytes());
        for (index, text) in texts.iter().enumerate() {
            self.text(if index == 0 { "" } else { "," }, &text.0);
        }
        self.0.push(b']');
    }

    fn end(self) {
        self.0.extend_from_slice(b"}\n");
    }
}

/// What a `task_defined` tells of one task, but for its prerequisites.
pub(super) struct Definition<'a> {
    pub task: u32,
    pub name: &'a [u8],
    pub kind: TaskKind,
    pub rule: u32,
    pub action: bool,
    pub up_to_date: bool,
    pub bytes: Option<u64>,
    pub params: &'a [(Text, Text)],
}

pub(super) fn task_defined(
    out: &mut Vec<u8>,
    definition: &Definition<'_>,
    prerequisites: impl Iterator<Item = u32>,
    order_only: impl Iterator<Item = u32>,
) {
    let mut line = LineWriter(out);
    line.number(r#"{"event":"task_defined","task":"#, definition.task);
    line.text(r#","name":"#, definition.name);
    let kind: &[u8] = match definition.kind {
        TaskKind::Plain => br#","kind":"plain""#,
        TaskKind::File => br#","kind":"file""#,
        TaskKind::Directory => br#","kind":"directory""#,
        TaskKind::Asked => br#","kind":"asked""#,
    };
    line.0.extend_from_slice(kind);
    if definition.rule > 0 {
        line.number(r#","rule":"#, definition.rule);
    }
    line.numbers(r#","prerequisites":["#, prerequisites);
    line.numbers(r#","order_only":["#, order_only);
    let action: &[u8] =
        if definition.action { br#","action":true"# } else { br#","action":false"# };
    line.0.extend_from_slice(action);
    if definition.up_to_date {
        line.0.extend_from_slice(br#","up_to_date":true"#);
    }
    if let Some(bytes) = definition.bytes {
        line.number(r#","bytes":"#, bytes);
    }
    if !definition.params.is_empty() {
        line.0.extend_from_slice(br#","params":"#);
        serde_json::to_writer(&mut *line.0, definition.params).expect("plain data always encodes");
    }
    line.end();
}

/// What an `attempt_started` tells, but for its reasons.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptStart<'a> {
    pub time_ns: i64,
    pub task: u32,
    pub attempt: u32,
    pub node: u32,
    pub cores: u32,
    /// Nodes that it has besides, and its cores there.
    pub elsewhere: &'a [(u32, u32)],
    pub memory_bytes: Option<u64>,
    /// Begun before there were cores for it.
    pub early: bool,
    pub before: Option<FileIdentity>,
    pub target: Option<&'a [u8]>,
}

pub(super) fn attempt_started(out: &mut Vec<u8>, start: &AttemptStart<'_>, reasons: &[Reason]) {
    let mut line = LineWriter(out);
    line.number(r#"{"event":"attempt_started","time_ns":"#, start.time_ns);
    line.number(r#","task":"#, start.task);
    line.number(r#","attempt":"#, start.attempt);
    line.number(r#","node":"#, start.node);
    line.number(r#","cores":"#, start.cores);
    if !start.elsewhere.is_empty() {
        line.0.extend_from_slice(br#","elsewhere":"#);
        serde_json::to_writer(&mut *line.0, start.elsewhere).expect("plain data always encodes");
    }
    if let Some(bytes) = start.memory_bytes {
        line.number(r#","memory_bytes":"#, bytes);
    }
    if start.early {
        line.0.extend_from_slice(br#","early":true"#);
    }
    for (index, reason) in reasons.iter().enumerate() {
        let before: &[u8] = if index == 0 { br#","reasons":["# } else { b"," };
        line.0.extend_from_slice(before);
        serde_json::to_writer(&mut *line.0, reason).expect("plain data always encodes");
    }
    if !reasons.is_empty() {
        line.0.push(b']');
    }
    line.file(r#","before":{"modified_ns":"#, start.before);
    if let Some(target) = start.target {
        line.text(r#","target":"#, target);
    }
    line.end();
}

/// What a `command_started` tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandStart<'a> {
    pub time_ns: i64,
    pub command: u32,
    pub task: Option<TaskId>,
    /// The user's own, without the script of `env`.
    pub program: &'a Program,
    pub env: Option<&'a CommandEnvironment>,
    pub directory: Option<&'a Text>,
}

/// `folder`: the run's.
pub(super) fn command_started(out: &mut Vec<u8>, start: &CommandStart<'_>, folder: &Path) {
    let mut line = LineWriter(out);
    line.number(r#"{"event":"command_started","time_ns":"#, start.time_ns);
    line.number(r#","command":"#, start.command);
    if let Some(task) = start.task {
        line.number(r#","task":"#, task.0);
    }
    match start.program {
        Program::Line(text) => line.text(r#","line":"#, &text.0),
        Program::Words(words) => line.texts(r#","words":["#, words),
    }
    if let Some(directory) = start.directory {
        line.text(r#","directory":"#, &directory.0);
    }
    if let Some(env) = start.env {
        line.text(r#","env":{"kind":"#, env.kind.as_bytes());
        line.texts(r#","names":["#, &env.names);
        let script = env.script.as_path();
        let script = script.strip_prefix(folder).unwrap_or(script);
        line.text(r#","script":"#, script.as_os_str().as_bytes());
        line.0.push(b'}');
    }
    line.end();
}

pub(super) fn command_ended(
    out: &mut Vec<u8>,
    time_ns: i64,
    command: u32,
    status: i32,
    error: Option<&Text>,
    usage: &Usage,
) {
    let mut line = LineWriter(out);
    line.number(r#"{"event":"command_ended","time_ns":"#, time_ns);
    line.number(r#","command":"#, command);
    line.number(r#","status":"#, status);
    if let Some(error) = error {
        line.text(r#","error":"#, &error.0);
    }
    line.number(r#","wall_ns":"#, usage.wall_ns);
    line.number(r#","user_us":"#, usage.user_us);
    line.number(r#","system_us":"#, usage.system_us);
    line.number(r#","rss_kib_max":"#, usage.max_rss_kib);
    line.number(r#","read_bytes":"#, usage.read_bytes);
    line.number(r#","write_bytes":"#, usage.write_bytes);
    line.end();
}

/// What an `attempt_ended` tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptEnd<'a> {
    pub time_ns: i64,
    pub task: u32,
    pub outcome: Outcome,
    pub message: &'a [u8],
    pub retried: bool,
    pub after: Option<FileIdentity>,
    pub target: Option<TargetFate>,
    pub secondary: &'a [(Text, u64)],
    pub contents: &'a [(Text, String)],
    /// Left out when nothing is known.
    pub inputs: InputBytes,
    /// When it held its cores, ns since 1970.
    pub held: &'a [Held],
}

/// `began_ns`: when the attempt began.
pub(super) fn attempt_ended(out: &mut Vec<u8>, end: &AttemptEnd<'_>, began_ns: i64) {
    let mut line = LineWriter(out);
    line.number(r#"{"event":"attempt_ended","time_ns":"#, end.time_ns);
    line.number(r#","task":"#, end.task);
    let outcome: &[u8] = match end.outcome {
        Outcome::Done => br#","outcome":"done""#,
        Outcome::Failed => br#","outcome":"failed""#,
        Outcome::Exited => br#","outcome":"exited""#,
        Outcome::Aborted => br#","outcome":"aborted""#,
        Outcome::GivenBack => br#","outcome":"given_back""#,
        Outcome::Lost => br#","outcome":"lost""#,
    };
    line.0.extend_from_slice(outcome);
    if !end.message.is_empty() {
        line.text(r#","message":"#, end.message);
    }
    if end.retried {
        line.0.extend_from_slice(br#","retried":true"#);
    }
    line.file(r#","after":{"modified_ns":"#, end.after);
    let target: &[u8] = match end.target {
        None => b"",
        Some(TargetFate::Renamed) => br#","target":"renamed""#,
        Some(TargetFate::Deleted) => br#","target":"deleted""#,
        Some(TargetFate::Left) => br#","target":"left""#,
        Some(TargetFate::Stuck) => br#","target":"stuck""#,
    };
    line.0.extend_from_slice(target);
    if !end.secondary.is_empty() {
        line.0.extend_from_slice(br#","secondary":"#);
        serde_json::to_writer(&mut *line.0, end.secondary).expect("plain data always encodes");
    }
    if !end.contents.is_empty() {
        line.0.extend_from_slice(br#","contents":"#);
        serde_json::to_writer(&mut *line.0, end.contents).expect("plain data always encodes");
    }
    if end.inputs != InputBytes::default() {
        line.number(r#","inputs":{"placed_bytes":"#, end.inputs.placed_bytes);
        line.number(r#","local_bytes":"#, end.inputs.local_bytes);
        line.number(r#","measured_bytes":"#, end.inputs.measured_bytes);
        line.number(r#","resident_bytes":"#, end.inputs.resident_bytes);
        line.0.push(b'}');
    }
    line.0.extend_from_slice(br#","held_ns":["#);
    for (index, (from_ns, to_ns)) in end.held.iter().enumerate() {
        // The clock of the machine may have been put back.
        line.number(if index == 0 { "" } else { "," }, (from_ns - began_ns).max(0));
        line.number(",", (to_ns - began_ns).max(0));
    }
    line.0.push(b']');
    line.end();
}

fn push_number(out: &mut Vec<u8>, number: i128) {
    let mut digits = [0; 40];
    let mut start = digits.len();
    let mut high = number.unsigned_abs();
    // Numbers of the journal fit into 64 bits, whose division is much cheaper, but for times of
    // files of other centuries.
    while high > u128::from(u64::MAX) {
        start -= 1;
        digits[start] = b'0' + (high % 10) as u8;
        high /= 10;
    }
    let mut rest = high as u64;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"' && *byte != b'\\';
    if text.iter().all(plain) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
    } else {
        match std::str::from_utf8(text) {
            Ok(text) => serde_json::to_writer(out, text),
            Err(_) => serde_json::to_writer(out, text),
        }
        .expect("plain data into memory always encodes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::journal::{
        AttemptEnded, AttemptStarted, CommandEnded, CommandStarted, ReasonKind, TaskDefined,
    };

    fn read(line: &[u8]) -> JournalEvent {
        assert_eq!(line.last(), Some(&b'\n'));
        assert!(!line[..line.len() - 1].contains(&b'\n'), "one line");
        let mut events = Vec::new();
        rakuda_record::reader::read_events(line, |event| events.push(event)).unwrap();
        let [event] = <[JournalEvent; 1]>::try_from(events).unwrap();
        event
    }

    const FILE: FileIdentity = FileIdentity {
        modified_ns: -5,
        changed_ns: i128::MAX >> 34,
        bytes: 1 << 60,
        inode: u64::MAX,
    };

    #[test]
    fn times_of_files_of_any_year_are_read_as_they_were_written() {
        let seconds = [i64::MIN, -9_300_000_000, -1, 0, 9_300_000_000, i64::MAX];
        for ns in seconds.map(|seconds| rakuda_proto::file_time::file_ns(seconds, 999_999_999)) {
            let file = FileIdentity { modified_ns: ns, changed_ns: -ns, bytes: 1, inode: 7 };
            let path = Some(Text::from("a"));
            let reason = Reason { kind: ReasonKind::Newer, path, by_ns: Some(2 * ns) };
            let start = AttemptStart {
                time_ns: 1,
                task: 0,
                attempt: 1,
                node: 0,
                cores: 1,
                elsewhere: &[],
                memory_bytes: None,
                early: false,
                before: Some(file),
                target: None,
            };
            let (mut line, mut read) = (Vec::new(), Vec::new());
            attempt_started(&mut line, &start, std::slice::from_ref(&reason));
            let each = |event| match event {
                JournalEvent::AttemptStarted(start) => read.push((start.before, start.reasons)),
                other => panic!("{other:?}"),
            };
            rakuda_record::reader::read_events(&line[..], each).unwrap();
            assert_eq!(read, [(Some(file), vec![reason])]);
        }
    }

    #[test]
    fn a_definition_is_read_as_it_was_written() {
        for (name, rule, listed) in [("a\"\n\u{e4}", 3, vec![1, 20]), ("b", 0, vec![])] {
            let params = [(Text::from("level"), Text::from("\"-O2\\x0a\""))];
            let params = &params[..usize::from(rule > 0)];
            let mut line = Vec::new();
            let definition = Definition {
                task: 21,
                name: name.as_bytes(),
                kind: TaskKind::Directory,
                rule,
                action: rule > 0,
                up_to_date: listed.is_empty(),
                bytes: listed.first().map(|_| 9),
                params,
            };
            task_defined(&mut line, &definition, listed.iter().copied(), [4].into_iter());
            let expected = TaskDefined {
                task: 21,
                name: Text::from(name),
                kind: TaskKind::Directory,
                rule: (rule > 0).then_some(rule),
                prerequisites: listed.clone(),
                order_only: vec![4],
                action: rule > 0,
                up_to_date: listed.is_empty(),
                bytes: listed.first().map(|_| 9),
                params: params.to_vec(),
            };
            assert_eq!(read(&line), JournalEvent::TaskDefined(expected));
        }
    }

    #[test]
    fn an_attempt_is_read_as_it_was_written() {
        let path = Some(Text(vec![0xff, b'a']));
        let reasons = [
            Reason { kind: ReasonKind::Newer, path, by_ns: Some(-1) },
            Reason { kind: ReasonKind::Always, path: None, by_ns: None },
        ];
        let start = AttemptStart {
            time_ns: -1,
            task: 0,
            attempt: 2,
            node: 3,
            cores: 4,
            elsewhere: &[(0, 4), (5, 1)],
            memory_bytes: Some(5 << 30),
            early: true,
            before: Some(FILE),
            target: Some(b"/x/\xff"),
        };
        let mut line = Vec::new();
        attempt_started(&mut line, &start, &reasons);
        let expected = AttemptStarted {
            time_ns: -1,
            task: 0,
            attempt: 2,
            node: 3,
            cores: 4,
            elsewhere: vec![(0, 4), (5, 1)],
            memory_bytes: Some(5 << 30),
            early: true,
            reasons: reasons.to_vec(),
            before: Some(FILE),
            target: Some(Text(b"/x/\xff".to_vec())),
        };
        assert_eq!(read(&line), JournalEvent::AttemptStarted(expected));
        let end = AttemptEnd {
            time_ns: 1,
            task: 0,
            outcome: Outcome::Failed,
            message: b"Command failed with status (1): [false]",
            retried: true,
            after: Some(FILE),
            target: Some(TargetFate::Renamed),
            secondary: &[(Text::from("d/a.\"idx"), 7)],
            contents: &[(Text::from("a"), "00".into())],
            inputs: InputBytes {
                placed_bytes: 9,
                local_bytes: 5,
                measured_bytes: 7,
                resident_bytes: 3,
            },
            held: &[(-6, -4), (-2, 89)],
        };
        let mut line = Vec::new();
        attempt_ended(&mut line, &end, -11);
        let expected = AttemptEnded {
            time_ns: 1,
            task: 0,
            outcome: Outcome::Failed,
            message: Some(Text(end.message.to_vec())),
            retried: true,
            after: Some(FILE),
            target: Some(TargetFate::Renamed),
            secondary: end.secondary.to_vec(),
            contents: end.contents.to_vec(),
            inputs: Some(end.inputs),
            held_ns: Some(Box::new([5, 7, 9, 100])),
        };
        assert_eq!(read(&line), JournalEvent::AttemptEnded(expected));
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let words = vec![Text::from("echo"), Text::from("a\tb"), Text(vec![0x80])];
        let env = |script: &str| CommandEnvironment {
            kind: "module".into(),
            names: ["gcc/12", "a\tb"].map(Text::from).to_vec(),
            script: Text::from(script),
        };
        for program in [Program::Words(words), Program::Line(Text::from("x > y"))] {
            let mut line = Vec::new();
            let inside = env("/w/.rakuda/env/module-0.sh");
            let directory = Text::from("/d");
            let start = CommandStart {
                time_ns: 5,
                command: 6,
                task: Some(TaskId(7)),
                program: &program,
                env: Some(&inside),
                directory: Some(&directory),
            };
            command_started(&mut line, &start, Path::new("/w"));
            let (words, text) = match &program {
                Program::Words(words) => (Some(words.clone()), None),
                Program::Line(line) => (None, Some(line.clone())),
            };
            let expected = CommandStarted {
                time_ns: 5,
                command: 6,
                task: Some(7),
                words,
                line: text,
                directory: Some(directory),
                env: Some(Box::new(env(".rakuda/env/module-0.sh"))),
            };
            assert_eq!(read(&line), JournalEvent::CommandStarted(expected));
        }
        let usage = Usage {
            wall_ns: 1,
            user_us: 2,
            system_us: 3,
            max_rss_kib: 4,
            read_bytes: 5,
            write_bytes: 1 << 60,
        };
        let mut line = Vec::new();
        command_ended(&mut line, 8, 6, i32::MIN, Some(&Text::from("no")), &usage);
        let expected = CommandEnded {
            time_ns: 8,
            command: 6,
            status: i32::MIN,
            error: Some(Text::from("no")),
            wall_ns: 1,
            user_us: 2,
            system_us: 3,
            rss_kib_max: 4,
            read_bytes: 5,
            write_bytes: 1 << 60,
        };
        assert_eq!(read(&line), JournalEvent::CommandEnded(expected));
    }

    #[test]
    fn every_outcome_and_fate_has_its_name() {
        use Outcome::{Aborted, Done, Exited, Failed, GivenBack, Lost};
        use TargetFate::{Deleted, Left, Renamed, Stuck};
        let fates = [None, Some(Renamed), Some(Deleted), Some(Left), Some(Stuck)];
        for outcome in [Done, Failed, Exited, Aborted, GivenBack, Lost] {
            for fate in fates {
                let end = AttemptEnd {
                    time_ns: 0,
                    task: 0,
                    outcome,
                    message: b"",
                    retried: false,
                    after: None,
                    target: fate,
                    secondary: &[],
                    contents: &[],
                    inputs: InputBytes::default(),
                    held: &[],
                };
                let mut line = Vec::new();
                attempt_ended(&mut line, &end, 0);
                let JournalEvent::AttemptEnded(ended) = read(&line) else { panic!("{line:?}") };
                assert_eq!((ended.outcome, ended.target), (outcome, fate));
            }
        }
    }
}
