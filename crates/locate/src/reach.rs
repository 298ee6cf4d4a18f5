//! Which files can be read at all: some host that the catalogue names for it must hand it out, in time.
//!
//! The catalogue may take minutes to notice that a host is gone, and a file server that hangs is
//! never noticed. So each host that is named is asked for the first byte of one of its files, in a
//! process of its own, which is killed when that takes too long. It does not know what follows for
//! tasks.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::conversation::{Answer, HolderQuestion, ask};
use crate::process::converse;

/// Timeout for the answers of the catalogue to a bundle of questions, on average.
const CATALOGUE_WITHIN: Duration = Duration::from_secs(10);
/// Maximum questions in a bundle.
const CHUNK: usize = 64;
/// Timeout for a host to hand out a byte.
const HANDED_OUT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum hosts that are asked at a time.
const HOSTS_AT_A_TIME: usize = 8;

/// Whether a file can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// These hosts hand it out, as the file system calls them.
    Hosts(Vec<Vec<u8>>),
    /// No host does.
    Nowhere,
    /// The catalogue does not say: there is no such file, or the user may not see it.
    Unknown,
}

/// What was found out about files, and about hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached {
    /// Of each question, by its number.
    pub files: Vec<(u32, Reach)>,
    /// Hosts that the catalogue names and that do not hand out what they have, each with the
    /// question whose file it was asked for.
    pub unresponsive: BTreeMap<Vec<u8>, u32>,
}

/// Finds out for each file whether it can be read; or why that cannot be found out. Must be called
/// inside a `tokio::task::LocalSet`.
pub async fn reach(files: &[HolderQuestion]) -> Result<Reached, String> {
    let bundles = u32::try_from(files.len().div_ceil(CHUNK)).unwrap_or(u32::MAX);
    let limit = CATALOGUE_WITHIN.saturating_mul(bundles);
    let replicas = converse(Some(limit), async |from, to| {
        let mut replicas = Vec::with_capacity(files.len());
        for chunk in files.chunks(CHUNK) {
            let (answers, ended) = ask(from, to, chunk).await;
            replicas.extend(answers);
            ended?;
        }
        Ok(replicas)
    })
    .await?;
    let mut unresponsive = BTreeMap::new();
    let permits = Rc::new(Semaphore::new(HOSTS_AT_A_TIME));
    let probes: Vec<_> = one_of_each(files, &replicas)
        .into_iter()
        .map(|(host, (id, path))| {
            let permits = Rc::clone(&permits);
            tokio::task::spawn_local(async move {
                let _permit = permits.acquire().await;
                let hands_out = hands_out(&host, &path).await;
                (host, id, hands_out)
            })
        })
        .collect();
    for probe in probes {
        if let Ok((host, id, false)) = probe.await {
            unresponsive.insert(host, id);
        }
    }
    Ok(sum_up(files, replicas, unresponsive))
}

/// Each host that is named, with a file that it is to hand out.
fn one_of_each(files: &[HolderQuestion], replicas: &[Answer]) -> BTreeMap<Vec<u8>, HolderQuestion> {
    let mut hosts = BTreeMap::new();
    for (question, named) in files.iter().zip(replicas) {
        for host in named.iter().flatten() {
            hosts.entry(host.clone()).or_insert_with(|| question.clone());
        }
    }
    hosts
}

fn sum_up(
    files: &[HolderQuestion],
    replicas: Vec<Answer>,
    unresponsive: BTreeMap<Vec<u8>, u32>,
) -> Reached {
    let reach = |named: Answer| match named {
        Err(_) => Reach::Unknown,
        Ok(mut hosts) => {
            hosts.retain(|host| !unresponsive.contains_key(host));
            if hosts.is_empty() { Reach::Nowhere } else { Reach::Hosts(hosts) }
        }
    };
    let files = files.iter().zip(replicas).map(|((id, _), named)| (*id, reach(named))).collect();
    Reached { files, unresponsive }
}

/// Whether `host` hands out the first byte of a file in time. What the catalogue refuses says nothing of the host.
async fn hands_out(host: &[u8], path: &[u8]) -> bool {
    let question = (0, [host, b"\t", path].concat());
    let answered = converse(Some(HANDED_OUT_WITHIN), async |from, to| {
        let (mut answers, ended) = ask(from, to, &[question]).await;
        ended?;
        answers.pop_front().ok_or_else(|| "ended".to_owned())
    });
    match answered.await {
        Ok(Ok(hosts)) => !hosts.is_empty(),
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<HolderQuestion> {
        [(7, "/a"), (8, "/b"), (9, "/c"), (10, "/d")]
            .map(|(id, path)| (id, path.as_bytes().to_vec()))
            .to_vec()
    }

    fn replicas() -> Vec<Answer> {
        let hosts = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        vec![
            Ok(hosts(&["one"])),
            Ok(hosts(&["two", "one"])),
            Ok(Vec::new()),
            Err("no such file or directory".to_owned()),
        ]
    }

    #[test]
    fn each_host_is_asked_for_one_file() {
        let asked = one_of_each(&files(), &replicas());
        let expected = [("one", 7, "/a"), ("two", 8, "/b")];
        let expected = expected.map(|(host, id, path)| (host.into(), (id, path.into())));
        assert_eq!(asked, BTreeMap::from(expected));
    }

    #[test]
    fn a_file_is_out_of_reach_when_all_its_hosts_are_unresponsive_and_when_it_has_none() {
        let unresponsive = BTreeMap::from([(b"one".to_vec(), 7)]);
        let reached = sum_up(&files(), replicas(), unresponsive);
        let two = Reach::Hosts(vec![b"two".to_vec()]);
        let expected = [(7, Reach::Nowhere), (8, two), (9, Reach::Nowhere), (10, Reach::Unknown)];
        assert_eq!(reached.files, expected);
    }
}
