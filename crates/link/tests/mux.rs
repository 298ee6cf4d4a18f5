//! Channels over one connection: each as if it were alone, and all at an end with the connection.

use rakuda_link::mux::{self, Channel, Opener};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Runs `test` with the two sides of a connection, which ends when the sender of the third is dropped.
fn with_connection<F: Future<Output = ()>>(
    test: impl FnOnce(Opener, UnboundedReceiver<Channel>, tokio::sync::oneshot::Sender<()>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (hub, leader): (DuplexStream, DuplexStream) = duplex(4096);
        let (hub_reader, hub_writer) = split(hub);
        let (leader_reader, leader_writer) = split(leader);
        let (opener, hub_side) = mux::connect(hub_reader, hub_writer);
        let (sender, channels) = unbounded_channel();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        tokio::task::spawn_local(async move {
            tokio::select! {
                _ = hub_side => {}
                _ = ended => {}
            }
        });
        tokio::task::spawn_local(async move {
            mux::accept(leader_reader, leader_writer, move |channel| drop(sender.send(channel)))
                .await
        });
        test(opener, channels, end).await;
    });
}

#[test]
fn a_channel_that_nobody_reads_holds_up_no_other() {
    with_connection(async |opener, mut channels, _end| {
        let mut stalled = opener.open().await.unwrap();
        let stalled = tokio::task::spawn_local(async move {
            // Far more than is ever kept on the way.
            let _ = stalled.write_all(&vec![0; 8 << 20]).await;
        });
        let _not_read = channels.recv().await.unwrap();
        let mut other = opener.open().await.unwrap();
        let (mut told, mut answered) = (vec![0; 100_000], vec![0; 100_000]);
        let ask = async {
            other.write_all(&vec![5; 100_000]).await.unwrap();
            other.read_exact(&mut answered).await.unwrap();
        };
        let answer = async {
            let mut channel = channels.recv().await.unwrap();
            channel.read_exact(&mut told).await.unwrap();
            channel.write_all(&told).await.unwrap();
            channel.flush().await.unwrap();
            channel
        };
        tokio::join!(ask, answer);
        assert!(answered.iter().all(|byte| *byte == 5));
        assert!(!stalled.is_finished(), "all of it has gone, and nobody has read it");
    });
}

#[test]
fn a_channel_that_is_dropped_ends_for_the_other_side() {
    with_connection(async |opener, mut channels, _end| {
        let mut channel = opener.open().await.unwrap();
        channel.write_all(b"last").await.unwrap();
        let mut taken = channels.recv().await.unwrap();
        let mut read = [0; 4];
        taken.read_exact(&mut read).await.unwrap();
        drop(channel);
        assert_eq!(taken.read(&mut read).await.unwrap_or(0), 0);
    });
}

#[test]
fn all_channels_end_with_their_connection() {
    with_connection(async |opener, mut channels, end| {
        let mut channel = opener.open().await.unwrap();
        channel.write_all(b"x").await.unwrap();
        let _taken = channels.recv().await.unwrap();
        drop(end);
        let mut read = [0; 4];
        assert_eq!(channel.read(&mut read).await.unwrap_or(0), 0);
        assert!(opener.open().await.is_none());
    });
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the hub's side sends for one channel with some bytes.
async fn true_bytes() -> Vec<u8> {
    let (hub, mut line) = duplex(1 << 16);
    let (reader, writer) = split(hub);
    let (opener, connection) = mux::connect(reader, writer);
    let mut bytes = vec![0; 1 << 16];
    let send = async {
        let mut channel = opener.open().await.unwrap();
        channel.write_all(b"some bytes").await.unwrap();
        channel.shutdown().await.unwrap();
        // The frames have been written when the line is read to their end.
        let mut length = 0;
        while !bytes[..length].windows(10).any(|part| part == b"some bytes") {
            length += line.read(&mut bytes[length..]).await.unwrap();
        }
        length
    };
    let length = tokio::select! {
        _ = connection => panic!("it goes on as long as it is there"),
        length = send => length,
    };
    bytes.truncate(length);
    bytes
}

#[test]
fn random_and_damaged_bytes_end_the_connection_and_nothing_else() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let good = true_bytes().await;
        let mut taken = 0;
        for seed in 0..3_000_u64 {
            let mut state = seed;
            let mut bytes = good.clone();
            if seed % 3 == 0 {
                bytes = (0..64).map(|_| random(&mut state) as u8).collect();
            }
            if seed % 3 == 1 {
                for _ in 0..=random(&mut state) % 3 {
                    let at = random(&mut state) as usize % bytes.len();
                    bytes[at] ^= 1 << (random(&mut state) % 8);
                }
            }
            // Both sides end when their input does, whatever it was.
            mux::accept(bytes.as_slice(), tokio::io::sink(), |_| taken += 1).await;
            mux::connect(bytes.as_slice(), tokio::io::sink()).1.await;
        }
        assert!(taken > 1_000, "{taken} channels were taken");
    });
}
