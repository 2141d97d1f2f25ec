//! The calls that lamps show.

use super::*;

const NOW: Instant = Instant::from_micros(1_000_000_000);
const ALICE: &str = "alice@example.com";
const BOB: &str = "bob@example.com";

fn party(user: &str) -> Party {
    let uri = alloc::format!("sip:{user}").into_bytes();
    Party { user: Some(user.into()), identity: uri.clone(), target: uri }
}

fn table() -> CallTable {
    let mut table = CallTable::new(TableLimits::default());
    let parties = [party(ALICE), party(BOB)];
    let (call_id, caller_tag) = (b"x@y".to_vec(), b"a".to_vec());
    table.begin(
        NOW,
        CallStart {
            transaction: 1,
            call_id,
            caller_tag,
            parties,
            caller: Some(place()),
            is_to_group: false,
        },
    );
    table
}

fn place() -> CallerPlace {
    let (local, remote) = (([192, 0, 2, 1], 5060).into(), ([192, 0, 2, 7], 5060).into());
    let flow = Flow { transport: sip::Transport::Udp, local, remote, connection: None };
    let uri = b"sip:alice@192.0.2.7".to_vec();
    CallerPlace { uri, routes: Vec::new(), flow, takes_replaces: true }
}

fn phase(table: &CallTable, user: &str) -> Option<Phase> {
    table.calls_of(user).first().map(|call| call.phase)
}

#[test]
fn a_call_is_shown_from_its_invite_to_its_bye() {
    let mut table = table();
    assert_eq!(table.take_changed().collect::<Vec<_>>(), [ALICE.into(), BOB.into()]);
    table.respond(NOW, 1, 100, b"", None);
    assert_eq!((phase(&table, BOB), table.ringing(BOB)), (Some(Phase::Trying), None));
    table.respond(NOW, 1, 180, b"b", None);
    assert_eq!(phase(&table, ALICE), Some(Phase::Early));
    let pickup = table.ringing(BOB).unwrap();
    assert_eq!(pickup.replaces, b"x@y;to-tag=a;from-tag=b;early-only");
    assert_eq!(pickup.caller, place());
    assert_eq!(table.ringing(ALICE), None, "the caller does not ring");
    table.respond(NOW, 1, 200, b"b", None);
    assert_eq!((phase(&table, BOB), table.ringing(BOB)), (Some(Phase::Confirmed), None));
    let [alice, bob] = [ALICE, BOB].map(|user| table.calls_of(user).remove(0));
    assert_eq!((alice.is_initiator, bob.is_initiator), (true, false));
    assert_eq!((&alice.local_tag, &alice.remote_tag), (&bob.remote_tag, &bob.local_tag));
    table.end(b"x@y", [b"b", b"other"]);
    assert_eq!(table.len(), 1, "another dialog");
    table.end(b"x@y", [b"b", b"a"]);
    assert!(table.is_empty());
    table.respond(NOW, 1, 200, b"b", None);
    assert!(table.is_empty(), "a late 2xx lights no lamp");
}

#[test]
fn a_ringing_call_is_named_by_its_dialog() {
    let mut table = table();
    assert_eq!(table.named(b"x@y;to-tag=a;from-tag=b"), None, "it does not ring yet");
    table.respond(NOW, 1, 180, b"b", None);
    let (pickup, user) = table.named(b"x@y;from-tag=b;to-tag=a;early-only").unwrap();
    assert_eq!((Some(pickup), user), (table.ringing(BOB), BOB));
    for other in ["z@y;to-tag=a;from-tag=b", "x@y;to-tag=a;from-tag=c", "x@y;to-tag=a", "x@y"] {
        assert_eq!(table.named(other.as_bytes()), None, "{other}");
    }
    let other_end = b"x@y;to-tag=b;from-tag=a";
    assert_eq!(table.named(other_end), None, "a transfer to a phone that rings");
    table.go_on(b"x@y", 7);
    let (pickup, _) = table.named(other_end).unwrap();
    assert_eq!((pickup.transaction, pickup.is_from_trunk), (7, true));
    table.respond(NOW, 1, 200, b"b", None);
    assert_eq!(table.named(other_end), None, "it is answered");
}

#[test]
fn a_call_without_a_seen_end_ends_at_its_deadline() {
    let mut table = table();
    table.respond(NOW, 1, 200, b"b", Some(Duration::from_secs(90)));
    assert_eq!(table.next_timer(), Some(NOW + Duration::from_secs(122)));
    let later = NOW + Duration::from_secs(100);
    table.refresh(later, b"x@y", [b"a", b"b"], None);
    assert_eq!(table.next_timer(), Some(later + Duration::from_secs(122)));
    table.expire(later + Duration::from_secs(121));
    assert_eq!(table.len(), 1);
    table.expire(later + Duration::from_secs(122));
    assert!(table.is_empty());
}

#[test]
fn a_refused_call_ends_and_so_does_one_that_rings_too_long() {
    let mut refused = table();
    refused.respond(NOW, 1, 486, b"b", None);
    assert!(refused.is_empty());
    let mut ringing = table();
    ringing.expire(NOW + TableLimits::default().ringing);
    assert!(ringing.is_empty());
}

#[test]
fn a_call_that_is_led_on_is_shown_with_the_users_that_ring_then() {
    const CAROL: &str = "carol@example.com";
    let mut table = table();
    table.respond(NOW, 1, 180, b"b", None);
    let users = |users: &[&str]| users.iter().map(|user| Box::from(*user)).collect();
    table.retarget(RetargetedCall::Transaction(1), users(&[CAROL, "dave@example.com"]));
    let phases = |table: &CallTable| [ALICE, BOB, CAROL].map(|user| phase(table, user));
    assert_eq!(phases(&table), [Some(Phase::Early), None, Some(Phase::Early)]);
    assert_eq!((table.ringing(BOB), table.ringing(CAROL).unwrap().transaction), (None, 1));
    table.retarget(RetargetedCall::CallId(b"x@y"), users(&[BOB]));
    assert_eq!(phases(&table), [Some(Phase::Early), Some(Phase::Early), None]);
    table.respond(NOW, 1, 200, b"b", None);
    // It is answered, so that it stays there.
    table.retarget(RetargetedCall::CallId(b"x@y"), users(&[CAROL]));
    assert_eq!(phases(&table), [Some(Phase::Confirmed), Some(Phase::Confirmed), None]);
    table.retarget(RetargetedCall::Transaction(2), users(&[CAROL]));
    table.end(b"x@y", [b"a", b"b"]);
    assert!(table.is_empty());
    // The call of a stranger to a group.
    const SALES: &str = "sales@example.com";
    let parties = [Party::default(), party(SALES)];
    let (call_id, caller_tag) = (b"g".to_vec(), b"a".to_vec());
    let (transaction, caller, is_to_group) = (3, None, true);
    let start = CallStart { transaction, call_id, caller_tag, parties, caller, is_to_group };
    table.begin(NOW, start);
    table.retarget(RetargetedCall::CallId(b"g"), users(&[BOB]));
    assert_eq!(phase(&table, BOB), Some(Phase::Trying));
    table.respond(NOW, 3, 180, b"b", None);
    table.retarget(RetargetedCall::CallId(b"g"), users(&[CAROL]));
    let early = Some(Phase::Early);
    let shown = [BOB, CAROL, SALES].map(|user| phase(&table, user));
    assert_eq!(shown, [None, early, early], "the group stays a party");
    table.respond(NOW, 3, 486, b"b", None);
    assert!(table.is_empty());
}

#[test]
fn a_call_from_a_trunk_is_picked_up_where_it_goes_on() {
    let mut table = table();
    table.go_on(b"other", 8);
    table.go_on(b"x@y", 7);
    table.respond(NOW, 1, 180, b"b", None);
    let pickup = table.ringing(BOB).unwrap();
    assert_eq!((pickup.transaction, pickup.is_from_trunk), (7, true));
}

#[test]
fn calls_over_a_limit_are_left_out() {
    let mut table =
        CallTable::new(TableLimits { calls: 3, calls_of_user: 2, ..TableLimits::default() });
    for transaction in 0..5 {
        let parties = [Party::default(), party(BOB)];
        let (call_id, caller_tag) = (b"x".to_vec(), b"a".to_vec());
        let (caller, is_to_group) = (None, false);
        let start = CallStart { transaction, call_id, caller_tag, parties, caller, is_to_group };
        table.begin(NOW, start);
    }
    assert_eq!((table.len(), table.calls_of(BOB).len()), (2, 2));
    table.clear();
    assert!(table.is_empty());
}
