//! Failed tasks in the form of GitLab's reports of code quality, which a merge request shows with file and line.
//!
//! The caller says where the top of the repository is; paths start there.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use serde_json::json;

use super::junit;
use crate::Run;

/// Writes a list with an entry for each task that failed or was cut off. `top`: the repository's folder.
///
/// # Errors
/// When writing fails.
pub fn write(run: &Run, top: &Path, out: &mut dyn Write) -> io::Result<()> {
    let entries: Vec<_> = junit::failures(run)
        .into_iter()
        .map(|(task, why)| {
            let name = task.defined.name.to_display();
            let action = run.location(task).map(|place| place.to_display());
            let (why, place) = split_place(&why)
                .map_or((&*why, None), |(why, file, line)| (why, Some((file, line))));
            let place = place.or_else(|| action.as_deref().and_then(file_and_line));
            let rakefile = run.started.rakefile.to_display();
            let (file, line) = place.unwrap_or((&*rakefile, 1));
            json!({
                "description": format!("task {name}: {why}"),
                "check_name": "rakuda",
                "fingerprint": format!("{:016x}", digest(&name)),
                "severity": "critical",
                "location": {"path": below(run, top, file), "lines": {"begin": line}},
            })
        })
        .collect();
    serde_json::to_writer_pretty(&mut *out, &entries)?;
    writeln!(out)
}

/// `Rakefile:12` in its parts.
fn file_and_line(place: &str) -> Option<(&str, u32)> {
    let (file, line) = place.rsplit_once(':')?;
    Some((file, line.parse().ok()?)).filter(|_| !file.is_empty())
}

/// A message without the place that the front adds to it, and that place: `boom (lib/a.rb:3)`.
fn split_place(why: &str) -> Option<(&str, &str, u32)> {
    let (why, place) = why.strip_suffix(')')?.rsplit_once(" (")?;
    file_and_line(place).map(|(file, line)| (why, file, line))
}

/// The path from the top of the repository; of a file elsewhere the whole.
fn below(run: &Run, top: &Path, file: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(&run.started.directory.to_display()).join(file).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path.strip_prefix(top).unwrap_or(&path).to_string_lossy().into_owned()
}

/// FNV-1a: the same of a task in each run, so that GitLab tells what is new from what was there before.
fn digest(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"event":"run_started","version":2,"time_ns":1000000000,"run":"r","directory":"/repo/flow","rakefile":"Rakefile"}
{"event":"node_joined","time_ns":1000000000,"node":0,"name":"n1","cores":4,"memory_bytes":0}
{"event":"rule_defined","rule":1,"location":"Rakefile:3"}
{"event":"task_defined","task":0,"name":"a","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":1,"name":"b","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":2,"name":"c","kind":"plain","action":true,"rule":1}
{"event":"attempt_started","time_ns":2000000000,"task":0,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":0,"outcome":"failed","message":"boom (twice) (../lib/a.rb:7)"}
{"event":"attempt_started","time_ns":2000000000,"task":1,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":1,"outcome":"failed","message":"no place"}
{"event":"attempt_started","time_ns":2000000000,"task":2,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":2,"outcome":"done"}
"#;

    fn written(top: &str) -> serde_json::Value {
        let mut bytes = Vec::new();
        write(&Run::read(LINES.as_bytes()).unwrap(), Path::new(top), &mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn failed_tasks_stand_at_their_lines() {
        let entries = written("/repo");
        let told = |entry: &serde_json::Value| {
            let place = &entry["location"];
            (entry["description"].clone(), place["path"].clone(), place["lines"]["begin"].clone())
        };
        let entries: Vec<_> = entries.as_array().unwrap().iter().map(told).collect();
        assert_eq!(
            entries,
            [
                (json!("task a: boom (twice)"), json!("lib/a.rb"), json!(7)),
                (json!("task b: no place"), json!("flow/Rakefile"), json!(3)),
            ]
        );
        assert_eq!(written("/repo/flow")[0]["location"]["path"], "/repo/lib/a.rb");
    }

    #[test]
    fn a_task_has_the_same_fingerprint_in_each_run_and_another_one_another() {
        let prints = written("/repo");
        assert_eq!(prints[0]["fingerprint"], "af63dc4c8601ec8c");
        assert_ne!(prints[0]["fingerprint"], prints[1]["fingerprint"]);
    }
}
