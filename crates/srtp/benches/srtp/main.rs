//! What SRTP costs, beside libsrtp in the same run: `cargo bench -p barebell-srtp`, or for one suite alone
//! `cargo bench -p barebell-srtp -- AEAD_AES_128_GCM`; `-- parts` and `-- plus` are what seeds A12 and B5
//! measured.
//!
//! Each figure is the median over rounds in which all that are compared take turns, in nanoseconds of
//! the thread's CPU time for one packet of G.711: 12 bytes of header, 160 of payload.

mod parts;
mod peers;
mod plus;

use peers::{Ours, Peer, Theirs};
use srtp::{Policy, Suite};
use std::hint::black_box;
use std::time::Duration;

/// Rounds of each measurement.
const ROUNDS: usize = 61;

/// Packets in a round.
const PACKETS: usize = 1_000;

/// A header, a payload, and room for what is added.
const BUFFER: usize = 12 + 160 + 148;

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

/// What one peer takes to protect a packet, to check and decrypt one, and to refuse one that is forged.
#[derive(Default)]
struct Costs {
    protect: Vec<f64>,
    unprotect: Vec<f64>,
    reject: Vec<f64>,
}

/// A packet, and room for what is added to it.
#[derive(Clone, Copy)]
struct Packet {
    buffer: [u8; BUFFER],
    length: usize,
}

/// A round of packets over as many sessions, one after the other. (The room for them stays the same for
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
        assert_eq!(fields.write(&[0x5a; 160], &mut packet.buffer), Some(172));
    }
    let turns = || (0..sessions).cycle();
    let protect = nanos(count, || {
        for (packet, session) in packets.iter_mut().zip(turns()) {
            packet.length = peer.protect(session, &mut packet.buffer, 172);
        }
    });
    // Forged ones come beside those that are expected next, and leave nothing behind.
    let near = (32 * sessions).min(count);
    for (place, packet) in forged.iter_mut().enumerate() {
        *packet = packets[place % near];
        packet.buffer[packet.length - 1] ^= 1;
    }
    let may_refuse = round > 0 && peer.refuses();
    let reject = nanos(count, || {
        for (packet, session) in forged.iter_mut().zip(turns()) {
            if may_refuse {
                assert!(!black_box(peer.unprotect(session, &mut packet.buffer[..packet.length])));
            }
        }
    });
    let unprotect = nanos(count, || {
        for (packet, session) in packets.iter_mut().zip(turns()) {
            assert!(peer.unprotect(session, &mut packet.buffer[..packet.length]));
        }
    });
    // The first round fills caches, and lets receivers know the sources.
    if round > 0 {
        costs.protect.push(protect);
        costs.unprotect.push(unprotect);
        costs.reject.push(reject);
    }
}

/// The medians of what peers take to protect, to check and decrypt, and to refuse.
fn measure(peers: &mut [Box<dyn Peer>], sessions: usize) -> Vec<[f64; 3]> {
    let mut costs: Vec<Costs> = peers.iter().map(|_| Costs::default()).collect();
    let empty = Packet { buffer: [0; BUFFER], length: 0 };
    let mut room = [const { Vec::new() }; 2];
    room.iter_mut().for_each(|packets| packets.resize(PACKETS.max(sessions), empty));
    for number in 0..ROUNDS + 1 {
        for (peer, costs) in peers.iter_mut().zip(&mut costs) {
            round(peer.as_mut(), sessions, number, &mut room, costs);
        }
    }
    let medians = |costs: &mut Costs| {
        [&mut costs.protect, &mut costs.unprotect, &mut costs.reject].map(|kind| median(kind))
    };
    costs.iter_mut().map(medians).collect()
}

fn compare(suite: Suite, sessions: usize) {
    let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(Ours::new(&Policy::new(suite), sessions))];
    if suite != Suite::F8128HmacSha1_80 {
        peers.push(Box::new(Theirs::new(suite, sessions)));
    }
    let medians = measure(&mut peers, sessions);
    print!("| {suite} | {sessions} |");
    for kind in 0..3 {
        match medians[..] {
            [ours, theirs] => {
                let (ours, theirs) = (ours[kind], theirs[kind]);
                print!(" {ours:.0} | {theirs:.0} | {:.2} |", theirs / ours);
            }
            [ours] => print!(" {:.0} | - | - |", ours[kind]),
            _ => unreachable!("one peer or two"),
        }
    }
    println!();
}

fn compare_all() {
    println!(
        "ns a packet, ours and those of {}, and how many times as fast we are\n",
        libsrtp::version()
    );
    println!(
        "| suite | sessions | protect: ours | theirs | ratio | unprotect: ours | theirs | ratio \
         | refuse: ours | theirs | ratio |"
    );
    println!("| --- {}|", "| --: ".repeat(10));
    for suite in Suite::ALL {
        compare(suite, 1);
    }
    for sessions in [100, 1000, 10_000] {
        for suite in [Suite::AesCm128HmacSha1_80, Suite::AeadAes128Gcm] {
            compare(suite, sessions);
        }
    }
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
        [name] if Suite::from_name(name).is_some() => {
            Suite::from_name(name).into_iter().for_each(|suite| compare(suite, 1));
        }
        _ => eprintln!("expected nothing, `plus`, `parts` or the name of a suite"),
    }
}
