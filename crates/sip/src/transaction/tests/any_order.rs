//! Transactions with any order of events and any timer values.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Response(u16),
    Request,
    Ack,
    TransportError,
    Poll,
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => (100u16..700).prop_map(Event::Response),
        1 => any::<u16>().prop_map(Event::Response),
        2 => Just(Event::Request),
        2 => Just(Event::Ack),
        1 => Just(Event::TransportError),
        4 => Just(Event::Poll),
    ];
    let pause = prop_oneof![Just(0), 0u64..3_000_000, 0u64..100_000_000];
    proptest::collection::vec((pause, event), 0..30)
}

fn timers() -> impl Strategy<Value = Timers> {
    let span = prop_oneof![Just(0), 1u64..1_000, 1u64..10_000_000].prop_map(Duration::from_micros);
    [span.clone(), span.clone(), span].prop_map(|[t1, t2, t4]| Timers { t1, t2, t4 })
}

fn kind() -> impl Strategy<Value = TransactionKind> {
    prop_oneof![Just(TransactionKind::Invite), Just(TransactionKind::NonInvite)]
}

/// Polls until no timer is due, which takes at most two calls.
fn settle(poll: &mut dyn FnMut() -> TimerAction) {
    if poll() != TimerAction::None {
        assert_eq!(poll(), TimerAction::None);
    }
}

/// The longest wait of a transaction.
fn patience(timers: &Timers) -> Duration {
    timers.t1.times(64).max(timers.t4).max(Duration::from_secs(32))
}

proptest! {
    #[test]
    fn a_client_transaction_ends(
        kind in kind(),
        reliable: bool,
        timers in prop_oneof![Just(TIMERS), timers()],
        events in events(),
    ) {
        let mut now = START;
        let mut transaction = ClientTransaction::new(kind, reliable, &timers, now);
        let mut passed_finals = 0;
        for (pause, event) in events {
            now += Duration::from_micros(pause);
            let before = transaction.state();
            match event {
                Event::Response(status) => {
                    let action = transaction.on_response(status, &timers, now);
                    let success = (200..300).contains(&status);
                    prop_assert!(!action.send_ack || (kind == TransactionKind::Invite && status >= 300));
                    prop_assert_eq!(action.ended, transaction.state() == State::Terminated);
                    if action.pass_up && status >= 200 && !(kind == TransactionKind::Invite && success) {
                        passed_finals += 1;
                    }
                }
                Event::TransportError => {
                    let reported = transaction.on_transport_error();
                    prop_assert_eq!(reported, transaction.state() != before);
                }
                Event::Request | Event::Ack | Event::Poll => {
                    settle(&mut || transaction.poll(&timers, now));
                    prop_assert!(transaction.next_timer().is_none_or(|next| next > now));
                }
            }
            if before == State::Terminated {
                prop_assert_eq!(transaction.state(), State::Terminated);
            }
        }
        prop_assert!(passed_finals <= 1, "a final response was passed up repeatedly");

        let deadline = now + patience(&timers);
        while let Some(next) = transaction.next_timer() {
            now = now.max(next);
            prop_assert!(now <= deadline + timers.t1, "still waiting");
            settle(&mut || transaction.poll(&timers, now));
            prop_assert!(transaction.next_timer().is_none_or(|next| next > now));
            // A poll may be late by T1, which limits the number of polls.
            now += timers.t1;
        }
        let ringing = kind == TransactionKind::Invite && transaction.state() == State::Proceeding;
        prop_assert!(ringing || transaction.state() == State::Terminated);
    }

    #[test]
    fn a_server_transaction_ends(
        kind in kind(),
        reliable: bool,
        timers in prop_oneof![Just(TIMERS), timers()],
        events in events(),
    ) {
        let mut now = START;
        let mut transaction = ServerTransaction::new(kind, reliable);
        let mut answered = false;
        for (pause, event) in events {
            now += Duration::from_micros(pause);
            let before = transaction.state();
            match event {
                Event::Response(status) => {
                    let sent = transaction.on_response(status, &timers, now);
                    let success = (200..300).contains(&status);
                    if sent && status >= 200 && !(kind == TransactionKind::Invite && success) {
                        prop_assert!(!answered, "two final responses were sent");
                    }
                    answered |= sent && status >= 200;
                }
                Event::Request => {
                    let again = transaction.on_request_retransmission();
                    prop_assert!(!again || before != State::Terminated);
                }
                Event::Ack => {
                    let up = transaction.on_ack(&timers, now);
                    prop_assert_eq!(up, before == State::Accepted);
                }
                Event::TransportError => {
                    let reported = transaction.on_transport_error();
                    prop_assert!(reported || transaction.state() == before);
                }
                Event::Poll => {
                    settle(&mut || transaction.poll(&timers, now));
                    prop_assert!(transaction.next_timer().is_none_or(|next| next > now));
                }
            }
            if before == State::Terminated {
                prop_assert_eq!(transaction.state(), State::Terminated);
            }
        }

        let deadline = now + patience(&timers);
        while let Some(next) = transaction.next_timer() {
            now = now.max(next);
            prop_assert!(now <= deadline + timers.t1, "still waiting");
            settle(&mut || transaction.poll(&timers, now));
            prop_assert!(transaction.next_timer().is_none_or(|next| next > now));
            now += timers.t1;
        }
        if answered {
            prop_assert_eq!(transaction.state(), State::Terminated);
        }
    }
}
