//! What a capture shows.

use super::file::FileFacts;
use super::packet::PacketCounts;
use super::registrations::Registrations;
use super::rtp::Rtp;
use super::setup::Calls;
use super::stream::StreamCounts;
use super::transactions::{MethodCounts, ResponseCounts};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a capture shows.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Analysis {
    /// The file, or the interface.
    pub(crate) file: PathBuf,
    /// What is to be told of it.
    pub(crate) facts: FileFacts,
    /// The earliest packet, in microseconds since the Unix epoch; absent in an empty capture.
    pub(crate) started_us: Option<u64>,
    /// The latest packet.
    pub(crate) ended_us: Option<u64>,
    /// What came of the packets.
    pub(crate) packets: PacketCounts,
    /// What came of the TCP streams.
    pub(crate) streams: StreamCounts,
    /// What came of the SIP messages.
    pub(crate) sip: SipCounts,
    /// Requests, by method.
    pub(crate) methods: BTreeMap<String, MethodCounts>,
    /// Responses, by status and method, such as `200 INVITE`.
    pub(crate) responses: BTreeMap<String, ResponseCounts>,
    /// Registrations.
    pub(crate) registrations: Registrations,
    /// Calls.
    pub(crate) calls: Calls,
    /// RTP.
    pub(crate) rtp: Rtp,
}

/// What came of the SIP messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SipCounts {
    /// Messages over UDP, malformed ones that could be parsed among them.
    pub(crate) udp: u64,
    /// Messages over TCP.
    pub(crate) tcp: u64,
    /// Datagrams of line ends only (RFC 5626 section 3.5.1), or of a zero byte: keep-alives.
    pub(crate) keep_alives: u64,
    /// Messages that begin as SIP and are cut short, or have no Via, CSeq or Call-ID that can be
    /// read.
    pub(crate) malformed: u64,
    /// Responses to requests that are not in the capture.
    pub(crate) stray_responses: u64,
    /// Datagrams that are neither SIP nor RTP nor RTCP; passed over.
    pub(crate) other_datagrams: u64,
    /// Messages of transactions that were not followed: there were too many.
    pub(crate) left_out: u64,
    /// Media descriptions that were not kept: there were too many.
    pub(crate) media_left_out: u64,
}
