//! What the hub says of a number or a word of the front that it does not know.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use rakuda_hub::{Guard, HubError, RunEnding};
use rakuda_proto::Text;
use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{FrontMessage, HubMessage, Settings};
use serde::Serialize;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How the hub ends after one frame of these messages, and what it has said.
fn say(writer: &mut FrameWriter) -> (Result<RunEnding, HubError>, Vec<HubMessage>) {
    let (mut ours, theirs) = UnixStream::pair().expect("make a socket pair");
    let mut frame = Vec::new();
    writer.finish(&mut frame);
    ours.write_all(&frame).expect("write to the hub");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hub = rakuda_hub::run_with(theirs, Guard::default(), |_, _| Ok(Vec::new()));
    let ending = tokio::task::LocalSet::new().block_on(&runtime, hub);
    let mut reader = FrameReader::default();
    ours.read_to_end(reader.buffer_mut()).expect("read from the hub");
    let mut messages = Vec::new();
    reader.drain(&mut messages).expect("well-formed frames");
    (ending, messages)
}

/// A message as a front writes it that knows more than this hub.
fn push(writer: &mut FrameWriter, name: &str, fields: impl Serialize) {
    writer.push(&BTreeMap::from([(name, fields)]));
}

#[test]
fn a_setting_of_an_unknown_word_is_refused_by_its_name() {
    let mut writer = FrameWriter::default();
    push(&mut writer, "Hello", (VERSION, BTreeMap::from([("failed_target", "hide")])));
    let (ending, messages) = say(&mut writer);
    ending.expect("the hub ends well");
    let [HubMessage::Refused { reason }] = messages.as_slice() else { panic!("{messages:?}") };
    let expected = "protocol: unknown FAILED_TARGET 'hide': expected rename, delete or leave; \
                    the engine does not fit the front: install both from one release";
    assert_eq!(reason.to_display(), expected);
}

#[test]
fn a_task_of_an_unknown_kind_ends_the_link_with_its_number() {
    let settings = Settings {
        directory: Text::from(std::env::temp_dir().to_string_lossy().into_owned()),
        record: false,
        ..Settings::default()
    };
    let mut hello = FrameWriter::default();
    hello.push(&FrontMessage::Hello(VERSION.to_owned(), Box::new(settings)));
    let task = (0, 7, 1, "t", 0, Vec::<u32>::new(), 0, 0, 0);
    push(&mut hello, "DefineTasks", (vec![task],));
    let (ending, _) = say(&mut hello);
    let error = ending.expect_err("there is no such kind").to_string();
    assert!(error.ends_with("protocol: unknown task kind 7"), "{error}");
}
