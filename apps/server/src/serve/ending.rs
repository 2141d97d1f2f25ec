//! The end of the server: no new calls, and the time for which it waits for those that stand.

use super::hub::Hub;
use super::local::{CarryOut, Engine, Local};
use crate::log;
use ::b2bua::Transmit;
use ::relay::Calls;
use sip_server::{CallRecord, Party};
use std::sync::Arc;
use std::time::Duration;

/// The time to wait for unanswered calls at shutdown.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The time to wait for the ends of the B2BUA's calls at shutdown.
const END_TIME: Duration = Duration::from_secs(2);

/// The time in which phones connect again after the server was killed. It is longer than a
/// transaction, so that the request is not taken for a retransmission.
const RECONNECTION: Duration = Duration::from_secs(35);

/// Rejects new calls, and waits for the calls being set up, at most [`DRAIN_TIME`].
pub(super) async fn drain(engine: &Engine) {
    engine.drain();
    wait_for_responses(engine, DRAIN_TIME).await;
}

/// Ends the calls of the B2BUA, and waits until their ends have responded, at most [`END_TIME`].
pub(super) async fn end_calls(hub: &Hub) {
    let calls = hub.b2bua.calls();
    if calls == 0 {
        return;
    }
    log::info("stop", || format!("the calls of the B2BUA end: {calls}"));
    let mut local = Local::new(0, &hub.engine);
    hub.b2bua.end_calls(hub.clock.now(), &mut local);
    hub.carry_out(&mut local);
    wait_for_responses(&hub.engine, END_TIME).await;
}

/// Ends the registrations at trunks, and waits until these have responded, at most [`END_TIME`].
pub(super) async fn end_registrations(hub: &Hub) {
    let mut local = Local::new(0, &hub.engine);
    hub.trunks.end(hub.clock.now(), &mut local);
    hub.carry_out(&mut local);
    let deadline = tokio::time::Instant::now() + END_TIME;
    while hub.trunks.is_ending() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ends the subscriptions, which their subscribers then begin anew, and waits for the responses, at
/// most [`END_TIME`].
pub(super) async fn end_subscriptions(hub: &Hub) {
    let mut local = Local::new(0, &hub.engine);
    if hub.notifier.end_all(hub.clock.now(), &mut local) {
        hub.carry_out(&mut local);
        wait_for_responses(&hub.engine, END_TIME).await;
    }
}

/// Sends the requests `byes`, which end the calls of a server that was killed, at once and when the
/// phones have had time to connect again.
pub(super) async fn end_lost_calls(hub: Arc<Hub>, byes: Vec<Transmit>) {
    if byes.is_empty() {
        return;
    }
    log::info("start", || {
        format!("the calls of the B2BUA before the server was killed end: {}", byes.len() / 2)
    });
    for pause in [Duration::ZERO, RECONNECTION] {
        tokio::time::sleep(pause).await;
        let mut local = Local::new(0, &hub.engine);
        for Transmit { flow, bytes } in &byes {
            local.worker.receive(hub.clock.now(), flow, bytes, &mut local.out);
        }
        hub.carry_out(&mut local);
    }
}

/// Waits until all requests have a final response, at most for `time`.
async fn wait_for_responses(engine: &Engine, time: Duration) {
    let deadline = tokio::time::Instant::now() + time;
    while engine.unanswered() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Records the calls that stand when the server ends, and waits until all records are written.
pub(super) fn record_standing(hub: &Hub) {
    let Some(records) = &hub.records else { return };
    let now = hub.clock.now();
    let reports = hub.relay.iter().flat_map(|relay| relay.reports());
    let reports = reports.chain(hub.ng.iter().flat_map(|ng| ng.reports()));
    for call in reports.filter(|call| call.answered.is_some() && call.is_last) {
        records.push(Box::new(CallRecord::new(call, Party::Server, now, 0)));
    }
    records.finish();
}
