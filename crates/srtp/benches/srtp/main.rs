//! What SRTP costs, beside libsrtp in the same run: `cargo bench -p barebell-srtp`, or for one
//! suite alone `cargo bench -p barebell-srtp -- AEAD_AES_128_GCM`, with a number behind it for so
//! many sessions, and `scattered` for sessions that do not follow one another in memory; `-- parts`
//! and `-- plus` are what rows A12 and B5 of docs/sources.md measured.
//!
//! Each figure is the median over rounds in which all that are compared take turns, in nanoseconds
//! of the thread's CPU time for one packet of G.711: 12 bytes of header, 160 of payload.

mod parts;
mod peers;
mod plus;

use peers::{Batches, Ours, Packet, Peer, Theirs};
use siphasher::sip::SipHasher13;
use srtp::{Policy, Suite};
use std::hash::{Hash, Hasher};
use std::process::Command;
use std::time::Duration;

/// Rounds of each measurement.
const ROUNDS: usize = 61;

/// What is said for sessions that come in no order.
const SCATTERED: &str = "scattered";

/// Packets in a round.
const PACKETS: usize = 1_000;

/// The CPU time that this thread has used.
fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("a clock").into()
}

/// The time that `work` takes for one of `count`, in nanoseconds.
fn nanos(count: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_time();
    work();
    (cpu_time() - start).as_nanos() as f64 / count as f64
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// What one peer takes to protect a packet, to check and decrypt one, and to refuse one that is
/// forged.
#[derive(Default)]
struct Costs {
    protect: Vec<f64>,
    unprotect: Vec<f64>,
    reject: Vec<f64>,
}

/// A round of packets over the sessions, one after the other. (The room for them stays the same for
/// all rounds, so that no figure has fresh memory in it.)
fn round(
    peer: &mut dyn Peer,
    sessions: usize,
    round: usize,
    [packets, forged]: &mut [Vec<Packet>; 2],
    costs: &mut Costs,
) {
    let count = packets.len();
    let per_session = count.div_ceil(sessions);
    for (place, packet) in packets.iter_mut().enumerate() {
        let sequence_number = (round * per_session + place / sessions) as u16;
        let timestamp = u32::from(sequence_number).wrapping_mul(160);
        let fields =
            rtp::packet::Fields { sequence_number, timestamp, ssrc: 7, ..Default::default() };
        packet.length = fields.write(&[0x5a; 160], &mut packet.buffer).expect("room");
    }
    let protect = nanos(count, || peer.protect(packets));
    // Forged ones come beside those that are expected next, and leave nothing behind.
    let near = (32 * sessions).min(count);
    for (place, packet) in forged.iter_mut().enumerate() {
        *packet = packets[place % near];
        packet.buffer[packet.length - 1] ^= 1;
    }
    let may_refuse = round > 0 && peer.refuses();
    let reject = nanos(count, || {
        if may_refuse {
            assert_eq!(peer.unprotect(forged), 0);
        }
    });
    let unprotect = nanos(count, || assert_eq!(peer.unprotect(packets), count));
    costs.protect.push(protect);
    costs.unprotect.push(unprotect);
    costs.reject.push(reject);
}

/// The medians of what peers take to protect, to check and decrypt, and to refuse, if sessions take
/// turns in this order.
fn measure(peers: &mut [Box<dyn Peer>], order: &[usize]) -> Vec<[f64; 3]> {
    let mut costs: Vec<Costs> = peers.iter().map(|_| Costs::default()).collect();
    let sessions = order.len();
    let count = PACKETS.max(sessions);
    let packets = || order.iter().copied().cycle().take(count).map(Packet::new).collect();
    let mut room = [packets(), packets()];
    for number in 0..ROUNDS {
        for (peer, costs) in peers.iter_mut().zip(&mut costs) {
            // The first of two rounds brings into the caches what the other peers have driven out,
            // and in the beginning lets receivers know the sources: it does not count.
            round(peer.as_mut(), sessions, 2 * number, &mut room, &mut Costs::default());
            round(peer.as_mut(), sessions, 2 * number + 1, &mut room, costs);
        }
    }
    let medians = |costs: &mut Costs| {
        [&mut costs.protect, &mut costs.unprotect, &mut costs.reject].map(|kind| median(kind))
    };
    costs.iter_mut().map(medians).collect()
}

fn compare(suite: Suite, sessions: usize, is_scattered: bool) {
    let policy = Policy::new(suite);
    let ours = || Ours::new(&policy, sessions);
    let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(ours()), Box::new(Batches(ours()))];
    if suite != Suite::F8128HmacSha1_80 {
        peers.push(Box::new(Theirs::new(suite, sessions)));
    }
    let mut order: Vec<usize> = (0..sessions).collect();
    if is_scattered {
        order.sort_by_cached_key(|session| {
            let mut hasher = SipHasher13::new();
            session.hash(&mut hasher);
            hasher.finish()
        });
    }
    let medians = measure(&mut peers, &order);
    print!("| {suite} | {sessions}{} |", if is_scattered { " scattered" } else { "" });
    for kind in 0..3 {
        let (one, many) = (medians[0][kind], medians[1][kind]);
        match medians.get(2).map(|theirs| theirs[kind]) {
            Some(theirs) => {
                let (ratio, of_many) = (theirs / one, theirs / many);
                print!(" {theirs:.0} | {one:.0} | {ratio:.2} | {many:.0} | {of_many:.2} |");
            }
            None => print!(" - | {one:.0} | - | {many:.0} | - |"),
        }
    }
    println!();
}

fn compare_all() {
    println!(
        "ns a packet: those of {}, ours one at a time and in batches, and how many times as fast we are\n",
        libsrtp::version()
    );
    let kinds = ["protect", "unprotect", "refuse"];
    let columns = kinds.map(|kind| format!("{kind}: theirs | one | ratio | batch | ratio"));
    println!("| suite | sessions | {} |", columns.join(" | "));
    println!("| --- {}|", "| --: ".repeat(16));
    for suite in Suite::ALL {
        row(suite, &["1"]);
    }
    for more in [&["100"][..], &["1000"], &["10000"], &["10000", SCATTERED]] {
        for suite in [Suite::AesCm128HmacSha1_80, Suite::AeadAes128Gcm] {
            row(suite, more);
        }
    }
}

/// Compares in a process of its own: no row is to depend on the pieces of memory that others have
/// left.
fn row(suite: Suite, more: &[&str]) {
    let program = std::env::current_exe().expect("this program");
    let status = Command::new(program).arg(suite.to_string()).args(more).status();
    assert!(status.expect("another one of it").success(), "{suite} {more:?}");
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|name| !name.starts_with("--")).collect();
    match wanted.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            compare_all();
            parts::print();
            plus::print();
        }
        ["plus"] => plus::print(),
        ["parts"] => parts::print(),
        [name, ref more @ ..] => {
            let (sessions, is_scattered) = match more {
                [] => (Ok(1), false),
                [sessions, more @ ..] => (sessions.parse(), more == [SCATTERED]),
            };
            match (Suite::from_name(name), sessions) {
                (Some(suite), Ok(sessions @ 1..)) => compare(suite, sessions, is_scattered),
                _ => eprintln!(
                    "expected nothing, `plus`, `parts`, or the name of a suite, perhaps with a number of sessions and \
                     `{SCATTERED}`"
                ),
            }
        }
    }
}
