//! The events of calls.

use super::{LONG_ENOUGH, SLOTS, TICK, Worker};
use crate::record::Observed;
use crate::voice::comparison::{Sent, Turnaround};
use crate::voice::end::{CALLEE, CALLER, End};
use crate::voice::line::{Line, Seed};
use crate::voice::plan::Callees;
use crate::voice::side::{random, reason_of};
use crate::voice::signal::{PERIOD, VARIANTS};
use call::Change;
use sip::Instant;
use sip_ua::{CallId, End as CallEnd, Failure};
use std::sync::Arc;

/// The phases of consecutive calls are far from one another.
const PHASE_STEP: u64 = 97;

impl Worker {
    /// Answers a call at once.
    pub(super) fn accept(&mut self, at: Instant, id: CallId, from: &str, offer: Option<&[u8]>) {
        let agent = &mut self.sides[CALLEE].agent;
        if matches!(self.plan.callees, Callees::Uri { .. }) {
            let _ = agent.decline(at, id, 486);
            return;
        }
        let Ok(index) = self.open_end(CALLEE, at) else {
            let _ = self.sides[CALLEE].agent.decline(at, id, 503);
            return;
        };
        self.sides[CALLEE].calls.insert(id, index);
        let Some(mut end) = self.ends[index].take() else { return };
        let user = from.split_once("sip:").and_then(|(_, rest)| rest.split_once('@'));
        end.caller = user.and_then(|(user, _)| self.current.get(user).copied());
        let agent = &mut self.sides[CALLEE].agent;
        // A refused offer is answered with 488, and the end of the call is an event.
        if end.call.ring(agent, at, id, offer, &mut random).is_ok() {
            let _ = end.call.answer(agent, at);
            end.description = offer.filter(|_| end.web.is_some()).map(<[u8]>::to_vec);
            self.begin_path(&mut end, index, at);
            self.settle_line(&mut end, at);
        }
        self.ends[index] = Some(end);
    }

    /// Handles a change of a call. Returns true if the call is over.
    pub(super) fn on_change(
        &mut self,
        end: &mut End,
        index: usize,
        at: Instant,
        change: Option<Change>,
    ) -> bool {
        match change {
            Some(Change::Ringing { .. }) if !end.has_rung => {
                end.has_rung = true;
                if end.is_measured {
                    self.air.found.request.record(at.since(end.placed));
                }
            }
            Some(Change::Answered) => {
                end.is_answered = true;
                if end.is_measured {
                    self.air.found.response.record(at.since(end.placed));
                    self.air.found.from_schedule.record(at.since(end.scheduled));
                    if !end.has_rung {
                        self.air.found.request.record(at.since(end.placed));
                    }
                }
                self.count_final(end, 200);
                self.begin_path(end, index, at);
                self.settle_line(end, at);
                self.begin_audio(end, index);
            }
            Some(Change::Failed(refusal)) => {
                self.fail(end.is_measured, &refusal.to_string());
                end.is_hung_up = true;
            }
            Some(Change::Ended(reason)) => {
                self.on_end(end, at, &reason);
                return true;
            }
            _ => self.settle_line(end, at),
        }
        false
    }

    fn count_final(&mut self, end: &End, status: u16) {
        if end.is_measured && end.side == CALLER {
            let finals = self.air.found.counts.finals.entry("INVITE".to_owned()).or_default();
            *finals.entry(status).or_default() += 1;
        }
    }

    /// Begins or renews the media of an end by its negotiated stream.
    pub(super) fn settle_line(&mut self, end: &mut End, now: Instant) {
        let Some(session) = end.call.session() else { return };
        let stream = session.stream();
        let result = match &mut end.line {
            Some(line) => line.renew(stream),
            // The keys of a handshake are not here yet.
            None if end.web.is_some() && end.keys.is_none() => Ok(()),
            None if end.side == CALLEE => {
                let line = Line::new(stream.clone(), end.keys.take(), seed(), None, now);
                line.map(|line| end.line = Some(line))
            }
            // A caller's media begin when the call is answered.
            None if end.is_answered => {
                let variant = (end.number % VARIANTS) as usize;
                let sent = Sent {
                    sound: Arc::clone(&self.sounds[CALLER][variant]),
                    phase: end.number * PHASE_STEP % PERIOD,
                    start: self.next_free_tick(now),
                    turnaround: Turnaround::default(),
                };
                let line = Line::new(stream.clone(), end.keys.take(), seed(), Some(sent), now);
                line.map(|line| end.line = Some(line))
            }
            None => Ok(()),
        };
        if let Err(error) = result {
            self.fail(end.is_measured, &error.to_string());
        }
    }

    /// Returns the next tick with the fewest streams.
    fn next_free_tick(&self, now: Instant) -> Instant {
        let first = now.as_micros() / TICK.as_micros() + 1;
        let first = first.max(self.next_tick);
        let ticks = first..first + SLOTS as u64;
        let load = |tick: &u64| self.slots[(*tick % SLOTS as u64) as usize].len();
        let tick = ticks.min_by_key(load).unwrap_or(first);
        Instant::from_micros(tick * TICK.as_micros())
    }

    pub(super) fn begin_audio(&mut self, end: &mut End, index: usize) {
        let Some(start) = end.line.as_ref().and_then(Line::due) else { return };
        end.audio_end = start + self.plan.audio;
        let slot = (start.as_micros() / TICK.as_micros() % SLOTS as u64) as usize;
        self.slots[slot].push((index, end.serial));
        if self.is_observing && end.is_measured {
            self.is_observing = false;
            end.observed = Some(Observed { call: end.number, ..Observed::default() });
        }
    }

    fn on_end(&mut self, end: &mut End, at: Instant, reason: &CallEnd) {
        if self.air.is_measuring {
            self.close_streams(end, at);
        }
        if end.side == CALLEE {
            return;
        }
        let counts = &mut self.air.found.counts;
        let is_whole = end.is_answered && end.is_hung_up && *reason == CallEnd::HungUp;
        if is_whole && end.was_heard {
            self.air.found.operations += 1;
            if end.is_measured {
                counts.succeeded += 1;
                counts.completed_calls += 1;
            }
            return;
        }
        if end.is_cut && self.air.clock.now().since(end.placed) < LONG_ENOUGH {
            // The load has ended before the call could succeed or fail.
            if end.is_measured {
                counts.offered -= 1;
                counts.started -= 1;
            }
            return;
        }
        let text = match reason {
            _ if is_whole => "its audio did not come back".to_owned(),
            CallEnd::Failed(failure) => reason_of(failure),
            reason => format!("{reason:?}"),
        };
        if end.is_measured {
            match reason {
                CallEnd::Failed(Failure::Refused { .. }) => counts.refused += 1,
                CallEnd::NotAnswered | CallEnd::Failed(Failure::TimedOut) => counts.timed_out += 1,
                _ => counts.lost += 1,
            }
        }
        if let CallEnd::Failed(Failure::Refused { status, .. }) = reason {
            self.count_final(end, *status);
        }
        self.fail(end.is_measured, &text);
    }
}

/// Returns random start values.
fn seed() -> Seed {
    let mut bytes = [0; 8];
    random(&mut bytes);
    let number = u64::from_le_bytes(bytes);
    Seed {
        ssrc: number as u32,
        // The rollover counter is easier to synchronize from the lower half (RFC 3711 section
        // 3.3.1).
        number: (number >> 32) as u16 >> 1,
        timestamp: (number >> 16) as u32,
    }
}
