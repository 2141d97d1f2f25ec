//! The fuzz bodies on stable Rust, with the corpora and with former findings of the fuzzer.

use sip::stream::websocket::{Kind, write_frame};
use test_support::{corpora, files};

/// Calls `body` with every SIP file of the corpora.
fn over_corpora(body: fn(&[u8])) {
    over(&["sip-fuzz", "sip-messages", "rfc4475", "rfc5118"], 500, body);
}

/// Calls `body` with every file in these folders of the corpora, and asserts that there are more
/// than `least`.
fn over(folders: &[&str], least: usize, body: fn(&[u8])) {
    let Some(root) = corpora() else { return };
    let mut count = 0;
    for folder in folders {
        for file in files(&root.join(folder)) {
            let bytes = std::fs::read(&file).expect("a file of the corpora can be read");
            eprintln!("{}", file.display());
            body(&bytes);
            count += 1;
        }
    }
    assert!(count > least, "the corpora hold only {count} files");
}

#[test]
fn messages_of_the_corpora() {
    over_corpora(fuzz_bodies::message);
}

#[test]
fn requests_of_the_corpora_to_the_engine() {
    over_corpora(|bytes| drop(fuzz_bodies::engine(bytes)));
}

#[test]
fn streams_of_the_corpora() {
    over_corpora(fuzz_bodies::framer);
}

#[test]
fn web_sockets_of_the_corpora() {
    over_corpora(|bytes| {
        for choice in 0..4 {
            fuzz_bodies::websocket(&[&[choice], bytes].concat());
        }
        let mut framed = vec![0];
        for message in bytes.chunks(700) {
            let mask = Some([1, 2, 3, message[0]]);
            write_frame(&mut framed, Kind::Text, mask, message);
            write_frame(&mut framed, Kind::Ping, mask, &message[..message.len().min(125)]);
        }
        fuzz_bodies::websocket(&framed);
    });
}

#[test]
fn packets_of_the_corpora() {
    over(&["rtp-rtcp", "srtp"], 100, |bytes| {
        // Some packets follow a byte that selects their type.
        for bytes in [bytes, bytes.get(1..).unwrap_or_default()] {
            fuzz_bodies::rtp(bytes);
            fuzz_bodies::rtcp(bytes);
        }
        for choice in 0..18 {
            let packet = &bytes[..bytes.len().min(255)];
            fuzz_bodies::srtp(&[&[choice, choice, packet.len() as u8], packet].concat());
        }
    });
}

#[test]
fn descriptions_of_the_corpora() {
    over(&["sdp", "srtp/pjsip-sdes-seed"], 200, |bytes| {
        fuzz_bodies::sdp(bytes);
        let text = String::from_utf8_lossy(bytes);
        let attributes = text.lines().filter_map(|line| line.strip_prefix("a=crypto:"));
        attributes.for_each(|value| fuzz_bodies::sdes(value.as_bytes()));
    });
}

#[test]
fn calls_of_the_corpora() {
    over(&["sdp", "srtp/pjsip-sdes-seed"], 200, |bytes| {
        for choice in [0, 1, 2, 0x81] {
            fuzz_bodies::negotiation(&[&[choice], bytes].concat());
        }
    });
    over(&["rtp-rtcp", "stun"], 100, |bytes| {
        fuzz_bodies::stun(bytes);
        for choice in [0, 1, 0x10, 0x11] {
            // From the other end and from a stranger, unchanged and with the header of the stream.
            let datagram = &bytes[..bytes.len().min(255)];
            let events =
                [0, 1, 2, 3].map(|event| [&[event, datagram.len() as u8], datagram].concat());
            fuzz_bodies::session(
                &[&[choice, 4, 4, 12][..], &events.concat(), &[7, 9, 11]].concat(),
            );
        }
    });
}

/// Corrupted copies of `bytes`, as from a network, a faulty sender or an attacker.
fn corrupted_copies(bytes: &[u8], seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut state = seed;
    // SplitMix64: the same copies in every run.
    let mut random = |bound: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    };
    const ODD: [&[u8]; 12] = [
        b"\0",
        b"\r",
        b"\n",
        b"\r\n",
        b"\"",
        b"<",
        b">",
        b",",
        b";",
        b"%",
        b"\xff",
        b"99999999999",
    ];
    (0..count)
        .map(|_| {
            let mut copy = bytes.to_vec();
            for _ in 0..=random(3) {
                let (at, length) = (random(copy.len()), random(12));
                let end = (at + length).min(copy.len());
                match random(5) {
                    0 => drop(copy.drain(at..end)),
                    1 => drop(copy.splice(at..at, ODD[random(ODD.len())].iter().copied())),
                    2 => drop(copy.splice(at..end, ODD[random(ODD.len())].iter().copied())),
                    3 => copy.truncate(at),
                    _ => {
                        let piece = copy[at..end].to_vec();
                        let to = random(copy.len());
                        drop(copy.splice(to..to, piece));
                    }
                }
            }
            copy
        })
        .collect()
}

#[test]
fn corrupted_copies_of_the_corpora() {
    let Some(corpora) = corpora() else { return };
    for folder in ["sip-messages", "sip-fuzz/pjsip-sip", "sip-fuzz/sipgo", "rfc4475/dat", "rfc5118"]
    {
        for (seed, path) in (0..).zip(files(&corpora.join(folder))) {
            let bytes = std::fs::read(&path).unwrap();
            for (number, copy) in corrupted_copies(&bytes, seed, 20).into_iter().enumerate() {
                fuzz_bodies::message(&copy);
                fuzz_bodies::framer(&copy);
                if number < 4 {
                    fuzz_bodies::engine(&copy);
                }
            }
        }
    }
}

#[test]
fn random_events_reach_all_of_the_engine() {
    let mut totals = std::collections::BTreeMap::new();
    for seed in 0u64..1000 {
        // SplitMix64, for reproducible runs.
        let mut state = seed;
        let bytes: Vec<u8> = (0..300)
            .flat_map(|_| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mixed ^ (mixed >> 31)).to_le_bytes()
            })
            .collect();
        for (name, count) in fuzz_bodies::engine(&bytes) {
            *totals.entry(name).or_insert(0) += count;
        }
    }
    // Random events do not produce five valid requests of one user within a second.
    totals.remove("user-limited");
    // Nor calls to a phone that has refused one and answered through a B2BUA, which is not here.
    totals.remove("b2bua-at-once");
    // Nor the events of an office: its numbers, services and database are not here.
    for name in [
        "do-not-disturb",
        "forward-limit",
        "forward-loops",
        "forwards",
        "numbers-refused",
        "unknown-for-now",
        "watching-denied",
    ] {
        totals.remove(name);
    }
    // Nor keep-alives and phones that sleep: they are switched on by no event.
    for name in ["keep-alive-responses", "keep-alives", "sleeping-phones", "woken-phones"] {
        totals.remove(name);
    }
    // Nor descriptions with unusable keys, or with a port of the relay.
    for name in ["relay-keys", "relay-own-ports"] {
        totals.remove(name);
    }
    let missing: Vec<_> = totals.iter().filter(|(_, count)| **count == 0).collect();
    assert!(missing.is_empty(), "never counted: {missing:?} of {totals:?}");
}
