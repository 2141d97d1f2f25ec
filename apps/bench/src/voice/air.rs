//! The sending and the reception of packets, with faults and measurements.

use super::end::{CALLER, End};
use super::fault::Faults;
use super::found::Found;
use super::line::{LONGEST, PeerReport, ReceivedPacket};
use net::{Clock, Outbox, Outgoing, Socket};
use sip::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

/// A packet that is sent later.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    at: Instant,
    order: u64,
    /// The end, and its serial number.
    pub(crate) end: (usize, u64),
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// The means of all ends of a worker.
pub(crate) struct Air {
    pub(crate) clock: Clock,
    pub(crate) outbox: Outbox,
    pub(crate) buffer: Box<[u8; LONGEST]>,
    held: BinaryHeap<Reverse<Held>>,
    order: u64,
    pub(crate) found: Found,
    /// True in the measured time.
    pub(crate) is_measuring: bool,
}

impl Air {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            outbox: Outbox::default(),
            buffer: Box::new([0; LONGEST]),
            held: BinaryHeap::new(),
            order: 0,
            found: Found::default(),
            is_measuring: false,
        }
    }

    /// Sends a datagram.
    pub(crate) fn transmit(
        outbox: &mut Outbox,
        found: &mut Found,
        socket: &Socket,
        to: SocketAddr,
        bytes: &[u8],
    ) {
        let outgoing = Outgoing { remote: Some(to), local: socket.address().ip(), bytes };
        outbox.send(socket, [outgoing], |_| found.unsent += 1);
    }

    /// Sends the packet of `length` bytes in the buffer, with the faults of its direction.
    fn send(
        &mut self,
        end: &mut End,
        index: usize,
        faults: &Faults,
        now: Instant,
        length: usize,
        to: SocketAddr,
    ) {
        let Self { outbox, found, buffer, held, order, .. } = self;
        let bytes = &buffer[..length];
        if faults.is_none() {
            return Self::transmit(outbox, found, &end.socket, to, bytes);
        }
        for delay in faults.fate(&mut end.faults).copies() {
            if delay == Duration::ZERO {
                Self::transmit(outbox, found, &end.socket, to, bytes);
                continue;
            }
            *order += 1;
            let end = (index, end.serial);
            let bytes = bytes.to_vec();
            held.push(Reverse(Held { at: now + delay, order: *order, end, to, bytes }));
        }
    }

    /// Returns the next held packet that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Held> {
        if self.held.peek()?.0.at > now {
            return None;
        }
        self.held.pop().map(|Reverse(held)| held)
    }

    /// Returns the time of the next held packet.
    pub(crate) fn next_held(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.at)
    }

    /// Sends the frames of a caller that are due at `until`, and a report.
    pub(crate) fn send_frames(
        &mut self,
        end: &mut End,
        index: usize,
        faults: &Faults,
        until: Instant,
    ) {
        let audio_end = end.audio_end;
        while let Some(line) = &mut end.line
            && let Some(due) = line.due().filter(|&due| due <= until && due < audio_end)
        {
            let to = line.remote();
            let length = line.send_frame(&mut self.buffer[..]);
            let Some((length, to)) = length.zip(to) else { continue };
            let now = self.clock.now();
            if self.is_measuring {
                self.found.media.lag.record(now.since(due));
            }
            // Delays of faults count from the due time, as a packet's time does.
            self.send(end, index, faults, due, length, to);
        }
        self.send_report(end, until);
        self.check(end, until);
    }

    /// Sends the check of an end as in a browser that is due at `now`.
    pub(crate) fn check(&mut self, end: &mut End, now: Instant) {
        let Some(web) = &mut end.web else { return };
        let mut check = Vec::new();
        if let Some(to) = web.poll_check(now, &mut check) {
            Self::transmit(&mut self.outbox, &mut self.found, &end.socket, to, &check);
        }
    }

    fn send_report(&mut self, end: &mut End, now: Instant) {
        let Some(line) = &mut end.line else { return };
        let Some((length, to)) = line.report(now, &mut self.buffer[..]) else { return };
        let Self { outbox, found, buffer, .. } = self;
        Self::transmit(outbox, found, &end.socket, to, &buffer[..length]);
    }

    /// Processes a datagram of an end that arrived at `at`. A callee sends the packet back.
    pub(crate) fn receive(
        &mut self,
        end: &mut End,
        index: usize,
        faults: &Faults,
        bytes: &[u8],
        at: Instant,
    ) {
        if let Some(web) = &mut end.web
            && !matches!(web.receive(bytes), Ok(false))
        {
            // The server has not heard the last message of the handshake. One that goes on is
            // driven by the worker.
            if end.line.is_some() {
                let Self { outbox, found, .. } = self;
                let socket = &end.socket;
                let _ = web.drive(|to, bytes| Self::transmit(outbox, found, socket, to, bytes));
            }
            return;
        }
        let length = bytes.len().min(LONGEST);
        self.buffer[..length].copy_from_slice(&bytes[..length]);
        let Some(line) = &mut end.line else { return };
        let (reports, is_measuring) = (&mut self.found.media.reports, self.is_measuring);
        let heard = line.receive(&mut self.buffer[..], length, at, &mut |told: PeerReport| {
            if let Some(trip) = told.round_trip.filter(|_| is_measuring) {
                reports.round_trip.record(trip);
            }
            if is_measuring {
                reports.max_loss = reports.max_loss.max(told.loss);
            }
        });
        let Some(heard) = heard else { return };
        if end.side == CALLER {
            self.note(end, &heard, at);
            return;
        }
        let length = line.echo(&mut self.buffer[..], heard.length, at);
        let to = line.remote();
        let Some((length, to)) = length.zip(to) else { return };
        let now = self.clock.now();
        let spent = now.since(at);
        if let Some((signal, placed)) = line.heard_signal().zip(heard.placed) {
            signal.turnaround.set(placed.frame, spent);
        }
        self.send(end, index, faults, now, length, to);
        if self.is_measuring {
            self.found.media.turnaround.record(spent);
        }
        self.note(end, &heard, at);
        self.send_report(end, now);
        self.check(end, now);
    }

    /// Records a received packet.
    fn note(&mut self, end: &mut End, heard: &ReceivedPacket, at: Instant) {
        let Some(line) = &end.line else { return };
        let delay = heard.placed.map(|placed| {
            let sent = line.heard_signal().filter(|_| end.side == CALLER);
            let spent = sent.map_or(Duration::ZERO, |sent| sent.turnaround.get(placed.frame));
            Duration::from_micros(placed.delay.as_micros().saturating_sub(spent.as_micros()))
        });
        end.was_heard |= end.side == CALLER && delay.is_some();
        if !self.is_measuring {
            return;
        }
        let media = &mut self.found.media;
        let streams = match end.side {
            CALLER => &mut media.echo,
            _ => media.forward.get_or_insert_default(),
        };
        if let Some(delta) = heard.arrived.delta {
            streams.delta.record(delta);
        }
        if let Some(delay) = delay {
            streams.delay.record(delay);
            end.window.delays += 1;
            end.window.delay_sum = end.window.delay_sum + delay;
        }
        if let (Some(observed), Some(sent)) = (&mut end.observed, &line.sent) {
            observed.at.push(at.since(sent.start).as_micros() as f64 / 1e6);
            let delta = heard.arrived.delta.unwrap_or(Duration::ZERO);
            observed.delta_us.push(delta.as_micros());
            observed.jitter_us.push(line.jitter().as_micros() as u64);
            observed.delay_us.push(delay.map(Duration::as_micros));
        }
    }
}
