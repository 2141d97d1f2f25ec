//! Candidates in session descriptions.

use is::{Candidate, CandidateKind, Protocol};
use sdp::ice::{self, CandidateType, Transport};
use std::fmt::Write;

/// The component of RTP, and of RTCP on the same port.
const RTP: u16 = 1;

/// The candidate of a description; `None` if it cannot be checked: it has a name, another
/// component, no unicast address, or is not for UDP.
pub(crate) fn read(candidate: &ice::Candidate<'_>) -> Option<Candidate> {
    let is_udp = candidate.transport == Transport::Udp && candidate.component == RTP;
    let address = candidate.socket_address().filter(|it| is_udp && it.port() != 0)?;
    // Neither a group nor an unspecified address.
    Candidate::host(address, Protocol::Udp).ok()?;
    let kind = match candidate.kind {
        CandidateType::Host => CandidateKind::Host,
        CandidateType::ServerReflexive => CandidateKind::ServerReflexive,
        CandidateType::PeerReflexive => CandidateKind::PeerReflexive,
        CandidateType::Relayed => CandidateKind::Relayed,
    };
    Some(Candidate::from_parts(
        candidate.foundation.to_owned(),
        RTP,
        Protocol::Udp,
        candidate.priority,
        address,
        kind,
        None,
        None,
        None,
    ))
}

/// Writes the line of a local candidate.
pub(crate) fn write(candidate: &Candidate, out: &mut String) {
    let text = candidate.to_sdp_string();
    let value = text.strip_prefix("candidate:").map(ice::Candidate::parse);
    if let Some(Ok(value)) = value {
        let _ = write!(out, "a=candidate:{value}\r\n");
    }
}
