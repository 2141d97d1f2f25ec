//! The conversion of the packets from one leg, and of their reports.

use super::counts::Conversions;
use super::route::Route;
use super::transcoder::{Numbers, Transcoder};
use crate::error::Drop;
use alloc::boxed::Box;
use core::time::Duration;
use rtp::Header;

/// The conversion of the packets from one leg.
#[derive(Debug)]
pub(crate) struct Conversion(pub(super) Change);

#[derive(Debug)]
pub(super) enum Change {
    /// The codec changes.
    Codec(Box<Transcoder>),
    /// The numbers change: the same source was converted before, and its numbers go on.
    Numbers(Renumbering),
}

/// The change of the numbers of a source.
#[derive(Debug)]
pub(super) struct Renumbering {
    /// The numbers that the next packet gets. They are read once.
    next: Numbers,
    /// The numbers to add, once a packet came.
    pub(super) added: Option<(u16, u32)>,
    pub(super) counts: Conversions,
}

impl Renumbering {
    pub(super) const fn ssrc(&self) -> u32 {
        self.next.ssrc
    }
}

impl Conversion {
    /// Changes the conversion of a leg to `route`. Without one, packets pass unchanged, unless
    /// their source was converted.
    pub(crate) fn update(slot: &mut Option<Self>, route: Option<&Route>) {
        let change = match (slot.take().map(|it| it.0), route) {
            (Some(Change::Codec(mut transcoder)), Some(route)) => {
                transcoder.reroute(route.clone());
                Some(Change::Codec(transcoder))
            }
            (before, Some(route)) => {
                let mut transcoder = Transcoder::new(route.clone());
                if let Some(Change::Numbers(before)) = before {
                    transcoder.continue_from(before.next, before.counts);
                }
                Some(Change::Codec(Box::new(transcoder)))
            }
            (Some(Change::Codec(transcoder)), None) => transcoder.numbers().map(|next| {
                Change::Numbers(Renumbering { next, added: None, counts: transcoder.counts })
            }),
            (before, None) => before,
        };
        *slot = change.map(Self);
    }

    /// The route of packets whose codec changes.
    pub(crate) fn route(&self) -> Option<&Route> {
        match &self.0 {
            Change::Codec(transcoder) => Some(transcoder.route()),
            Change::Numbers(_) => None,
        }
    }

    /// Counters of the packets.
    pub(crate) const fn counts(&self) -> Conversions {
        match &self.0 {
            Change::Codec(transcoder) => transcoder.counts,
            Change::Numbers(renumbering) => renumbering.counts,
        }
    }

    /// Converts a packet of `length` bytes in `buffer`. Returns the length of the first packet to
    /// send, and zero if there is none yet. [`Conversion::pop`] has further ones.
    ///
    /// # Errors
    /// [`Drop`]: the packet is dropped.
    pub(crate) fn convert(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        now: Duration,
    ) -> Result<usize, Drop> {
        match &mut self.0 {
            Change::Codec(transcoder) => {
                transcoder.receive(&buffer[..length], now)?;
                Ok(transcoder.output.pop(buffer).unwrap_or_default())
            }
            Change::Numbers(renumbering) => {
                renumbering.apply(&mut buffer[..length])?;
                Ok(length)
            }
        }
    }

    /// Writes the next packet that is ready to `buffer`. Returns its length.
    pub(crate) fn pop(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match &mut self.0 {
            Change::Codec(transcoder) => transcoder.output.pop(buffer),
            Change::Numbers(_) => None,
        }
    }

    /// True if a packet is ready.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(&self.0, Change::Codec(transcoder) if transcoder.output.is_ready())
    }
}

impl Renumbering {
    /// Adds to the numbers of a packet, if it is of the source.
    fn apply(&mut self, packet: &mut [u8]) -> Result<(), Drop> {
        let header = Header::parse(packet).map_err(Drop::Rtp)?;
        if header.ssrc() != self.next.ssrc {
            return Ok(());
        }
        let (number, timestamp) = (header.sequence_number(), header.timestamp());
        let (more_numbers, more_time) = *self.added.get_or_insert((
            self.next.sequence_number.wrapping_sub(number),
            self.next.timestamp.wrapping_sub(timestamp),
        ));
        let (number, timestamp) =
            (number.wrapping_add(more_numbers), timestamp.wrapping_add(more_time));
        packet[2..4].copy_from_slice(&number.to_be_bytes());
        packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
        self.next.sequence_number = number.wrapping_add(1);
        self.next.timestamp = timestamp;
        Ok(())
    }
}
