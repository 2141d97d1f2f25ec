//! The counts of messages and sessions of one worker, and their sum.

use crate::core::counter::Counter;
use crate::core::flow::Flow;
use crate::core::histogram::{Distribution, Histogram};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sip::header::NameAddr;
use sip::{HeaderName, Instant, Message, Method};

/// The methods that are counted apart. Any other one is the last of them.
const METHODS: [&str; 15] = [
    "INVITE",
    "ACK",
    "BYE",
    "CANCEL",
    "REGISTER",
    "OPTIONS",
    "PRACK",
    "UPDATE",
    "INFO",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "REFER",
    "other",
];

/// The place of the INVITE in [`METHODS`].
const INVITE: u8 = 0;
/// The place of the BYE.
const BYE: u8 = 2;

/// The status codes that are counted apart: those of the registry of SIP. Any other one is counted
/// with its class, so that a peer cannot choose the number of counts.
const STATUSES: [u16; 77] = [
    100, 180, 181, 182, 183, 199, 200, 202, 204, 300, 301, 302, 305, 380, 400, 401, 402, 403, 404,
    405, 406, 407, 408, 410, 412, 413, 414, 415, 416, 417, 420, 421, 422, 423, 424, 425, 428, 429,
    430, 433, 436, 437, 438, 439, 440, 469, 470, 480, 481, 482, 483, 484, 485, 486, 487, 488, 489,
    491, 493, 494, 500, 501, 502, 503, 504, 505, 513, 555, 580, 600, 603, 604, 606, 607, 608, 609,
    699,
];

/// The classes of status codes.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];

/// The number of counts of the responses of a method.
const CODES: usize = STATUSES.len() + CLASSES.len();

/// The results of the attempts to establish a session, that is, of the final responses to initial
/// INVITEs, as RFC 6076 distinguishes them: 2xx; 3xx; 401 and 407, after which a client tries
/// again; 480, 486, 600 and 603, which a user may have chosen (section 4.7); 408, 500, 503 and 504
/// (section 4.8); 487; all others.
const RESULTS: [&str; 7] =
    ["established", "redirected", "challenged", "declined", "ineffective", "cancelled", "failed"];

/// The upper bounds of delays, in microseconds.
pub const DELAYS: &[u64] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000,
];

/// A request with a transaction, and its responses so far.
pub(crate) struct Attempt {
    method: u8,
    /// True for a request that comes from outside: the second leg of the owner's B2BUA is no
    /// further request.
    is_counted: bool,
    /// True for an INVITE outside of a dialog.
    is_initial: bool,
    /// True after a response other than 100.
    has_progress: bool,
    has_final: bool,
    begun: Instant,
}

/// The counts of one worker, which writes them. Any thread may read them.
#[derive(Debug)]
pub(crate) struct Traffic {
    requests: [Counter; METHODS.len()],
    /// [`CODES`] counts for each method.
    responses: Box<[Counter]>,
    results: [Counter; RESULTS.len()],
    /// Session request delays: of attempts with a provisional response or a 2xx, and of failed
    /// ones.
    session_delays: [Histogram; 2],
    disconnect_delay: Histogram,
}

/// The counts of all workers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// Received requests by method, retransmissions included.
    pub requests: Vec<(&'static str, u64)>,
    /// Sent responses, without retransmissions.
    pub responses: Vec<Responses>,
    /// Final responses to initial INVITEs, by result.
    pub results: Vec<(&'static str, u64)>,
    /// Microseconds from an initial INVITE until its first response other than 100 (RFC 6076
    /// section 4.3): if that is a provisional response or a 2xx, and if it is a failure other than
    /// a challenge.
    pub session_delays: [Distribution; 2],
    /// Microseconds from a BYE until its 2xx (RFC 6076 section 4.4).
    pub disconnect_delay: Distribution,
}

/// The number of responses of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Responses {
    /// The method of the request.
    pub method: &'static str,
    /// The status code, or its class such as `4xx` if the code is not in the registry of SIP.
    pub code: String,
    /// The number of responses since the start.
    pub count: u64,
}

fn method_place(method: Option<Method<'_>>) -> u8 {
    match method {
        Some(Method::Invite) => INVITE,
        Some(Method::Ack) => 1,
        Some(Method::Bye) => BYE,
        Some(Method::Cancel) => 3,
        Some(Method::Register) => 4,
        Some(Method::Options) => 5,
        Some(Method::Prack) => 6,
        Some(Method::Update) => 7,
        Some(Method::Info) => 8,
        Some(Method::Message) => 9,
        Some(Method::Subscribe) => 10,
        Some(Method::Notify) => 11,
        Some(Method::Publish) => 12,
        Some(Method::Refer) => 13,
        _ => 14,
    }
}

fn code_place(status: u16) -> usize {
    let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
    STATUSES.binary_search(&status).unwrap_or(STATUSES.len() + class)
}

const fn result_place(status: u16) -> usize {
    match status {
        ..300 => 0,
        300..=399 => 1,
        401 | 407 => 2,
        480 | 486 | 600 | 603 => 3,
        408 | 500 | 503 | 504 => 4,
        487 => 5,
        _ => 6,
    }
}

fn is_initial(request: &Message<'_>) -> bool {
    let to = request.value(HeaderName::To).and_then(|to| NameAddr::parse(HeaderName::To, to).ok());
    to.is_none_or(|to| to.tag().is_none())
}

impl Attempt {
    /// `request`, which came on `flow` and begun at the time `begun`. `is_initial` is true if it is
    /// outside of a dialog.
    pub(crate) fn new(
        request: &Message<'_>,
        flow: &Flow,
        is_initial: bool,
        begun: Instant,
    ) -> Self {
        let method = method_place(request.method());
        Self {
            method,
            is_counted: !flow.is_internal(),
            is_initial: is_initial && method == INVITE,
            has_progress: false,
            has_final: false,
            begun,
        }
    }
}

impl Default for Traffic {
    fn default() -> Self {
        let delays = || Histogram::new(DELAYS);
        Self {
            requests: Default::default(),
            responses: (0..METHODS.len() * CODES).map(|_| Counter::default()).collect(),
            results: Default::default(),
            session_delays: [delays(), delays()],
            disconnect_delay: delays(),
        }
    }
}

impl Traffic {
    /// Counts a request that came on `flow`.
    pub(crate) fn request(&self, request: &Message<'_>, flow: &Flow) {
        if !flow.is_internal() {
            self.requests[usize::from(method_place(request.method()))].add();
        }
    }

    /// Counts a response of this server to `request`, which has no transaction.
    pub(crate) fn reply(&self, request: &Message<'_>, flow: &Flow, status: u16) {
        if flow.is_internal() {
            return;
        }
        let method = method_place(request.method());
        self.count(method, status);
        if method == INVITE && status >= 200 && is_initial(request) {
            self.results[result_place(status)].add();
        }
    }

    /// Counts a response to the request of `attempt` at `now`. Must not be called for a
    /// retransmission.
    pub(crate) fn response(&self, attempt: &mut Attempt, status: u16, now: Instant) {
        if !attempt.is_counted {
            return;
        }
        self.count(attempt.method, status);
        let is_final = status >= 200 && !attempt.has_final;
        let is_first = status > 100 && !attempt.has_progress;
        attempt.has_final |= is_final;
        attempt.has_progress |= is_first;
        let delay = now.since(attempt.begun).as_micros();
        if attempt.is_initial {
            let result = result_place(status);
            if is_final {
                self.results[result].add();
            }
            match result {
                0 if is_first => self.session_delays[0].observe(delay),
                3.. if is_first => self.session_delays[1].observe(delay),
                _ => {}
            }
        }
        if attempt.method == BYE && is_final && status < 300 {
            self.disconnect_delay.observe(delay);
        }
    }

    fn count(&self, method: u8, status: u16) {
        self.responses[usize::from(method) * CODES + code_place(status)].add();
    }
}

impl Summary {
    /// The sum of `workers`.
    pub(crate) fn of<'t>(workers: impl Iterator<Item = &'t Traffic> + Clone) -> Self {
        let sum = |of: &dyn Fn(&Traffic) -> u64| workers.clone().map(of).sum::<u64>();
        let whole = |of: fn(&Traffic) -> &Histogram| {
            let mut sum = Distribution::new(DELAYS);
            workers.clone().for_each(|traffic| sum.add(&of(traffic).read()));
            sum
        };
        let named = |(place, method): (usize, &&'static str)| {
            (*method, sum(&|traffic| traffic.requests[place].get()))
        };
        let result = |(place, result): (usize, &&'static str)| {
            (*result, sum(&|traffic| traffic.results[place].get()))
        };
        let responses = (0..METHODS.len() * CODES).filter_map(|place| {
            let count = sum(&|traffic| traffic.responses[place].get());
            let (method, code) = (METHODS[place / CODES], place % CODES);
            let code = || match code.checked_sub(STATUSES.len()) {
                None => STATUSES[code].to_string(),
                Some(class) => CLASSES[class].to_string(),
            };
            (count > 0).then(|| Responses { method, code: code(), count })
        });
        Self {
            requests: METHODS.iter().enumerate().map(named).collect(),
            responses: responses.collect(),
            results: RESULTS.iter().enumerate().map(result).collect(),
            session_delays: [
                whole(|traffic| &traffic.session_delays[0]),
                whole(|traffic| &traffic.session_delays[1]),
            ],
            disconnect_delay: whole(|traffic| &traffic.disconnect_delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;

    fn flow() -> Flow {
        let address = "192.0.2.1:5060".parse().unwrap();
        Flow { transport: Transport::Udp, local: address, remote: address, connection: None }
    }

    fn request(method: &str, to: &str) -> Vec<u8> {
        alloc::format!(
            "{method} sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
             From: <sip:a@example.com>;tag=1\r\nTo: {to}\r\nCall-ID: x\r\nCSeq: 1 {method}\r\n\r\n"
        )
        .into_bytes()
    }

    const TO: &str = "<sip:b@example.com>";

    #[test]
    fn tables_are_in_the_order_that_their_places_assume() {
        assert!(STATUSES.is_sorted());
        for (place, name) in METHODS.iter().enumerate() {
            assert_eq!(usize::from(method_place(Some(Method::new(name.as_bytes())))), place);
        }
        assert_eq!(code_place(487), STATUSES.iter().position(|code| *code == 487).unwrap());
        assert_eq!(code_place(499), STATUSES.len() + 3);
        assert_eq!(code_place(6999), STATUSES.len() + 5);
    }

    #[test]
    fn a_session_is_counted_once_with_the_delay_of_its_first_progress() {
        let (traffic, at) = (Traffic::default(), Instant::from_micros);
        let invite = request("INVITE", TO);
        let invite = Message::parse(&invite).unwrap();
        traffic.request(&invite, &flow());
        let mut attempt = Attempt::new(&invite, &flow(), true, at(1_000));
        for (status, now) in [(100, 1_000), (180, 5_000), (200, 900_000), (200, 990_000)] {
            traffic.response(&mut attempt, status, at(now));
        }
        let summary = Summary::of([&traffic].into_iter());
        assert_eq!(summary.requests[0], ("INVITE", 1));
        assert_eq!(summary.results[0], ("established", 1));
        let [success, failure] = &summary.session_delays;
        assert_eq!((success.count(), success.sum, failure.count()), (1, 4_000, 0));
        let codes: Vec<_> = summary.responses.iter().map(|it| (&*it.code, it.count)).collect();
        assert_eq!(codes, [("100", 1), ("180", 1), ("200", 2)]);
    }

    #[test]
    fn failures_challenges_and_later_requests_of_a_dialog_are_told_apart() {
        let (traffic, at) = (Traffic::default(), Instant::from_micros);
        let within = alloc::format!("{TO};tag=2");
        for (to, status) in [(TO, 407), (TO, 486), (TO, 503), (&*within, 500), (TO, 302)] {
            let bytes = request("INVITE", to);
            let message = Message::parse(&bytes).unwrap();
            let mut attempt = Attempt::new(&message, &flow(), to == TO, at(0));
            traffic.response(&mut attempt, status, at(20));
        }
        let bytes = request("INVITE", TO);
        traffic.reply(&Message::parse(&bytes).unwrap(), &flow(), 404);
        let bye = request("BYE", &within);
        let bye = Message::parse(&bye).unwrap();
        let mut attempt = Attempt::new(&bye, &flow(), false, at(0));
        traffic.response(&mut attempt, 200, at(700));
        let summary = Summary::of([&traffic, &Traffic::default()].into_iter());
        let results: Vec<u64> = summary.results.iter().map(|(_, count)| *count).collect();
        assert_eq!(results, [0, 1, 1, 1, 1, 0, 1]);
        assert_eq!(summary.session_delays[1].count(), 2);
        assert_eq!((summary.disconnect_delay.count(), summary.disconnect_delay.sum), (1, 700));
    }
}
