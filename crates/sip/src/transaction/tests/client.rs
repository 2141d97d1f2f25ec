use super::*;
use crate::transaction::State::*;
use crate::transaction::TransactionKind::{Invite, NonInvite};

const UP: ClientAction = ClientAction { pass_up: true, send_ack: false, ended: false };
const UP_AND_ACK: ClientAction = ClientAction { pass_up: true, send_ack: true, ended: false };
const ACK: ClientAction = ClientAction { pass_up: false, send_ack: true, ended: false };
const DROP: ClientAction = ClientAction { pass_up: false, send_ack: false, ended: false };

fn ended(action: ClientAction) -> ClientAction {
    ClientAction { ended: true, ..action }
}

/// A transaction that has received `responses` at [`START`].
fn after(kind: TransactionKind, reliable: bool, responses: &[u16]) -> ClientTransaction {
    let mut transaction = ClientTransaction::new(kind, reliable, &TIMERS, START);
    for &status in responses {
        let _ = transaction.on_response(status, &TIMERS, START);
    }
    transaction
}

fn run(transaction: ClientTransaction) -> Vec<(u64, TimerAction)> {
    let cell = core::cell::Cell::new(transaction);
    schedule(
        || cell.get().next_timer(),
        |now| {
            let mut transaction = cell.get();
            let timeout = transaction.poll(&TIMERS, now);
            cell.set(transaction);
            timeout
        },
    )
}

#[test]
fn every_response_in_every_state() {
    for (kind, reliable, before, state, responses) in [
        (
            Invite,
            false,
            &[][..],
            Calling,
            [
                (100, UP, Proceeding),
                (200, UP, Accepted),
                (302, UP_AND_ACK, Completed),
                (699, UP_AND_ACK, Completed),
            ],
        ),
        (
            Invite,
            false,
            &[180],
            Proceeding,
            [
                (183, UP, Proceeding),
                (299, UP, Accepted),
                (300, UP_AND_ACK, Completed),
                (486, UP_AND_ACK, Completed),
            ],
        ),
        (
            Invite,
            false,
            &[486],
            Completed,
            [
                (180, DROP, Completed),
                (200, DROP, Completed),
                (486, ACK, Completed),
                (600, ACK, Completed),
            ],
        ),
        (
            Invite,
            false,
            &[200],
            Accepted,
            [
                (180, DROP, Accepted),
                (200, UP, Accepted),
                (202, UP, Accepted),
                (486, DROP, Accepted),
            ],
        ),
        (
            Invite,
            true,
            &[],
            Calling,
            [
                (100, UP, Proceeding),
                (200, UP, Accepted),
                (300, ended(UP_AND_ACK), Terminated),
                (603, ended(UP_AND_ACK), Terminated),
            ],
        ),
        (
            Invite,
            true,
            &[486],
            Terminated,
            [
                (100, ended(DROP), Terminated),
                (200, ended(DROP), Terminated),
                (486, ended(DROP), Terminated),
                (600, ended(DROP), Terminated),
            ],
        ),
        (
            NonInvite,
            false,
            &[],
            Trying,
            [
                (100, UP, Proceeding),
                (200, UP, Completed),
                (302, UP, Completed),
                (699, UP, Completed),
            ],
        ),
        (
            NonInvite,
            false,
            &[100],
            Proceeding,
            [
                (199, UP, Proceeding),
                (200, UP, Completed),
                (401, UP, Completed),
                (500, UP, Completed),
            ],
        ),
        (
            NonInvite,
            false,
            &[200],
            Completed,
            [
                (100, DROP, Completed),
                (200, DROP, Completed),
                (302, DROP, Completed),
                (500, DROP, Completed),
            ],
        ),
        (
            NonInvite,
            true,
            &[],
            Trying,
            [
                (100, UP, Proceeding),
                (200, ended(UP), Terminated),
                (401, ended(UP), Terminated),
                (600, ended(UP), Terminated),
            ],
        ),
    ] {
        let transaction = after(kind, reliable, before);
        assert_eq!(transaction.state(), state, "{kind:?} {reliable} {before:?}");
        for (status, action, state) in responses {
            let mut transaction = transaction;
            let done = transaction.on_response(status, &TIMERS, at(100));
            let case = (kind, reliable, before, status);
            assert_eq!((done, transaction.state()), (action, state), "{case:?}");
            assert_eq!(
                transaction.next_timer().is_none(),
                matches!((kind, state), (_, Terminated) | (Invite, Proceeding)),
                "{case:?}"
            );
        }
    }
}

#[test]
fn schedules_match_the_rfc() {
    let end = |millis| [(millis, TimerAction::Terminated)].to_vec();
    let timed_out = [(32_000, TimerAction::TimedOut)].to_vec();
    for (kind, reliable, responses, schedule) in [
        (
            Invite,
            false,
            &[][..],
            retransmissions(
                &[500, 1_500, 3_500, 7_500, 15_500, 31_500],
                (32_000, TimerAction::TimedOut),
            ),
        ),
        (Invite, true, &[], timed_out.clone()),
        (Invite, false, &[100], [].to_vec()),
        (Invite, false, &[404], end(32_000)),
        (Invite, false, &[180, 200], end(32_000)),
        (Invite, true, &[200], end(32_000)),
        (
            NonInvite,
            false,
            &[],
            retransmissions(
                &[500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500],
                (32_000, TimerAction::TimedOut),
            ),
        ),
        (NonInvite, true, &[], timed_out.clone()),
        (
            NonInvite,
            false,
            &[100],
            retransmissions(
                &[500, 4_500, 8_500, 12_500, 16_500, 20_500, 24_500, 28_500],
                (32_000, TimerAction::TimedOut),
            ),
        ),
        (NonInvite, true, &[100], timed_out.clone()),
        (NonInvite, false, &[200], end(5_000)),
        (NonInvite, false, &[100, 503], end(5_000)),
    ] {
        let fired = run(after(kind, reliable, responses));
        assert_eq!(fired, schedule, "{kind:?} {reliable} {responses:?}");
    }
}

#[test]
fn the_wait_starts_at_the_final_response() {
    let mut transaction = after(Invite, false, &[180]);
    let _ = transaction.on_response(486, &TIMERS, at(60_000));
    let _ = transaction.on_response(486, &TIMERS, at(61_000));
    assert_eq!(run(transaction), [(92_000, TimerAction::Terminated)]);
}

#[test]
fn a_late_poll_sends_once() {
    let mut transaction = after(Invite, false, &[]);
    assert_eq!(transaction.poll(&TIMERS, at(9_000)), TimerAction::Retransmit);
    assert_eq!(transaction.poll(&TIMERS, at(9_000)), TimerAction::None);
    assert_eq!(transaction.next_timer(), Some(at(10_000)));

    let mut transaction = after(Invite, false, &[]);
    assert_eq!(transaction.poll(&TIMERS, at(40_000)), TimerAction::TimedOut);
    assert_eq!(transaction.poll(&TIMERS, at(40_000)), TimerAction::None);
    assert_eq!((transaction.state(), transaction.next_timer()), (Terminated, None));

    let mut transaction = after(Invite, false, &[]);
    assert_eq!(transaction.poll(&TIMERS, at(510)), TimerAction::Retransmit);
    assert_eq!(
        transaction.next_timer(),
        Some(at(1_500)),
        "a late poll does not shift the schedule"
    );
}

#[test]
fn a_transport_error_ends_unfinished_transactions() {
    for (kind, responses, told, state) in [
        (Invite, &[][..], true, Terminated),
        (Invite, &[180], false, Proceeding),
        (Invite, &[486], true, Terminated),
        (Invite, &[200], false, Accepted),
        (NonInvite, &[], true, Terminated),
        (NonInvite, &[100], true, Terminated),
        (NonInvite, &[200], false, Completed),
    ] {
        let mut transaction = after(kind, false, responses);
        assert_eq!(transaction.on_transport_error(), told, "{kind:?} {responses:?}");
        assert_eq!(transaction.state(), state, "{kind:?} {responses:?}");
        if state == Terminated {
            assert_eq!(transaction.next_timer(), None);
            assert_eq!(transaction.on_response(200, &TIMERS, START), ended(DROP));
            assert!(!transaction.on_transport_error());
        }
    }
}
