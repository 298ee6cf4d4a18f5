//! Patterns of `needs outputs:` and `needs inputs:`, and what they mean for one file.
//!
//! A pattern is a name in the run's folder, or, as in CWL, what is added to the name of a file: it
//! begins with `^` (each of them takes an extension away) or with a dot. `*` and `?` stand in the
//! last part only, so that one folder is to be read.

use super::names::{absolute, folder_and_name};
use alloc::vec::Vec;

/// Files of one folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Matching {
    /// Absolute.
    pub folder: Vec<u8>,
    /// What their names begin with.
    pub prefix: Vec<u8>,
    /// What follows: `*` stands for any text, `?` for one byte.
    pub glob: Vec<u8>,
}

impl Matching {
    /// What a pattern that starts at `base` means; one that is added to names gives one for each of `anchors`.
    pub fn of<'a>(
        pattern: &[u8],
        base: &[u8],
        anchors: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<Self> {
        if !is_suffix(pattern) {
            let (folder, glob) = folder_and_name(pattern);
            let folder = absolute(base, folder);
            return [Self { folder, prefix: Vec::new(), glob: glob.to_vec() }].into();
        }
        let carets = pattern.iter().take_while(|byte| **byte == b'^').count();
        let of_anchor = |anchor: &'a [u8]| {
            let (folder, mut name) = folder_and_name(anchor);
            for _ in 0..carets {
                name = without_extension(name);
            }
            let glob = pattern[carets..].to_vec();
            Self { folder: folder.to_vec(), prefix: name.to_vec(), glob }
        };
        anchors.map(of_anchor).collect()
    }

    /// Whether a name of the folder is among them.
    pub fn has(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.prefix.as_slice()).is_some_and(|rest| matches_glob(&self.glob, rest))
    }

    /// The name, when there is only one.
    pub fn only(&self) -> Option<Vec<u8>> {
        let is_open = self.glob.iter().any(|byte| b"*?".contains(byte));
        (!is_open).then(|| [&self.prefix[..], &self.glob].concat())
    }
}

/// Whether a pattern is added to the name of a file.
fn is_suffix(pattern: &[u8]) -> bool {
    match pattern {
        [b'^', ..] => true,
        [b'.', next, ..] => !b"./".contains(next),
        _ => false,
    }
}

fn without_extension(name: &[u8]) -> &[u8] {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    dot.filter(|dot| *dot > 0).map_or(name, |dot| &name[..dot])
}

/// `*` stands for any text, `?` for one byte.
pub fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on when the last star takes one byte more.
    let mut star = None;
    while from < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (at, from) = (after, taken + 1);
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}
