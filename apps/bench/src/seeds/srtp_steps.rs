//! The costs of the steps of SRTP and SRTP+, without a network but for the socket's own.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use nix::time::{ClockId, clock_gettime};
use rtp::packet::HeaderFields;
use serde::{Deserialize, Serialize};
use srtp::plus::{Placement, Scheme, SrtpPlus};
use srtp::{MasterKey, Policy, Receiver, Sender, Suite};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// The payload of 20 ms of G.711, and the packet without a tag.
const PAYLOAD: usize = 160;
const PACKET: usize = 12 + PAYLOAD;
/// The packets or calls that are timed together.
const COUNT: usize = 500;
/// The packets ahead of the last one that a forged one may have the number of: those of scheme 3.
const NEAR: usize = 32;
/// The number of packets for which scheme 1 computes its numbers at once (docs/srtp-plus.md).
const EPOCH: usize = 32;
/// The seed of the random numbers of scheme 3.
const SEED: [u8; 32] = [0x42; 32];
/// The key lengths of scheme 1 in bits.
const KEY_BITS: [usize; 12] = [160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480, 512];

/// The costs in nanoseconds of CPU time; medians of rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Costs {
    /// The rounds.
    pub(crate) rounds: usize,
    /// By the name of the suite.
    pub(crate) suites: BTreeMap<String, SuiteCosts>,
    /// Whole packets with AES-CM of 128 bits and a tag of 80 bits, alone and with each scheme of
    /// SRTP+.
    pub(crate) plus: BTreeMap<String, Whole>,
    /// Whole packets without SRTP: plain ones, and with schemes 1 and 2 of SRTP+ alone.
    #[serde(default)]
    pub(crate) without_srtp: BTreeMap<String, Whole>,
    /// The receipt of a packet with scheme 1.
    #[serde(default)]
    pub(crate) ahead: Ahead,
    /// The protection of a packet by the key length of scheme 1 in bits, less that without it.
    pub(crate) sequence: BTreeMap<usize, f64>,
    /// SHA-1 of one block, of two and of four: an HMAC of one block and one of 172 bytes with the
    /// pads hashed ahead.
    pub(crate) sha1: [f64; 3],
    /// AES of one block, with keys of 128, 192 and 256 bits.
    pub(crate) aes: [f64; 3],
}

/// The costs of the steps with one suite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SuiteCosts {
    pub(crate) derivation: f64,
    pub(crate) encryption: f64,
    pub(crate) decryption: f64,
    pub(crate) authentication: f64,
    /// The check of a tag.
    pub(crate) check: f64,
    pub(crate) replay: f64,
    /// Sending and receiving a datagram of that length on loopback.
    pub(crate) headers_out: f64,
    pub(crate) headers_in: f64,
}

/// The costs of a whole packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Whole {
    pub(crate) protect: f64,
    pub(crate) unprotect: f64,
    /// The refusal of a forged packet; zero without a tag.
    pub(crate) refuse: f64,
}

/// The receipt of a packet with SRTP and scheme 1, which computes numbers for many packets at once,
/// ahead of their arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ahead {
    /// A packet with a known number.
    pub(crate) arrival: f64,
    /// The numbers of the packets to come, for one of them.
    pub(crate) numbers: f64,
}

/// A sender and a receiver with the times of their rounds.
struct Session {
    sender: Sender,
    receiver: Receiver,
    sequence: u16,
    refuses: bool,
    times: [Vec<f64>; 3],
}

impl Session {
    fn new(policy: &Policy) -> Self {
        let keys = || vec![master(policy.suite)];
        Self {
            // Scheme 3 draws its numbers from the seed.
            sender: Sender::new(policy, keys()).expect("the policy is valid").with_seed(&SEED),
            receiver: Receiver::new(policy, keys()).expect("the policy is valid"),
            sequence: 1,
            refuses: policy.authenticate_rtp || policy.plus.is_some(),
            times: Default::default(),
        }
    }

    /// Makes two rounds. The first one fills the caches that other sessions have displaced, and
    /// introduces the source to the receiver; it is not counted.
    fn rounds(&mut self) {
        for is_counted in [false, true] {
            let times = self.round(is_counted);
            if is_counted {
                self.times.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
            }
        }
    }

    /// Returns plain packets, with the length of each.
    fn packets(&mut self) -> Vec<([u8; PACKET + 148], usize)> {
        let mut packets = vec![([0_u8; PACKET + 148], PACKET); COUNT];
        for (buffer, _) in &mut packets {
            self.sequence = self.sequence.wrapping_add(1);
            let header = HeaderFields {
                sequence_number: self.sequence,
                timestamp: u32::from(self.sequence) * PAYLOAD as u32,
                ssrc: 7,
                ..HeaderFields::default()
            };
            header.write(&[0x55; PAYLOAD], buffer).expect("the buffer has room for the packet");
        }
        packets
    }

    fn protect(&mut self, packets: &mut [([u8; PACKET + 148], usize)]) {
        for (buffer, length) in packets {
            *length = self.sender.protect(buffer, *length).expect("the packet is protected");
        }
    }

    /// Receives packets with scheme 1, and returns the time of one with a known number, and that
    /// of one that is the first of [`EPOCH`]: at its receipt the numbers of the next ones are
    /// computed.
    fn receive_ahead(&mut self) -> [f64; 2] {
        let mut packets = self.packets();
        self.protect(&mut packets);
        let (mut known, mut first) = (Vec::new(), Vec::new());
        let clock = {
            let begun = cpu_time();
            (cpu_time() - begun).as_nanos() as f64
        };
        let sequence = self.sequence;
        let mut number = sequence.wrapping_sub(COUNT as u16 - 1);
        let mut rest = &mut packets[..];
        while !rest.is_empty() {
            let is_first = usize::from(number) % EPOCH == 0;
            let count = if is_first { 1 } else { EPOCH - usize::from(number) % EPOCH };
            let (now, later) = rest.split_at_mut(count.min(rest.len()));
            let count = now.len();
            let begun = cpu_time();
            for (buffer, length) in &mut *now {
                let found = self.receiver.unprotect(&mut buffer[..*length]);
                black_box(found.expect("the packet is authentic"));
            }
            let spent = ((cpu_time() - begun).as_nanos() as f64 - clock) / count as f64;
            if is_first { &mut first } else { &mut known }.push(spent);
            (rest, number) = (later, number.wrapping_add(count as u16));
        }
        [median(known), median(first)]
    }

    /// Protects packets, presents forged ones to the receiver, if that is wanted, then the genuine
    /// ones. Returns the times of a packet.
    fn round(&mut self, forges: bool) -> [f64; 3] {
        let mut packets = self.packets();
        let protect = nanos(|| self.protect(&mut packets));
        let mut refuse = 0.0;
        if self.refuses && forges {
            // Forged packets are near the expected ones and leave no state.
            let near = packets.iter().take(NEAR).cycle().take(COUNT);
            let mut forged: Vec<_> = near.copied().collect();
            for (buffer, length) in &mut forged {
                buffer[*length - 1] ^= 1;
            }
            refuse = nanos(|| {
                for (buffer, length) in &mut forged {
                    let found = self.receiver.unprotect(&mut buffer[..*length]);
                    assert!(black_box(found).is_err(), "a forged packet was accepted");
                }
            });
        }
        let unprotect = nanos(|| {
            for (buffer, length) in &mut packets {
                let found = self.receiver.unprotect(&mut buffer[..*length]);
                black_box(found.expect("the packet is authentic"));
            }
        });
        [protect, unprotect, refuse]
    }

    fn costs(self) -> Whole {
        let [protect, unprotect, refuse] = self.times.map(median);
        Whole { protect, unprotect, refuse }
    }
}

fn master(suite: Suite) -> MasterKey {
    let bytes = vec![0x42; suite.key_length() + suite.salt_length()];
    MasterKey::new(suite, &bytes).expect("the key length matches the suite")
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("the thread has a CPU clock").into()
}

/// Returns the CPU time of one of [`COUNT`] calls or packets in nanoseconds.
fn nanos(work: impl FnOnce()) -> f64 {
    let begun = cpu_time();
    work();
    (cpu_time() - begun).as_nanos() as f64 / COUNT as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns the median time of a call of `work`.
fn time(rounds: usize, mut work: impl FnMut()) -> f64 {
    median((0..rounds).map(|_| nanos(|| (0..COUNT).for_each(|_| work()))).collect())
}

/// Measures all costs.
///
/// # Errors
/// A socket cannot be opened, or fails.
pub(crate) fn measure(rounds: usize) -> io::Result<Costs> {
    let mut costs = Costs { rounds, ..Costs::default() };
    for suite in Suite::ALL.into_iter().filter(|suite| suite.name().starts_with("AES_")) {
        costs.suites.insert(suite.name().to_owned(), of_suite(suite, rounds)?);
    }
    (costs.plus, costs.sequence) = plus(rounds);
    costs.without_srtp = without_srtp(rounds);
    costs.ahead = ahead(rounds);
    costs.sha1 = [1, 2, 4].map(|blocks| {
        time(rounds, || {
            let mut state = black_box([7; 5]);
            for _ in 0..blocks {
                sha1::block_api::compress(&mut state, &[black_box([7; 64])]);
            }
            black_box(state);
        })
    });
    let keys = (
        aes::Aes128Enc::new(&[7; 16].into()),
        aes::Aes192Enc::new(&[7; 24].into()),
        aes::Aes256Enc::new(&[7; 32].into()),
    );
    costs.aes = [
        time(rounds, || encrypt_block(&keys.0)),
        time(rounds, || encrypt_block(&keys.1)),
        time(rounds, || encrypt_block(&keys.2)),
    ];
    Ok(costs)
}

fn encrypt_block<C>(cipher: &C)
where
    C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    let mut block = black_box([7; 16]).into();
    cipher.encrypt_block(&mut block);
    black_box(block);
}

fn of_suite(suite: Suite, rounds: usize) -> io::Result<SuiteCosts> {
    let whole = Policy::new(suite);
    let [mut plain, mut bare] = [whole.clone(), whole.clone()];
    plain.encrypt_rtp = false;
    bare.authenticate_rtp = false;
    let mut neither = bare.clone();
    neither.encrypt_rtp = false;
    // The sessions take turns, so that a busy machine slows all of them.
    let mut sessions = [&plain, &bare, &neither].map(Session::new);
    for _ in 0..rounds {
        sessions.iter_mut().for_each(Session::rounds);
    }
    let [plain, bare, neither] = sessions.map(Session::costs);
    let derivation = time(rounds, || {
        black_box(Sender::new(&whole, vec![master(suite)]).expect("the policy is valid"));
    });
    let mut packet = [0; PACKET + 148];
    let mut sender = Sender::new(&whole, vec![master(suite)]).expect("the policy is valid");
    let mut receiver = Receiver::new(&whole, vec![master(suite)]).expect("the policy is valid");
    let header = HeaderFields { sequence_number: 1, ssrc: 7, ..HeaderFields::default() };
    header.write(&[0x55; PAYLOAD], &mut packet).expect("the buffer has room for the packet");
    let length = sender.protect(&mut packet, PACKET).expect("the packet is protected");
    let mut copy = packet;
    assert!(receiver.unprotect(&mut copy[..length]).is_ok(), "the packet is authentic");
    let replay =
        time(rounds, || assert!(black_box(receiver.unprotect(&mut packet[..length])).is_err()));
    let (headers_out, headers_in) = socket(length, rounds)?;
    Ok(SuiteCosts {
        derivation,
        encryption: bare.protect - neither.protect,
        decryption: bare.unprotect - neither.unprotect,
        authentication: plain.protect - neither.protect,
        check: plain.unprotect - neither.unprotect,
        replay,
        headers_out,
        headers_in,
    })
}

/// Returns the times of sending and of receiving a datagram of `length` on loopback.
fn socket(length: usize, rounds: usize) -> io::Result<(f64, f64)> {
    /// So few that the receiver's buffer holds all.
    const QUEUED: usize = 50;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    receiver.set_read_timeout(Some(Duration::from_secs(1)))?;
    let packet = vec![0x55; length];
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for _ in 0..rounds * COUNT / QUEUED {
        let begun = cpu_time();
        for _ in 0..QUEUED {
            sender.send(&packet)?;
        }
        let sent = cpu_time();
        let mut buffer = [0; PACKET + 148];
        for _ in 0..QUEUED {
            receiver.recv(&mut buffer)?;
        }
        out.push((sent - begun).as_nanos() as f64 / QUEUED as f64);
        back.push((cpu_time() - sent).as_nanos() as f64 / QUEUED as f64);
    }
    Ok((median(out), median(back)))
}

/// Returns the costs of whole packets with each scheme, and those of scheme 1 by its key length.
fn plus(rounds: usize) -> (BTreeMap<String, Whole>, BTreeMap<usize, f64>) {
    let policy = |scheme: Option<Scheme>| {
        let mut policy = Policy::new(Suite::AesCm128HmacSha1_80);
        policy.plus = scheme.map(|scheme| SrtpPlus { scheme, placement: Placement::Trailer });
        policy
    };
    let schemes = [
        ("SRTP", None),
        ("scheme 1", Some(Scheme::SEQUENCE)),
        ("scheme 2", Some(Scheme::Hash)),
        ("scheme 3", Some(Scheme::CHAIN)),
        ("scheme 4", Some(Scheme::Header)),
    ];
    let keys = KEY_BITS.map(|key_bits| Some(Scheme::Sequence { key_bits }));
    let all = schemes.iter().map(|(_, scheme)| *scheme).chain(keys);
    let mut sessions: Vec<Session> = all.map(|scheme| Session::new(&policy(scheme))).collect();
    for _ in 0..rounds {
        sessions.iter_mut().for_each(Session::rounds);
    }
    let costs: Vec<Whole> = sessions.into_iter().map(Session::costs).collect();
    let alone = costs[0].protect;
    let whole = schemes.iter().zip(&costs).map(|((name, _), costs)| ((*name).to_owned(), *costs));
    let sequence = KEY_BITS.into_iter().zip(&costs[schemes.len()..]);
    (whole.collect(), sequence.map(|(bits, costs)| (bits, costs.protect - alone)).collect())
}

/// Returns the costs of whole packets without SRTP.
fn without_srtp(rounds: usize) -> BTreeMap<String, Whole> {
    let policy = |scheme: Option<Scheme>| {
        let mut policy = Policy::new(Suite::AesCm128HmacSha1_80);
        (policy.encrypt_rtp, policy.authenticate_rtp) = (false, false);
        policy.plus = scheme.map(|scheme| SrtpPlus { scheme, placement: Placement::Trailer });
        policy
    };
    let schemes =
        [("RTP", None), ("scheme 1", Some(Scheme::SEQUENCE)), ("scheme 2", Some(Scheme::Hash))];
    let mut sessions = schemes.map(|(_, scheme)| Session::new(&policy(scheme)));
    for _ in 0..rounds {
        sessions.iter_mut().for_each(Session::rounds);
    }
    let names = schemes.map(|(name, _)| name.to_owned());
    names.into_iter().zip(sessions.map(Session::costs)).collect()
}

/// Returns the costs of the receipt of packets with scheme 1.
fn ahead(rounds: usize) -> Ahead {
    let mut policy = Policy::new(Suite::AesCm128HmacSha1_80);
    policy.plus = Some(SrtpPlus { scheme: Scheme::SEQUENCE, placement: Placement::Trailer });
    let mut session = Session::new(&policy);
    let (mut known, mut first) = (Vec::new(), Vec::new());
    // The first round introduces the source.
    for times in (0..=rounds).map(|_| session.receive_ahead()).skip(1) {
        known.push(times[0]);
        first.push(times[1]);
    }
    let (arrival, first) = (median(known), median(first));
    Ahead { arrival, numbers: (first - arrival) / EPOCH as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_each_suite_has_a_cost() {
        let costs = measure(3).unwrap();
        assert_eq!(costs.suites.len(), 6, "{:?}", costs.suites.keys());
        for (name, steps) in &costs.suites {
            for cost in [steps.derivation, steps.authentication, steps.headers_out, steps.replay] {
                assert!(cost > 0.0, "{name}: {steps:?}");
            }
        }
        assert!(costs.plus.values().all(|whole| whole.refuse > 0.0), "{:?}", costs.plus);
        assert_eq!(costs.sequence.len(), KEY_BITS.len());
        let without = costs.without_srtp;
        assert_eq!(without.keys().collect::<Vec<_>>(), ["RTP", "scheme 1", "scheme 2"]);
        assert!(without["scheme 1"].refuse > 0.0 && without["scheme 2"].refuse > 0.0);
        assert!(costs.ahead.arrival > 0.0 && costs.ahead.numbers > 0.0, "{:?}", costs.ahead);
    }
}
