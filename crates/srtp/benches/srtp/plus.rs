//! The costs and savings of SRTP+, as in tables 2 and 3 and figure 8 of the SRTP+ paper
//! (docs/sources.md).

use crate::measure;
use crate::parts::time;
use crate::peers::{Ours, Peer};
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use barebell_srtp::plus::{Placement, Scheme, SrtpPlus};
use barebell_srtp::{Policy, Suite};
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher;
use std::hint::black_box;

fn policy(suite: Suite, plus: Option<(Scheme, Placement)>) -> Policy {
    let mut policy = Policy::new(suite);
    policy.plus = plus.map(|(scheme, placement)| SrtpPlus { scheme, placement });
    policy
}

pub(crate) fn print() {
    schemes();
    functions();
    key_sizes();
}

/// Table 2 with whole packets: the additional cost of receiving with each scheme, and the speed-up
/// of rejecting a forged packet.
fn schemes() {
    println!("\nSRTP+ over whole packets, ns (table 2 of the paper)\n");
    println!(
        "| suite | scheme | tag | protect | unprotect | refuse | steady-state overhead | attack speed-up | theirs, Pentium 4 |"
    );
    println!("| --- | --- | --- {}|", "| --: ".repeat(6));
    for suite in [Suite::AesCm128HmacSha1_80, Suite::AeadAes128Gcm] {
        let trailer = Placement::Trailer;
        let rows = [
            ("none", None, "-"),
            ("1, pseudorandom sequence", Some((Scheme::SEQUENCE, trailer)), "26 %, 3.8"),
            ("2, keyed hash", Some((Scheme::Hash, trailer)), "68 %, 1.5"),
            ("3, chained numbers", Some((Scheme::CHAIN, trailer)), "6 %, 16.5"),
            ("3, of 32 bits", Some((Scheme::Chain { numbers: 32, bits: 32 }, trailer)), "-"),
            ("4, header block", Some((Scheme::Header, trailer)), "-"),
            ("4, in the header", Some((Scheme::Header, Placement::Extension(1))), "-"),
        ];
        let mut peers: Vec<Box<dyn Peer>> = rows
            .iter()
            .map(|(_, plus, _)| -> Box<dyn Peer> { Box::new(Ours::new(&policy(suite, *plus), 1)) })
            .collect();
        let medians = measure(&mut peers, &[0]);
        let [_, alone, refused_alone] = medians[0];
        for ((name, plus, theirs), [protect, unprotect, refuse]) in rows.iter().zip(medians) {
            let place = match plus {
                None => "-",
                Some((_, Placement::Trailer)) => "behind",
                Some((_, Placement::Extension(_))) => "extension",
            };
            // A forged packet has a wrong last byte. With the SRTP+ tag in the header, that byte
            // belongs to SRTP's own tag.
            let is_told = place != "extension";
            let refused = if is_told { format!("{refuse:.0}") } else { "-".into() };
            let speed_up =
                if is_told { format!("{:.1}", refused_alone / refuse) } else { "-".into() };
            println!(
                "| {suite} | {name} | {place} | {protect:.0} | {unprotect:.0} | {refused} | {:.0} % | {speed_up} | {theirs} |",
                100.0 * (unprotect / alone - 1.0),
            );
        }
    }
}

/// Candidate functions of scheme 4 over a block of at most 16 bytes, and table 3.
fn functions() {
    println!(
        "\nns per tag of a header, by function; table 3 of the paper measures a SHA-1 block\n"
    );
    println!("| function | ns | paper |\n| --- | --: | --: |");
    let block = [7_u8; 16];
    let aes128 = aes::Aes128Enc::new(&block.into());
    let aes256 = aes::Aes256Enc::new(&[7; 32].into());
    let sip24 = SipHasher24::new_with_key(&block);
    let sip13 = SipHasher13::new_with_key(&block);
    let row = |name: &str, nanos: f64, theirs: &str| println!("| {name} | {nanos:.1} | {theirs} |");
    row(
        "AES-128, one block",
        time(|| {
            let mut block = black_box(block).into();
            aes128.encrypt_block(&mut block);
            black_box(block);
        }),
        "-",
    );
    row(
        "AES-256, one block",
        time(|| {
            let mut block = black_box(block).into();
            aes256.encrypt_block(&mut block);
            black_box(block);
        }),
        "-",
    );
    row(
        "SipHash-2-4, 16 bytes",
        time(|| {
            let mut sip = sip24;
            sip.write(&black_box(block));
            black_box(sip.finish());
        }),
        "-",
    );
    row(
        "SipHash-1-3, 16 bytes",
        time(|| {
            let mut sip = sip13;
            sip.write(&black_box(block));
            black_box(sip.finish());
        }),
        "-",
    );
    row(
        "SHA-1, one block (Table 3)",
        time(|| {
            let mut state = black_box([7; 5]);
            sha1::block_api::compress(&mut state, &[black_box([7; 64])]);
            black_box(state);
        }),
        "1,400",
    );
    row(
        "HMAC-SHA1, two blocks (pads precomputed)",
        time(|| {
            let mut state = black_box([7; 5]);
            sha1::block_api::compress(&mut state, &[black_box([7; 64])]);
            sha1::block_api::compress(&mut state, &[black_box([7; 64])]);
            black_box(state);
        }),
        "-",
    );
}

/// Figure 8: the time per number of scheme 1, by key length.
fn key_sizes() {
    println!("\nns per number of scheme 1, by key length (figure 8 of the paper)\n");
    println!("| bits | ns |\n| --: | --: |");
    let sizes = [160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480, 512];
    let suite = Suite::AesCm128HmacSha1_80;
    let scheme = |key_bits| Some((Scheme::Sequence { key_bits }, Placement::Trailer));
    let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(Ours::new(&policy(suite, None), 1))];
    for bits in sizes {
        peers.push(Box::new(Ours::new(&policy(suite, scheme(bits)), 1)));
    }
    let medians = measure(&mut peers, &[0]);
    for (bits, [protect, _, _]) in sizes.iter().zip(&medians[1..]) {
        println!("| {bits} | {:.0} |", protect - medians[0][0]);
    }
}
