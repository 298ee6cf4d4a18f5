//! Decoders given what nobody would send: random bytes, and true ones with some changed. They may
//! refuse; they may not panic, nor hold more than what came. Each round has its seed, which is
//! printed when it fails.

use rakuda_link::credentials::{Authority, Credentials};
use rakuda_link::frame::{
    DataFrame, Decoder, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Kind, encode, encode_ack,
};
use rakuda_link::invitation::Invitation;
use rakuda_link::relay::{self, Pieces};
use rakuda_link::session::{Limits, Session};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, CommandId, OutputDescriptor};
use rakuda_proto::cluster::{Call, FromAgent, Hello, NodeFacts, Role, ToAgent, Welcome};
use rakuda_proto::front::Usage;

const ROUNDS: u64 = 20_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// Changes, removes and adds a few bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, self.next() as u8),
                _ => bytes.truncate(at),
            }
        }
    }
}

fn messages() -> Vec<FromAgent> {
    let output = |bytes| {
        FromAgent::Event(AgentEvent::OutputWritten {
            command: CommandId(3),
            descriptor: OutputDescriptor::Stderr,
            bytes,
        })
    };
    vec![
        output(vec![255; 300]),
        output(b"text".to_vec()),
        FromAgent::Event(AgentEvent::CommandExited {
            command: CommandId(1),
            status: 9,
            process: 77,
            captured: Some(Text::from("captured")),
            error: None,
            usage: Usage::default(),
            lingers: true,
            is_outlived: false,
        }),
        FromAgent::Resident { probe: 4, files: vec![None, Some((1, 2))] },
        FromAgent::Signalled { groups: 2 },
    ]
}

/// A stream as an agent would send it after its hello.
fn stream() -> Vec<u8> {
    let mut data = DataFrame::for_messages();
    for message in messages() {
        let write = |out: &mut Vec<u8>| rmp_serde::encode::write(out, &message).unwrap();
        data.push(1 << 20, write).unwrap();
    }
    let mut out = data.finish(1);
    let long = rmp_serde::to_vec(&messages()[0]).unwrap();
    let (first, second) = long.split_at(100);
    out.extend(DataFrame::for_part(false, first).finish(2));
    out.extend(DataFrame::for_part(true, second).finish(3));
    encode(&mut out, Kind::Beat, b"");
    encode(&mut out, Kind::State, &[7; 40]);
    encode_ack(&mut out, 0);
    encode(&mut out, Kind::Bye, b"why");
    out
}

/// Feeds a session in pieces; returns how many messages came before it ended or refused.
fn feed(bytes: &[u8], random: &mut Random, seed: u64) -> usize {
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    let mut session = Session::<FromAgent>::new(Limits::with_silence_ms(1000), 0);
    let mut messages = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(1 + random.below(rest.len()));
        rest = later;
        decoder.buffer_mut().extend_from_slice(now);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    if session.on_frame(0, frame, &mut messages).is_err() {
                        return messages.len();
                    }
                }
                Ok(None) => break,
                Err(_) => return messages.len(),
            }
        }
        let held = decoder.buffer_mut().capacity();
        assert!(held <= 2 * bytes.len() + 64, "seed {seed}: {held} bytes for {}", bytes.len());
    }
    messages.len()
}

#[test]
fn a_true_stream_is_understood_however_it_is_cut() {
    let bytes = stream();
    for seed in 0..200 {
        assert_eq!(feed(&bytes, &mut Random(seed), seed), messages().len() + 1, "seed {seed}");
    }
}

#[test]
fn random_and_damaged_streams_are_refused_or_understood() {
    let good = stream();
    let mut understood = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        feed(&random.bytes(200), &mut Random(seed), seed);
        let mut bytes = good.clone();
        random.damage(&mut bytes);
        understood += usize::from(feed(&bytes, &mut random, seed) > 0);
    }
    // Else the damage is so great that nothing behind the first frame was tried.
    assert!(understood > ROUNDS as usize / 20, "{understood} streams gave a message");
}

/// Decodes as every type that comes from outside.
fn decode_all(bytes: &[u8]) -> usize {
    let results = [
        rmp_serde::from_slice::<FromAgent>(bytes).is_ok(),
        rmp_serde::from_slice::<ToAgent>(bytes).is_ok(),
        rmp_serde::from_slice::<Hello>(bytes).is_ok(),
        rmp_serde::from_slice::<Welcome>(bytes).is_ok(),
        rmp_serde::from_slice::<Call>(bytes).is_ok(),
        Credentials::from_bytes(bytes).is_ok(),
    ];
    results.into_iter().filter(|is_ok| *is_ok).count()
}

#[test]
fn random_and_damaged_messages_are_refused_or_understood() {
    let hello = Hello {
        version: "1".into(),
        token: Text(vec![200; 16]),
        session: 1,
        received: 2,
        facts: NodeFacts::default(),
    };
    let mut good: Vec<Vec<u8>> =
        messages().iter().map(|message| rmp_serde::to_vec(message).unwrap()).collect();
    good.push(rmp_serde::to_vec(&hello).unwrap());
    good.push(
        rmp_serde::to_vec(&ToAgent::Look { probe: 1, paths: vec![Text::from("a")] }).unwrap(),
    );
    let mut understood = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let bytes = random.bytes(64);
        decode_all(&bytes);
        let mut bytes = good[random.below(good.len())].clone();
        random.damage(&mut bytes);
        understood += decode_all(&bytes);
    }
    assert!(understood > ROUNDS as usize / 20, "{understood} were understood");
}

/// What comes through a leader: read to its end; `Err`: it was refused.
fn read_pieces(bytes: &[u8]) -> Result<(Vec<u8>, String), String> {
    use tokio::io::AsyncReadExt as _;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut pieces = Pieces::started(bytes).await.map_err(|error| error.to_string())?;
        let mut read = Vec::new();
        pieces.read_to_end(&mut read).await.map_err(|error| error.to_string())?;
        let words = pieces.last_words().borrow().clone();
        Ok((read, words))
    })
}

fn read_call(bytes: &[u8]) -> Result<Call, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut bytes = bytes;
    runtime.block_on(relay::read_call(&mut bytes)).map_err(|error| error.to_string())
}

/// A stream as a leader would send it.
fn pieces() -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut out = Vec::new();
    runtime.block_on(async {
        relay::say_started(&mut out).await.unwrap();
        relay::pass_pieces(&mut vec![7; 40_000].as_slice(), &mut out).await.unwrap();
        relay::say_ended(&mut out, "it died".into()).await.unwrap();
    });
    out
}

fn call() -> Vec<u8> {
    let ssh_options = vec![Text::from("-p"), Text::from("22")];
    let call =
        Call::Start { host: Some("host1".into()), ssh_options, role: Role::Agent, member: Some(7) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut out = Vec::new();
    runtime.block_on(relay::write_call(&mut out, &call)).unwrap();
    out
}

#[test]
fn what_comes_through_a_leader_is_as_it_was_and_ends_with_its_last_words() {
    assert_eq!(read_pieces(&pieces()), Ok((vec![7; 40_000], "it died".into())));
    let call = read_call(&call());
    assert!(matches!(call, Ok(Call::Start { host: Some(host), .. }) if host == "host1"));
}

#[test]
fn what_no_leader_sends_is_refused() {
    let started = [1, 0, 0, 0, 0];
    let cases: [(&[u8], &str); 6] = [
        (&[], "the connection to the leader ended: "),
        (&[3, 0, 0, 0, 1, 65], "a piece of kind 3 is not expected here"),
        (&[1, 255, 255, 255, 255], "4294967295 bytes at once, and 65536 are the most"),
        (&[2, 0, 0, 0, 1, 0xc1], "it cannot be decoded: "),
        (&[1, 0, 0, 0, 9, 1], "the connection to the leader ended: "),
        (&[9, 0, 0, 0, 0], "a piece of kind 9 is not expected here"),
    ];
    for (bytes, expected) in cases {
        let told = read_pieces(bytes).unwrap_err();
        assert!(told.starts_with(expected), "{bytes:?}: {told}");
    }
    for (more, expected) in [
        (&[3, 0, 1, 0, 1][..], "65537 bytes at once, and 65536 are the most"),
        (&[1, 0, 0, 0, 0], "a piece of kind 1 is not expected here"),
        (&[3, 0, 0, 0, 2, 65], "unexpected end of file"),
        (&[4, 0, 0, 0, 2, 65], "unexpected end of file"),
        (&[3, 0], "unexpected end of file"),
    ] {
        let told = read_pieces(&[&started, more].concat()).unwrap_err();
        assert!(told.starts_with(expected), "{more:?}: {told}");
    }
    assert_eq!(read_pieces(&started), Ok((Vec::new(), String::new())), "the leader is gone");
}

#[test]
fn what_no_hub_asks_for_is_refused() {
    for (bytes, expected) in [
        (&[0, 1, 0, 1][..], "65537 bytes at once, and 65536 are the most"),
        (&[0, 0, 0, 4, 0x91], "the connection to the leader ended: "),
        (&[0, 0, 0, 1, 0xc1], "it cannot be decoded: "),
        (&[0, 0], "the connection to the leader ended: "),
    ] {
        let told = read_call(bytes).unwrap_err();
        assert!(told.starts_with(expected), "{bytes:?}: {told}");
    }
}

#[test]
fn random_and_damaged_streams_of_leaders_are_refused_or_understood() {
    let (good, good_call) = (pieces(), call());
    let mut understood = 0;
    for seed in 0..ROUNDS / 10 {
        let mut random = Random(seed);
        let _ = read_pieces(&random.bytes(64));
        let _ = read_call(&random.bytes(64));
        let mut bytes = good.clone();
        random.damage(&mut bytes);
        if let Ok((read, _)) = read_pieces(&bytes) {
            assert!(read.len() <= bytes.len(), "seed {seed}");
            understood += 1;
        }
        let mut bytes = good_call.clone();
        random.damage(&mut bytes);
        understood += u64::from(read_call(&bytes).is_ok());
    }
    assert!(understood > ROUNDS / 200, "{understood} were understood");
}

#[test]
fn random_and_damaged_invitations_are_refused_or_understood() {
    let credentials = Authority::new().unwrap().issue().unwrap();
    let text = Invitation { address: "10.0.0.1:4711".into(), credentials }.to_text();
    let mut understood = 0;
    for seed in 0..ROUNDS / 10 {
        let mut random = Random(seed);
        let mut bytes = if seed % 2 == 0 { random.bytes(200) } else { text.clone().into_bytes() };
        random.damage(&mut bytes);
        understood += u64::from(Invitation::read_from(bytes.as_slice(), "here").is_ok());
    }
    assert!(understood < ROUNDS / 10, "nearly all are damaged");
}

#[test]
fn lengths_that_promise_much_take_no_memory() {
    // Arrays, maps, strings and bytes of 4 GiB, nested; decoding would fail to allocate, or take for ever.
    for marker in [0xdd, 0xdf, 0xdb, 0xc6, 0xc9] {
        for start in [
            &[][..],
            &[0x91],
            &[0x81, 0xa5, b'E', b'v', b'e', b'n', b't'],
            &[0x82, 0xa6, b'L', b'o', b'o', b'k', b'e', b'd', 0x93, 1],
        ] {
            let bytes = [start, &[marker, 255, 255, 255, 255], &[0x91; 40]].concat();
            assert_eq!(decode_all(&bytes), 0, "{bytes:?}");
        }
    }
    let deep = vec![0x91; HELLO_BYTES_MAX];
    assert_eq!(decode_all(&deep), 0);
}
