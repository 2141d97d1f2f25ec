//! The analysis of a capture.

use super::clocks::{Clock, Transit};
use super::file::FileFacts;
use super::keys::KeyExchanges;
use super::packet::PacketCounts;
use super::registrations::Registrations;
use super::rtp::Rtp;
use super::setup::Calls;
use super::stream::StreamCounts;
use super::transactions::{MethodCounts, ResponseCounts};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The analysis of a capture.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Analysis {
    /// The file, or the interface.
    pub(crate) file: PathBuf,
    /// Properties of the file.
    pub(crate) facts: FileFacts,
    /// The clocks of joined captures after the first, and the times of datagrams between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) clocks: Vec<Clock>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) transits: Vec<Transit>,
    /// The earliest packet, in microseconds since the Unix epoch; absent in an empty capture.
    pub(crate) started_us: Option<u64>,
    /// The latest packet.
    pub(crate) ended_us: Option<u64>,
    /// Packet counts.
    pub(crate) packets: PacketCounts,
    /// TCP stream counts.
    pub(crate) streams: StreamCounts,
    /// SIP message counts.
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
    /// Key exchanges on the path of media.
    pub(crate) keys: KeyExchanges,
}

/// SIP message counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SipCounts {
    /// Messages over UDP, including malformed ones that could be parsed.
    pub(crate) udp: u64,
    /// Messages over TCP.
    pub(crate) tcp: u64,
    /// Keep-alive datagrams: only line ends (RFC 5626 section 3.5.1), or a zero byte.
    pub(crate) keep_alives: u64,
    /// Messages that begin as SIP and are truncated, or have no valid Via, CSeq or Call-ID.
    pub(crate) malformed: u64,
    /// Responses to requests that are not in the capture.
    pub(crate) stray_responses: u64,
    /// Datagrams that are neither SIP nor RTP nor RTCP; ignored.
    pub(crate) other_datagrams: u64,
    /// Messages of transactions beyond the limit.
    pub(crate) left_out: u64,
    /// Media descriptions beyond the limit.
    pub(crate) media_left_out: u64,
}
