//! Who is logged in, and how long since their terminals were used. By utmp, or where a system has
//! none, by what logind keeps.

use std::os::unix::fs::MetadataExt as _;

use super::{Moment, Provider, Reading, Root};
use crate::value::Value;

/// Bytes of a record of utmp, as glibc writes it on all 64-bit machines.
const RECORD_BYTES: usize = 384;
/// The type of a record of a user who is logged in.
const USER_PROCESS: u16 = 7;

pub(super) struct Users;

impl Provider for Users {
    fn name(&self) -> &'static str {
        "users"
    }

    fn sample(&mut self, root: &Root, at: Moment) -> Vec<Reading> {
        let terminals = match std::fs::read(root.path("/run/utmp")) {
            Ok(records) => of_utmp(&records),
            Err(_) => of_sessions(root),
        };
        let idle =
            terminals.iter().filter_map(|terminal| idle_s(root, terminal, at)).reduce(f64::min);
        let why = if terminals.is_empty() { "nobody is logged in" } else { "no terminal tells" };
        vec![
            Reading::new("users", Value::count(terminals.len() as u64)),
            Reading::defined("user_idle", idle.map(Value::number), why),
        ]
    }
}

fn of_utmp(records: &[u8]) -> Vec<String> {
    let records = records.chunks_exact(RECORD_BYTES);
    let users = records.filter(|record| u16::from_le_bytes([record[0], record[1]]) == USER_PROCESS);
    users.map(|record| String::from_utf8_lossy(until_nul(&record[8..40])).into_owned()).collect()
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn of_sessions(root: &Root) -> Vec<String> {
    const FOLDER: &str = "/run/systemd/sessions";
    let sessions = root.names(FOLDER).into_iter().filter(|name| !name.contains('.'));
    let texts = sessions.filter_map(|name| root.text(&format!("{FOLDER}/{name}")).ok());
    let field = |text: &str, name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_default().to_owned()
    };
    texts
        .filter(|text| {
            field(text, "CLASS").starts_with("user") && field(text, "STATE") != "closing"
        })
        .map(|text| field(&text, "TTY"))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "seconds need not be exact to the ns")]
fn idle_s(root: &Root, terminal: &str, at: Moment) -> Option<f64> {
    let is_device = !terminal.is_empty() && !terminal.split('/').any(|part| part == "..");
    let found = std::fs::metadata(root.path(&format!("/dev/{terminal}"))).ok();
    let found = found.filter(|_| is_device)?;
    let used_ns = i128::from(found.atime()) * 1_000_000_000 + i128::from(found.atime_nsec());
    let idle_ns = (i128::from(at.file_ns) - used_ns).max(0);
    Some((idle_ns as f64 / 1e9).round())
}
