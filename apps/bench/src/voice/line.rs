//! The negotiated media of one end of a call: its packets, in both directions.

use super::comparison::{AudioComparison, Placed, Sent, Verified};
use super::reception::{Arrived, Reception, StreamFigures};
use super::signal::FRAME_MILLIS;
use super::web::WebKeys;
use media::demultiplex::Kind;
use media::{Keying, PacketPath, SessionError, Stream};
use rtp::ntp::{NtpTime, round_trip};
use rtp::packet::HeaderFields;
use rtp::rtcp::{Compound, Packet as Report, ReportBlock, SdesItem, Writer};
use rtp::{Packet, SenderStats};
use sdp::CryptoAttribute;
use sip::{Duration, Instant};
use std::net::SocketAddr;

/// The longest packet, with room for SRTP.
pub(crate) const LONGEST: usize = 2048;
/// The interval of RTCP reports: the minimum of RFC 3550 section 6.2.
const REPORTS: Duration = Duration::from_secs(5);

/// The random start values of a line (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seed {
    pub(crate) ssrc: u32,
    pub(crate) number: u16,
    pub(crate) timestamp: u32,
}

/// A received packet of audio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedPacket {
    pub(crate) arrived: Arrived,
    /// The place of its frame in the call, if it is known.
    pub(crate) placed: Option<Placed>,
    /// The length of the packet in the buffer, decrypted.
    pub(crate) length: usize,
}

/// A report of the other end about the local stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerReport {
    pub(crate) round_trip: Option<Duration>,
    /// The share of lost packets since the report before.
    pub(crate) loss: f64,
}

/// The media of an end.
pub(crate) struct Line {
    pub(crate) stream: Stream,
    decrypt: PacketPath,
    encrypt: PacketPath,
    /// The keys of a handshake, in place of both paths.
    web: Option<WebKeys>,
    seed: Seed,
    /// The sent signal, if this end is a caller.
    pub(crate) sent: Option<Sent>,
    /// The number of frames that were due.
    pub(crate) frames: u64,
    /// The first received sequence number and timestamp, which an echo counts from.
    echoed: Option<(u16, u32)>,
    reception: Reception,
    ear: Option<AudioComparison>,
    transmission: SenderStats,
    next_report: Instant,
    /// The counts of sent and received reports.
    pub(crate) reports: (u64, u64),
    /// Packets that SRTP has rejected, and those that are neither RTP nor RTCP of the stream.
    pub(crate) refused: u64,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("frames", &self.frames).finish_non_exhaustive()
    }
}

/// Returns the paths of received and of sent packets: those in clear for the keys of a handshake.
fn paths(stream: &Stream) -> Result<(PacketPath, PacketPath), SessionError> {
    let plain = Stream { keying: Keying::None, ..stream.clone() };
    let stream = if stream.keying.dtls().is_some() { &plain } else { stream };
    Ok((PacketPath::new(stream, &plain)?, PacketPath::new(&plain, stream)?))
}

/// Returns true if the keys of one direction are the same.
fn are_same(before: Option<&CryptoAttribute>, after: Option<&CryptoAttribute>) -> bool {
    let parts = |crypto: &CryptoAttribute| {
        let keys = crypto.keys.iter().map(|key| (key.bytes.to_vec(), key.mki.clone()));
        (crypto.policy.clone(), keys.collect::<Vec<_>>())
    };
    before.map(parts) == after.map(parts)
}

/// Returns `at` as the time of RTCP.
fn span(at: Instant) -> std::time::Duration {
    at.since(Instant::ZERO).into()
}

impl Line {
    /// Returns the media of `stream`, with the keys `web` of its handshake if it has one. A caller
    /// sends the signal `sent`; another end sends back what it receives.
    ///
    /// # Errors
    /// [`SessionError::Keys`] if the keys are unusable.
    pub(crate) fn new(
        stream: Stream,
        web: Option<WebKeys>,
        seed: Seed,
        sent: Option<Sent>,
        now: Instant,
    ) -> Result<Self, SessionError> {
        if stream.keying.dtls().is_some() != web.is_some() {
            return Err(SessionError::NoKeys);
        }
        let (decrypt, encrypt) = paths(&stream)?;
        // Reports of many calls are spread over the interval.
        let early = u64::from(seed.ssrc) % (REPORTS.as_micros() / 2);
        Ok(Self {
            decrypt,
            encrypt,
            web,
            transmission: SenderStats::new(stream.codec.clock_rate()),
            stream,
            seed,
            ear: sent.clone().map(AudioComparison::new),
            sent,
            frames: 0,
            echoed: None,
            reception: Reception::default(),
            next_report: now + REPORTS - Duration::from_micros(early),
            reports: (0, 0),
            refused: 0,
        })
    }

    /// Takes over a renegotiated stream. The counters of keys that are the same go on.
    ///
    /// # Errors
    /// [`SessionError::Keys`] if the new keys are unusable.
    pub(crate) fn renew(&mut self, stream: &Stream) -> Result<(), SessionError> {
        let (before, after) = (self.stream.keying.sdes(), stream.keying.sdes());
        let (decrypt, encrypt) = paths(stream)?;
        if !are_same(before.map(|keys| &keys.receive), after.map(|keys| &keys.receive)) {
            self.decrypt = decrypt;
        }
        if !are_same(before.map(|keys| &keys.send), after.map(|keys| &keys.send)) {
            self.encrypt = encrypt;
        }
        self.stream = stream.clone();
        Ok(())
    }

    /// Decrypts the packet in the first `length` bytes of `buffer`; `None` if it is refused.
    fn decrypt(&mut self, buffer: &mut [u8], length: usize) -> Option<usize> {
        match &mut self.web {
            Some(keys) => keys.decrypt(buffer.get_mut(..length)?),
            None => self.decrypt.relay(buffer, length).ok(),
        }
    }

    fn encrypt(&mut self, buffer: &mut [u8], length: usize) -> Option<usize> {
        match &mut self.web {
            Some(keys) => keys.encrypt(buffer, length),
            None => self.encrypt.relay(buffer, length).ok(),
        }
    }

    /// Returns the destination of packets, unless the stream is held.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.stream.remote.filter(|_| self.stream.sends)
    }

    const fn units(&self) -> u32 {
        self.stream.codec.clock_rate() / 50
    }

    /// Returns the due time of the next frame of a caller.
    pub(crate) fn due(&self) -> Option<Instant> {
        let sent = self.sent.as_ref()?;
        Some(sent.start + Duration::from_millis(self.frames * FRAME_MILLIS))
    }

    /// Writes the packet of the next frame to `buffer`, and returns its length. The frame counts as
    /// sent also if the stream is held or has no destination: its time has passed.
    pub(crate) fn send_frame(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let due = self.due()?;
        let sent = self.sent.as_ref()?;
        let frame = self.frames;
        self.frames += 1;
        let fields = HeaderFields {
            marker: frame == 0,
            payload_type: self.stream.send_type,
            // Both numbers wrap.
            sequence_number: self.seed.number.wrapping_add(frame as u16),
            timestamp: self.seed.timestamp.wrapping_add((frame as u32).wrapping_mul(self.units())),
            ssrc: self.seed.ssrc,
        };
        let payload = sent.sound.payload(frame + sent.phase);
        let length = fields.write(payload, buffer).ok()?;
        self.transmission.sent(fields.timestamp, payload.len(), span(due));
        self.encrypt(buffer, length)
    }

    /// Processes a datagram of `length` bytes in `buffer` that arrived at `at`. It is decrypted in
    /// place. Returns the audio packet, or the reports of the other end.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        at: Instant,
        told: &mut impl FnMut(PeerReport),
    ) -> Option<ReceivedPacket> {
        let kind = Kind::of(&buffer[..length]);
        let Some(length) = self.decrypt(buffer, length) else {
            self.refused += 1;
            return None;
        };
        if kind == Kind::Rtcp {
            self.receive_reports(&buffer[..length], at, told);
            return None;
        }
        let packet = Packet::parse(&buffer[..length]).ok()?;
        if packet.header.payload_type() != self.stream.receive_type {
            self.refused += 1;
            return None;
        }
        let arrived = self.reception.receive(&packet.header, self.stream.codec.clock_rate(), at);
        let ear = self.ear.as_mut();
        let placed = ear.and_then(|ear| ear.hear(arrived.number, packet.payload, at));
        Some(ReceivedPacket { arrived, placed, length })
    }

    /// Makes a callee compare what it receives with the signal of its caller.
    pub(crate) fn listen(&mut self, sent: Sent) {
        self.ear.get_or_insert_with(|| AudioComparison::new(sent));
    }

    /// Returns the signal with which received audio is compared.
    pub(crate) fn heard_signal(&self) -> Option<&Sent> {
        self.ear.as_ref().map(AudioComparison::sent)
    }

    /// Turns the received packet in the first `length` bytes of `buffer` into the one that is sent
    /// back, and returns its length. Sequence numbers and timestamps keep their distances, so that
    /// losses and order on the way here show at the other end.
    pub(crate) fn echo(&mut self, buffer: &mut [u8], length: usize, at: Instant) -> Option<usize> {
        let packet = Packet::parse(&buffer[..length]).ok()?;
        let header = packet.header;
        let (number, timestamp) =
            *self.echoed.get_or_insert((header.sequence_number(), header.timestamp()));
        let fields = HeaderFields {
            marker: header.marker(),
            payload_type: self.stream.send_type,
            sequence_number: self
                .seed
                .number
                .wrapping_add(header.sequence_number().wrapping_sub(number)),
            timestamp: self.seed.timestamp.wrapping_add(header.timestamp().wrapping_sub(timestamp)),
            ssrc: self.seed.ssrc,
        };
        let (header_length, payload) = (header.len(), packet.payload.len());
        let fixed = fields.to_bytes();
        buffer.copy_within(header_length..header_length + payload, fixed.len());
        buffer[..fixed.len()].copy_from_slice(&fixed);
        self.transmission.sent(fields.timestamp, payload, span(at));
        self.encrypt(buffer, fixed.len() + payload)
    }

    /// Writes the RTCP report that is due at `now`, and returns its length and destination.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<(usize, SocketAddr)> {
        if now < self.next_report {
            return None;
        }
        self.next_report = now + REPORTS;
        let to = match self.stream.multiplexes_rtcp {
            true => self.stream.remote,
            false => self.stream.remote_rtcp,
        }?;
        let blocks: Vec<ReportBlock> = self.reception.report(now).into_iter().collect();
        let ssrc = self.seed.ssrc;
        let mut writer = Writer::new(buffer);
        match self.transmission.report(span(now)) {
            Some(sender) => writer.sender_report(ssrc, &sender, &blocks),
            None => writer.receiver_report(ssrc, &blocks),
        }
        .ok()?;
        let name = format!("{ssrc:08x}@bench.invalid");
        let name = SdesItem { kind: SdesItem::CNAME, text: name.as_bytes() };
        writer.description(ssrc, &[name]).ok()?;
        let length = writer.len();
        self.reports.0 += 1;
        Some((self.encrypt(buffer, length)?, to))
    }

    fn receive_reports(&mut self, datagram: &[u8], at: Instant, told: &mut impl FnMut(PeerReport)) {
        let Ok(compound) = Compound::parse(datagram) else {
            self.refused += 1;
            return;
        };
        self.reports.1 += 1;
        for packet in compound.packets() {
            let blocks: Vec<ReportBlock> = match packet {
                Report::SenderReport(report) => {
                    self.reception.report_received(report.sender.ntp_time, at);
                    report.blocks().collect()
                }
                Report::ReceiverReport(report) => report.blocks().collect(),
                _ => continue,
            };
            for block in blocks.iter().filter(|block| block.ssrc == self.seed.ssrc) {
                let (last, since) =
                    (block.last_sender_report, block.delay_since_last_sender_report);
                let trip = round_trip(NtpTime::from_unix(span(at)), last, since);
                told(PeerReport {
                    round_trip: trip.map(Duration::from),
                    loss: f64::from(block.fraction_lost) / 256.0,
                });
            }
        }
    }

    /// Returns the current jitter of received packets.
    pub(crate) fn jitter(&self) -> std::time::Duration {
        self.reception.jitter()
    }

    /// Returns the time of the last received packet.
    pub(crate) const fn last_arrival(&self) -> Option<Instant> {
        self.reception.last()
    }

    /// Returns the figures of the received stream, and the results of the comparison, since the
    /// last call; `until` is the time until which the other end was to send, if it is known.
    pub(crate) fn take_figures(&mut self, until: Option<Instant>) -> (StreamFigures, Verified) {
        let figures = std::mem::take(&mut self.reception).figures(until);
        let verified =
            self.ear.as_mut().map(|ear| std::mem::take(&mut ear.verified)).unwrap_or_default();
        (figures, verified)
    }
}
