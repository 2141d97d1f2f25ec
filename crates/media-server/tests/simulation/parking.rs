//! Calls that are parked and picked up.

use crate::world::World;
use barebell_media_server::Config;
use barebell_media_server::media::Codec;
use barebell_media_server::sip::Duration;
use barebell_media_server::sip_ua::Transfer;

/// The route of a call that bob has transferred to the slot with this number.
fn parked_by_bob(slot: &str) -> String {
    format!(
        "<sip:park@media-server.invalid;lr;name={slot}%40example.com;caller=x%40example.com>\r\n\
         Referred-By: <sip:bob@example.com>"
    )
}

fn retrieval_from(slot: &str) -> String {
    format!("<sip:park@media-server.invalid;lr;name={slot}%40example.com;caller=c%40example.com>")
}

#[test]
fn a_parked_call_hears_music_until_another_one_retrieves_it_and_both_end_together() {
    let mut world = World::new(Config::default());
    let parked = world.call(&parked_by_bob("702"), Codec::Pcmu, 440.0);
    world.pass(400);
    let heard = world.hears(parked, &[329.6, 392.0]);
    assert!(heard.iter().any(|amplitude| *amplitude > 500.0), "no music: {heard:?}");
    // A second one cannot be parked there, and a transfer does not retrieve a call.
    let second = world.call(&parked_by_bob("702"), Codec::Pcmu, 440.0);
    world.pass(100);
    assert_eq!(world.refusal(second), Some(486));
    let picker = world.call(&retrieval_from("702"), Codec::G722, 620.0);
    world.pass(800);
    assert!(world.hears(parked, &[620.0])[0] > 3000.0);
    assert!(world.hears(picker, &[440.0])[0] > 3000.0);
    let third = world.call(&retrieval_from("702"), Codec::Pcmu, 440.0);
    world.pass(100);
    assert_eq!(world.refusal(third), Some(486));
    world.hang_up(picker);
    world.pass(100);
    assert!(world.phones[parked].ended.is_some(), "the two calls end together");
    assert_eq!(world.server.counters().parked, 1);
    world.assert_empty();
}

#[test]
fn the_first_free_slot_is_announced_by_tones_and_a_call_that_waits_returns() {
    let config = Config { park_time: Duration::from_secs(30), ..Config::default() };
    let mut world = World::new(config);
    let first = world.call(&parked_by_bob("701"), Codec::Pcmu, 440.0);
    // Bob asks for a free slot, which is that with the number 2: two tones.
    let bob = world.call(&retrieval_from("700"), Codec::Pcmu, 1000.0);
    world.pass(400);
    assert!(world.hears(bob, &[880.0])[0] > 1000.0);
    world.pass(29_000);
    assert_eq!(world.phones[first].transferred.as_deref(), Some("sip:bob@example.com"));
    assert_eq!(world.phones[bob].transferred, None, "bob has parked no other call there");
    assert_eq!(world.server.counters().returned, 1);
    world.hang_up(first);
    world.hang_up(bob);
    world.assert_empty();
}

#[test]
fn the_calls_of_one_user_fill_a_part_of_the_slots_only() {
    let mut world = World::new(Config::default());
    let of = |user: &str, slot: &str| {
        format!("<sip:park@media-server.invalid;lr;name={slot}%40example.com;caller={user}>")
    };
    let mut calls = Vec::new();
    for slot in ["701", "702", "700", "700"] {
        calls.push(world.call(&of("mallory", slot), Codec::Pcmu, 440.0));
        world.pass(100);
    }
    // Another slot, a slot by a transfer, and any free slot.
    let referred = "\r\nReferred-By: <sip:bob@example.com>";
    for route in [of("mallory", "709"), of("mallory", "708") + referred, of("mallory", "700")] {
        let refused = world.call(&route, Codec::Pcmu, 440.0);
        world.pass(100);
        assert_eq!(world.refusal(refused), Some(486), "{route}");
    }
    // It may still take a call that waits, and other users have slots.
    calls.push(world.call(&of("bob", "709"), Codec::Pcmu, 620.0));
    world.pass(800);
    calls.push(world.call(&of("mallory", "709"), Codec::Pcmu, 440.0));
    world.pass(800);
    assert!(world.hears(calls[5], &[620.0])[0] > 3000.0);
    for call in calls {
        // Of two calls that have met, the second one ends with the first.
        if world.phones[call].ended.is_none() {
            world.hang_up(call);
        }
        world.pass(100);
    }
    world.assert_empty();
}

#[test]
fn a_call_that_is_picked_up_meets_the_other_one_and_does_not_wait_for_long() {
    let mut world = World::new(Config::default());
    let meet = |name: &str| format!("<sip:meet@media-server.invalid;lr;name={name}>");
    let [caller, picker] = [440.0, 620.0].map(|hertz| world.call(&meet("70"), Codec::Pcmu, hertz));
    let lonely = world.call(&meet("71"), Codec::Pcmu, 440.0);
    world.pass(1000);
    assert!(world.hears(caller, &[620.0])[0] > 3000.0);
    assert!(world.hears(picker, &[440.0])[0] > 3000.0);
    world.pass(20_000);
    assert!(world.phones[lonely].ended.is_some());
    world.hang_up(caller);
    world.pass(100);
    assert!(world.phones[picker].ended.is_some());
    world.assert_empty();
}

const CAROL: &str = "sip:carol@example.com;parked-by=bob";
const ECHO: &str = "<sip:echo@media-server.invalid;lr>";

/// A caller, and the party that has picked up the call.
fn picked_up(world: &mut World) -> [usize; 2] {
    let meet = "<sip:meet@media-server.invalid;lr;name=70>";
    let calls = [440.0, 620.0].map(|hertz| world.call(meet, Codec::Pcmu, hertz));
    world.pass(1000);
    calls
}

/// The status with which the transfer that `phone` has requested has failed.
fn failure(world: &World, phone: usize) -> Option<u16> {
    match &world.phones[phone].news {
        Some(Transfer::Failed(failure)) => Some(failure.status()),
        _ => None,
    }
}

#[test]
fn a_party_in_a_slot_transfers_the_other_one() {
    let mut world = World::new(Config::default());
    let [caller, picker] = picked_up(&mut world);
    world.transfer(picker, CAROL);
    assert_eq!(world.phones[caller].transferred.as_deref(), Some(CAROL));
    assert_eq!(world.phones[picker].news, None, "the other party has not responded");
    // Both at once.
    world.transfer(caller, CAROL);
    assert_eq!(failure(&world, caller), Some(491));
    world.refuse_transfer(caller, 480);
    world.pass(100);
    assert_eq!(failure(&world, picker), Some(480));
    assert!(world.hears(caller, &[620.0])[0] > 3000.0, "the call goes on");
    world.transfer(picker, CAROL);
    world.follow_transfer(caller, ECHO);
    world.pass(1000);
    assert_eq!(world.phones[picker].news, Some(Transfer::Done));
    assert!(world.phones[picker].ended.is_some());
    assert!(world.hears(caller, &[440.0])[0] > 3000.0, "the caller talks to the target");
    world.hang_up(caller);
    world.assert_empty();
}

#[test]
fn a_party_that_is_alone_in_a_slot_transfers_no_call() {
    let mut world = World::new(Config::default());
    let parked = world.call(&parked_by_bob("702"), Codec::Pcmu, 440.0);
    world.pass(100);
    world.transfer(parked, CAROL);
    assert_eq!(failure(&world, parked), Some(603));
    world.hang_up(parked);
    world.assert_empty();
}

#[test]
fn a_party_that_hangs_up_after_its_transfer_leaves_the_other_one_until_the_result() {
    for is_followed in [true, false] {
        let mut world = World::new(Config::default());
        let [caller, picker] = picked_up(&mut world);
        world.transfer(picker, CAROL);
        world.hang_up(picker);
        world.pass(1000);
        assert!(world.phones[caller].ended.is_none());
        if is_followed {
            world.follow_transfer(caller, ECHO);
            world.pass(1000);
            assert!(world.hears(caller, &[440.0])[0] > 3000.0);
            world.hang_up(caller);
        } else {
            world.refuse_transfer(caller, 603);
            world.pass(100);
            assert!(world.phones[caller].ended.is_some());
        }
        world.assert_empty();
    }
}

#[test]
fn a_transfer_without_a_response_fails_and_one_of_a_call_that_ends_fails_with_it() {
    let mut world = World::new(Config::default());
    let [caller, picker] = picked_up(&mut world);
    world.transfer(picker, CAROL);
    world.pass(33_000);
    assert_eq!(failure(&world, picker), Some(408));
    assert!(world.hears(caller, &[620.0])[0] > 3000.0, "the call goes on");
    world.hang_up(caller);
    world.pass(100);
    assert!(world.phones[picker].ended.is_some());
    world.assert_empty();
}
