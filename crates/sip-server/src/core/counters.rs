//! Event counters. Each worker has its own set, and readers add them up.

pub use crate::core::counter::Counter;
use crate::core::timings::Timings;
use crate::core::traffic::Traffic;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident = $name:literal;)*) => {
        /// The number of events since the start, by kind.
        #[derive(Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $field: Counter,)*
            pub(crate) timings: Timings,
            pub(crate) traffic: Traffic,
        }

        impl Counters {
            /// Returns every counter with its name, in the order of this list.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$(($name, self.$field.get()),)*].into_iter()
            }

            /// Returns the description of each counter, in the order of [`Counters::iter`].
            #[must_use]
            pub const fn descriptions() -> &'static [&'static str] {
                &[$(concat!($($doc),+),)*]
            }
        }
    };
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
    /// Keep-alives sent to phones.
    keep_alives = "keep-alives";
    /// Responses to keep-alives.
    kept_alive = "keep-alive-responses";
    /// Branches to phones that sleep: each waits until a push notification has woken its phone.
    sleeping = "sleeping-phones";
    /// Branches to phones that a push notification has woken.
    woken = "woken-phones";
    /// Branches that failed because the connection to the phone ended.
    lost_branches = "lost-branches";
    /// INVITEs that were forwarded.
    invites = "invites";
    /// INVITEs that were answered 2xx.
    answered = "answered";
    /// Requests forwarded, of all methods and branches, including ACK and CANCEL.
    forwarded = "forwarded";
    /// Redirections sent.
    redirects = "redirects";
    /// Retransmissions of requests that a transaction handled.
    retransmissions_received = "retransmissions-received";
    /// Messages that a transaction retransmitted.
    retransmissions_sent = "retransmissions-sent";
    /// Forwarded requests without a response in time.
    timeouts = "timeouts";
    /// Messages that could not be delivered on their flow.
    undeliverable = "undeliverable";
    /// Challenges sent.
    challenges = "challenges";
    /// Correct credentials.
    authenticated = "authenticated";
    /// Wrong credentials.
    authentication_failures = "authentication-failures";
    /// Credentials with an expired nonce or a repeated nonce count.
    stale_nonces = "stale-nonces";
    /// Requests rejected because From or To names another user.
    identity_mismatches = "identity-mismatches";
    /// Requests rejected because they were neither from nor for a local user.
    relay_denied = "relay-denied";
    /// Requests that the numbers of the owner refused, or a trunk sent for no number of them.
    numbers_refused = "numbers-refused";
    /// Subscriptions and pickups rejected because the user may not watch the other one.
    watching_denied = "watching-denied";
    /// Requests for users that do not exist.
    not_found = "not-found";
    /// Requests of and for unknown users, refused while the storage of users does not respond.
    unknown_for_now = "unknown-for-now";
    /// Requests for users that are not registered.
    unavailable = "unavailable";
    /// Requests rejected as malformed.
    malformed_requests = "malformed-requests";
    /// Datagrams that were not SIP messages, and responses that matched no request.
    dropped = "dropped";
    /// Requests rejected with 482.
    loops = "loops";
    /// Requests rejected with 483.
    too_many_hops = "too-many-hops";
    /// Requests dropped because their source exceeded its rate.
    rate_limited = "rate-limited";
    /// Requests from strangers rejected because their source exceeded its rate.
    foreign_limited = "foreign-limited";
    /// Requests from strangers rejected because of their method.
    foreign_methods = "foreign-methods";
    /// Requests of users rejected because they exceeded their rate.
    user_limited = "user-limited";
    /// Sources banned.
    bans = "bans";
    /// Requests dropped because their source is banned.
    banned_requests = "banned-requests";
    /// Bindings removed in favour of newer ones, and REGISTERs rejected, because an
    /// address-of-record has too many contacts.
    contact_limit = "contact-limit";
    /// REGISTERs rejected because too many addresses-of-record are registered.
    registration_limit = "registration-limit";
    /// Requests rejected because too many transactions are in progress.
    transaction_limit = "transaction-limit";
    /// Requests rejected because their source or user has too many transactions in progress.
    share_limit = "share-limit";
    /// Requests rejected because of overload.
    overload_refused = "overload-refused";
    /// Requests dropped because of overload: datagrams that have been retransmitted meanwhile, and
    /// requests on streams.
    overload_dropped = "overload-dropped";
    /// Messages not sent because their target has never answered and has received its maximum.
    unasked = "unasked";
    /// Targets dropped because the party that named them may not reach them.
    unreachable = "unreachable";
    /// Targets dropped because of the limit on forks.
    fork_limit = "fork-limit";
    /// Calls that went through the owner's B2BUA at once, since their callee had refused such an
    /// offer of their caller before.
    declined_before = "b2bua-at-once";
    /// Calls that a forward of a user or a group, or a redirecting phone, has led on.
    forwards = "forwards";
    /// Forwards that were not followed, since the call had been there before.
    forward_loops = "forward-loops";
    /// Forwards and members of groups that were not followed because of the limit for a call.
    forward_limit = "forward-limit";
    /// Calls that do not disturb has kept from the phones of a user.
    do_not_disturb = "do-not-disturb";
    /// Session descriptions that the media relay refused.
    relay_refused = "relay-refused";
    /// Of those, the ones at a limit of calls, ports or bandwidth.
    relay_limited = "relay-limited";
    /// Of those, the ones with unusable keys, or without keys where the other end demands them.
    relay_keys = "relay-keys";
    /// Of those, the ones that name a port of the relay itself.
    relay_own_ports = "relay-own-ports";
    /// DNS lookups requested.
    dns_queries = "dns-queries";
}
