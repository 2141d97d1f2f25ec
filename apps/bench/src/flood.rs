//! A flood of forged SRTP packets on loopback: the rate of forged packets that a receiver
//! withstands beside the legitimate ones, with SRTP alone and with the additions of SRTP+.
//!
//! One thread sends, another receives; each has its own processor if there are two. Forged packets
//! are those of an attacker that sees the headers of a source: they have its SSRC, and the next
//! sequence numbers, so that a receiver can detect them only by a tag.

use crate::cpu::Cpu;
use crate::record::Histogram;
use net::{BATCH, Inbox, Options, Outbox, Outgoing, Socket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rtp::packet::HeaderFields;
use srtp::{MasterKey, Policy, Receiver, Sender};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest payload in bytes.
pub(crate) const MAX_PAYLOAD: usize = 1300;

/// The longest protected packet in bytes.
const LONGEST: usize = MAX_PAYLOAD + 300;

/// The interval of batches of packets.
const TICK: Duration = Duration::from_micros(500);

/// The interval of the receiver's checks for the end, in milliseconds.
const LOOK: u16 = 20;

/// The time of legitimate packets before the flood.
const PRELUDE: Duration = Duration::from_millis(100);

/// The parameters of a flood.
#[derive(Clone, Debug)]
pub(crate) struct Flood {
    /// The protection of packets; `None` for no protection, which measures the cost of receiving.
    pub(crate) policy: Option<Policy>,
    /// Sources, each with 50 packets per second.
    pub(crate) sources: u32,
    /// Payload bytes of each packet, legitimate or forged.
    pub(crate) payload: usize,
    /// Forged packets per second.
    pub(crate) rate: f64,
    /// The length.
    pub(crate) duration: Duration,
}

/// The result of a flood.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Forged packets that were sent per second: fewer than requested if the sender reached its
    /// limit.
    pub(crate) forged_rate: f64,
    /// Legitimate packets that were sent.
    pub(crate) sent: u64,
    /// Legitimate packets that were accepted.
    pub(crate) accepted: u64,
    /// The receiver's share of a processor.
    pub(crate) busy: f64,
    /// Its CPU time per received packet, in nanoseconds.
    pub(crate) nanos: f64,
    /// The 99th percentile of the sender's delay of legitimate packets, in microseconds.
    pub(crate) lag: u64,
    /// Packets that the sender's kernel did not accept: they were never sent.
    pub(crate) unsent: u64,
}

impl Outcome {
    /// Returns the share of lost legitimate packets.
    pub(crate) fn lost(&self) -> f64 {
        1.0 - self.accepted as f64 / self.sent.max(1) as f64
    }

    /// Returns the reason why the figures may show the sender and not the receiver, if there is
    /// one; `allowed` is the highest delay of the sender.
    pub(crate) fn doubt(&self, allowed: Duration) -> Option<String> {
        if self.unsent > 0 {
            return Some(format!("the sender itself lost {} packets", self.unsent));
        }
        (u128::from(self.lag) > allowed.as_micros()).then(|| {
            format!(
                "the sender was late: one legitimate packet in a hundred left {} ms or more after its time, \
                 {} ms are allowed",
                self.lag / 1000,
                allowed.as_millis()
            )
        })
    }
}

/// The start of the payload of a legitimate packet before its protection. Forged packets have other
/// content.
const GENUINE: [u8; 8] = *b"genuine!";

/// Runs a flood against a receiver.
///
/// # Errors
/// A socket cannot be opened or fails; or a forged packet was accepted although there is a policy.
pub(crate) fn measure(flood: &Flood) -> io::Result<Outcome> {
    let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let target = Socket::bind(loopback, Options::default())?;
    let source = Socket::bind(loopback, Options { is_segmenting: true, ..Options::default() })?;
    source.connect(target.address())?;
    let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let panicked = |_| io::Error::other("a thread of the flood panicked");
    let (sent, received) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&target, flood, &begun, &ended));
        let sending = scope.spawn(|| send(&source, flood, &begun));
        let sent = sending.join();
        ended.store(true, Ordering::Release);
        (sent, receiving.join())
    });
    let (sent, received) = (sent.map_err(panicked)?, received.map_err(panicked)??);
    if flood.policy.is_some() && received.fooled > 0 {
        return Err(io::Error::other(format!("{} forged packets were accepted", received.fooled)));
    }
    Ok(Outcome {
        forged_rate: sent.forged as f64 / sent.elapsed.as_secs_f64(),
        sent: sent.legitimate,
        accepted: received.accepted,
        busy: received.cpu.as_secs_f64() / sent.elapsed.as_secs_f64(),
        nanos: received.cpu.as_nanos() as f64 / received.packets.max(1) as f64,
        lag: sent.lag.percentile(99.0),
        unsent: sent.unsent,
    })
}

fn keys(policy: &Policy) -> Vec<MasterKey> {
    let length = policy.suite.key_length() + policy.suite.salt_length();
    vec![MasterKey::new(policy.suite, &vec![7; length]).expect("a key of the suite's length")]
}

/// The packets sent since the prelude.
struct Sent {
    legitimate: u64,
    forged: u64,
    elapsed: Duration,
    /// The delay of legitimate packets from their due time to the sending.
    lag: Histogram,
    unsent: u64,
}

/// Sends legitimate packets at their rate, and forged ones between them.
fn send(socket: &Socket, flood: &Flood, begun: &AtomicBool) -> Sent {
    let mut sender = flood.policy.as_ref().map(|policy| {
        Sender::new(policy, keys(policy)).expect("a policy that was checked").with_seed(&[1; 32])
    });
    let mut outbox = Outbox::default();
    let local = socket.address().ip();
    let mut payload = vec![0x5a; flood.payload];
    payload[..GENUINE.len()].copy_from_slice(&GENUINE);
    let mut next = vec![0_u16; flood.sources as usize];
    let mut genuine: Vec<Vec<u8>> = Vec::new();
    let mut forged: Vec<Vec<u8>> = Vec::new();
    // The template of a forged packet: a protected one, with other bytes after its header.
    let mut model = Vec::new();

    let legitimate_rate = f64::from(flood.sources) * 50.0;
    let mut sent = Sent {
        legitimate: 0,
        forged: 0,
        elapsed: Duration::ZERO,
        lag: Histogram::default(),
        unsent: 0,
    };
    let mut unsent_before = 0;
    let mut due_at = Vec::new();
    let (mut total, mut noise) = (0_u64, fastrand::Rng::with_seed(1));
    let start = Instant::now();
    let mut flooding: Option<Instant> = None;
    let mut tick = start;
    loop {
        let elapsed = start.elapsed();
        if flooding.is_none() && elapsed >= PRELUDE {
            begun.store(true, Ordering::Release);
            flooding = Some(Instant::now());
            unsent_before = socket.unsent();
        }
        let since = flooding.map_or(Duration::ZERO, |flooding| flooding.elapsed());
        if since >= flood.duration {
            sent.elapsed = since;
            sent.unsent += u64::from(socket.unsent() - unsent_before);
            return sent;
        }
        genuine.clear();
        due_at.clear();
        while (total as f64) < elapsed.as_secs_f64() * legitimate_rate {
            let ssrc = (total % u64::from(flood.sources)) as u32;
            let number = &mut next[ssrc as usize];
            let timestamp = u32::from(*number) * 160;
            let fields = HeaderFields {
                sequence_number: *number,
                timestamp,
                ssrc,
                ..HeaderFields::default()
            };
            *number = number.wrapping_add(1);
            let mut packet = vec![0; LONGEST];
            let length = fields.write(&payload, &mut packet).expect("room for a payload");
            let length = match &mut sender {
                Some(sender) => {
                    sender.protect(&mut packet, length).expect("room for what is added")
                }
                None => length,
            };
            packet.truncate(length);
            model.clone_from(&packet);
            genuine.push(packet);
            due_at.push(total as f64 / legitimate_rate);
            total += 1;
        }
        let due = (since.as_secs_f64() * flood.rate) as u64 - sent.forged;
        // Packets that cannot be sent in time are skipped.
        let due = due.min((flood.rate * TICK.as_secs_f64() * 4.0) as u64 + 1) as usize;
        let due = if model.is_empty() { 0 } else { due };
        forged.resize_with(forged.len().max(due), Vec::new);
        for packet in &mut forged[..due] {
            if packet.len() != model.len() {
                packet.clone_from(&model);
                noise.fill(&mut packet[12..]);
            }
            let ssrc = noise.u32(0..flood.sources);
            let number = next[ssrc as usize].wrapping_add(noise.u16(0..8));
            packet[..12].copy_from_slice(&model[..12]);
            packet[2..4].copy_from_slice(&number.to_be_bytes());
            packet[8..12].copy_from_slice(&ssrc.to_be_bytes());
            // The last bytes are random, so that the tag differs at every position.
            let end = packet.len() - 8;
            packet[end..].copy_from_slice(&noise.u64(..).to_be_bytes());
        }
        let outgoing = |bytes| Outgoing { remote: None, local, bytes };
        let share = due / genuine.len().max(1) + 1;
        let mut rest = forged[..due].iter();
        let mixed = genuine.iter().flat_map(|packet| {
            std::iter::once(packet).chain(rest.by_ref().take(share).collect::<Vec<_>>())
        });
        let mixed: Vec<&Vec<u8>> = mixed.collect();
        let all = mixed.into_iter().chain(rest).map(|packet| outgoing(packet));
        let mut refused = 0;
        let now = start.elapsed().as_secs_f64();
        outbox.send(socket, all, |_| refused += 1);
        if flooding.is_some() {
            sent.unsent += refused;
            for due_at in &due_at {
                let micros = ((now - due_at) * 1e6) as u64;
                sent.lag.record(sip::Duration::from_micros(micros));
            }
            sent.legitimate += genuine.len() as u64;
            sent.forged += due as u64;
        }
        tick = (tick + TICK).max(Instant::now() - TICK);
        thread::sleep(tick.saturating_duration_since(Instant::now()));
    }
}

/// The packets received since the prelude.
#[derive(Default)]
struct Received {
    packets: u64,
    accepted: u64,
    fooled: u64,
    cpu: Duration,
}

/// Receives until the end, and then the packets in the buffer.
fn receive(
    socket: &Socket,
    flood: &Flood,
    begun: &AtomicBool,
    ended: &AtomicBool,
) -> io::Result<Received> {
    let mut receiver = flood
        .policy
        .as_ref()
        .map(|policy| Receiver::new(policy, keys(policy)).expect("a policy that was checked"));
    let mut inbox = Inbox::new(BATCH, LONGEST);
    let mut packet = [0; LONGEST];
    let mut received = Received::default();
    let mut started: Option<Cpu> = None;
    loop {
        if started.is_none() && begun.load(Ordering::Acquire) {
            started = Some(Cpu::of_thread());
            received = Received::default();
        }
        let count = inbox.receive(socket, |datagram| {
            let packet = &mut packet[..datagram.bytes.len()];
            packet.copy_from_slice(datagram.bytes);
            let opened = match &mut receiver {
                Some(receiver) => receiver.unprotect(packet).ok(),
                None => Some(packet),
            };
            received.packets += 1;
            let Some(opened) = opened else { return };
            let payload = rtp::Packet::parse(opened).map(|packet| packet.payload);
            match payload.is_ok_and(|payload| payload.starts_with(&GENUINE)) {
                true => received.accepted += 1,
                false => received.fooled += 1,
            }
        })?;
        if count == 0 {
            if ended.load(Ordering::Acquire) {
                let cpu = Cpu::of_thread().since(started.unwrap_or_default());
                received.cpu = Duration::from_micros(cpu.total());
                return Ok(received);
            }
            poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::from(LOOK))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use srtp::Suite;
    use srtp::plus::{Placement, Scheme, SrtpPlus};

    #[test]
    fn a_late_or_lossy_sender_makes_the_measurement_invalid() {
        let well = Outcome { sent: 9, accepted: 9, lag: 10_000, ..Outcome::default() };
        let allowed = Duration::from_millis(10);
        assert_eq!(well.doubt(allowed), None);
        let late = Outcome { lag: 10_001, ..well };
        assert!(late.doubt(allowed).unwrap().contains("10 ms or more after its time"));
        assert!(Outcome { unsent: 3, ..well }.doubt(allowed).unwrap().contains("lost 3 packets"));
    }

    #[test]
    fn legitimate_packets_come_through_and_forged_ones_do_not() {
        let mut srtp = Policy::new(Suite::AesCm128HmacSha1_80);
        srtp.max_sources = 20;
        let plus = |scheme| {
            let mut policy = srtp.clone();
            policy.plus = Some(SrtpPlus { scheme, placement: Placement::Trailer });
            Some(policy)
        };
        let policies = [
            None,
            Some(srtp.clone()),
            plus(Scheme::SEQUENCE),
            plus(Scheme::CHAIN),
            plus(Scheme::Header),
        ];
        for policy in policies {
            let about = format!("{policy:?}");
            let duration = Duration::from_millis(300);
            let flood = Flood { policy, sources: 20, payload: 160, rate: 2000.0, duration };
            let outcome = measure(&flood).unwrap();
            assert!(outcome.lag > 0, "{about}: {outcome:?}");
            assert!(outcome.sent > 200, "{about}: {outcome:?}");
            assert!(outcome.lost() < 0.05, "{about}: {outcome:?}");
            assert!(outcome.forged_rate > 0.0 && outcome.busy > 0.0, "{about}: {outcome:?}");
        }
    }
}
