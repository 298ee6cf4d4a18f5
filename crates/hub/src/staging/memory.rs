//! What nodes have of earlier runs: `.rakuda/places.jsonl`, a line for each file that stays on a
//! node or was copied there.
//!
//! A line says what was so when it was written; whether it still is, the node is asked. A line that
//! cannot be read is passed over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rakuda_core::stager::Earlier;
use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;
use rakuda_record::regular::{open_regular, open_to_append};
use serde::{Deserialize, Serialize};

use super::state::State;

const FILE: &str = "places.jsonl";
/// Maximum number of lines that no longer count; with more the file is written anew.
const DEAD_LINES_MAX: usize = 10_000;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    file: Text,
    node: Text,
    bytes: u64,
    modified_ns: i128,
    /// It was staged in, and is elsewhere, too.
    #[serde(default)]
    copy: bool,
    /// Files that go with it: name as its folder has it, bytes, time of modification.
    #[serde(rename = "companions", default, skip_serializing_if = "Vec::is_empty")]
    secondary: Vec<(Text, u64, i128)>,
}

impl Line {
    fn new(file: &[u8], node: &[u8], state: &State, copy: bool) -> Self {
        let (file, node) = (Text(file.to_vec()), Text(node.to_vec()));
        let FileVersion { bytes, modified_ns } = state.version;
        let secondary = state.secondary.iter();
        let secondary = secondary.map(|(name, is)| (name.clone(), is.bytes, is.modified_ns));
        Self { file, node, bytes, modified_ns, copy, secondary: secondary.collect() }
    }

    fn state(&self) -> State {
        let version = FileVersion { bytes: self.bytes, modified_ns: self.modified_ns };
        let secondary = |(name, bytes, modified_ns): &(Text, u64, i128)| {
            (name.clone(), FileVersion { bytes: *bytes, modified_ns: *modified_ns })
        };
        State { version, secondary: self.secondary.iter().map(secondary).collect() }
    }
}

/// What nodes have of earlier runs, and the file that keeps it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What is known, by names of files and of nodes, and what nodes have said of it.
    pub earlier: Earlier<Vec<u8>, Vec<u8>, State>,
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Memory {
    /// Reads what is there, below `root`.
    pub fn load(root: Option<&Path>) -> Self {
        let Some(path) = root.map(|root| root.join(FILE)) else { return Self::default() };
        let mut text = Vec::new();
        // What cannot be read is only not known.
        let _ = open_regular(&path).and_then(|mut file| file.read_to_end(&mut text));
        let mut memory = Self { path: Some(path), ..Self::default() };
        let mut lines = 0;
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            if let Ok(line) = serde_json::from_slice::<Line>(line) {
                let state = line.state();
                memory.earlier.note(line.file.0, line.node.0, state, line.copy);
            }
        }
        let known = memory.earlier.known().values();
        let live: usize = known.map(|known| known.stays_on.len() + known.copies.len()).sum();
        if lines > live + DEAD_LINES_MAX {
            // It only says less than it could when this fails.
            let _ = memory.write_anew();
        }
        memory
    }

    /// What an earlier run has noted of a file that has secondary files.
    pub fn state(&self, file: &[u8]) -> Option<State> {
        let known = self.earlier.known().get(file)?;
        (!known.state.secondary.is_empty()).then(|| known.state.clone())
    }

    /// Notes that a node has a file.
    pub fn note(&mut self, file: &[u8], node: &[u8], state: &State, copy: bool) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut line = serde_json::to_vec(&Line::new(file, node, state, copy))
            .expect("plain data into memory always encodes");
        line.push(b'\n');
        if self.file.is_none() {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            self.file = Some(open_to_append(path, 0o600)?);
        }
        self.file.as_mut().expect("opened above").write_all(&line)
    }

    /// Stops noting.
    pub fn disable(&mut self) {
        self.path = None;
        self.file = None;
    }

    fn write_anew(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let part = path.with_extension("part");
        // Whatever has that name was left by a run that was killed.
        let _ = fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let mut out = io::BufWriter::new(file);
        for (file, known) in self.earlier.known() {
            let stays_on = known.stays_on.iter().map(|node| (node, false));
            for (node, copy) in stays_on.chain(known.copies.iter().map(|node| (node, true))) {
                serde_json::to_writer(&mut out, &Line::new(file, node, &known.state, copy))?;
                out.write_all(b"\n")?;
            }
        }
        out.flush()?;
        drop(out);
        fs::rename(&part, path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rakuda_core::stager::Known;

    use super::*;

    fn state(bytes: u64, secondary: &[&str]) -> State {
        let version = FileVersion { bytes, modified_ns: 13_569_465_600_000_000_004 };
        let secondary = secondary.iter().map(|name| (Text::from(*name), version));
        State { version, secondary: secondary.collect() }
    }

    #[test]
    fn the_last_state_of_each_file_counts_with_all_nodes_that_have_it() {
        let root = std::env::temp_dir().join(format!("rakuda-places-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let mut memory = Memory::load(Some(&root));
        memory.note(b"a", b"host1", &state(1, &["a.x", "a_y"]), false).unwrap();
        memory.note(b"a", b"host2", &state(1, &["a.x", "a_y"]), true).unwrap();
        memory.note(b"b\xff", b"host1", &state(1, &[]), false).unwrap();
        memory.note(b"b\xff", b"host3", &state(2, &[]), false).unwrap();
        let mut file = OpenOptions::new().append(true).open(root.join(FILE)).unwrap();
        file.write_all(b"{\"file\":\"torn").unwrap();
        let memory = Memory::load(Some(&root));
        memory.write_anew().unwrap();
        let again = Memory::load(Some(&root));
        fs::remove_dir_all(&root).unwrap();
        let set = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
        let a = Known {
            state: state(1, &["a.x", "a_y"]),
            stays_on: set(&[b"host1"]),
            copies: set(&[b"host2"]),
        };
        let b = Known { state: state(2, &[]), stays_on: set(&[b"host3"]), copies: set(&[]) };
        let all = BTreeMap::from([(b"a".to_vec(), a), (b"b\xff".to_vec(), b)]);
        assert_eq!(*memory.earlier.known(), all);
        assert_eq!(*again.earlier.known(), all);
    }
}
