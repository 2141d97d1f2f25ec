//! The counts of a peer.

use std::fmt;

/// The counts of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerCounts {
    /// REGISTER requests received, including those that the script lost; likewise for the other
    /// methods.
    pub(crate) registers: u64,
    /// INVITE requests.
    pub(crate) invites: u64,
    /// ACK requests.
    pub(crate) acks: u64,
    /// BYE requests.
    pub(crate) byes: u64,
    /// OPTIONS requests.
    pub(crate) options: u64,
    /// Requests of other methods.
    pub(crate) others: u64,
    /// Responses received.
    pub(crate) responses: u64,
    /// Received data that is not a SIP message, or a response that matches no relayed request.
    pub(crate) malformed: u64,
    /// Messages sent or scheduled, including copies, without garbage.
    pub(crate) sent: u64,
    /// Relayed requests and responses.
    pub(crate) relayed: u64,
    /// Challenged requests.
    pub(crate) challenged: u64,
    /// Requests with wrong credentials.
    pub(crate) denied: u64,
    /// Requests and responses that the script lost.
    pub(crate) lost: u64,
    /// Messages that the script delayed.
    pub(crate) delayed: u64,
    /// Copies that the script added.
    pub(crate) repeated: u64,
    /// Requests that the script answered.
    pub(crate) failed: u64,
    /// Garbage sent.
    pub(crate) garbage: u64,
    /// Registered users.
    pub(crate) bindings: u64,
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// Datagrams that the kernel dropped before they were read.
    pub(crate) drops: u64,
}

impl fmt::Display for PeerCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registers, invites, acks, byes, options, others, responses, .. } = self;
        writeln!(
            f,
            "received: {registers} REGISTER, {invites} INVITE, {acks} ACK, {byes} BYE, \
             {options} OPTIONS, {others} other requests, {responses} responses, {} malformed, \
             {} dropped by the kernel",
            self.malformed, self.drops
        )?;
        write!(
            f,
            "sent: {}, of which relayed {}, delayed {}, repeated {}, challenged {}, denied {}, \
             failed {}; lost {}, garbage {}",
            self.sent,
            self.relayed,
            self.delayed,
            self.repeated,
            self.challenged,
            self.denied,
            self.failed,
            self.lost,
            self.garbage
        )
    }
}
