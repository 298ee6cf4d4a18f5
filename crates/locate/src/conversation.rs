//! One process that answers: questions go out, answers come in, in the same order. It knows the form of both, and not
//! what is at the other end.

use std::collections::VecDeque;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A question: its number, and the path in the file system.
pub type HolderQuestion = (u32, Vec<u8>);
/// The hosts that hold it, or why that is not known.
pub type Answer = Result<Vec<Vec<u8>>, String>;

/// Waits until the other end is ready; or why it never will be.
pub async fn greet(from: &mut (impl AsyncBufRead + Unpin)) -> Result<(), String> {
    match word(from).await?.as_slice() {
        b"ok" => Ok(()),
        [b'!', reason @ ..] => Err(String::from_utf8_lossy(reason).into_owned()),
        other => Err(format!("answered {:?} at first", String::from_utf8_lossy(other))),
    }
}

/// Asks for `chunk`; the answers that came, in order, and why there are no more, where some are missing.
pub async fn ask(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    chunk: &[HolderQuestion],
) -> (VecDeque<Answer>, Result<(), String>) {
    let mut bytes = Vec::new();
    for (_, path) in chunk {
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    let mut answers = VecDeque::with_capacity(chunk.len());
    let writing = async {
        to.write_all(&bytes).await.map_err(|error| error.to_string())?;
        to.flush().await.map_err(|error| error.to_string())
    };
    let reading = async {
        while answers.len() < chunk.len() {
            let word = word(from).await?;
            answers.push_back(match word.strip_prefix(b"!") {
                Some(reason) => Err(String::from_utf8_lossy(reason).into_owned()),
                None => Ok(hosts_in(&word)),
            });
        }
        Ok(())
    };
    let (read, written) = tokio::join!(reading, writing);
    (answers, read.and(written))
}

fn hosts_in(word: &[u8]) -> Vec<Vec<u8>> {
    let hosts = word.split(|byte| *byte == b'\t');
    hosts.filter(|host| !host.is_empty()).map(<[u8]>::to_vec).collect()
}

async fn word(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, String> {
    let mut word = Vec::new();
    from.read_until(0, &mut word).await.map_err(|error| error.to_string())?;
    match word.pop() {
        Some(0) => Ok(word),
        _ => Err("ended".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn chunk() -> Vec<HolderQuestion> {
        vec![(7, b"/a".to_vec()), (3, b"/b".to_vec()), (9, b"/c".to_vec())]
    }

    #[test]
    fn answers_are_those_of_the_questions_in_order() {
        let mut sent = Vec::new();
        let mut from = b"ok\0host1\thost2\t\0!no such file\0\0".as_slice();
        let (answers, ended) = block_on(async {
            greet(&mut from).await.unwrap();
            ask(&mut from, &mut sent, &chunk()).await
        });
        let hosts = vec![b"host1".to_vec(), b"host2".to_vec()];
        assert_eq!(answers, [Ok(hosts), Err("no such file".to_owned()), Ok(Vec::new())]);
        assert_eq!(ended, Ok(()));
        assert_eq!(sent, b"/a\0/b\0/c\0");
    }

    #[test]
    fn who_ends_early_is_found_out_and_what_came_before_counts() {
        let mut from = b"host1\t\0ho".as_slice();
        let (answers, ended) = block_on(ask(&mut from, &mut Vec::new(), &chunk()));
        assert_eq!(answers.len(), 1);
        assert_eq!(ended, Err("ended".to_owned()));
    }

    #[test]
    fn who_cannot_begin_says_why() {
        let refused = block_on(greet(&mut b"!load libgfarm.so.1: not there\0".as_slice()));
        assert_eq!(refused, Err("load libgfarm.so.1: not there".to_owned()));
        assert!(block_on(greet(&mut b"".as_slice())).is_err());
    }
}
