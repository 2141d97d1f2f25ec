//! The registration of a phone, and its refreshes.

use super::{DOMAIN, Phone, Purpose};
use crate::wire;
use sip::dialog::Dialog;
use sip::header::{HeaderName, NameAddr};
use sip::{Duration, Instant, Message, Method};

pub(crate) struct Registration {
    /// The common fields of its requests.
    requests: Dialog,
    /// The requested expiry in seconds.
    lifetime: u64,
    is_wanted: bool,
    next: Option<Instant>,
    /// The pending REGISTER: the key of its transaction, and the time at which it was sent.
    current: Option<(String, Instant)>,
    /// The confirmed expiry of the binding. A pending REGISTER may end the binding earlier.
    pub(crate) granted: Option<Instant>,
    /// True if the server has confirmed the removal, with no REGISTER since.
    pub(crate) is_gone: bool,
    /// The number of REGISTERs that were answered 200.
    pub(crate) successes: u32,
}

impl Registration {
    /// The registration of a user on the phone with this number. It begins at `first`.
    pub(crate) fn new(user: &str, number: u16, lifetime: u64, first: Instant) -> Self {
        let address = ("<sip:", user, "@", DOMAIN, ">");
        let call_id = ("register", number);
        Self {
            requests: Dialog::new(call_id, address, "r", address, ("sip:", DOMAIN)),
            lifetime,
            is_wanted: true,
            next: Some(first),
            current: None,
            granted: None,
            is_gone: false,
            successes: 0,
        }
    }

    /// Ends the binding.
    pub(crate) fn end(&mut self, now: Instant) {
        self.is_wanted = false;
        self.next = Some(now);
    }

    /// Registers soon.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.current = None;
        self.next = Some(now + Duration::from_millis(300));
    }

    /// Retries after a while.
    pub(super) fn retry(&mut self, now: Instant) {
        self.current = None;
        self.next = Some(now + Duration::from_secs(2));
    }

    /// The phone is off: the binding remains until its expiry.
    pub(super) fn forget(&mut self) {
        (self.current, self.next) = (None, None);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    pub(super) const fn next_timer(&self) -> Option<Instant> {
        self.next
    }
}

impl Phone {
    pub(super) fn register(&mut self, now: Instant) {
        self.registration.next = None;
        let seconds = if self.registration.is_wanted { self.registration.lifetime } else { 0 };
        let lines = format!("Contact: <{}>;expires={seconds}\r\n", self.contact());
        self.registration.is_gone = false;
        if !self.registration.is_wanted {
            self.registration.granted = None;
        }
        let mut requests = self.registration.requests.clone();
        let key =
            self.send_request(now, &mut requests, Method::Register, &lines, Purpose::Register);
        self.registration.requests = requests;
        self.registration.current = Some((key, now));
    }

    pub(super) fn on_register_response(&mut self, now: Instant, key: &str, response: &Message<'_>) {
        let Some((_, sent)) = self.registration.current.take_if(|current| current.0 == key) else {
            return;
        };
        match response.status() {
            Some(401) => self.registration.next = Some(now),
            Some(200) => {
                let contact = self.contact();
                let granted = response
                    .elements(HeaderName::Contact)
                    .filter_map(|contact| NameAddr::parse(HeaderName::Contact, contact).ok())
                    .find(|granted| granted.uri_bytes == contact.as_bytes())
                    .map(|granted| {
                        let seconds = granted.params.value("expires").expect("expires");
                        wire::text(seconds).parse().expect("seconds")
                    });
                let registration = &mut self.registration;
                registration.successes += 1;
                if !registration.is_wanted {
                    assert_eq!(granted, None, "a binding stays after its end");
                    registration.is_gone = true;
                    return;
                }
                let seconds: u64 = granted.expect("the binding is in the answer");
                assert_eq!(seconds, registration.lifetime);
                registration.granted = Some(sent + Duration::from_secs(seconds));
                let refresh = self.random.below(seconds / 2) + seconds / 4;
                registration.next = Some(now + Duration::from_secs(refresh));
            }
            // A table of the server is full.
            Some(403 | 503) => self.registration.retry(now),
            status => panic!("REGISTER was answered with {status:?}"),
        }
    }
}
