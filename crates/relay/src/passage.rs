//! The descriptions that pass the relay.

use crate::end::End;
use crate::side::Side;
use core::time::Duration;

/// The place of a description in the exchange of offers and answers (RFC 3264, RFC 6337).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An offer. `exchange` identifies it among the offers of its side: the CSeq number in SIP.
    Offer {
        /// The identifier.
        exchange: u32,
    },
    /// The description in a response: the answer if its request had an offer, otherwise an offer.
    Response {
        /// The identifier of the request.
        exchange: u32,
        /// True if it is the final answer. An earlier one may be followed by another.
        is_final: bool,
    },
    /// A final response without a description, from a callee with an early answer that holds (RFC
    /// 3262 section 5). It is [described](crate::Calls::describe) with an empty body: the media go
    /// to that callee, also if another one has answered early since.
    Confirmation {
        /// The identifier of the request.
        exchange: u32,
    },
    /// The answer to the last offer of the other side. The call is answered then, and another
    /// answer may follow.
    Answer,
    /// The description in an acknowledgement: the answer to an offer in a response.
    Acknowledgement {
        /// The identifier of the request.
        exchange: u32,
    },
}

/// A description that passes the relay, and its place in the call.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// The identifier of the branch that the request is sent on, if it may be the first one of the
    /// call.
    pub branch: Option<&'a [u8]>,
    /// The tag of the end that sends the description.
    pub from_tag: &'a [u8],
    /// The tag of the other end. Empty before it is known.
    pub to_tag: &'a [u8],
    /// The end that sends the description.
    pub from: End<'a>,
    /// The end that gets it.
    pub to: End<'a>,
    /// The place of the description among offers and answers.
    pub role: Role,
    /// The side of the sender on that branch. Within a dialog the tags tell it.
    pub side: Side,
    /// True if a new call is relayed. Otherwise only calls that are relayed already.
    pub begins: bool,
    /// The names of the caller and of the callee of a new call, for its reports.
    pub parties: [&'a [u8]; 2],
    /// The account that is charged for a new call.
    pub owner: u64,
    /// The time since an epoch of the owner.
    pub now: Duration,
}
