//! The evidence for the source of a request.

use crate::core::keys::Key;
use sip::Flow;
pub use sip::Source;

/// The evidence that a request comes from its source address. Each kind has separate allowances, so
/// that requests with weak evidence never use up those of requests with strong evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// None: the source address of a datagram.
    Claim,
    /// A token of a dialog, which was issued to one of the two ends. That end may forge its
    /// address.
    Dialog,
    /// A nonce that was sent to the address and returned.
    Nonce,
    /// A connection.
    Connection,
}

/// The account that a request is charged to: its source, with the kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) source: Source,
    pub(crate) evidence: Evidence,
}

impl Account {
    /// Returns the account of a message on `flow`.
    pub(crate) fn of(flow: &Flow) -> Self {
        let evidence = match flow.outer_transport().is_stream() {
            true => Evidence::Connection,
            false => Evidence::Claim,
        };
        Self { source: Source::of(flow.remote.ip()), evidence }
    }

    /// Returns the same source with `evidence`, unless it is a connection.
    pub(crate) fn with(self, evidence: Evidence) -> Self {
        match self.evidence {
            Evidence::Connection => self,
            _ => Self { evidence, ..self },
        }
    }

    /// A hash for tables.
    pub(crate) fn hash(self, key: &Key) -> u64 {
        key.hash_source(self.source).rotate_left(self.evidence as u32)
    }
}
