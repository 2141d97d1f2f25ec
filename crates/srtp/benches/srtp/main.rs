//! The cost of SRTP compared with libsrtp in the same run: `cargo bench -p barebell-srtp`. With
//! arguments, for one suite: `cargo bench -p barebell-srtp -- AEAD_AES_128_GCM`, optionally
//! followed by a number of sessions and `scattered` for sessions in random memory order. `-- parts`
//! measures the single steps of SRTP, `-- plus` measures SRTP+.
//!
//! Each figure is a median over rounds with all implementations in turn, in nanoseconds of
//! the thread's CPU time for one packet of G.711: 12 bytes of header, 160 of payload.

mod parts;
mod peers;
mod plus;

use barebell_srtp::{Policy, Suite};
use peers::{Batches, Ours, Packet, Peer, Theirs};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::process::Command;
use std::time::Duration;

/// The number of rounds of each measurement.
const ROUNDS: usize = 61;

/// The argument for sessions in random memory order.
const SCATTERED: &str = "scattered";

/// The number of packets in a round.
const PACKETS: usize = 1_000;

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("the thread has a CPU clock").into()
}

/// The time of `work` divided by `count`, in nanoseconds.
fn nanos(count: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_time();
    work();
    (cpu_time() - start).as_nanos() as f64 / count as f64
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The times of one implementation to protect a packet, to check and decrypt one, and to reject a
/// forged one.
#[derive(Default)]
struct Costs {
    protect: Vec<f64>,
    unprotect: Vec<f64>,
    reject: Vec<f64>,
}

/// A round of packets, one session after another. (All rounds use the same packet buffers, so no
/// figure includes the cost of fresh memory.)
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
            rtp::packet::HeaderFields { sequence_number, timestamp, ssrc: 7, ..Default::default() };
        packet.length = fields
            .write(&[0x5a; 160], &mut packet.buffer)
            .expect("the buffer has room for the packet");
    }
    let protect = nanos(count, || peer.protect(packets));
    // Forged packets are near the expected ones and leave no state.
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

/// The median times of each peer to protect, to check and decrypt, and to reject, with sessions in
/// this order.
fn measure(peers: &mut [Box<dyn Peer>], order: &[usize]) -> Vec<[f64; 3]> {
    let mut costs: Vec<Costs> = peers.iter().map(|_| Costs::default()).collect();
    let sessions = order.len();
    let count = PACKETS.max(sessions);
    let packets = || order.iter().copied().cycle().take(count).map(Packet::new).collect();
    let mut room = [packets(), packets()];
    for number in 0..ROUNDS {
        for (peer, costs) in peers.iter_mut().zip(&mut costs) {
            // The first of two rounds fills the caches that the other peers have displaced, and
            // introduces the sources to receivers. It is not counted.
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
        "ns per packet: {}, Barebell with single packets and in batches, and the speed-up\n",
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

/// Measures in a process of its own, so that no row depends on the memory layout that others left.
fn row(suite: Suite, more: &[&str]) {
    let program = std::env::current_exe().expect("the path of this program is known");
    let status = Command::new(program).arg(suite.to_string()).args(more).status();
    assert!(status.expect("this program can be started").success(), "{suite} {more:?}");
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
                    "expected no argument, `plus`, `parts`, or a suite, optionally with a number of sessions and \
                     `{SCATTERED}`"
                ),
            }
        }
    }
}
