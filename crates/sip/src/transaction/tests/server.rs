use super::*;
use crate::transaction::State::*;
use crate::transaction::TransactionKind::{Invite, NonInvite};

/// A transaction that has sent `responses` at [`START`].
fn after(kind: TransactionKind, reliable: bool, responses: &[u16]) -> ServerTransaction {
    let mut transaction = ServerTransaction::new(kind, reliable);
    for &status in responses {
        assert!(transaction.on_response(status, &TIMERS, START));
    }
    transaction
}

fn acknowledged(reliable: bool) -> ServerTransaction {
    let mut transaction = after(Invite, reliable, &[486]);
    assert!(!transaction.on_ack(&TIMERS, START));
    transaction
}

fn run(transaction: ServerTransaction) -> Vec<(u64, TimerAction)> {
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
    const SENT: bool = true;
    const DISCARDED: bool = false;
    for (transaction, state, responses) in [
        (
            after(Invite, false, &[]),
            Proceeding,
            [
                (100, SENT, Proceeding),
                (200, SENT, Accepted),
                (300, SENT, Completed),
                (699, SENT, Completed),
            ],
        ),
        (
            after(Invite, true, &[180]),
            Proceeding,
            [
                (183, SENT, Proceeding),
                (299, SENT, Accepted),
                (302, SENT, Completed),
                (486, SENT, Completed),
            ],
        ),
        (
            after(Invite, false, &[486]),
            Completed,
            [
                (180, DISCARDED, Completed),
                (200, DISCARDED, Completed),
                (302, DISCARDED, Completed),
                (486, DISCARDED, Completed),
            ],
        ),
        (
            acknowledged(false),
            Confirmed,
            [
                (180, DISCARDED, Confirmed),
                (200, DISCARDED, Confirmed),
                (302, DISCARDED, Confirmed),
                (486, DISCARDED, Confirmed),
            ],
        ),
        (
            after(Invite, false, &[200]),
            Accepted,
            [
                (180, DISCARDED, Accepted),
                (200, SENT, Accepted),
                (202, SENT, Accepted),
                (486, DISCARDED, Accepted),
            ],
        ),
        (
            acknowledged(true),
            Terminated,
            [
                (180, DISCARDED, Terminated),
                (200, DISCARDED, Terminated),
                (302, DISCARDED, Terminated),
                (486, DISCARDED, Terminated),
            ],
        ),
        (
            after(NonInvite, false, &[]),
            Trying,
            [
                (100, SENT, Proceeding),
                (200, SENT, Completed),
                (302, SENT, Completed),
                (699, SENT, Completed),
            ],
        ),
        (
            after(NonInvite, false, &[100]),
            Proceeding,
            [
                (199, SENT, Proceeding),
                (200, SENT, Completed),
                (401, SENT, Completed),
                (500, SENT, Completed),
            ],
        ),
        (
            after(NonInvite, false, &[200]),
            Completed,
            [
                (100, DISCARDED, Completed),
                (200, DISCARDED, Completed),
                (302, DISCARDED, Completed),
                (500, DISCARDED, Completed),
            ],
        ),
        (
            after(NonInvite, true, &[]),
            Trying,
            [
                (100, SENT, Proceeding),
                (200, SENT, Terminated),
                (401, SENT, Terminated),
                (600, SENT, Terminated),
            ],
        ),
    ] {
        assert_eq!(transaction.state(), state, "{transaction:?}");
        for (status, sent, state) in responses {
            let mut after = transaction;
            assert_eq!(
                after.on_response(status, &TIMERS, at(100)),
                sent,
                "{transaction:?} {status}"
            );
            assert_eq!(after.state(), state, "{transaction:?} {status}");
            assert_eq!(
                after.next_timer().is_none(),
                matches!(state, Trying | Proceeding | Terminated),
                "{transaction:?} {status}"
            );
        }
    }
}

#[test]
fn a_retransmitted_request_is_answered_again_or_absorbed() {
    for (transaction, again) in [
        (after(Invite, false, &[]), true),
        (after(Invite, false, &[180]), true),
        (after(Invite, false, &[486]), true),
        (after(Invite, true, &[486]), true),
        (acknowledged(false), false),
        (after(Invite, false, &[200]), false),
        (after(NonInvite, false, &[]), false),
        (after(NonInvite, false, &[100]), true),
        (after(NonInvite, false, &[200]), true),
        (after(NonInvite, true, &[200]), false),
    ] {
        assert_eq!(transaction.on_request_retransmission(), again, "{transaction:?}");
    }
}

#[test]
fn an_ack_ends_retransmissions_or_is_passed_up() {
    for (transaction, up, state) in [
        (after(Invite, false, &[]), false, Proceeding),
        (after(Invite, false, &[486]), false, Confirmed),
        (after(Invite, true, &[486]), false, Terminated),
        (acknowledged(false), false, Confirmed),
        (after(Invite, false, &[200]), true, Accepted),
        (after(NonInvite, false, &[]), false, Trying),
        (after(NonInvite, false, &[200]), false, Completed),
    ] {
        let mut after = transaction;
        assert_eq!(after.on_ack(&TIMERS, at(100)), up, "{transaction:?}");
        assert_eq!(after.state(), state, "{transaction:?}");
    }
}

#[test]
fn schedules_match_the_rfc() {
    let end = |millis| [(millis, TimerAction::Terminated)].to_vec();
    for (transaction, schedule) in [
        (after(Invite, false, &[]), [].to_vec()),
        (after(Invite, false, &[180]), [].to_vec()),
        (
            after(Invite, false, &[180, 486]),
            retransmissions(
                &[500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500],
                (32_000, TimerAction::TimedOut),
            ),
        ),
        (after(Invite, true, &[486]), [(32_000, TimerAction::TimedOut)].to_vec()),
        (acknowledged(false), end(5_000)),
        (acknowledged(true), [].to_vec()),
        (after(Invite, false, &[200]), end(32_000)),
        (after(Invite, true, &[200, 200]), end(32_000)),
        (after(NonInvite, false, &[]), [].to_vec()),
        (after(NonInvite, false, &[100]), [].to_vec()),
        (after(NonInvite, false, &[200]), end(32_000)),
        (after(NonInvite, true, &[200]), [].to_vec()),
    ] {
        assert_eq!(run(transaction), schedule, "{transaction:?}");
    }
}

#[test]
fn the_wait_starts_at_the_first_ack() {
    let mut transaction = after(Invite, false, &[486]);
    assert_eq!(transaction.poll(&TIMERS, at(500)), TimerAction::Retransmit);
    assert!(!transaction.on_ack(&TIMERS, at(600)));
    assert!(!transaction.on_ack(&TIMERS, at(1_600)));
    assert_eq!(run(transaction), [(5_600, TimerAction::Terminated)]);
}

#[test]
fn a_late_poll_sends_once() {
    let mut transaction = after(Invite, false, &[486]);
    assert_eq!(transaction.poll(&TIMERS, at(20_000)), TimerAction::Retransmit);
    assert_eq!(transaction.poll(&TIMERS, at(20_000)), TimerAction::None);
    assert_eq!(transaction.next_timer(), Some(at(21_000)));
    assert_eq!(transaction.poll(&TIMERS, at(50_000)), TimerAction::TimedOut);
    assert_eq!(transaction.poll(&TIMERS, at(50_000)), TimerAction::None);
    assert_eq!((transaction.state(), transaction.next_timer()), (Terminated, None));
}

#[test]
fn a_transport_error_is_reported_and_ends_non_invite_transactions() {
    for (transaction, told, state) in [
        (after(Invite, false, &[180]), true, Proceeding),
        (after(Invite, false, &[486]), true, Completed),
        (acknowledged(false), false, Confirmed),
        (after(Invite, false, &[200]), true, Accepted),
        (after(NonInvite, false, &[]), false, Trying),
        (after(NonInvite, false, &[100]), true, Terminated),
        (after(NonInvite, false, &[200]), true, Terminated),
    ] {
        let mut after = transaction;
        assert_eq!(after.on_transport_error(), told, "{transaction:?}");
        assert_eq!(after.state(), state, "{transaction:?}");
        if state == Terminated {
            assert_eq!(after.next_timer(), None);
            assert!(!after.on_response(200, &TIMERS, START));
            assert!(!after.on_request_retransmission());
        }
    }
}
