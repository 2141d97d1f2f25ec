//! How evenly phones send: delta, jitter and throughput of 10,000 packets each way, like with like
//! and unlike, in clear and with SRTP (rows A13 and A17 of docs/sources.md).
//!
//! The calls that are compared by their medians are in each of five rounds, all at once and beside
//! some of the others: what else the machine does meets all of them alike.

use crate::capture::{Capture, Stream};
use crate::setting;
use crate::table::{Table, figure, median, write};
use crate::timer;
use peers::phone::Kind::{self, Bare, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::transport::Transport;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

/// Rounds, of which medians are taken.
const ROUNDS: u64 = 5;
/// How long a call stands: 10,000 packets and some.
const SECONDS: u64 = 203;
/// The same, of calls with real-time priority: 2,000 packets.
const SECONDS_REALTIME: u64 = 42;

const AES_80: &str = "AES_CM_128_HMAC_SHA1_80";
const AES_32: &str = "AES_CM_128_HMAC_SHA1_32";
const AES_192_80: &str = "AES_192_CM_HMAC_SHA1_80";
const AES_192_32: &str = "AES_192_CM_HMAC_SHA1_32";
const AES_256_80: &str = "AES_256_CM_HMAC_SHA1_80";
const AES_256_32: &str = "AES_256_CM_HMAC_SHA1_32";
const GCM_256: &str = "AEAD_AES_256_GCM";
/// No encryption.
const CLEAR: &str = "";

/// A call: who calls whom, and with which suite.
type Pair = (Kind, Kind, &'static str);

/// Those that are in each round.
const REPEATED: [Pair; 7] = [
    (Barebell, Barebell, CLEAR),
    (Baresip, Baresip, CLEAR),
    (Linphone, Linphone, CLEAR),
    (Twinkle, Twinkle, CLEAR),
    (Barebell, Barebell, AES_80),
    (Baresip, Baresip, AES_80),
    (Linphone, Linphone, AES_80),
];

/// Those that are in one. No other phone has 192 bits, baresip 1.0.0 offers one suite and takes
/// three, Debian's Twinkle has no SRTP, and refuses what linphone offers (400).
const SINGLE: [Pair; 21] = [
    (Barebell, Barebell, AES_32),
    (Barebell, Barebell, AES_192_80),
    (Barebell, Barebell, AES_192_32),
    (Barebell, Barebell, AES_256_80),
    (Barebell, Barebell, AES_256_32),
    (Linphone, Linphone, AES_32),
    (Linphone, Linphone, AES_256_80),
    (Linphone, Linphone, AES_256_32),
    (Barebell, Baresip, CLEAR),
    (Barebell, Baresip, AES_80),
    (Barebell, Baresip, AES_32),
    (Barebell, Baresip, GCM_256),
    (Barebell, Linphone, CLEAR),
    (Barebell, Linphone, AES_80),
    (Barebell, Linphone, AES_32),
    (Barebell, Linphone, AES_256_80),
    (Barebell, Linphone, AES_256_32),
    (Barebell, Twinkle, CLEAR),
    (Baresip, Linphone, CLEAR),
    (Baresip, Linphone, AES_80),
    (Baresip, Twinkle, CLEAR),
];

/// A call that was captured: from the caller, and to it.
struct Measured {
    pair: Pair,
    streams: [Stream; 2],
}

/// Measures, and writes `quality.md` (medians), `keys.md` (ours by the length of key and tag) and
/// `pairs.md` (all calls).
pub(crate) fn measure(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder for what is found");
    let rounds = setting("ROUNDS", ROUNDS);
    let span = Duration::from_secs(setting("SECONDS", SECONDS));
    let mut measured = Vec::new();
    for round in 0..rounds {
        let single = SINGLE.iter().enumerate().filter(|(n, _)| *n as u64 % rounds == round);
        let pairs = REPEATED.into_iter().chain(single.map(|(_, pair)| *pair));
        let pairs: Vec<Pair> = pairs.take(setting("PAIRS", 100) as usize).collect();
        eprintln!("round {} of {rounds}: {} calls at once", round + 1, pairs.len());
        measured.extend(talk(&pairs, span, &folder.join(format!("round-{}.pcap", round + 1))));
    }
    write(folder, "quality.md", medians(&measured).text());
    write(folder, "keys.md", keys(&measured).text());
    write(folder, "pairs.md", all(&measured).text());
}

/// Measures the calls that are compared where phones may take real-time priority, and a bare timer
/// that may not beside them. Writes `realtime.md`.
pub(crate) fn measure_realtime(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder for what is found");
    let span = Duration::from_secs(setting("SECONDS", SECONDS_REALTIME));
    let (mut measured, mut wakings) = (Vec::new(), Vec::new());
    for round in 1..=setting("ROUNDS", ROUNDS) {
        eprintln!("round {round}");
        let file = folder.join(format!("realtime-{round}.pcap"));
        let timer = std::thread::spawn(move || timer::wake(span));
        measured.extend(talk(&REPEATED, span, &file));
        wakings.extend(timer.join());
    }
    let mut table = medians(&measured);
    table.row(timer::row(&wakings));
    write(folder, "realtime.md", table.text());
}

/// Has all `pairs` talk at once, and captures that in `file`.
fn talk(pairs: &[Pair], span: Duration, file: &Path) -> Vec<Measured> {
    let capture = Capture::start(file.to_owned(), "lo");
    let all_talk = Barrier::new(pairs.len());
    let ports: Vec<Option<[Vec<u16>; 2]>> = std::thread::scope(|scope| {
        let calls = pairs.iter().map(|&pair| {
            scope.spawn({
                let all_talk = &all_talk;
                move || call(pair, span, all_talk)
            })
        });
        let calls: Vec<_> = calls.collect();
        calls.into_iter().map(|call| call.join().ok()).collect()
    });
    let streams = capture.finish();
    let find = |from: &[u16], to: &[u16]| {
        let is_of = |stream: &&Stream| {
            from.contains(&stream.ports.0) && to.contains(&stream.ports.1) && stream.packets > 500
        };
        streams.iter().find(is_of).cloned()
    };
    let found = pairs.iter().zip(ports).filter_map(|(&pair, ports)| {
        let [caller, callee] = ports?;
        let streams = [find(&caller, &callee)?, find(&callee, &caller)?];
        Some(Measured { pair, streams })
    });
    found.collect()
}

/// One call; gives the ports of both ends.
fn call(pair: Pair, span: Duration, all_talk: &Barrier) -> [Vec<u16>; 2] {
    let (from, to, suite) = pair;
    // Whoever fails must not keep the others waiting.
    let begun = std::panic::catch_unwind(|| {
        let mut callee = Phone::direct(to, account(to, "bob", suite, 1000));
        let mut caller = Phone::direct(from, account(from, "alice", suite, 440));
        caller.dial_until_it_rings(&callee.direct_uri());
        callee.wait_for(Event::Incoming);
        callee.act(&Action::Answer);
        caller.wait_for(Event::Established);
        callee.wait_for(Event::Established);
        (caller, callee)
    });
    all_talk.wait();
    let (mut caller, mut callee) = begun.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    std::thread::sleep(span);
    let ports = [caller.udp_ports(), callee.udp_ports()];
    caller.act(&Action::HangUp);
    callee.wait_for(Event::Ended);
    ports
}

fn account(kind: Kind, user: &str, suite: &'static str, tone: u32) -> Account {
    Account {
        user: user.to_owned(),
        password: String::new(),
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        proxy: None,
        transport: Transport::Udp,
        issuers: None,
        has_server: false,
        listens: true,
        expires: 600,
        tone,
        srtp: if suite == CLEAR { Srtp::Off } else { Srtp::Required },
        // The others take what they are called with.
        suites: if kind == Barebell || user == "alice" { suite } else { "" },
        codecs: "PCMU,PCMA",
        machine: None,
        stun: Vec::new(),
        options: String::new(),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Barebell => "ours",
        Bare => "ours, bare",
        Baresip => "baresip",
        Linphone => "linphone",
        Twinkle => "Twinkle",
    }
}

/// Key and tag of a suite, in bits.
fn words(suite: &str) -> &str {
    match suite {
        CLEAR => "none",
        AES_80 => "128, 80",
        AES_32 => "128, 32",
        AES_192_80 => "192, 80",
        AES_192_32 => "192, 32",
        AES_256_80 => "256, 80",
        AES_256_32 => "256, 32",
        GCM_256 => "256, GCM",
        other => other,
    }
}

/// The worse direction of each call, and of that the medians over all rounds.
fn medians(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "phones",
        "SRTP: key, tag",
        "#calls",
        "#mean delta, ms",
        "#p99.9, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
    ]);
    for pair in REPEATED {
        let calls: Vec<&Measured> = measured.iter().filter(|call| call.pair == pair).collect();
        let worse = |of: fn(&Stream) -> Option<f64>| {
            let worst =
                |call: &&Measured| call.streams.iter().filter_map(of).max_by(f64::total_cmp);
            median(calls.iter().filter_map(worst).collect())
        };
        table.row([
            name(pair.0).to_owned(),
            words(pair.2).to_owned(),
            calls.len().to_string(),
            figure(worse(|stream| Some(stream.mean_delta)), 3),
            figure(worse(|stream| stream.p999_delta), 2),
            figure(worse(|stream| Some(stream.max_delta)), 2),
            figure(worse(|stream| Some(stream.mean_jitter)), 3),
            figure(worse(|stream| Some(stream.max_jitter)), 2),
        ]);
    }
    table
}

/// Ours with ours, the worse direction; of several calls the first.
fn keys(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "SRTP: key, tag",
        "#p99.9 of delta, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
    ]);
    for pair in REPEATED.into_iter().chain(SINGLE) {
        let is_ours = pair.0 == Barebell && pair.1 == Barebell;
        let Some(call) = measured.iter().find(|call| is_ours && call.pair == pair) else {
            continue;
        };
        let worse = |of: fn(&Stream) -> Option<f64>| {
            call.streams.iter().filter_map(of).max_by(f64::total_cmp)
        };
        table.row([
            words(pair.2).to_owned(),
            figure(worse(|stream| stream.p999_delta), 2),
            figure(worse(|stream| Some(stream.max_delta)), 2),
            figure(worse(|stream| Some(stream.mean_jitter)), 3),
            figure(worse(|stream| Some(stream.max_jitter)), 2),
        ]);
    }
    table
}

/// Every call; where a pair has several, the first.
fn all(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "from, to",
        "SRTP: key, tag",
        "codec",
        "#packets",
        "#lost",
        "#mean delta, ms",
        "#p99.9, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
        "#kbit/s",
    ]);
    for pair in REPEATED.into_iter().chain(SINGLE) {
        let Some(call) = measured.iter().find(|call| call.pair == pair) else { continue };
        let [there, back] = &call.streams;
        assert_eq!(there.suite.as_deref().unwrap_or(CLEAR), pair.2, "the suite that was agreed on");
        let both = |of: fn(&Stream) -> String| format!("{}, {}", of(there), of(back));
        table.row([
            format!("{}, {}", name(pair.0), name(pair.1)),
            words(pair.2).to_owned(),
            there.encoding.clone(),
            both(|stream| stream.packets.to_string()),
            both(|stream| stream.lost.to_string()),
            both(|stream| figure(Some(stream.mean_delta), 3)),
            both(|stream| figure(stream.p999_delta, 2)),
            both(|stream| figure(Some(stream.max_delta), 2)),
            both(|stream| figure(Some(stream.mean_jitter), 3)),
            both(|stream| figure(Some(stream.max_jitter), 2)),
            both(|stream| figure(Some(stream.kbit_per_s), 2)),
        ]);
    }
    table
}
