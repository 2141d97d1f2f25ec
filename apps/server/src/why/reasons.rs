//! The reasons of refusals: for each counter of the engine the rule in words, and the place in the
//! configuration or the command that changes it.

use sip_server::counters::Counters;

/// A reason for which a request is refused or dropped.
#[derive(Debug)]
pub(crate) struct Reason {
    /// The name of its counter in `barebell status`.
    pub(crate) counter: &'static str,
    /// The rule in words.
    pub(crate) rule: &'static str,
    /// The keys and commands to look at.
    pub(crate) see: &'static str,
    /// True if the request got no response.
    pub(crate) is_silent: bool,
}

/// A set of reasons: bit `n` stands for the reason at index `n` of [`REASONS`].
pub(crate) type ReasonSet = u64;

macro_rules! reasons {
    ($($field:ident, $counter:literal, $is_silent:literal, $rule:literal, $see:literal;)*) => {
        /// All reasons.
        pub(crate) const REASONS: [Reason; [$($counter),*].len()] = [$(Reason {
            counter: $counter,
            rule: $rule,
            see: $see,
            is_silent: $is_silent,
        }),*];

        /// The present counts of all reasons.
        fn counts(counters: &Counters) -> [u64; REASONS.len()] {
            [$(counters.$field.get()),*]
        }
    };
}

reasons! {
    authentication_failures, "authentication-failures", false,
        "the user name is unknown or the password is wrong",
        "`barebell user list`, `barebell user add`, `domains`";
    identity_mismatches, "identity-mismatches", false,
        "the request is in the name of another user than the one that logged in",
        "`limits.trusted`";
    relay_denied, "relay-denied", false,
        "the request is neither from a user of this server that logged in nor for one",
        "`domains`, `limits.trusted`, `authentication.required`";
    numbers_refused, "numbers-refused", false,
        "the numbering plan refuses the number",
        "`barebell route`, `numbers.rules`, `numbers.rights`, `numbers.did`";
    watching_denied, "watching-denied", false,
        "the user has no right to watch the other user, or to pick up that call",
        "`office.watch`, `office.pickup`";
    not_found, "not-found", false,
        "there is no user, group or service with this name",
        "`barebell user list`, `domains`";
    unknown_for_now, "unknown-for-now", false,
        "the user is not known, and the database of accounts does not respond",
        "`accounts.url`";
    unavailable, "unavailable", false,
        "the user has no registered phone",
        "`barebell registrations`";
    malformed_requests, "malformed-requests", false,
        "the request is malformed",
        "`barebell trace`";
    loops, "loops", false,
        "the request has passed this server before, on the same way",
        "`barebell trace`";
    too_many_hops, "too-many-hops", false,
        "Max-Forwards is used up",
        "`barebell trace`";
    rate_limited, "rate-limited", true,
        "the source is over its rate",
        "`limits.source_rate`, `limits.source_burst`, `limits.trusted`";
    foreign_limited, "foreign-limited", false,
        "the source is over the rate of requests of strangers",
        "`limits.foreign_rate`";
    foreign_methods, "foreign-methods", false,
        "strangers may not use this method",
        "`limits.foreign_methods`";
    user_limited, "user-limited", false,
        "the user is over the rate of requests",
        "`limits.user_rate`";
    bans, "bans", false,
        "the source is banned from now on, for its failures",
        "`limits.ban_failures`, `limits.ban_window`, `limits.ban_time`";
    banned_requests, "banned-requests", true,
        "the source is banned",
        "`limits.ban_time`, `limits.ban_failures`, `limits.trusted`";
    contact_limit, "contact-limit", false,
        "the address-of-record has too many contacts",
        "`registrar.max_contacts`, `registrar.max_contact_bytes`";
    registration_limit, "registration-limit", false,
        "too many addresses-of-record are registered",
        "`limits.max_registered`";
    transaction_limit, "transaction-limit", false,
        "too many transactions are in progress",
        "`limits.max_transactions`, `limits.transaction_memory`";
    share_limit, "share-limit", false,
        "the source or the user has too many transactions in progress",
        "`limits.max_transactions`, `limits.trusted`";
    overload_refused, "overload-refused", false,
        "the server is overloaded",
        "`limits.max_wait`";
    overload_dropped, "overload-dropped", true,
        "the server is overloaded, and the request has been retransmitted or is not read",
        "`limits.max_wait`";
    unasked, "unasked", false,
        "the target has never answered, and has received the maximum of messages",
        "`barebell registrations`";
    unreachable, "unreachable", false,
        "the sender may not reach the address of the target",
        "`limits.reachable`";
    fork_limit, "fork-limit", false,
        "the call has too many targets",
        "`limits.max_forks`";
    forward_loops, "forward-loops", false,
        "a forward leads to where the call has been before",
        "`barebell user forward`, `groups`";
    forward_limit, "forward-limit", false,
        "the call follows too many forwards",
        "`barebell user forward`, `groups`";
    do_not_disturb, "do-not-disturb", false,
        "the user is not to be disturbed",
        "`barebell user dnd`";
    relay_refused, "relay-refused", false,
        "the media relay refuses the session description",
        "`barebell trace`, `barebell calls`";
    relay_limited, "relay-limited", false,
        "a limit of the media relay is reached",
        "`media.max_calls`, `media.max_calls_per_source`, `media.ports`, `media.max_bandwidth`";
    relay_keys, "relay-keys", false,
        "the keys of the media are unusable, or one end demands keys and the other has none",
        "`media.keys`";
    relay_own_ports, "relay-own-ports", false,
        "the session description names a port of the media relay as that of the phone",
        "`media.ports`";
    timeouts, "timeouts", false,
        "the target has not answered in time",
        "`barebell trace`, `timers.c`";
    undeliverable, "undeliverable", false,
        "the request could not be delivered to its target",
        "`barebell registrations`, `barebell trace`";
}

/// The counts of reasons at one time.
#[derive(Debug)]
pub(crate) struct Counts([u64; REASONS.len()]);

impl Counts {
    /// The present counts.
    pub(crate) fn new(counters: &Counters) -> Self {
        Self(counts(counters))
    }

    /// Replaces the counts by the present ones. Returns the reasons with another count.
    pub(crate) fn replace(&mut self, counters: &Counters) -> ReasonSet {
        let now = counts(counters);
        let differs = now.iter().zip(&self.0).map(|(now, before)| now != before);
        let set = differs.enumerate().fold(0, |set, (at, it)| set | (ReasonSet::from(it) << at));
        self.0 = now;
        set
    }
}

/// The reasons of `set`.
pub(crate) fn reasons_of(set: ReasonSet) -> impl Iterator<Item = &'static Reason> {
    REASONS.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|(_, it)| it)
}

/// The reasons without a response.
pub(crate) fn silent() -> ReasonSet {
    let silent = REASONS.iter().enumerate().filter(|(_, reason)| reason.is_silent);
    silent.fold(0, |set, (at, _)| set | 1 << at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_reason_has_a_counter_and_names_what_there_is() {
        let counters = Counters::default();
        let names: HashSet<&str> = counters.iter().map(|(name, _)| name).collect();
        let reference = include_str!("../../../../docs/configuration.md");
        let running = include_str!("../../../../docs/running.md");
        let mut known = HashSet::new();
        for reason in &REASONS {
            assert!(names.contains(reason.counter) && known.insert(reason.counter), "{reason:?}");
            for place in reason.see.split(", ") {
                let place = place.trim_matches('`');
                let is_there = match (place.strip_prefix("barebell "), place.split_once('.')) {
                    (Some(_), _) => running.contains(place) || reference.contains(place),
                    (None, Some((section, key))) => {
                        let head = format!("\n[{section}]");
                        let (_, keys) = reference.split_once(&head).expect("the section exists");
                        let end = keys.find("\n[").unwrap_or(keys.len());
                        keys[..end].lines().any(|line| {
                            line.trim_start_matches("# ").starts_with(&format!("{key} = "))
                        })
                    }
                    (None, None) => {
                        reference.contains(&format!("\n{place} = "))
                            || reference.contains(&format!("[[{place}]]"))
                    }
                };
                assert!(is_there, "{place} of {reason:?}");
            }
        }
        assert!(REASONS.len() <= ReasonSet::BITS as usize);
    }

    #[test]
    fn counts_that_rise_are_reasons() {
        let counters = Counters::default();
        let mut counts = Counts::new(&counters);
        assert_eq!(counts.replace(&counters), 0);
        counters.not_found.add();
        counters.undeliverable.add();
        let found: Vec<_> = reasons_of(counts.replace(&counters)).map(|it| it.counter).collect();
        assert_eq!(found, ["not-found", "undeliverable"]);
        assert_eq!(counts.replace(&counters), 0);
        counters.banned_requests.add();
        assert_eq!(counts.replace(&counters) & !silent(), 0);
    }
}
