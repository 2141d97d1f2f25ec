//! The refresh of the session: a call without a refresh ends (RFC 4028 sections 7 and 10).

use super::exchange::{Offer, Sent};
use super::state::{Call, State};
use super::timer::{Agreed, DEFAULT_MIN_SE, SHORTEST_WAIT, SessionTimer, is_caller, seconds};
use crate::capabilities;
use crate::client_transaction::{Owner, RequestResult};
use crate::config::Config;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::{End, Failure};
use alloc::vec::Vec;
use sip::{Duration, Encode, HeaderName, Instant, Message, Method};

impl Call {
    /// Returns the lines of a request that ask for a session timer, with the agreed values if there
    /// is one.
    pub(super) fn timer_lines(&self, config: &Config) -> Vec<u8> {
        let mut lines = Vec::new();
        let Some(interval) = config.session_expires else { return lines };
        let agreed = match &self.state {
            State::Established(established) => established.timer.as_ref().map(|timer| timer.agreed),
            _ => None,
        };
        let interval = agreed.map_or(interval, |agreed| agreed.interval).max(self.min_se);
        let refresher = agreed.map(|agreed| if agreed.is_ours { "uac" } else { "uas" });
        let refresher = refresher.map(|refresher| (";refresher=", refresher));
        ("Session-Expires: ", interval.as_secs(), refresher, "\r\n").encode(&mut lines);
        if self.min_se != DEFAULT_MIN_SE {
            ("Min-SE: ", self.min_se.as_secs(), "\r\n").encode(&mut lines);
        }
        lines
    }

    /// Records the session timer in the 2xx `response` to a local request (RFC 4028 section 7.2).
    /// If the response has none, the other end does not support timers, and the local end
    /// refreshes.
    pub(super) fn note_timer(&mut self, core: &Core, response: &Message<'_>, now: Instant) {
        let Some(ours) = core.config.session_expires else { return };
        let agreed = Agreed {
            interval: seconds(response, HeaderName::SessionExpires)
                .unwrap_or(ours.max(self.min_se)),
            is_ours: is_caller(response).unwrap_or(true),
        };
        if let State::Established(established) = &mut self.state {
            established.timer = Some(SessionTimer::start(agreed, now));
        }
    }

    /// Records the minimum interval of a 422. Returns false if the response requires no longer
    /// interval.
    pub(super) fn note_min_se(&mut self, response: &Message<'_>) -> bool {
        let wanted = match response.status() {
            Some(422) => seconds(response, HeaderName::MinSe),
            _ => None,
        };
        let is_more = wanted.is_some_and(|wanted| wanted > self.min_se);
        self.min_se = self.min_se.max(wanted.unwrap_or_default());
        is_more
    }

    /// Refreshes the session, or ends the call, when due.
    pub(super) fn poll_timer(&mut self, core: &mut Core, now: Instant) {
        let is_free = self.is_free();
        let State::Established(established) = &mut self.state else { return };
        let Some(timer) = &mut established.timer else { return };
        if timer.end <= now {
            return self.send_bye(core, End::Failed(Failure::TimedOut), now);
        }
        if timer.refresh > now || !is_free {
            return;
        }
        timer.refresh = Instant::MAX;
        let takes_update = established.exchange.takes_update;
        // The unchanged description is offered, which changes nothing.
        let session = match takes_update {
            true => Vec::new(),
            false => established.exchange.local.clone(),
        };
        let method = if takes_update { Method::Update } else { Method::Invite };
        let mut draft =
            Draft::within(self.account, &mut established.dialog, method, session.clone());
        draft.lines = [capabilities::lines(&core.config), self.timer_lines(&core.config)].concat();
        let way = self.way_to(draft.dialog.next_hop());
        let id = core.request(draft, Owner::Call(self.id), way, now);
        let State::Established(established) = &mut self.state else { return };
        if takes_update {
            if let Some(timer) = &mut established.timer {
                timer.request = Some(id);
            }
        } else {
            established.exchange.offer = Offer::Ours;
            established.exchange.sent =
                Some(Sent { id, session, envelope: None, tries: 1, is_refresh: true });
        }
    }

    /// Processes the result of a refreshing UPDATE. Returns false for another request.
    pub(super) fn on_refresh_result(
        &mut self,
        core: &mut Core,
        result: &RequestResult<'_>,
        now: Instant,
    ) -> bool {
        let State::Established(established) = &mut self.state else { return false };
        let request = established.timer.as_ref().and_then(|timer| timer.request);
        if request != Some(result.id) {
            return false;
        }
        match &result.outcome {
            Ok(response) => match response.status().unwrap_or_default() {
                ..200 => {}
                200..300 => {
                    established.dialog.refresh_target(response);
                    established.exchange.note_allow(response);
                    self.note_timer(core, response, now);
                }
                _ => {
                    let wants_more = self.note_min_se(response);
                    self.on_refresh_failed(core, Failure::refused_by(response), wants_more, now);
                }
            },
            Err(failure) => self.on_refresh_failed(core, failure.clone(), false, now),
        }
        true
    }

    /// Processes a rejected refresh: it is repeated at once with a longer interval or another
    /// method, or later. If the other end no longer knows the call, the call ends (RFC 4028 section
    /// 10).
    pub(super) fn on_refresh_failed(
        &mut self,
        core: &mut Core,
        failure: Failure,
        wants_more: bool,
        now: Instant,
    ) {
        if self.ends_by(core, &failure, now) {
            return;
        }
        let State::Established(established) = &mut self.state else { return };
        let is_unknown = matches!(failure, Failure::Refused { status: 405 | 501, .. })
            && core::mem::take(&mut established.exchange.takes_update);
        let Some(timer) = &mut established.timer else { return };
        timer.request = None;
        let half = Duration::from_micros(timer.end.since(now).as_micros() / 2);
        timer.refresh = match wants_more || is_unknown {
            true => now,
            false => now + half.max(SHORTEST_WAIT),
        };
    }
}
