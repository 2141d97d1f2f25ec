//! RTCP packets (RFC 3550 section 6) and extended reports (RFC 3611).

mod application;
mod bye;
mod description;
pub mod extended;
mod raw;
mod report;
mod schedule;

pub use application::Application;
pub use bye::Bye;
pub use description::{SdesChunk, SdesItem, SourceDescription};
pub use extended::ExtendedReport;
pub use raw::{RawPacket, RtcpError, Writer, packet_type};
pub use report::{ReceiverReport, ReportBlock, SenderInfo, SenderReport};
pub use schedule::ReportSchedule;

/// An RTCP packet, over borrowed bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Packet<'a> {
    /// A sender report.
    SenderReport(SenderReport<'a>),
    /// A receiver report.
    ReceiverReport(ReceiverReport<'a>),
    /// A source description.
    Description(SourceDescription<'a>),
    /// A BYE.
    Bye(Bye<'a>),
    /// An application-defined packet.
    Application(Application<'a>),
    /// An extended report.
    ExtendedReport(ExtendedReport<'a>),
    /// Any other packet.
    Other(RawPacket<'a>),
}

impl<'a> RawPacket<'a> {
    fn parse(self) -> Result<Packet<'a>, RtcpError> {
        Ok(match self.packet_type {
            packet_type::SR => Packet::SenderReport(SenderReport::parse(self)?),
            packet_type::RR => Packet::ReceiverReport(ReceiverReport::parse(self)?),
            packet_type::SDES => Packet::Description(SourceDescription::parse(self)?),
            packet_type::BYE => Packet::Bye(Bye::parse(self)?),
            packet_type::APP => Packet::Application(Application::parse(self)?),
            packet_type::XR => Packet::ExtendedReport(ExtendedReport::parse(self)?),
            _ => Packet::Other(self),
        })
    }
}

/// The packets of one datagram, which are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compound<'a>(&'a [u8]);

impl<'a> Compound<'a> {
    /// Checks all packets of a datagram.
    ///
    /// # Errors
    /// A packet is truncated or malformed.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, RtcpError> {
        let mut rest = datagram;
        loop {
            let (frame, after) = RawPacket::split(rest)?;
            frame.parse()?;
            if after.is_empty() {
                return Ok(Self(datagram));
            }
            rest = after;
        }
    }

    /// Returns true if the first packet is a report. Every compound packet starts with one, unless
    /// it is of reduced size (RFC 3550 section 6.1, RFC 5506).
    #[must_use]
    pub fn begins_with_report(&self) -> bool {
        matches!(self.0[1], packet_type::SR | packet_type::RR)
    }

    /// The packets.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'a>> + use<'a> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (frame, after) = RawPacket::split(rest).ok()?;
            rest = after;
            frame.parse().ok()
        })
    }
}

#[cfg(test)]
mod tests;
