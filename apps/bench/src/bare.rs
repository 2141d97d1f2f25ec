//! The bare exchange: datagrams of the same sizes at the same rate between two threads that do not
//! parse them. Every load generator has at least this cost, so it is the reference for the
//! generator's own cost.

use crate::cpu::Cpu;
use crate::load::links::LinkCounts;
use crate::load::worker::tick_for;
use crate::measure::LoadSpec;
use crate::record::Operation;
use net::{BATCH, Inbox, Options, Outbox, Outgoing, Socket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest datagram in bytes.
const LONGEST: usize = 8192;
/// The interval of the responder's checks for the end, in milliseconds.
const LOOK: u16 = 20;

/// The parameters of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exchange {
    /// The round trips of one operation in order: the bytes of the request (at least 1), and of the
    /// reply, 0 for no reply. Each begins after the end of the one before. A call with both ends is
    /// six: INVITE, 180, 200, ACK, BYE and 200, each there and back through the server.
    pub(crate) sizes: Vec<(usize, usize)>,
    /// The number of sockets of the initiator. The round trips of an operation use them in turn.
    pub(crate) sockets: usize,
    /// Operations per second.
    pub(crate) rate: f64,
    /// The length in seconds.
    pub(crate) seconds: f64,
    /// The initiator sleeps to the next multiple of this, then sends due requests and reads
    /// replies.
    pub(crate) clock: Duration,
}

impl Exchange {
    /// Returns the exchange with the number and length of the datagrams in `traffic`, in which
    /// `operations` ended, with the given tick of the `clock`.
    pub(crate) fn like(
        traffic: &LinkCounts,
        operations: u64,
        spec: &LoadSpec,
        clock: Option<sip::Duration>,
    ) -> Self {
        let mean = |octets: u64, count: u64| (octets / count.max(1)) as usize;
        let trips = (traffic.sent as f64 / operations.max(1) as f64).round().max(1.0) as usize;
        let (sent, received) = (
            mean(traffic.sent_octets, traffic.sent),
            mean(traffic.received_octets, traffic.received),
        );
        let clock = clock.unwrap_or_else(|| tick_for(spec.rate()));
        Self {
            sizes: vec![(sent.max(1), received); trips],
            // As the generator has them: one for callers, one for callees.
            sockets: if spec.operation == Operation::Invite { 2 } else { 1 },
            rate: spec.rate(),
            seconds: spec.seconds(),
            clock: clock.into(),
        }
    }
}

/// The cost of an exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BareCost {
    /// CPU time of the initiator, user and system, per operation, in microseconds.
    pub(crate) initiator_us: f64,
    /// CPU time of the responder per operation, in microseconds.
    pub(crate) responder_us: f64,
    /// Ended operations per second.
    pub(crate) rate: f64,
}

/// Exchanges datagrams on loopback, with sockets as the load generator has them: batched, with
/// timestamps, the initiator's connected; but without segmentation offload. As there, requests of
/// new operations are sent first, then those that follow replies. It takes `exchange.seconds`.
///
/// # Errors
/// A socket cannot be opened or fails, no reply came, or `exchange` is invalid: no round trips or
/// more than 256, an empty request, datagrams above 8,192 bytes, no socket, a rate or time that is
/// not above 0.
pub(crate) fn measure(exchange: &Exchange) -> io::Result<BareCost> {
    let is_possible = (1..=256).contains(&exchange.sizes.len())
        && exchange.sockets > 0
        && exchange
            .sizes
            .iter()
            .all(|&(request, reply)| (1..=LONGEST).contains(&request) && reply <= LONGEST)
        && [exchange.rate, exchange.seconds].iter().all(|&it| it.is_finite() && it > 0.0);
    if !is_possible {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the exchange is not possible"));
    }
    let options = Options { is_timed: true, ..Options::default() };
    let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let responder = Socket::bind(loopback, options)?;
    let mut initiators = Vec::new();
    for _ in 0..exchange.sockets {
        let initiator = Socket::bind(loopback, options)?;
        initiator.connect(responder.address())?;
        initiators.push(initiator);
    }
    let ending = AtomicBool::new(false);
    let (begun, answered) = thread::scope(|scope| {
        let answering = scope.spawn(|| respond(&responder, &exchange.sizes, &ending));
        let beginning = scope.spawn(|| initiate(&initiators, exchange));
        let begun = beginning.join();
        ending.store(true, Ordering::Release);
        (begun, answering.join())
    });
    let panicked = |_| io::Error::other("a thread of the exchange panicked");
    let ((cpu, ended, elapsed), answered) =
        (begun.map_err(panicked)??, answered.map_err(panicked)??);
    if ended == 0 {
        return Err(io::Error::other("no operation of the bare exchange was completed"));
    }
    Ok(BareCost {
        initiator_us: cpu as f64 / ended as f64,
        responder_us: answered as f64 / ended as f64,
        rate: ended as f64 / elapsed.as_secs_f64(),
    })
}

/// Returns a datagram for each round trip, of the length that `size` returns; the first byte is its
/// index.
fn datagrams(sizes: &[(usize, usize)], size: impl Fn(&(usize, usize)) -> usize) -> Vec<Vec<u8>> {
    let whole = sizes.iter().enumerate().map(|(index, sizes)| vec![index as u8; size(sizes)]);
    whole.collect()
}

/// Runs operations. Returns its CPU time, the number of ended operations, and the elapsed time.
fn initiate(sockets: &[Socket], exchange: &Exchange) -> io::Result<(u64, u64, Duration)> {
    let requests = datagrams(&exchange.sizes, |(request, _)| *request);
    let mut inbox = Inbox::new(BATCH, LONGEST);
    let mut outbox = Outbox::default();
    // The round trips to start, by socket.
    let mut to_send = vec![Vec::new(); sockets.len()];
    let mut send = |to_send: &mut [Vec<usize>]| {
        for (socket, steps) in sockets.iter().zip(to_send).filter(|(_, steps)| !steps.is_empty()) {
            let local = socket.address().ip();
            let outgoing = |step: usize| Outgoing { remote: None, local, bytes: &requests[step] };
            outbox.send(socket, steps.drain(..).map(outgoing), |_| ());
        }
    };
    let (mut begun, mut ended) = (0u64, 0u64);
    let clock = exchange.clock.max(Duration::from_micros(1));
    let cpu = Cpu::of_thread();
    let start = Instant::now();
    let mut tick = start;
    loop {
        let elapsed = start.elapsed();
        if elapsed.as_secs_f64() >= exchange.seconds {
            return Ok((Cpu::of_thread().since(cpu).total(), ended, elapsed));
        }
        let due = (elapsed.as_secs_f64() * exchange.rate) as u64;
        let mut go_on = |mut step: usize, to_send: &mut [Vec<usize>]| loop {
            let Some((_, reply)) = exchange.sizes.get(step) else {
                ended += 1;
                return;
            };
            to_send[step % sockets.len()].push(step);
            if *reply > 0 {
                return;
            }
            step += 1;
        };
        while begun < due {
            begun += 1;
            go_on(0, &mut to_send);
        }
        send(&mut to_send);
        loop {
            let mut is_more = false;
            for socket in sockets {
                let count = inbox.receive(socket, |received| {
                    if let Some(&step) = received.bytes.first() {
                        go_on(usize::from(step) + 1, &mut to_send);
                    }
                })?;
                is_more |= count == BATCH;
            }
            send(&mut to_send);
            if !is_more {
                break;
            }
        }
        let now = Instant::now();
        while tick <= now {
            // Missed ticks are skipped.
            tick += clock * u32::try_from((now - tick).as_nanos() / clock.as_nanos()).unwrap_or(0)
                + clock;
        }
        thread::sleep(tick - now);
    }
}

/// Replies to datagrams until `ending` is set. Returns its CPU time.
fn respond(socket: &Socket, sizes: &[(usize, usize)], ending: &AtomicBool) -> io::Result<u64> {
    let replies = datagrams(sizes, |(_, reply)| *reply);
    let mut inbox = Inbox::new(BATCH, LONGEST);
    let mut outbox = Outbox::default();
    let mut to_send = Vec::new();
    let local = socket.address().ip();
    let cpu = Cpu::of_thread();
    while !ending.load(Ordering::Acquire) {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(LOOK)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            other => other?,
        };
        inbox.receive(socket, |received| {
            let reply = received.bytes.first().and_then(|&step| replies.get(usize::from(step)));
            if let Some(bytes) = reply.filter(|reply| !reply.is_empty()) {
                to_send.push(Outgoing { remote: Some(received.remote), local, bytes });
            }
        })?;
        outbox.send(socket, to_send.drain(..), |_| ());
    }
    Ok(Cpu::of_thread().since(cpu).total())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sizes: &[(usize, usize)]) -> Exchange {
        Exchange {
            sizes: sizes.to_vec(),
            sockets: 1,
            rate: 2000.0,
            seconds: 0.3,
            clock: Duration::from_micros(500),
        }
    }

    #[test]
    fn operations_of_several_round_trips_come_to_their_end_and_cost_something() {
        for sizes in [&[(600, 400)][..], &[(800, 300), (400, 0), (400, 300)], &[(1, 1); 16]] {
            let mut exchange = exchange(sizes);
            if sizes.len() > 10 {
                exchange.rate = 100.0;
                exchange.clock = Duration::ZERO;
                exchange.sockets = 2;
            }
            let cost = measure(&exchange).unwrap();
            assert!(cost.initiator_us > 0.0 && cost.responder_us > 0.0, "{cost:?}");
            assert!(cost.rate > 0.0 && cost.rate <= exchange.rate, "{cost:?}");
        }
    }

    #[test]
    fn impossible_exchanges_are_refused() {
        let good = exchange(&[(1, 1)]);
        for bad in [
            exchange(&[]),
            exchange(&[(0, 1)]),
            exchange(&[(1, LONGEST + 1)]),
            exchange(&[(1, 1); 257]),
            Exchange { sockets: 0, ..good.clone() },
            Exchange { rate: 0.0, ..good.clone() },
            Exchange { seconds: f64::NAN, ..good },
        ] {
            assert_eq!(measure(&bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad:?}");
        }
    }
}
