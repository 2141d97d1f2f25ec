//! What happened, counted. Each worker counts for itself; the sums are read off all of them.

use crate::timings::Timings;
use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])+ $field:ident = $name:literal;)*) => {
        /// Events counted since the start.
        #[derive(Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])+ pub $field: Counter,)*
            pub(crate) timings: Timings,
        }

        impl Counters {
            /// Every counter with its name, in the order of this list.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$(($name, self.$field.get()),)*].into_iter()
            }
        }
    };
}

/// One counter, which one thread counts and any may read. It wraps around after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one.
    pub fn add(&self) {
        // Nobody else writes it, so nothing is lost between the two.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one less: it did not happen after all.
    pub(crate) fn take_back(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// How often it was counted.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Requests received, retransmissions included.
    requests = "requests";
    /// Responses received.
    responses = "responses";
    /// STUN requests answered.
    stun_requests = "stun-requests";
    /// Messages sent.
    sent = "sent";
    /// Bindings added, refreshed or removed by a REGISTER that was answered 200.
    registers = "registers";
    /// Bindings that ended without a refresh.
    expired_bindings = "expired-bindings";
    /// Bindings that ended with the connection that they were on.
    lost_bindings = "lost-bindings";
    /// Phones that no longer rang because their connection ended.
    lost_branches = "lost-branches";
    /// INVITE requests that were forwarded.
    invites = "invites";
    /// INVITE requests that were answered 2xx.
    answered = "answered";
    /// Requests forwarded, all methods and branches, ACK and CANCEL included.
    forwarded = "forwarded";
    /// Redirections sent.
    redirects = "redirects";
    /// Requests that came again and were answered from a transaction.
    retransmissions_received = "retransmissions-received";
    /// Messages that a transaction sent again.
    retransmissions_sent = "retransmissions-sent";
    /// Requests forwarded that nobody answered in time.
    timeouts = "timeouts";
    /// Messages that could not be delivered on their flow.
    undeliverable = "undeliverable";
    /// Challenges sent.
    challenges = "challenges";
    /// Credentials that were right.
    authenticated = "authenticated";
    /// Credentials that were wrong.
    authentication_failures = "authentication-failures";
    /// Credentials with an expired nonce or a nonce count that was used before.
    stale_nonces = "stale-nonces";
    /// Requests refused because From or To was another's.
    identity_mismatches = "identity-mismatches";
    /// Requests refused because they were neither from nor for our users.
    relay_denied = "relay-denied";
    /// Requests for users who do not exist.
    not_found = "not-found";
    /// Requests for users who are not registered.
    unavailable = "unavailable";
    /// Requests refused as malformed.
    malformed_requests = "malformed-requests";
    /// Datagrams that were no SIP message, or responses that fit nothing.
    dropped = "dropped";
    /// Requests refused with 482.
    loops = "loops";
    /// Requests refused with 483.
    too_many_hops = "too-many-hops";
    /// Requests dropped because their source exceeded its rate.
    rate_limited = "rate-limited";
    /// Requests from strangers refused because their source exceeded its rate.
    foreign_limited = "foreign-limited";
    /// Requests from strangers refused because their method is not one that strangers may send.
    foreign_methods = "foreign-methods";
    /// Requests of users refused because they exceeded their rate.
    user_limited = "user-limited";
    /// Sources banned.
    bans = "bans";
    /// Requests dropped because their source is banned.
    banned_requests = "banned-requests";
    /// Bindings that made room for newer ones, and REGISTER refused, because an address of record
    /// has too many contacts.
    contact_limit = "contact-limit";
    /// REGISTER refused because too many addresses of record are registered.
    registration_limit = "registration-limit";
    /// Requests refused because too many transactions are in progress.
    transaction_limit = "transaction-limit";
    /// Requests refused because too much of their source or user is in progress.
    share_limit = "share-limit";
    /// Requests refused because the server was behind.
    overload_refused = "overload-refused";
    /// Requests left alone because they had waited so long that they have been sent again, or came
    /// on a stream that was behind.
    overload_dropped = "overload-dropped";
    /// Messages not sent, since their target has not answered anything yet and was sent enough.
    unasked = "unasked";
    /// Targets left out because whoever named them may not have anything sent there.
    unreachable = "unreachable";
    /// Targets left out because a request may not be forked further.
    fork_limit = "fork-limit";
    /// Locations asked of the DNS.
    dns_queries = "dns-queries";
}
