//! Names of files as bytes: what of a command line may be one, and which name looks as if it belonged to another.
//!
//! Absolute names have no `.` and no `..` in them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Maximum number of words of one text that are looked at; the rest is ignored.
const WORDS_MAX: usize = 4096;
/// What stands between words of a command line, and before names in words such as `--input=name`.
const BETWEEN: &[u8] = b" \t\n|&;<>()\"'`=,:";
/// How the names of files end that a failed attempt or a transfer left behind.
const LEFT_OVER: &[u8] = b"._fail_";
const PART: &[u8] = b".rakuda-part-";

/// A name without `.` and `..`; a relative one starts at `base`.
pub fn absolute(base: &[u8], name: &[u8]) -> Vec<u8> {
    let base = if name.starts_with(b"/") { b"" } else { base };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in base.split(|byte| *byte == b'/').chain(name.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut path = Vec::with_capacity(base.len() + name.len() + 1);
    for part in &parts {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// The folder of an absolute name, and the rest.
pub fn folder_and_name(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.map_or((b"", path), |slash| (&path[..slash], &path[slash + 1..]))
}

/// What `folder` calls a file: with `..` for what lies elsewhere.
pub(super) fn relative(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let parts = |path: &'_ [u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
    let (folder, path): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (parts(folder), parts(path));
    let common = folder.iter().zip(&path).take_while(|(one, other)| one == other).count();
    let up = core::iter::repeat_n(&b".."[..], folder.len() - common);
    up.chain(path[common..].iter().map(Vec::as_slice)).collect::<Vec<_>>().join(&b'/')
}

/// Whether an absolute name lies below a folder.
pub(super) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/") || folder == b"/")
}

/// Absolute names that the words of a command may mean. No shell is asked: a word that is no file costs a look at home.
pub fn names_in<'a>(texts: impl Iterator<Item = &'a [u8]>, base: &[u8]) -> BTreeSet<Vec<u8>> {
    let words = texts
        .flat_map(|text| text.split(|byte| BETWEEN.contains(byte)).take(WORDS_MAX))
        .filter(|word| !word.is_empty() && !word.starts_with(b"-"));
    words.map(|word| absolute(base, word)).collect()
}

/// Whether a name is that of an unfinished file, which belongs to no task.
pub fn is_left_over(name: &[u8]) -> bool {
    name.ends_with(LEFT_OVER) || name.starts_with(PART)
}

/// Whether a name begins with that of a target up to the first dot, and then comes no letter or digit.
pub fn begins_as(target: &[u8], other: &[u8]) -> bool {
    // A dot at the beginning hides a file, and ends nothing.
    let dot = target.iter().skip(1).position(|byte| *byte == b'.');
    let stem = &target[..dot.map_or(target.len(), |dot| dot + 1)];
    let rest = other.strip_prefix(stem);
    rest.is_some_and(|rest| !rest.first().is_some_and(|byte| is_of_word(*byte)))
}

/// Whether a byte is of a letter or digit; letters beyond ASCII are letters, too.
pub(super) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// How many bytes two names begin with in common.
pub(super) fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// What targets may begin with, up to their first dot, whose secondary file has this name.
pub(super) fn stems(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let dot = name.iter().skip(1).position(|byte| *byte == b'.').map_or(name.len(), |dot| dot + 1);
    let ends = (1..=dot).filter(|end| name.get(*end).is_none_or(|byte| !is_of_word(*byte)));
    ends.map(|end| &name[..end])
}
