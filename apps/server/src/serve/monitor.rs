//! The pages for monitoring: `/metrics`, `/healthz` and `/readyz`.

use super::desk::Running;
use super::http::{Pages, Reply, Request};
use super::observations::{HUNDREDTHS, MICROS, Observed};
use crate::exposition::{Exposition, Labels, MEDIA_TYPE};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statvfs::statvfs;
use nix::sys::time::TimeValLike;
use relay::Calls;
use sip_server::traffic::Summary;
use std::time::SystemTime;
use store::JournalHealth;

impl Pages for Running {
    fn answer(&self, request: &Request<'_>) -> Reply {
        match request.path {
            "/metrics" => Reply { status: 200, kind: MEDIA_TYPE, text: self.exposition() },
            "/healthz" => Reply::text(200, "ok\n"),
            "/readyz" => match &self.problems()[..] {
                [] => Reply::text(200, "ready\n"),
                problems => Reply::text(503, problems.join("\n") + "\n"),
            },
            _ => Reply::text(404, "there are /metrics, /healthz and /readyz\n"),
        }
    }
}

impl Running {
    /// The reasons why the server is not ready for requests, in words.
    pub(super) fn problems(&self) -> Vec<String> {
        let journal = self.journal_health();
        let expired = self.hub.connections.certificate_until().filter(|until| *until < now());
        let problems = [
            (self.hub.engine.is_draining(), "draining: new calls are refused"),
            (journal.is_refusing, "registrations are refused: the journal cannot be written"),
            (
                journal.is_behind,
                "registrations stay in the journal: the database cannot be written",
            ),
            (expired.is_some(), "the TLS certificate has expired"),
        ];
        problems.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned()).collect()
    }

    fn journal_health(&self) -> JournalHealth {
        self.hub.journal.as_ref().map_or_else(JournalHealth::default, |journal| journal.health())
    }

    /// All metrics.
    fn exposition(&self) -> String {
        let mut text = Exposition::default();
        text.gauges(
            "barebell_build_info",
            "The version of the program; always 1.",
            [(&[("version", env!("CARGO_PKG_VERSION"))][..], 1)],
        );
        for counted in self.hub.counters() {
            let name = format!("barebell_{}", counted.name.replace('-', "_"));
            text.counter(&name, counted.help, counted.count);
        }
        traffic(&self.hub.engine.traffic(), &mut text);
        self.state(&mut text);
        self.storage(&mut text);
        observations(&self.hub.observations.read(), &mut text);
        self.process(&mut text);
        text.into_text()
    }

    /// Users, registrations, transactions, connections and calls.
    fn state(&self, text: &mut Exposition) {
        let (hub, engine) = (&self.hub, &self.hub.engine);
        let unserved = self.unserved().values().sum::<u64>();
        for (name, help, value) in [
            ("barebell_users", "Users that can log in or be called.", engine.users() as u64),
            ("barebell_unserved_users", "Users in domains that are not served.", unserved),
            (
                "barebell_registered_users",
                "Addresses-of-record with bindings.",
                engine.registered() as u64,
            ),
            ("barebell_bindings", "Bindings of phones.", engine.bindings() as u64),
            (
                "barebell_transactions",
                "Transactions of the proxy in progress.",
                engine.transactions() as u64,
            ),
            (
                "barebell_transaction_memory_bytes",
                "Memory of the transactions in progress.",
                engine.transaction_bytes() as u64,
            ),
            (
                "barebell_ready",
                "1 if the server is ready for requests, as /readyz tells.",
                u64::from(self.problems().is_empty()),
            ),
            (
                "barebell_draining",
                "1 while new calls are refused by `barebell drain` or a stop.",
                u64::from(engine.is_draining()),
            ),
        ] {
            text.gauge(name, help, value);
        }
        let connections = hub.connections.counts().map(|(transport, count)| {
            let name = match transport {
                sip::Transport::Tls => "tls",
                sip::Transport::Ws => "ws",
                sip::Transport::Wss => "wss",
                _ => "tcp",
            };
            ([("transport", name)], count)
        });
        let connections = connections.iter().map(|(labels, count)| (&labels[..], *count));
        text.gauges("barebell_connections", "Open SIP connections.", connections);
        let relayed = hub.relay.as_ref().map_or(0, |relay| relay.count());
        let of_ng = hub.ng.as_ref().map_or(0, |ng| ng.count());
        let calls = [
            (&[("path", "relay")][..], relayed),
            (&[("path", "ng")][..], of_ng),
            (&[("path", "b2bua")][..], hub.b2bua.calls()),
        ];
        text.gauges(
            "barebell_calls",
            "Calls that the relay, the relay for NG clients or the B2BUA has; one may have two.",
            calls,
        );
        if let Some(until) = hub.connections.certificate_until() {
            text.gauge(
                "barebell_certificate_expiry_timestamp_seconds",
                "The end of the validity of the first TLS certificate.",
                until,
            );
        }
    }

    /// The journal, the database and the disk.
    fn storage(&self, text: &mut Exposition) {
        let health = self.journal_health();
        let results: [(Labels<'_>, u64); 2] = [
            (&[("result", "done")], health.checkpoints),
            (&[("result", "failed")], health.failed_checkpoints),
        ];
        text.counters(
            "barebell_checkpoints",
            "Checkpoints of the journal, which store it in the database.",
            results,
        );
        text.counter(
            "barebell_checkpoint_seconds",
            "The time of all checkpoints.",
            health.checkpoint_time.as_secs_f64(),
        );
        if let Ok(disk) = statvfs(&self.data) {
            let size = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
            text.gauge(
                "barebell_data_free_bytes",
                "Room on the disk of the data directory.",
                size(disk.blocks_available()),
            );
            text.gauge(
                "barebell_data_size_bytes",
                "The size of the disk of the data directory.",
                size(disk.blocks()),
            );
        }
    }

    /// The process, under the names that Prometheus clients use.
    fn process(&self, text: &mut Exposition) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let spent =
                usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
            text.counter(
                "process_cpu_seconds",
                "Processor time of the process.",
                spent as f64 / f64::from(MICROS),
            );
        }
        if let Some(memory) = resident_memory() {
            text.gauge("process_resident_memory_bytes", "Memory of the process.", memory);
        }
        text.gauge(
            "process_start_time_seconds",
            "The time of the start since 1970.",
            now().saturating_sub(self.hub.clock.uptime().as_secs()),
        );
    }
}

/// Requests and responses, and the results and delays of sessions.
fn traffic(summary: &Summary, text: &mut Exposition) {
    let one = |name| move |&(value, count): &(&'static str, u64)| ([(name, value)], count);
    let requests: Vec<_> = summary.requests.iter().map(one("method")).collect();
    text.counters(
        "barebell_sip_requests",
        "Received requests, retransmissions included.",
        requests.iter().map(|(labels, count)| (&labels[..], *count)),
    );
    let responses: Vec<_> = summary
        .responses
        .iter()
        .map(|it| ([("method", it.method), ("code", &*it.code)], it.count))
        .collect();
    text.counters(
        "barebell_sip_responses",
        "Sent responses, without those that a transaction repeated.",
        responses.iter().map(|(labels, count)| (&labels[..], *count)),
    );
    let results: Vec<_> = summary.results.iter().map(one("result")).collect();
    text.counters(
        "barebell_session_attempts",
        "Final responses to initial INVITEs, by result (RFC 6076).",
        results.iter().map(|(labels, count)| (&labels[..], *count)),
    );
    let [success, failure] = &summary.session_delays;
    text.histograms(
        "barebell_session_request_delay_seconds",
        "From an initial INVITE until its first response but 100 (RFC 6076 section 4.3).",
        MICROS,
        [(&[("result", "success")][..], success), (&[("result", "failure")][..], failure)],
    );
    text.histograms(
        "barebell_session_disconnect_delay_seconds",
        "From a BYE until its 2xx (RFC 6076 section 4.4).",
        MICROS,
        [(&[][..], &summary.disconnect_delay)],
    );
}

fn observations(observed: &Observed, text: &mut Exposition) {
    let Observed { registration, journal, durations, losses, jitters, scores } = observed;
    for (name, help, unit, distribution) in [
        (
            "barebell_registration_request_delay_seconds",
            "From the arrival of a REGISTER that changes bindings until its 200 is sent (RFC 6076 \
             section 4.1).",
            MICROS,
            registration,
        ),
        (
            "barebell_journal_append_seconds",
            "The time in which the registrations of a batch of messages are stored.",
            MICROS,
            journal,
        ),
        (
            "barebell_call_duration_seconds",
            "The duration of relayed calls that ended, from the answer (RFC 6076 section 4.5).",
            MICROS,
            durations,
        ),
        (
            "barebell_media_loss_ratio",
            "The share of packets lost on the way to the server, for each direction of a call.",
            MICROS,
            losses,
        ),
        (
            "barebell_media_jitter_seconds",
            "The maximum interarrival jitter of each direction of a call.",
            MICROS,
            jitters,
        ),
        (
            "barebell_media_opinion_score",
            "The mean opinion score of each direction of a call, 1 to 4.5.",
            HUNDREDTHS,
            scores,
        ),
    ] {
        text.histograms(name, help, unit, [(&[][..], distribution)]);
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The resident memory of this process in bytes.
fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
