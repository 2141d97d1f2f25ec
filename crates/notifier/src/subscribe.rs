//! SUBSCRIBE: a new subscription, its refresh, and its end by the subscriber (RFC 6665 section
//! 4.2.1).

use crate::dialog_info;
use crate::notifier::{Key, Notifier};
use crate::subscription::{Package, Reason, Subscription};
use crate::summary;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::dialog::{Dialog, DialogId};
use sip::header::{NameAddr, delta_seconds};
use sip::uri::unescape;
use sip::{Duration, Encode, Flow, HeaderName, Instant, Message, Uri};
use sip_ua::Token;

/// The user part of the contacts of the notifier.
pub(crate) const USER: &str = "notifier";

/// The parameter of the request URI of a new subscription with the user that it is about, which
/// the proxy writes.
const OF: &str = "of";

/// The parameter with the subscriber.
const BY: &str = "by";

/// The parameter with the right to know the parties of calls and their dialogs, and its value.
const SHOWS: (&str, &[u8]) = ("shows", b"calls");

/// The line of a 489.
const ALLOW_EVENTS: &[u8] = b"Allow-Events: message-summary, dialog\r\n";

/// The line of the response to a subscription over a limit.
const RETRY_AFTER: &[u8] = b"Retry-After: 60\r\n";

/// A refusal: the status, and the header field lines.
type Refusal = (u16, Vec<u8>);

/// The content of a new SUBSCRIBE that the proxy has written.
struct Asked {
    user: Box<str>,
    subscriber: Box<str>,
    is_detailed: bool,
}

impl Asked {
    fn read(request: &Message<'_>) -> Option<Self> {
        let Ok(Uri::Sip(uri)) = Uri::parse(request.request_uri()?) else { return None };
        let name_of = |param| {
            let name = unescape(uri.params.value(param)?);
            Some(Box::from(core::str::from_utf8(&name).ok()?))
        };
        let is_detailed = uri.params.value(SHOWS.0) == Some(SHOWS.1);
        Some(Self { user: name_of(OF)?, subscriber: name_of(BY)?, is_detailed })
    }
}

/// The URI in From.
fn from_of<'m>(request: &Message<'m>) -> Option<NameAddr<'m>> {
    NameAddr::parse(HeaderName::From, request.value(HeaderName::From)?).ok()
}

/// True if the subscriber takes the documents of `package`.
fn accepts(request: &Message<'_>, package: Package) -> bool {
    let wanted = match package {
        Package::MessageSummary => summary::TYPE,
        Package::Dialog => dialog_info::TYPE,
    };
    let mut types = request.elements(HeaderName::Accept).peekable();
    if types.peek().is_none() {
        return true;
    }
    types.any(|element| {
        let kind = element.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let of_application = kind.eq_ignore_ascii_case(b"application/*") || kind == b"*/*";
        of_application || kind.eq_ignore_ascii_case(wanted.as_bytes())
    })
}

impl Notifier {
    pub(crate) fn on_subscribe(&mut self, request: &Message<'_>, flow: &Flow, now: Instant) {
        let outcome = match DialogId::of(request) {
            Err(_) => Err((400, Vec::new())),
            Ok(id) if id.local_tag.is_empty() => self.subscribe(request, &id, flow, now),
            Ok(id) => self.refresh(request, &id, now),
        };
        match outcome {
            Ok((key, expires)) => self.accept(request, flow, key, expires, now),
            Err((status, lines)) => self.respond(request, flow, status, b"", &lines),
        }
    }

    /// Returns the accepted expiry of `request` with the package that it names.
    fn terms(&self, request: &Message<'_>) -> Result<(Package, Duration), Refusal> {
        let event = request.value(HeaderName::Event).unwrap_or_default();
        let package = Package::parse(event).ok_or_else(|| (489, ALLOW_EVENTS.to_vec()))?;
        if !accepts(request, package) {
            return Err((406, Vec::new()));
        }
        let expires = match request.value(HeaderName::Expires) {
            None => self.config.default_expires,
            Some(value) => match delta_seconds(HeaderName::Expires, value) {
                Ok(seconds) => Duration::from_secs(seconds.into()),
                Err(_) => return Err((400, Vec::new())),
            },
        };
        let min = self.config.min_expires;
        if expires > Duration::ZERO && expires < min {
            let mut lines = Vec::new();
            ("Min-Expires: ", min.as_secs(), "\r\n").encode(&mut lines);
            return Err((423, lines));
        }
        Ok((package, expires.min(self.config.max_expires)))
    }

    /// Begins a subscription, or refreshes it if the request is a retransmission. Returns it with
    /// its expiry.
    fn subscribe(
        &mut self,
        request: &Message<'_>,
        id: &DialogId<'_>,
        flow: &Flow,
        now: Instant,
    ) -> Result<(Key, Duration), Refusal> {
        let (package, expires) = self.terms(request)?;
        let refused = |status| (status, Vec::new());
        let Asked { user, subscriber, is_detailed } =
            Asked::read(request).ok_or_else(|| refused(404))?;
        if request.as_bytes().len() > self.config.subscribe_bytes {
            return Err(refused(513));
        }
        let from = from_of(request).ok_or_else(|| refused(400))?;
        let event = request.value(HeaderName::Event).unwrap_or_default();
        // A retransmission gets the same tag, and so the same subscription.
        let parts = [id.call_id, id.remote_tag, from.uri_bytes, user.as_bytes(), event];
        let mut tag = Vec::new();
        Token(self.tokens.hash(&parts)).encode(&mut tag);
        let key = self.tokens.hash(&[id.call_id, &tag]);
        if self.subscriptions.contains_key(&key) {
            return Ok((key, expires));
        }
        let source = sip::Source::of(flow.remote.ip());
        let of_user = self.subscribers.get(&subscriber).copied().unwrap_or_default();
        let of_source = self.sources.get(&source).copied().unwrap_or_default();
        if self.subscriptions.len() >= self.config.subscriptions
            || of_user >= self.config.subscriptions_of_user
            || of_source >= self.config.subscriptions_of_source
        {
            self.counters.over_limit += 1;
            return Err((480, RETRY_AFTER.to_vec()));
        }
        let mut dialog = Dialog::from_request(request, &tag).map_err(|it| refused(it.status()))?;
        dialog.on_success_sent();
        let subscription = Subscription {
            dialog,
            flow: *flow,
            package,
            event: event.to_vec(),
            user: user.clone(),
            subscriber: subscriber.clone(),
            is_detailed,
            expires: now + expires,
            version: 0,
            told: Vec::new(),
            is_due: true,
            next: now,
            sent: None,
            queued: None,
        };
        self.subscribers.insert(subscriber, of_user + 1);
        self.sources.insert(source, of_source + 1);
        self.users.entry(user).or_default().subscriptions.push(key);
        self.subscriptions.insert(key, subscription);
        self.counters.accepted += 1;
        Ok((key, expires))
    }

    /// Checks a SUBSCRIBE within a dialog. Returns the subscription with its new expiry.
    fn refresh(
        &mut self,
        request: &Message<'_>,
        id: &DialogId<'_>,
        now: Instant,
    ) -> Result<(Key, Duration), Refusal> {
        let refused = |status| (status, Vec::new());
        let key = self.tokens.hash(&[id.call_id, id.local_tag]);
        let terms = self.terms(request);
        let found = self.subscriptions.get_mut(&key);
        let found = found.filter(|it| it.dialog.id() == *id && it.expires > now);
        let subscription = found.ok_or_else(|| refused(481))?;
        // The proxy has proved this name. Another one has no right to the subscription.
        let before = NameAddr::parse(HeaderName::From, subscription.dialog.remote()).ok();
        let names = [before, from_of(request)].map(|from| from.map(|from| from.uri_bytes));
        if names[0] != names[1] {
            return Err(refused(403));
        }
        let (package, expires) = terms?;
        if package != subscription.package {
            return Err((489, ALLOW_EVENTS.to_vec()));
        }
        subscription.dialog.check_cseq(request).map_err(|it| refused(it.status()))?;
        subscription.dialog.refresh_target(request);
        Ok((key, expires))
    }

    /// Answers `request` for the subscription `key`, and tells it the present state.
    fn accept(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        key: Key,
        expires: Duration,
        now: Instant,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(&key) else { return };
        subscription.expires = now + expires;
        (subscription.is_due, subscription.next) = (true, now);
        // The NOTIFY before may have gone to a place that the subscriber has left.
        if let Some(sent) = subscription.sent.take() {
            self.branches.remove(&sent.branch);
        }
        let tag = subscription.dialog.id().local_tag.to_vec();
        let mut lines = Vec::new();
        for route in request.elements(HeaderName::RecordRoute) {
            ("Record-Route: ", route, "\r\n").encode(&mut lines);
        }
        let contact = sip_ua::contact(USER.as_bytes(), flow, b"sip:");
        ("Contact: ", contact, "\r\nExpires: ", expires.as_secs(), "\r\n").encode(&mut lines);
        self.respond(request, flow, 200, &tag, &lines);
        match expires == Duration::ZERO {
            true => self.end(key, Reason::Timeout, now),
            false => self.notify_if_due(key, now),
        }
    }
}
