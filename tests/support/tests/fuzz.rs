//! The fuzz bodies on stable Rust, with the corpora and with former findings of the fuzzer.

use sip::stream::websocket::{Kind, write_frame};
use std::path::{Path, PathBuf};
use test_support::{corpora, fuzz};

/// All files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("the folder entry can be read").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

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
    over_corpora(fuzz::message);
}

#[test]
fn streams_of_the_corpora() {
    over_corpora(fuzz::framer);
}

#[test]
fn web_sockets_of_the_corpora() {
    over_corpora(|bytes| {
        for choice in 0..4 {
            fuzz::websocket(&[&[choice], bytes].concat());
        }
        let mut framed = vec![0];
        for message in bytes.chunks(700) {
            let mask = Some([1, 2, 3, message[0]]);
            write_frame(&mut framed, Kind::Text, mask, message);
            write_frame(&mut framed, Kind::Ping, mask, &message[..message.len().min(125)]);
        }
        fuzz::websocket(&framed);
    });
}

#[test]
fn packets_of_the_corpora() {
    over(&["rtp-rtcp", "srtp"], 100, |bytes| {
        // Some packets follow a byte that selects their type.
        for bytes in [bytes, bytes.get(1..).unwrap_or_default()] {
            fuzz::rtp(bytes);
            fuzz::rtcp(bytes);
        }
        for choice in 0..18 {
            let packet = &bytes[..bytes.len().min(255)];
            fuzz::srtp(&[&[choice, choice, packet.len() as u8], packet].concat());
        }
    });
}

#[test]
fn descriptions_of_the_corpora() {
    over(&["sdp", "srtp/pjsip-sdes-seed"], 200, |bytes| {
        fuzz::sdp(bytes);
        let text = String::from_utf8_lossy(bytes);
        let attributes = text.lines().filter_map(|line| line.strip_prefix("a=crypto:"));
        attributes.for_each(|value| fuzz::sdes(value.as_bytes()));
    });
}

#[test]
fn calls_of_the_corpora() {
    over(&["sdp", "srtp/pjsip-sdes-seed"], 200, |bytes| {
        for choice in [0, 1, 2, 0x81] {
            fuzz::negotiation(&[&[choice], bytes].concat());
        }
    });
    over(&["rtp-rtcp", "stun"], 100, |bytes| {
        fuzz::stun(bytes);
        for choice in [0, 1, 0x10, 0x11] {
            // From the other end and from a stranger, unchanged and with the header of the stream.
            let datagram = &bytes[..bytes.len().min(255)];
            let events =
                [0, 1, 2, 3].map(|event| [&[event, datagram.len() as u8], datagram].concat());
            fuzz::session(&[&[choice, 4, 4, 12][..], &events.concat(), &[7, 9, 11]].concat());
        }
    });
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
        for (name, count) in fuzz::engine(&bytes) {
            *totals.entry(name).or_insert(0) += count;
        }
    }
    // Random events do not produce five valid requests of one user within a second.
    totals.remove("user-limited");
    let missing: Vec<_> = totals.iter().filter(|(_, count)| **count == 0).collect();
    assert!(missing.is_empty(), "never counted: {missing:?} of {totals:?}");
}
