//! A notifier behind a proxy that a test plays, and its subscribers.
// Each test file uses a part of it.
#![allow(dead_code)]

use barebell_notifier::{Config, Notifier};
use sip::header::NameAddr;
use sip::{Duration, Endpoint, Flow, HeaderName, Instant, Message, Transport};

/// A subscriber, as the proxy passes its requests.
#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    pub(crate) name: String,
    pub(crate) event: String,
    /// The user that the subscription is about. Empty for a request that names none.
    pub(crate) of: String,
    pub(crate) call_id: String,
    pub(crate) to_tag: Option<String>,
    pub(crate) cseq: u32,
    /// Further header field lines.
    pub(crate) lines: String,
    /// The last response.
    pub(crate) response: String,
}

impl Subscriber {
    pub(crate) fn new(name: &str, event: &str, of: &str) -> Self {
        Self {
            name: name.to_owned(),
            event: event.to_owned(),
            of: of.to_owned(),
            call_id: format!("{:x}", fastrand::u128(..)),
            to_tag: None,
            cseq: 0,
            lines: String::new(),
            response: String::new(),
        }
    }

    fn subscribe(&mut self, expires: u32) -> String {
        self.cseq += 1;
        let of = match &self.to_tag {
            None if !self.of.is_empty() => {
                let of = self.of.replace('@', "%40");
                format!(";of={of};by={}%40example.com;shows=calls", self.name)
            }
            _ => String::new(),
        };
        let tag = self.to_tag.as_ref().map_or(String::new(), |tag| format!(";tag={tag}"));
        let Self { name, event, call_id, cseq, lines, .. } = self;
        format!(
            "SUBSCRIBE sip:notifier@192.0.2.1{of} SIP/2.0\r\n\
             Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK{call_id}{cseq}\r\nMax-Forwards: 69\r\n\
             From: <sip:{name}@example.com>;tag=own\r\nTo: <sip:bob@example.com>{tag}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} SUBSCRIBE\r\n\
             Contact: <sip:{name}@198.51.100.7:5060>\r\nEvent: {event}\r\nExpires: {expires}\r\n\
             {lines}Content-Length: 0\r\n\r\n"
        )
    }
}

/// A NOTIFY.
#[derive(Clone, Debug)]
pub(crate) struct Notify {
    pub(crate) bytes: Vec<u8>,
    pub(crate) uri: String,
    pub(crate) via: String,
    pub(crate) call_id: String,
    /// The value of Subscription-State.
    pub(crate) state: String,
    pub(crate) body: String,
}

impl Notify {
    fn read(bytes: Vec<u8>) -> Self {
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(message.framing_fault(), None);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let value = |name| text(message.value(name).unwrap());
        Self {
            uri: text(message.request_uri().unwrap()),
            via: value(HeaderName::Via),
            call_id: value(HeaderName::CallId),
            state: value(HeaderName::SubscriptionState),
            body: text(message.body()),
            bytes,
        }
    }

    /// The response with this status and these header field lines.
    pub(crate) fn response(&self, status: u16, lines: &str) -> Vec<u8> {
        let message = Message::parse(&self.bytes).unwrap();
        let mut out = format!("SIP/2.0 {status} X\r\nVia: {}\r\n", self.via).into_bytes();
        let kept = [HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq];
        message.fields_of(&kept).for_each(|field| out.extend_from_slice(field.line));
        out.extend_from_slice(format!("{lines}Content-Length: 0\r\n\r\n").as_bytes());
        out
    }
}

pub(crate) struct Rig {
    pub(crate) notifier: Notifier,
    pub(crate) now: Instant,
    /// The internal flow of the subscribers.
    pub(crate) flow: Flow,
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        let (local, remote) = (([192, 0, 2, 1], 5060).into(), ([198, 51, 100, 7], 5060).into());
        let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
        Self {
            notifier: Notifier::new(config, &[7; 32]),
            now: Instant::from_micros(1_000_000_000),
            flow: flow.internal_to(Endpoint::Notifier),
        }
    }

    /// Sends a SUBSCRIBE. Returns the status of its response, and the NOTIFYs that follow.
    pub(crate) fn subscribe(
        &mut self,
        subscriber: &mut Subscriber,
        expires: u32,
    ) -> (u16, Vec<Notify>) {
        let request = subscriber.subscribe(expires);
        let flow = self.flow;
        self.notifier.receive(self.now, &flow, request.as_bytes());
        let response = self.notifier.poll_transmit().expect("each request has a response").bytes;
        let message = Message::parse(&response).unwrap();
        let status = message.status().unwrap();
        let to = NameAddr::parse(HeaderName::To, message.value(HeaderName::To).unwrap()).unwrap();
        if status == 200 {
            subscriber.to_tag = to.tag().map(|tag| String::from_utf8(tag.to_vec()).unwrap());
        }
        subscriber.response = String::from_utf8(response.clone()).unwrap();
        (status, self.notifies())
    }

    /// Takes the NOTIFYs that were sent.
    pub(crate) fn notifies(&mut self) -> Vec<Notify> {
        let sent = std::iter::from_fn(|| self.notifier.poll_transmit());
        sent.map(|transmit| Notify::read(transmit.bytes)).collect()
    }

    pub(crate) fn answer(&mut self, notify: &Notify, status: u16, lines: &str) {
        let flow = self.flow;
        self.notifier.receive(self.now, &flow, &notify.response(status, lines));
    }

    /// Lets `time` pass, with all timers.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.notifier.next_timer().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.notifier.on_timer(self.now);
        }
        self.now = end;
    }
}
