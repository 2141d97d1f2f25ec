//! The recognition of refusals in the work of the engine: responses with a status of 400 and more,
//! and dropped requests. The counters that have risen meanwhile are the reasons.

use super::reasons::{Counts, ReasonSet, silent};
use super::{MAX_PER_SECOND, Refusal};
use net::wall_clock;
use sip::header::{CSeq, NameAddr};
use sip::{Endpoint, Flow, HeaderName, Message, StartLine};
use sip_server::OutputMessage;
use sip_server::counters::Counters;
use std::mem::take;

/// The maximum length of a received text that is kept.
const MAX_TEXT: usize = 256;

/// The challenges, and the response to a cancelled INVITE: they refuse nothing.
const CHALLENGES: [u16; 2] = [401, 407];
const CANCELLED: u16 = 487;

/// The header fields of a response that explain it.
const EXPLANATIONS: [HeaderName; 3] =
    [HeaderName::Warning, HeaderName::Reason, HeaderName::Unsupported];

/// The judge of the work of one worker.
#[derive(Debug)]
pub(crate) struct Judge {
    counts: Counts,
    /// The reasons without a response, and the counters of messages that are no SIP.
    silent: ReasonSet,
    dropped: u64,
    /// The number of messages in the output that have been judged.
    judged: usize,
    refusals: Vec<Refusal>,
    /// The number of refusals that are only counted.
    left_out: u64,
    /// The present second, and the number of refusals in it.
    second: (u64, u32),
}

/// The input of the engine: a message and its flow.
pub(crate) type Input<'i> = Option<(&'i Flow, &'i [u8])>;

impl Judge {
    /// The judge of the worker with these counters.
    pub(crate) fn new(counters: &Counters) -> Self {
        Self {
            counts: Counts::new(counters),
            silent: silent(),
            dropped: counters.dropped.get(),
            judged: 0,
            refusals: Vec::new(),
            left_out: 0,
            second: (0, 0),
        }
    }

    /// Judges the messages of the output that are new, `bytes` being those of the output, and the
    /// `input` that caused them. Returns true if the input was dropped.
    pub(crate) fn judge(
        &mut self,
        counters: &Counters,
        transmits: &[OutputMessage],
        bytes: &[u8],
        input: Input<'_>,
    ) -> bool {
        let reasons = self.counts.replace(counters);
        let dropped = counters.dropped.get();
        let is_dropped = self.dropped != dropped || reasons & self.silent != 0;
        self.dropped = dropped;
        if reasons & self.silent != 0
            && let Some((flow, message)) = input
        {
            self.keep(|at| of_dropped(at, flow, message, reasons));
        }
        for transmit in transmits.get(self.judged..).unwrap_or_default() {
            let message = &bytes[transmit.range.clone()];
            if is_refusal(message, reasons) {
                let answerer = input.filter(|(_, it)| it.starts_with(b"SIP/2.0 "));
                let answerer = answerer.map(|(flow, _)| flow);
                self.keep(|at| of_response(at, &transmit.flow, message, reasons, answerer));
            }
        }
        self.judged = transmits.len();
        is_dropped
    }

    /// Ends a batch: the output is about to be cleared. Returns the refusals in it, and the number
    /// of those that are only counted.
    pub(crate) fn end(&mut self) -> Option<(Vec<Refusal>, u64)> {
        self.judged = 0;
        let is_any = !self.refusals.is_empty() || self.left_out > 0;
        is_any.then(|| (take(&mut self.refusals), take(&mut self.left_out)))
    }

    fn keep(&mut self, refusal: impl FnOnce(u64) -> Option<Refusal>) {
        let at = wall_clock().as_micros();
        let second = at / 1_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        if self.second.1 >= MAX_PER_SECOND {
            self.left_out += 1;
            return;
        }
        self.second.1 += 1;
        self.refusals.extend(refusal(at));
    }
}

/// True if `message` is a response that refuses a request.
fn is_refusal(message: &[u8], reasons: ReasonSet) -> bool {
    let Some(digits) = message.strip_prefix(b"SIP/2.0 ").and_then(|it| it.first_chunk::<3>())
    else {
        return false;
    };
    let status = digits.iter().fold(0, |status, digit| 10 * status + u16::from(digit & 15));
    status >= 400 && status != CANCELLED && (reasons != 0 || !CHALLENGES.contains(&status))
}

fn of_dropped(at: u64, flow: &Flow, request: &[u8], reasons: ReasonSet) -> Option<Refusal> {
    let message = Message::parse(request).ok()?;
    let method = text(message.method()?.as_bytes());
    Some(refusal(at, flow, &message, method, (0, String::new()), reasons))
}

fn of_response(
    at: u64,
    flow: &Flow,
    response: &[u8],
    reasons: ReasonSet,
    answerer: Option<&Flow>,
) -> Option<Refusal> {
    let message = Message::parse(response).ok()?;
    let StartLine::Response { status, reason } = message.start_line() else { return None };
    let cseq = message.value(HeaderName::CSeq).and_then(|it| CSeq::parse(it).ok());
    let method = cseq.map(|cseq| text(cseq.method.as_bytes())).unwrap_or_default();
    let mut phrase = text(reason);
    for field in message.fields_of(&EXPLANATIONS) {
        phrase += &format!("; {}: {}", text(field.raw_name()), text(field.value));
    }
    let refusal = refusal(at, flow, &message, method, (status, phrase), reasons);
    Some(Refusal { answered_by: answerer.map(place), ..refusal })
}

/// The other end of `flow`: its address, or a part of this server.
fn place(flow: &Flow) -> String {
    match flow.endpoint() {
        None => flow.to_string(),
        Some(Endpoint::B2bua) => "the B2BUA of this server".to_owned(),
        Some(Endpoint::MediaServer) => "the media server of this server".to_owned(),
        Some(Endpoint::Notifier) => "the notifier of this server".to_owned(),
        Some(Endpoint::Keeper) => "the keeper of messages of this server".to_owned(),
        Some(Endpoint::Trunk(_)) => "the user agent of a trunk of this server".to_owned(),
    }
}

fn refusal(
    at: u64,
    flow: &Flow,
    message: &Message<'_>,
    method: String,
    (status, phrase): (u16, String),
    reasons: ReasonSet,
) -> Refusal {
    let parties = [HeaderName::From, HeaderName::To].map(|name| {
        let address = message.value(name).and_then(|value| NameAddr::parse(name, value).ok());
        address.map(|it| text(it.uri_bytes)).unwrap_or_default()
    });
    let call_id = message.value(HeaderName::CallId).map(text).unwrap_or_default();
    let (source, flow) = (flow.remote, place(flow));
    Refusal {
        at,
        method,
        parties,
        call_id,
        flow,
        source,
        status,
        phrase,
        reasons,
        answered_by: None,
    }
}

/// The beginning of a received text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;
    use sip_server::Payers;

    fn flow() -> Flow {
        let end = ([192, 0, 2, 1], 5060).into();
        Flow { transport: Transport::Udp, local: end, remote: end, connection: None }
    }

    fn message(start: &str) -> Vec<u8> {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
             From: <sip:a@h>;tag=1\r\nTo: <sip:b@h>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\
             Warning: 399 h \"text\"\r\nContent-Length: 0\r\n\r\n"
        );
        text.into_bytes()
    }

    fn transmit(length: usize) -> OutputMessage {
        OutputMessage { flow: flow(), range: 0..length, is_promise: false, payers: Payers::NONE }
    }

    #[test]
    fn responses_and_dropped_requests_are_refusals_with_the_counters_that_rose() {
        let counters = Counters::default();
        let mut judge = Judge::new(&counters);
        let request = message("INVITE sip:b@h SIP/2.0");
        for (status, is_counted, is_kept) in [
            ("404 Not Found", true, true),
            ("486 Busy Here", false, true),
            ("407 Proxy Authentication Required", false, false),
            ("407 Proxy Authentication Required", true, true),
            ("487 Request Terminated", false, false),
            ("302 Moved", true, false),
            ("200 OK", true, false),
        ] {
            if is_counted {
                counters.not_found.add();
            }
            let response = message(&format!("SIP/2.0 {status}"));
            let transmits = [transmit(response.len())];
            assert!(!judge.judge(&counters, &transmits, &response, Some((&flow(), &request))));
            // It is judged once.
            assert!(!judge.judge(&counters, &transmits, &response, None));
            let (refusals, left_out) = judge.end().unwrap_or_default();
            assert_eq!((refusals.len(), left_out), (usize::from(is_kept), 0), "{status}");
            let Some(refusal) = refusals.first() else { continue };
            assert_eq!(refusal.reasons != 0, is_counted);
            assert_eq!(refusal.phrase, format!("{}; Warning: 399 h \"text\"", &status[4..]));
            assert_eq!((&refusal.method[..], &refusal.call_id[..]), ("INVITE", "x"));
            assert_eq!(refusal.parties, ["sip:a@h", "sip:b@h"]);
            assert_eq!((refusal.source, &refusal.answered_by), (flow().remote, &None));
        }
        counters.banned_requests.add();
        assert!(judge.judge(&counters, &[], b"", Some((&flow(), &request))));
        let (refusals, _) = judge.end().unwrap();
        assert_eq!((refusals[0].status, refusals.len()), (0, 1));
        counters.dropped.add();
        assert!(judge.judge(&counters, &[], b"", Some((&flow(), b"nonsense"))));
        assert!(judge.end().is_none());
    }

    #[test]
    fn a_response_of_a_phone_names_its_flow() {
        let counters = Counters::default();
        let mut judge = Judge::new(&counters);
        let response = message("SIP/2.0 486 Busy Here");
        let transmits = [transmit(response.len())];
        judge.judge(&counters, &transmits, &response, Some((&flow(), &response)));
        let (refusals, _) = judge.end().unwrap();
        assert_eq!(refusals[0].answered_by.as_deref(), Some("udp:192.0.2.1:5060"));
        let internal = flow().internal_to(Endpoint::B2bua);
        judge.judge(&counters, &transmits, &response, Some((&internal, &response)));
        let (refusals, _) = judge.end().unwrap();
        assert_eq!(refusals[0].answered_by.as_deref(), Some("the B2BUA of this server"));
    }

    #[test]
    fn the_number_in_a_second_is_limited() {
        let counters = Counters::default();
        let mut judge = Judge::new(&counters);
        let response = message("SIP/2.0 404 Not Found");
        let count = 3 * MAX_PER_SECOND as usize;
        let transmits = vec![transmit(response.len()); count];
        judge.judge(&counters, &transmits, &response, None);
        let (refusals, left_out) = judge.end().unwrap();
        assert_eq!(refusals.len() as u64 + left_out, count as u64);
        // The clock may begin another second meanwhile.
        assert!(refusals.len() <= 2 * MAX_PER_SECOND as usize);
    }
}
