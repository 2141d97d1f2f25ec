//! The registration of an account: start, refresh before expiry, retry after a failure (RFC 3261
//! section 10.2, RFC 5626 section 4.5).

use crate::client_transaction::{Owner, RequestResult};
use crate::config::AccountId;
use crate::core::{Core, contact};
use crate::draft::Draft;
use crate::event::{Event, Failure, RegistrationState};
#[cfg(feature = "messages")]
use crate::message_subscription::MessageSubscription;
use crate::violation::Violation;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::dialog::Dialog;
use sip::header::{NameAddr, Via, delta_seconds};
use sip::{Duration, Encode, Flow, HeaderName, Instant, Message, Method, Transport};

/// The base and the maximum of the retry interval (RFC 5626 section 4.5).
const BASE_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(1800);
/// The maximum duration that is used for the refresh, even if the registrar grants a longer one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The minimum time between two refreshes.
const SHORTEST_WAIT: Duration = Duration::from_secs(5);
/// The maximum random delay of a registration after a closed connection.
const RETURN: Duration = Duration::from_secs(2);
/// The keep-alive ping for a NAT and the other end (RFC 5626 section 3.5.1).
const PING: &[u8] = b"\r\n\r\n";

/// The state of the registration of one account.
pub(crate) struct Registration {
    account: AccountId,
    /// The Call-ID and the sequence numbers of the requests.
    dialog: Dialog,
    wanted: bool,
    /// True while a request is pending.
    is_asking: bool,
    /// The requested duration. A registrar may require a longer one.
    expires: Duration,
    /// The flow to the registrar.
    flow: Option<Flow>,
    failures: u32,
    /// The time of the next request.
    next: Option<Instant>,
    /// The time of the next keep-alive ping.
    keepalive: Option<Instant>,
    /// The source of the requests, as the registrar sees it (RFC 3581).
    pub(crate) seen: Option<SocketAddr>,
    /// The flow of the last request with a result, if it was sent.
    pub(crate) last_flow: Option<Flow>,
    /// The routes of the account's requests (RFC 3608).
    pub(crate) service_route: Vec<Vec<u8>>,
    #[cfg(feature = "messages")]
    pub(crate) messages: MessageSubscription,
}

/// Returns `sip:` or `sips:` and the domain of `uri`: the request URI of a REGISTER.
fn registrar_of(uri: &str) -> Option<Vec<u8>> {
    let parsed = sip::Uri::parse(uri.as_bytes()).ok()?;
    let address = parsed.as_sip()?;
    let mut registrar = Vec::new();
    let scheme = if address.secure { "sips:" } else { "sip:" };
    (scheme, address.host, address.port.map(|port| (":", port))).encode(&mut registrar);
    Some(registrar)
}

impl Registration {
    pub(crate) fn new(core: &mut Core, account: AccountId) -> Option<Self> {
        let settings = core.config.accounts.get(account.0)?.clone();
        let (call_id, tag) = (core.tokens.next(), core.tokens.next());
        let address = ("<", settings.uri.as_str(), ">");
        let of_uri = registrar_of(&settings.uri)?;
        let registrar = settings.registrar.as_ref().map_or(of_uri, |uri| uri.as_bytes().to_vec());
        let mut dialog = Dialog::new(call_id, address, tag, address, registrar);
        dialog.set_routes(settings.proxy.as_ref().map(|proxy| ("<", proxy.as_str(), ">")));
        Some(Self {
            account,
            dialog,
            wanted: false,
            is_asking: false,
            expires: settings.expires,
            flow: None,
            failures: 0,
            next: None,
            keepalive: None,
            seen: None,
            last_flow: None,
            service_route: Vec::new(),
            #[cfg(feature = "messages")]
            messages: MessageSubscription::new(account),
        })
    }

    /// Registers, or refreshes at once.
    pub(crate) fn start(&mut self, core: &mut Core, now: Instant) {
        self.wanted = true;
        self.ask(core, self.expires, now);
    }

    /// Ends the registration.
    pub(crate) fn stop(&mut self, core: &mut Core, now: Instant) {
        self.wanted = false;
        self.next = None;
        self.keepalive = None;
        #[cfg(feature = "messages")]
        self.messages.forget();
        self.ask(core, Duration::ZERO, now);
    }

    /// Stops all further requests.
    pub(crate) fn forget(&mut self) {
        self.wanted = false;
        self.next = None;
        self.keepalive = None;
        #[cfg(feature = "messages")]
        self.messages.forget();
    }

    /// Handles a change of the network: the registrar is located again.
    pub(crate) fn network_changed(&mut self, core: &mut Core, now: Instant) {
        self.flow = None;
        #[cfg(feature = "messages")]
        self.messages.forget();
        if self.wanted {
            self.failures = 0;
            self.ask(core, self.expires, now);
        }
    }

    /// Handles the end of a connection to `remote`: the registrar can no longer use it.
    pub(crate) fn on_closed(
        &mut self,
        core: &mut Core,
        transport: Transport,
        remote: SocketAddr,
        now: Instant,
    ) {
        let is_ours = |flow: &mut Flow| flow.transport == transport && flow.remote == remote;
        if self.flow.take_if(is_ours).is_some() && self.wanted {
            // The delay is random, since all clients of a restarted server return.
            self.keepalive = None;
            let wait = core.tokens.below(RETURN.as_micros());
            self.next = Some(now + Duration::from_micros(wait));
        }
    }

    fn ask(&mut self, core: &mut Core, expires: Duration, now: Instant) {
        if self.is_asking {
            // The next request follows the pending response.
            return;
        }
        self.is_asking = true;
        self.next = None;
        let (account, dialog) = (Some(self.account), &mut self.dialog);
        let mut draft = Draft::within(account, dialog, Method::Register, Vec::new());
        ("Expires: ", expires.as_secs(), "\r\n").encode(&mut draft.lines);
        let instance = core.config.instance.as_str();
        let mut params = Vec::new();
        if !instance.is_empty() {
            (";+sip.instance=\"<", instance, ">\"").encode(&mut params);
        }
        draft.contact = Some(params);
        core.request(draft, Owner::Registration(self.account), self.flow, now);
    }

    /// Processes the result of a REGISTER.
    pub(crate) fn on_result(&mut self, core: &mut Core, result: &RequestResult<'_>, now: Instant) {
        self.last_flow = result.flow;
        let response = match &result.outcome {
            Ok(response) => response,
            Err(failure) => {
                self.is_asking = false;
                return self.fail(core, failure.clone(), now);
            }
        };
        let status = response.status().unwrap_or_default();
        if status < 200 {
            return;
        }
        self.is_asking = false;
        self.note_cseq(response);
        match status {
            200..300 => self.succeed(core, response, result.flow, now),
            423 => match self.longer(core, response) {
                Some(least) => {
                    self.expires = least;
                    self.ask(core, least, now);
                }
                None => self.fail(core, Failure::refused_by(response), now),
            },
            _ => self.fail(core, Failure::refused_by(response), now),
        }
    }

    /// Returns the minimum duration of the registrar, if it can be requested. That is done once, so
    /// that a registrar cannot cause an endless series of requests.
    fn longer(&self, core: &Core, response: &Message<'_>) -> Option<Duration> {
        let wanted = core.config.accounts.get(self.account.0)?.expires;
        let is_new = |least: &Duration| *least > self.expires && *least <= LONGEST;
        min_expires(response).filter(is_new).filter(|_| self.expires == wanted)
    }

    /// A request with credentials has a sequence number that this dialog has not assigned.
    fn note_cseq(&mut self, response: &Message<'_>) {
        let cseq = response.value(HeaderName::CSeq).map(sip::header::CSeq::parse);
        if let Some(Ok(cseq)) = cseq {
            self.dialog.raise_local_cseq(cseq.number);
        }
    }

    fn succeed(
        &mut self,
        core: &mut Core,
        response: &Message<'_>,
        flow: Option<Flow>,
        now: Instant,
    ) {
        self.failures = 0;
        self.flow = flow;
        self.seen = flow.and_then(|flow| seen(response, &flow));
        if !self.wanted {
            let event = RegistrationState::Ended;
            return core.tell(Event::Registration { account: self.account, state: event });
        }
        let expires = flow.and_then(|flow| granted(core, self.account, response, &flow));
        let expires = expires.unwrap_or(self.expires);
        if expires == Duration::ZERO {
            return self.fail(core, Failure::Protocol(Violation::NoExpiry), now);
        }
        let routes = response.elements(HeaderName::ServiceRoute).map(<[u8]>::to_vec);
        self.service_route = routes.collect();
        // The refresh is at 80 to 90 % of the duration, at random, so that clients do not
        // synchronize.
        let percent = 80 + core.tokens.below(11);
        let wait = Duration::from_micros(expires.min(LONGEST).as_micros() / 100 * percent);
        self.next = Some(now + wait.max(SHORTEST_WAIT));
        self.keepalive = core.config.keepalive.map(|every| now + every);
        let state = RegistrationState::Registered { expires };
        core.tell(Event::Registration { account: self.account, state });
        #[cfg(feature = "messages")]
        if core.config.subscribes {
            self.messages.start(core, self.flow, &self.service_route, now);
        }
    }

    fn fail(&mut self, core: &mut Core, failure: Failure, now: Instant) {
        // The next attempt locates the registrar again.
        self.flow = None;
        self.keepalive = None;
        let is_final = matches!(failure, Failure::Unauthorized { .. });
        let retry = (self.wanted && !is_final).then(|| {
            self.failures += 1;
            let longest = BASE_WAIT.times(1 << self.failures.min(16)).min(LONGEST_WAIT);
            // Half of the interval is random, so that clients do not synchronize.
            let half = longest.as_micros() / 2;
            Duration::from_micros(half + core.tokens.below(half))
        });
        self.next = retry.map(|wait| now + wait);
        let state = RegistrationState::Failed { failure, retry };
        core.tell(Event::Registration { account: self.account, state });
    }

    /// Sends the request or the ping that is due.
    pub(crate) fn on_timer(&mut self, core: &mut Core, now: Instant) {
        if self.next.is_some_and(|next| next <= now) {
            self.ask(core, self.expires, now);
        }
        let is_due = |keepalive: &mut Instant| *keepalive <= now;
        if self.keepalive.take_if(is_due).is_some()
            && let Some(flow) = self.flow
        {
            core.send(flow, PING.to_vec());
            self.keepalive = core.config.keepalive.map(|every| now + every);
        }
        #[cfg(feature = "messages")]
        self.messages.on_timer(core, now);
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        #[cfg(feature = "messages")]
        let messages = self.messages.next_timer();
        #[cfg(not(feature = "messages"))]
        let messages = None;
        [self.next, self.keepalive, messages].into_iter().flatten().min()
    }
}

/// Returns the source of the request that `response` answers, as its receiver saw it. Without
/// `received` that is the address in Via.
fn seen(response: &Message<'_>, flow: &Flow) -> Option<SocketAddr> {
    let via = Via::parse(response.elements(HeaderName::Via).next()?).ok()?;
    let host = via.received().unwrap_or(flow.local.ip());
    Some(SocketAddr::new(host, via.rport()??))
}

fn min_expires(response: &Message<'_>) -> Option<Duration> {
    let value = response.value(HeaderName::MinExpires)?;
    let seconds = delta_seconds(HeaderName::MinExpires, value).ok()?;
    Some(Duration::from_secs(seconds.into()))
}

/// Returns the granted duration of the local binding (RFC 3261 section 10.2.4).
fn granted(
    core: &Core,
    account: AccountId,
    response: &Message<'_>,
    flow: &Flow,
) -> Option<Duration> {
    let user = core.contact_user(Some(account));
    let mut own = Vec::new();
    let uri =
        core.config.accounts.get(account.0).map_or(&b""[..], |account| account.uri.as_bytes());
    contact(&user, flow, uri).encode(&mut own);
    let own = NameAddr::parse(HeaderName::Contact, &own).ok()?;
    let own = own.uri().ok()?;
    let own = own.as_sip()?;
    let elements = response.elements(HeaderName::Contact);
    let contacts: Vec<_> =
        elements.filter_map(|element| NameAddr::parse(HeaderName::Contact, element).ok()).collect();
    let is_own = |contact: &NameAddr<'_>| {
        let uri = contact.uri().ok();
        uri.as_ref().and_then(|uri| uri.as_sip()).is_some_and(|uri| uri.is_equivalent(own))
    };
    // A NAT or a server may have rewritten the address of the only binding.
    let only = contacts.first().filter(|_| contacts.len() == 1);
    let ours = contacts.iter().find(|contact| is_own(contact)).or(only)?;
    let seconds = match ours.params.value("expires") {
        Some(value) => delta_seconds(HeaderName::Expires, value).ok()?,
        None => {
            let value = response.value(HeaderName::Expires)?;
            delta_seconds(HeaderName::Expires, value).ok()?
        }
    };
    Some(Duration::from_secs(seconds.into()))
}
