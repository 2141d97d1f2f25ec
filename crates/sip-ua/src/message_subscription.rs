//! The subscription of a registered account to its message counts (RFC 3842, RFC 6665).

use crate::client_transaction::{Owner, RequestResult};
use crate::config::AccountId;
use crate::core::Core;
use crate::draft::Draft;
use alloc::vec::Vec;
use sip::dialog::{Dialog, DialogId, State};
use sip::header::{CSeq, delta_seconds};
use sip::param::Params;
use sip::{Duration, Encode, Flow, HeaderName, Instant, Message, Method};

/// The requested duration.
const EXPIRES: Duration = Duration::from_secs(3600);

/// The pause before a subscription begins anew that the server has ended.
const PAUSE: Duration = Duration::from_secs(2);

/// The pause if the server asks for one without naming it, and the longest one.
const PROBATION: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The state of the subscription of one account.
pub(crate) struct MessageSubscription {
    account: AccountId,
    dialog: Option<Dialog>,
    /// The flow to the registrar.
    flow: Option<Flow>,
    routes: Vec<Vec<u8>>,
    expires: Duration,
    /// True while a request is pending.
    is_asking: bool,
    /// True after a refusal: the server has no such subscriptions.
    is_refused: bool,
    /// The time of the next request.
    next: Option<Instant>,
}

impl MessageSubscription {
    pub(crate) const fn new(account: AccountId) -> Self {
        Self {
            account,
            dialog: None,
            flow: None,
            routes: Vec::new(),
            expires: EXPIRES,
            is_asking: false,
            is_refused: false,
            next: None,
        }
    }

    /// Subscribes after a registration on `flow` with the service route `routes`, unless it
    /// is subscribed.
    pub(crate) fn start(
        &mut self,
        core: &mut Core,
        flow: Option<Flow>,
        routes: &[Vec<u8>],
        now: Instant,
    ) {
        (self.flow, self.routes) = (flow, routes.to_vec());
        if self.next.is_none() && !self.is_asking && !self.is_refused {
            self.ask(core, now);
        }
    }

    /// Forgets the subscription, after the end of the registration. The server ends it by itself.
    pub(crate) fn forget(&mut self) {
        (self.dialog, self.next, self.is_refused) = (None, None, false);
    }

    fn ask(&mut self, core: &mut Core, now: Instant) {
        let Some(settings) = core.config.accounts.get(self.account.0) else { return };
        let (uri, proxy) = (settings.uri.clone(), settings.proxy.clone());
        (self.is_asking, self.next) = (true, None);
        let routes = &self.routes;
        let dialog = self.dialog.get_or_insert_with(|| {
            let (call_id, tag) = (core.tokens.next(), core.tokens.next());
            let address = ("<", uri.as_str(), ">");
            let mut dialog = Dialog::new(call_id, address, tag, address, uri.as_str());
            match routes.is_empty() {
                true => dialog.set_routes(proxy.as_ref().map(|proxy| ("<", proxy.as_str(), ">"))),
                false => dialog.set_routes(routes),
            }
            dialog
        });
        let mut draft = Draft::within(Some(self.account), dialog, Method::Subscribe, Vec::new());
        draft.contact = Some(Vec::new());
        let accept = "Event: message-summary\r\nAccept: application/simple-message-summary\r\n";
        (accept, "Expires: ", self.expires.as_secs(), "\r\n").encode(&mut draft.lines);
        core.request(draft, Owner::Messages(self.account), self.flow, now);
    }

    /// Processes the result of a SUBSCRIBE. After a failure the next registration tries again.
    pub(crate) fn on_result(&mut self, result: &RequestResult<'_>, now: Instant) {
        let status = result.outcome.as_ref().map_or(0, |it| it.status().unwrap_or_default());
        if (100..200).contains(&status) {
            return;
        }
        self.is_asking = false;
        let Some(mut dialog) = self.dialog.take() else { return };
        let Ok(response) = &result.outcome else { return };
        let cseq = response.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
        dialog.raise_local_cseq(cseq.map_or(0, |cseq| cseq.number));
        let seconds = |name| Some(delta_seconds(name, response.value(name)?).ok()?.into());
        let confirmed = match dialog.state() {
            State::Confirmed => dialog.on_success_received(response),
            State::Initial | State::Early => {
                Dialog::from_response(response).map(|created| dialog = created)
            }
        };
        match status {
            200..300 if confirmed.is_ok() => {
                self.flow = result.flow;
                let granted = seconds(HeaderName::Expires).map_or(EXPIRES, Duration::from_secs);
                let wait = Duration::from_micros(granted.min(EXPIRES).as_micros() / 10 * 8);
                self.next = Some(now + wait.max(PAUSE));
                self.dialog = Some(dialog);
            }
            // The server has lost the subscription.
            481 if dialog.state() == State::Confirmed => self.next = Some(now + PAUSE),
            423 if self.expires == EXPIRES => {
                let least = seconds(HeaderName::MinExpires).map(Duration::from_secs);
                self.expires = least.filter(|least| *least > EXPIRES).unwrap_or(EXPIRES.times(2));
                self.next = Some(now + PAUSE);
            }
            403 | 404 | 405 | 423 | 489 | 501 => self.is_refused = true,
            _ => {}
        }
    }

    /// Returns true if `request` is within the dialog of the subscription.
    pub(crate) fn has(&self, request: &Message<'_>) -> bool {
        let (Some(dialog), Ok(id)) = (&self.dialog, DialogId::of(request)) else { return false };
        let own = dialog.id();
        // A NOTIFY may arrive before the response to the SUBSCRIBE, which has the remote tag.
        (own.call_id, own.local_tag) == (id.call_id, id.local_tag)
            && (own.remote_tag.is_empty() || own.remote_tag == id.remote_tag)
    }

    /// Processes a NOTIFY of the subscription. Returns the status of the response.
    pub(crate) fn on_notify(&mut self, core: &mut Core, notify: &Message<'_>, now: Instant) -> u16 {
        let in_order = self.dialog.as_mut().is_some_and(|it| it.check_cseq(notify).is_ok());
        if !in_order {
            return 500;
        }
        let status = match notify.body() {
            [] => 200,
            _ => core.on_summary(Some(self.account), notify),
        };
        let state = notify.value(HeaderName::SubscriptionState).unwrap_or_default();
        let (name, params) = match state.iter().position(|byte| *byte == b';') {
            Some(at) => (&state[..at], Params::new(&state[at..])),
            None => (state, Params::new(b"")),
        };
        if name.trim_ascii().eq_ignore_ascii_case(b"terminated") {
            self.dialog = None;
            let pause = params.value("retry-after").and_then(|it| {
                Some(Duration::from_secs(delta_seconds(HeaderName::RetryAfter, it).ok()?.into()))
            });
            let reason = params.value("reason").unwrap_or_default();
            let pause = match reason.to_ascii_lowercase().as_slice() {
                b"rejected" | b"noresource" => {
                    self.is_refused = true;
                    None
                }
                b"deactivated" | b"timeout" => Some(PAUSE),
                _ => Some(pause.unwrap_or(PROBATION).min(LONGEST_PAUSE)),
            };
            self.next = pause.filter(|_| !self.is_asking).map(|pause| now + pause);
        }
        status
    }

    /// Sends the request that is due.
    pub(crate) fn on_timer(&mut self, core: &mut Core, now: Instant) {
        if self.next.is_some_and(|next| next <= now) {
            self.ask(core, now);
        }
    }

    pub(crate) const fn next_timer(&self) -> Option<Instant> {
        self.next
    }
}
