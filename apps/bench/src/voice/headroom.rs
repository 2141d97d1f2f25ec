//! The proof of the generator's own capacity: the same streams between its own ends, without a
//! server.

use super::fault::Faults;
use super::plan::{Callees, Plan, enough};
use super::run::{VoiceError, run};
use crate::record::{Headroom, Streams};
use sip::{Duration, Transport};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The highest 99th percentile of the time between packets of an able generator, in microseconds.
const DELTA: u64 = 21_000;
/// The highest share of busy time of a thread.
const BUSY: f64 = 0.9;
/// The call rate of the proof, and the measured time.
const RATE: f64 = 500.0;
const DURATION: Duration = Duration::from_secs(2);

/// Returns the number of simultaneous calls that the generator carries: those of `plan` or, if it
/// does not carry them, fewer. The figures are those of the last attempt.
///
/// # Errors
/// [`VoiceError`] if the ends cannot be opened.
pub(crate) fn headroom(plan: &Plan, ending: &Arc<AtomicBool>) -> Result<Headroom, VoiceError> {
    let mut calls = plan.calls;
    loop {
        let headroom = attempt(plan, calls, ending)?;
        if headroom.is_enough || calls <= 10 || ending.load(Ordering::Relaxed) {
            return Ok(headroom);
        }
        calls = calls * 3 / 4;
    }
}

fn attempt(plan: &Plan, calls: u64, ending: &Arc<AtomicBool>) -> Result<Headroom, VoiceError> {
    let rise = Duration::from_micros((calls as f64 / RATE * 1e6) as u64);
    let warmup = rise + Duration::from_millis(500);
    let mut codecs = plan.codecs;
    codecs.callee = codecs.caller;
    let own = Plan {
        callees: Callees::Direct,
        transport: Transport::Udp,
        called: Vec::new(),
        local: Ipv4Addr::LOCALHOST.into(),
        codecs,
        protection: plan.protection.without_server(),
        calls,
        rate: RATE,
        audio: warmup + DURATION + Duration::from_secs(10),
        warmup,
        duration: DURATION,
        faults: Faults::default(),
        echo_faults: Faults::default(),
        workers: if plan.workers > 0 { plan.workers } else { enough(calls) },
        most: Some(calls),
        ..plan.clone()
    };
    let found = run(&own, ending, &mut ())?;
    let streams = || found.media.forward.iter().chain([&found.media.echo]);
    let delta = streams().map(|streams| streams.delta.percentile(99.0)).max();
    let loss = streams().map(Streams::loss).fold(0.0, f64::max);
    let delta_p99_us = delta.unwrap_or(0);
    let has_all = found.held() >= calls as f64 * 0.99;
    let is_enough = has_all && delta_p99_us < DELTA && loss == 0.0 && found.busy < BUSY;
    Ok(Headroom { calls, delta_p99_us, loss, busy: found.busy, is_enough })
}
