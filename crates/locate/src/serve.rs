//! `rakudad locate`: reads paths from stdin, each ended by a NUL byte, and writes for each one the hosts that hold it.
//!
//! A path that begins with a host's name and a tab is another question: whether that host hands the file out. The
//! answer is this host, or no host.
//!
//! First line: `ok`, or `!` and why nothing can be answered. Then, per path and in order: the hosts, each ended by a
//! tab, or `!` and the reason. All are ended by NUL. Ends with its stdin.

use std::ffi::CStr;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};

use crate::gfarm::Gfarm;

/// The word of the command line.
pub const WORD: &str = "locate";

/// Serves this process's stdin and stdout; the exit status.
pub fn serve() -> u8 {
    let mut out = std::io::stdout().lock();
    let gfarm = match Gfarm::load() {
        Ok(gfarm) => gfarm,
        Err(error) => {
            let _ = write!(out, "!{error}\0").and_then(|()| out.flush());
            return 1;
        }
    };
    let ask = |host: Option<&CStr>, path: &CStr| match host {
        None => gfarm.replicas(path),
        Some(host) => {
            let handed_out = gfarm.hands_out(host, path)?;
            Ok(if handed_out { vec![host.to_bytes().to_vec()] } else { Vec::new() })
        }
    };
    let served = serve_with(std::io::stdin().lock(), out, ask);
    u8::from(served.is_err())
}

/// The same with any catalogue.
fn serve_with(
    paths: impl Read,
    answers: impl Write,
    answer: impl Fn(Option<&CStr>, &CStr) -> Result<Vec<Vec<u8>>, String>,
) -> std::io::Result<()> {
    let mut paths = BufReader::new(paths);
    let mut answers = BufWriter::new(answers);
    answers.write_all(b"ok\0")?;
    let mut path = Vec::new();
    loop {
        if paths.buffer().is_empty() {
            answers.flush()?;
        }
        path.clear();
        if paths.read_until(0, &mut path)? == 0 {
            return answers.flush();
        }
        match hosts_of(&mut path, &answer) {
            Ok(hosts) => {
                for host in hosts {
                    answers.write_all(&host)?;
                    answers.write_all(b"\t")?;
                }
            }
            Err(reason) => write!(answers, "!{reason}")?,
        }
        answers.write_all(b"\0")?;
    }
}

/// The answer to one question, which ends in NUL.
fn hosts_of(
    question: &mut [u8],
    answer: impl Fn(Option<&CStr>, &CStr) -> Result<Vec<Vec<u8>>, String>,
) -> Result<Vec<Vec<u8>>, String> {
    let word = |bytes| CStr::from_bytes_with_nul(bytes).map_err(|error| error.to_string());
    let tab = question.iter().position(|byte| *byte == b'\t');
    match tab.filter(|_| !question.starts_with(b"/")) {
        None => answer(None, word(question)?),
        Some(tab) => {
            question[tab] = 0;
            let (host, path) = question.split_at(tab + 1);
            answer(Some(word(host)?), word(path)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_answered_in_order_with_hosts_or_a_reason() {
        let mut written = Vec::new();
        let replicas = |_: Option<&CStr>, path: &CStr| match path.to_bytes() {
            b"/a b" => Ok(vec![b"host1".to_vec(), b"host2.example".to_vec()]),
            b"/empty" => Ok(Vec::new()),
            _ => Err("no such file or directory".to_owned()),
        };
        serve_with(&b"/a b\0/none\0/empty\0"[..], &mut written, replicas).unwrap();
        assert_eq!(
            written,
            b"ok\0host1\thost2.example\t\0!no such file or directory\0\0".as_slice()
        );
    }

    #[test]
    fn a_path_that_is_cut_off_is_refused() {
        let mut written = Vec::new();
        serve_with(&b"/a"[..], &mut written, |_, _| Ok(vec![b"host1".to_vec()])).unwrap();
        assert!(written.starts_with(b"ok\0!"), "{written:?}");
    }

    #[test]
    fn a_host_may_be_asked_whether_it_hands_a_file_out() {
        let mut written = Vec::new();
        let hands_out = |host: Option<&CStr>, path: &CStr| {
            let host = host.expect("only such questions").to_bytes().to_vec();
            assert_eq!(path.to_bytes(), b"/a\tb");
            Ok(if host == b"host1" { vec![host] } else { Vec::new() })
        };
        serve_with(&b"host1\t/a\tb\0host2\t/a\tb\0"[..], &mut written, hands_out).unwrap();
        assert_eq!(written, b"ok\0host1\t\0\0".as_slice());
    }
}
