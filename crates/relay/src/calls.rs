//! The interface to the calls of a relay.

use crate::call::Attachment;
use crate::digits::{Digit, Pressed};
use crate::error::RelayError;
use crate::limits::Refusals;
use crate::passage::Passage;
use crate::report::CallReport;
use crate::side::Side;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// The branches of a Call-ID to which a command applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection<'a> {
    /// All.
    All,
    /// The branch with this identifier.
    Branch(&'a [u8]),
    /// Those with an end of this tag.
    Tag(&'a [u8]),
    /// The dialog with these tags, in any order.
    Dialog([&'a [u8]; 2]),
}

/// The calls of a relay, for the owner of the signalling.
pub trait Calls: Send + Sync {
    /// Returns the description `body` with the ports of the relay, for the other end. Returns
    /// `None` if the call is not relayed: the description passes unchanged.
    ///
    /// # Errors
    /// [`RelayError`]. The state of the call is unchanged, or as after an offer without an answer.
    fn describe(&self, passage: &Passage<'_>, body: &[u8]) -> Result<Option<String>, RelayError>;

    /// True if browsers may be called: the host makes DTLS handshakes, see [`Keying::Dtls`].
    ///
    /// [`Keying::Dtls`]: crate::Keying::Dtls
    fn takes_browsers(&self) -> bool;

    /// Begins a call whose first request has no description. Its sender is the caller.
    ///
    /// # Errors
    /// A limit is reached.
    fn begin(&self, passage: &Passage<'_>) -> Result<(), RelayError>;

    /// Records a provisional response on the branch `id`. `rings` is true if a callee rings.
    fn progress(&self, call_id: &[u8], id: &[u8], rings: bool, now: Duration);

    /// Records that an end of the dialog with these tags, in any order, has answered a request of
    /// the other end. A call on hold goes on for [`Limits::hold`](crate::Limits::hold) from now.
    fn note_answer(&self, call_id: &[u8], tags: [&[u8]; 2], now: Duration);

    /// Records that the callee with this tag has answered on the branch `id`. Returns true if the
    /// call is relayed and has no [attachment](Calls::attach).
    fn confirm(&self, call_id: &[u8], id: &[u8], callee_tag: &[u8], now: Duration) -> bool;

    /// Gives the branch `id` the first times of `earlier`, the report about a branch of the same
    /// call that has ended.
    fn follow(&self, call_id: &[u8], id: &[u8], earlier: &CallReport);

    /// Keeps a value of the owner with the branch `id` of a call, for its report.
    fn attach(&self, call_id: &[u8], id: &[u8], attachment: Attachment);

    /// Ends the branch `id` of a call, which was not answered.
    fn end_branch(&self, call_id: &[u8], id: &[u8]) -> Option<CallReport>;

    /// True if the signalling of an end of this dialog comes from one of the addresses `places`.
    fn has_end(&self, call_id: &[u8], tags: [&[u8]; 2], places: [SocketAddr; 2]) -> bool;

    /// Ends the dialog of a call. The order of the tags does not matter.
    fn end_dialog(&self, call_id: &[u8], tags: [&[u8]; 2], now: Duration) -> Option<CallReport>;

    /// Ends the branches of `selection`, answered or not.
    fn end_all(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport>;

    /// Ends the calls that are over by [`Limits`](crate::Limits), of some of the shards. To be
    /// called a few times a second.
    fn expire(&self, now: Duration) -> Vec<CallReport>;

    /// The calls at this time.
    fn reports(&self) -> Vec<CallReport>;

    /// The branches of `selection` at this time.
    fn reports_of(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport>;

    /// The branch that [`Calls::describe`] finds for `passage`, and the side of its sender.
    fn find(&self, passage: &Passage<'_>) -> Option<(CallReport, Side)>;

    /// Plays a digit as a telephone event: the end of `side` of an answered call has sent it by
    /// signalling. Returns false if the other end has no telephone events, or gets no packets, or
    /// if the first end has telephone events as well.
    fn press(
        &self,
        call_id: &[u8],
        caller_tag: &[u8],
        side: Side,
        digit: Digit,
        now: Duration,
    ) -> bool;

    /// The digits since the last call that ends have sent as telephone events, and that the other
    /// ends take by signalling only. To be called often.
    fn take_pressed(&self) -> Vec<Pressed>;

    /// The number of calls, counting each branch of a fork.
    fn count(&self) -> usize;

    /// The number of media whose audio is converted, or may be once their offers are answered.
    fn conversions(&self) -> usize;

    /// The number of offers so far that got no codecs since a limit was reached.
    fn conversions_refused(&self) -> u64;

    /// The number of answered calls so far that had no packet within 5 seconds.
    fn without_media(&self) -> u64;

    /// The refusals so far because of [`Limits`](crate::Limits) and ports.
    fn refusals(&self) -> Refusals;
}
