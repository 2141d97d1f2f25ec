//! The path of relayed packets, without codec and jitter buffer.

use crate::demultiplex::Kind;
use crate::error::SessionError;
use crate::negotiation::Stream;
use crate::session::{receiver_of, sender_of};
use core::fmt;
use rtp::{Packet, PacketError};
use srtp::{ProtectError, UnprotectError};

/// One direction of a relay: packets of one leg are verified and decrypted, and encrypted for the
/// other leg. RTP and RTCP are otherwise unchanged: payload types and SSRCs stay. A packet is
/// processed in place, without an allocation after the first packet of its source.
pub struct PacketPath {
    receiver: Option<srtp::Receiver>,
    sender: Option<srtp::Sender>,
}

impl fmt::Debug for PacketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketPath")
            .field("decrypts", &self.receiver.is_some())
            .field("encrypts", &self.sender.is_some())
            .finish()
    }
}

/// The reason why a packet is not relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// It is neither RTP nor RTCP.
    Kind(Kind),
    /// It is not valid RTP.
    Rtp(PacketError),
    /// It is forged, damaged or repeated.
    Unprotect(UnprotectError),
    /// It cannot be encrypted for the other leg: it is too long for its buffer, or was sent before.
    Protect(ProtectError),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "expected RTP or RTCP: {kind:?}"),
            Self::Rtp(error) => error.fmt(f),
            Self::Unprotect(error) => error.fmt(f),
            Self::Protect(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PathError {}

impl PacketPath {
    /// Returns the path of packets that arrive from the other end of `from`, and leave to that of
    /// `to`.
    ///
    /// # Errors
    /// [`SessionError::Keys`] if the keys of a leg are unusable.
    pub fn new(from: &Stream, to: &Stream) -> Result<Self, SessionError> {
        Ok(Self { receiver: receiver_of(from)?, sender: sender_of(to)? })
    }

    /// Processes the packet in the first `length` bytes of `buffer` in place, and returns its new
    /// length. SRTP makes it longer, by the overhead of its suite.
    ///
    /// # Errors
    /// [`PathError`]: the packet is not relayed.
    pub fn relay(&mut self, buffer: &mut [u8], length: usize) -> Result<usize, PathError> {
        let packet = buffer.get_mut(..length).ok_or(PathError::Kind(Kind::Unknown))?;
        let kind = Kind::of(packet);
        let plain = match (kind, &mut self.receiver) {
            (Kind::Rtp, Some(receiver)) => receiver.unprotect(packet),
            (Kind::Rtcp, Some(receiver)) => receiver.unprotect_rtcp(packet),
            (Kind::Rtp | Kind::Rtcp, None) => Ok(packet),
            _ => return Err(PathError::Kind(kind)),
        };
        let plain = plain.map_err(PathError::Unprotect)?;
        if kind == Kind::Rtp {
            Packet::parse(plain).map_err(PathError::Rtp)?;
        }
        let length = plain.len();
        match (kind, &mut self.sender) {
            (Kind::Rtcp, Some(sender)) => sender.protect_rtcp(buffer, length),
            (_, Some(sender)) => sender.protect(buffer, length),
            (_, None) => Ok(length),
        }
        .map_err(PathError::Protect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiation::{MediaConfig, Negotiator, Security};
    use crate::session::{Seed, Session};
    use crate::{Channel, ReportSeed};
    use alloc::vec::Vec;
    use core::time::Duration;

    /// Negotiates a leg: the stream of the relay, and the session of the other end.
    fn leg(security: Security, number: u8) -> (Stream, Session) {
        let media_config = MediaConfig { security, ..MediaConfig::default() };
        let place = |port| ([192, 0, 2, number], port).into();
        let mut seed = number;
        let mut random = |bytes: &mut [u8]| {
            bytes.iter_mut().for_each(|byte| {
                seed = seed.wrapping_mul(37).wrapping_add(11);
                *byte = seed;
            });
        };
        let mut peer = Negotiator::new(media_config.clone(), place(4000), 1);
        let mut relay = Negotiator::new(media_config, place(5000), 2);
        let offer = peer.offer(&mut random);
        let (answer, stream) = relay.answer(&offer, &mut random).expect("an answer");
        let theirs = peer.accept(&answer).expect("a stream");
        let seed = Seed { ssrc: number.into(), sequence_number: 1, timestamp: 0 };
        let mut session = Session::new(theirs, seed).expect("a session");
        let seed =
            ReportSeed { random: [number; 24], time_of_day: Duration::ZERO, extended: false };
        session.start_reports(Duration::ZERO, seed);
        (stream, session)
    }

    #[test]
    fn packets_pass_between_legs_with_other_keys_or_none() {
        for (one, other) in [
            (Security::Off, Security::Off),
            (Security::Required, Security::Off),
            (Security::Off, Security::Required),
            (Security::Required, Security::Required),
        ] {
            let ((from, mut here), (to, mut there)) = (leg(one, 1), leg(other, 2));
            let source = from.remote.expect("an address");
            let mut path = PacketPath::new(&from, &to).expect("usable keys");
            let mut packet = Vec::new();
            let frame: Vec<i16> =
                (0..960).map(|at| if at % 20 < 10 { 8000 } else { -8000 }).collect();
            for _ in 0..50 {
                here.send(&frame[..here.frame_samples()], &mut packet)
                    .unwrap()
                    .expect("a destination");
                let (mut buffer, length) = ([0; 1500], packet.len());
                buffer[..length].copy_from_slice(&packet);
                let length = path.relay(&mut buffer, length).expect("a relayed packet");
                there.receive_on(Channel::Rtp, Duration::ZERO, source, &mut buffer[..length]);
                // A repetition is relayed in clear only: with SRTP it is a replay.
                let (mut again, length) = ([0; 1500], packet.len());
                again[..length].copy_from_slice(&packet);
                let repeated = path.relay(&mut again, length).is_ok();
                assert_eq!(repeated, one == Security::Off && other == Security::Off);
                // A forged packet is relayed in clear only.
                again[..packet.len()].copy_from_slice(&packet);
                again[packet.len() - 1] ^= 1;
                again[3] ^= 0x40;
                let forged = path.relay(&mut again, packet.len()).is_ok();
                assert_eq!(forged, one == Security::Off);
            }
            let totals = there.statistics();
            // The first packet of a source is not counted.
            assert_eq!((totals.received, totals.refused), (49, 0), "{one:?} {other:?}");
            let (channel, _) = here.bye(Duration::ZERO, &mut packet).unwrap().expect("a report");
            let (mut buffer, length) = ([0; 1500], packet.len());
            buffer[..length].copy_from_slice(&packet);
            let length = path.relay(&mut buffer, length).expect("a relayed report");
            there.receive_on(channel, Duration::ZERO, source, &mut buffer[..length]);
            assert_eq!(there.statistics().reports_received, 1);
        }
    }

    #[test]
    fn other_packets_are_not_relayed() {
        let ((from, _), (to, _)) = (leg(Security::Off, 1), leg(Security::Required, 2));
        let mut path = PacketPath::new(&from, &to).expect("usable keys");
        let mut buffer = [0; 64];
        for (first, length) in [(0, 20), (22, 20), (0x80, 4), (0x80, 65), (0x80, 0), (0x80, 64)] {
            buffer[0] = first;
            assert!(path.relay(&mut buffer, length).is_err(), "{first} {length}");
        }
    }
}
