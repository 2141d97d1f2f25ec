//! The counters for `barebell status` and for monitoring, each with its description.

use super::counted::{Counted, Named};
use super::hub::Hub;
use super::media::{Media, Ng, Relay};
use super::records::Records;
use relay::{Calls, Refusals};
use sip_server::counters::Counters;
use std::sync::atomic::{AtomicU64, Ordering};

impl Hub {
    /// All counters: of the engine, of the program, of its user agents and of NG.
    pub(super) fn counters(&self) -> Vec<Counted> {
        let of_engine = self.engine.counters().into_iter().zip(Counters::descriptions());
        let of_engine = of_engine.map(|((name, count), help)| (name, *help, count));
        let own = self.own_counters().into_iter();
        let of_ng = self.ng.iter().flat_map(|ng| ng.counters());
        let of_agents = self.b2bua.counters().into_iter().chain(self.trunks.counters());
        let of_agents = of_agents.chain(self.notifier.counters());
        let media_server = self.media_server.iter().flat_map(|server| server.counters());
        let of_push = self.push.iter().flat_map(|push| push.counters());
        let of_hook = self.b2bua.decisions().into_iter().flat_map(|hook| hook.counters());
        let of_keeper = self.keeper.iter().flat_map(|keeper| keeper.counters());
        let own = own.chain(of_push).chain(of_hook).chain(of_keeper);
        let all = of_engine.chain(own).chain(of_agents).chain(media_server).chain(of_ng);
        all.map(Counted::from).collect()
    }

    fn own_counters(&self) -> [Named; 28] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let connections = &self.connections;
        let media = |count: fn(&Media) -> u64| self.media.as_ref().map_or(0, count);
        let relay = |count: fn(&Relay) -> u64| self.relay.as_deref().map_or(0, count);
        let own = self.relay.as_deref().map(Relay::refusals);
        let refusals: Vec<_> =
            own.iter().copied().chain(self.ng.as_deref().map(Ng::refusals)).collect();
        let refused = |of: fn(&Refusals) -> u64| refusals.iter().map(of).sum::<u64>();
        [
            (
                "refused-connections",
                "Connections refused by a limit of connections, a ban or a rate.",
                of(&connections.refused),
            ),
            (
                "tls-failures",
                "Connections closed because TLS failed.",
                of(&connections.tls_failures),
            ),
            (
                "tls-pauses",
                "TLS connections not opened because the last handshake with the peer failed recently.",
                of(&connections.paused),
            ),
            (
                "unread-output",
                "Connections closed because the peer did not read the waiting output.",
                of(&connections.unread_output),
            ),
            (
                "silent-connections",
                "Connections closed because the phone did not answer a keep-alive.",
                of(&connections.silent),
            ),
            ("keep-alive-pings", "Keep-alives to phones on WebSocket.", of(&connections.pings)),
            (
                "dropped-lookups",
                "DNS look-ups refused because too many were waiting.",
                of(&self.dropped_lookups),
            ),
            (
                "silent-lookups",
                "DNS look-ups refused because the DNS has recently not answered for the domain.",
                of(&self.silent_lookups),
            ),
            ("unread", "Datagrams that the system dropped before they were read.", self.unread()),
            ("media-received", "Packets of relayed media that arrived.", media(Media::received)),
            ("media-sent", "Packets of relayed media that were sent on.", media(Media::sent)),
            (
                "unsent-media",
                "Packets of relayed media that the system did not send, or that were too long.",
                media(Media::unsent),
            ),
            (
                "calls-without-media",
                "Relayed calls without a packet within 5 seconds after the answer.",
                relay(Relay::without_media),
            ),
            (
                "transcoding-limit",
                "Offers that got no further codecs because too many calls are converted.",
                relay(Relay::conversions_refused),
            ),
            (
                "relay-calls-limit",
                "Session descriptions not relayed because too many calls are.",
                own.as_ref().map_or(0, |it| it.calls),
            ),
            (
                "relay-source-limit",
                "Session descriptions not relayed because too many calls of their source are.",
                refused(|it| it.calls_of_owner),
            ),
            (
                "relay-ports-limit",
                "Session descriptions not relayed because no port was free.",
                refused(|it| it.ports),
            ),
            (
                "relay-bandwidth-limit",
                "Session descriptions not relayed because of a limit of bandwidth.",
                refused(|it| it.bandwidth),
            ),
            (
                "media-over-bandwidth",
                "Packets of relayed media dropped because of a limit of bandwidth.",
                refused(|it| it.packets),
            ),
            (
                "lost-records",
                "Call records that were not written.",
                self.records.as_ref().map_or(0, Records::lost),
            ),
            (
                "uncopied-records",
                "Call records that were not copied to the database of accounts.",
                self.records.as_ref().map_or(0, |records| of(&records.uncopied())),
            ),
            (
                "unrecorded-refusals",
                "Refused calls of strangers without a record because they were too many.",
                self.refused.left_out(),
            ),
            ("hep-sent", "Messages sent to Homer.", of(&self.hep.sent)),
            (
                "hep-lost",
                "Messages that could not be sent to Homer, or were replaced by later ones before.",
                of(&self.hep.lost),
            ),
            (
                "unexplained-refusals",
                "Refusals that `barebell why` does not show because they were too many.",
                self.refusals.left_out(),
            ),
            (
                "unstored",
                "REGISTER requests answered 500 because the journal could not be written.",
                of(&self.unstored),
            ),
            (
                "http-refused",
                "HTTP connections of other clients than `http.clients`, and those over a limit.",
                of(&self.http.refused),
            ),
            (
                "http-failures",
                "HTTP connections that ended with an error, such as a failed TLS handshake.",
                of(&self.http.failures),
            ),
        ]
    }
}
