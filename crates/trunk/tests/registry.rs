//! Trunks with servers that fail and come back.

mod world;

use barebell_trunk::State;
use sip::{Duration, HeaderName};
use test_support::flow;
use world::{MOODS, Mood, World, location, server, trunk};

#[test]
fn all_accounts_register_at_the_first_server_with_contacts_of_their_own() {
    let mut world = World::new(1, 2);
    world.configure(&[trunk("a", &["1", "2"])]);
    assert_eq!(world.target(), None);
    world.pass(2);
    assert_eq!(world.target(), Some(server(1)));
    let contacts: Vec<&String> = world.bindings.values().collect();
    let view = world.registry.views(world.now).remove(0);
    assert_eq!(contacts, view.contacts.iter().collect::<Vec<_>>());
    assert!(contacts[0] != contacts[1] && contacts[0].len() == 32);
    let told = world.told();
    assert!(told.contains("requests go to udp:203.0.113.1:5060"), "{told}");
    assert!(
        told.contains("sip:2@provider.example is registered at udp:203.0.113.1:5060"),
        "{told}"
    );
    // The registrations are renewed, without a word.
    world.pass(3600);
    assert_eq!((world.bindings.len(), world.told().as_str()), (2, ""));
    assert!(world.count(1, "REGISTER", world::START) > 20 && world.count(2, "", world::START) == 0);
    // A restart keeps the contacts.
    let mut again = World::new(99, 1);
    again.configure(&[trunk("a", &["1", "2"])]);
    assert_eq!(again.registry.views(again.now)[0].contacts, view.contacts);
}

#[test]
fn the_trunk_moves_as_a_unit_and_comes_back() {
    for mood in [Mood::Silent, Mood::Unreachable, Mood::Overloaded] {
        let mut world = World::new(2, 2);
        world.configure(&[trunk("a", &["1", "2"])]);
        world.pass(60);
        world.told();
        world.set(1, mood);
        world.pass(50);
        assert_eq!(world.target(), Some(server(2)), "{mood:?}");
        let at_second = world.bindings.keys().filter(|(at, _)| *at == server(2)).count();
        assert_eq!(at_second, 2, "both accounts: {mood:?}");
        let told = world.told();
        assert!(told.contains("udp:203.0.113.1:5060 has failed: "), "{told}");
        assert!(told.contains("(to OPTIONS)") && told.contains("go to udp:203.0.113.2"), "{told}");
        let report = world.report();
        assert_eq!((report.places[0].state, report.places[1].state), (State::Failed, State::Works));
        assert!(report.is_usable && report.places[0].retry.is_some());
        world.set(1, Mood::Works);
        world.pass(150);
        assert_eq!(world.target(), Some(server(1)), "{mood:?}");
        let told = world.told();
        assert!(told.contains("udp:203.0.113.1:5060 works again"), "{told}");
        assert_eq!(world.registry.counters().moves, 2);
    }
}

#[test]
fn a_server_that_refuses_registrations_is_left_ever_longer() {
    let mut world = World::new(3, 2);
    world.set(1, Mood::RefusesRegister);
    world.configure(&[trunk("a", &["1"])]);
    world.pass(2);
    assert_eq!(world.target(), Some(server(2)));
    let told = world.told();
    assert!(told.contains("has failed: 503 Service Unavailable (to REGISTER)"), "{told}");
    world.pass(4 * 3600);
    // After 1, 2, 4, 8, 16 and 30 minutes, or half of these times.
    let asked = world.count(1, "REGISTER", world::START);
    assert!((8..30).contains(&asked), "{asked}");
    assert_eq!(world.target(), Some(server(2)));
}

#[test]
fn a_refused_account_is_repeated_with_growing_waits_and_moves_nothing() {
    let mut world = World::new(4, 2);
    world.set(1, Mood::Forbids);
    world.configure(&[trunk("a", &["1"])]);
    world.pass(2);
    assert_eq!(world.target(), None);
    let report = world.report();
    assert_eq!(report.accounts[0].state, State::Failed);
    assert!(report.accounts[0].reason.starts_with("403 Forbidden"), "{report:?}");
    assert!(report.accounts[0].retry.is_some_and(|at| at > world.now + Duration::from_secs(20)));
    assert_eq!(world.count(1, "REGISTER", world::START), 1, "not at once");
    world.pass(4 * 3600);
    assert!(world.count(1, "REGISTER", world::START) < 20);
    assert_eq!(world.count(2, "", world::START), 0);
    world.set(1, Mood::Works);
    world.pass(1800);
    assert_eq!(world.target(), Some(server(1)));
}

#[test]
fn wrong_credentials_are_repeated_after_half_an_hour() {
    let mut world = World::new(5, 1);
    let mut config = trunk("a", &["1"]);
    config.accounts[0].password = None;
    world.configure(&[config]);
    world.pass(1800);
    assert_eq!(world.count(1, "REGISTER", world::START), 1);
    let told = world.told();
    assert!(told.contains("is not registered: a password is needed for the realm"), "{told}");
    world.pass(1801);
    assert_eq!(world.count(1, "REGISTER", world::START), 2);
}

#[test]
fn too_brief_registrations_are_extended() {
    let mut world = World::new(6, 1);
    world.min_expires = 3600;
    world.configure(&[trunk("a", &["1"])]);
    world.pass(2);
    assert_eq!(world.target(), Some(server(1)));
}

#[test]
fn without_any_server_the_trunk_waits_for_one() {
    let mut world = World::new(7, 2);
    (1..=2).for_each(|number| world.set(number, Mood::Silent));
    world.configure(&[trunk("a", &["1"])]);
    world.pass(120);
    assert_eq!(world.target(), None);
    let told = world.told();
    assert!(told.contains("no server works; calls through the trunk fail"), "{told}");
    world.set(2, Mood::Works);
    world.pass(600);
    assert_eq!(world.target(), Some(server(2)));
}

#[test]
fn names_without_servers_are_looked_up_again() {
    let mut world = World::new(8, 1);
    world.dns.clear();
    world.configure(&[trunk("a", &["1"])]);
    world.pass(600);
    assert_eq!(world.told().matches("provider.example is not located").count(), 1);
    assert!(!world.report().lookup.is_empty());
    world.dns.push(server(1));
    world.pass(330);
    assert_eq!(world.target(), Some(server(1)));
    assert!(world.report().lookup.is_empty());
}

#[test]
fn the_order_of_equal_servers_in_the_dns_does_not_move_the_trunk() {
    let mut world = World::new(9, 3);
    world.configure(&[trunk("a", &["1"])]);
    for _ in 0..20 {
        world.dns.rotate_left(1);
        world.pass(60);
    }
    assert_eq!((world.target(), world.registry.counters().moves), (Some(server(1)), 0));
    // A server that is removed is left.
    world.dns.retain(|at| *at != server(1));
    world.pass(70);
    assert!(world.target().is_some_and(|at| at != server(1)));
}

#[test]
fn a_trunk_without_options_is_tried_again_after_a_time() {
    let mut world = World::new(10, 2);
    world.set(1, Mood::Silent);
    let mut config = trunk("a", &["1"]);
    config.probe = None;
    world.configure(&[config]);
    world.pass(20);
    assert_eq!(world.target(), Some(server(2)));
    world.set(1, Mood::Works);
    world.pass(61);
    assert_eq!(world.target(), Some(server(1)));
    assert_eq!(
        world.count(1, "OPTIONS", world::START) + world.count(2, "OPTIONS", world::START),
        0
    );
    // A failed call is enough to move it.
    let flow = location(server(1)).flow().expect("a local address");
    world.registry.call_failed(world.now, 0, &flow, "no answer");
    world.pass(1);
    assert_eq!(world.target(), Some(server(2)));
    assert!(world.told().contains("has failed: no answer (to a call)"));
}

#[test]
fn a_failed_call_has_the_server_asked_at_once() {
    let mut world = World::new(11, 2);
    world.configure(&[trunk("a", &[])]);
    world.pass(5);
    assert_eq!(world.target(), Some(server(1)), "it does not register");
    let (before, server_of_request) = (world.now, world.requests[0].server);
    let flow = location(server_of_request).flow().expect("a local address");
    world.registry.call_failed(world.now, 0, &flow, "503 Service Unavailable");
    world.pass(1);
    assert_eq!(world.count(1, "OPTIONS", before), 1);
    assert_eq!(world.target(), Some(server(1)), "it answers");
    world.set(1, Mood::Overloaded);
    world.registry.call_failed(world.now, 0, &flow, "503 Service Unavailable");
    world.pass(1);
    assert_eq!(world.target(), Some(server(2)));
}

#[test]
fn a_reload_keeps_unchanged_trunks_and_unregisters_removed_accounts() {
    let mut world = World::new(12, 1);
    world.configure(&[trunk("a", &["1"]), trunk("b", &["2", "3"])]);
    world.pass(5);
    assert_eq!(world.bindings.len(), 3);
    let before = world.now;
    world.configure(&[trunk("b", &["2", "3"])]);
    world.pass(5);
    assert!(!world.bindings.contains_key(&(server(1), "1".to_owned())));
    assert_eq!(world.target(), Some(server(1)), "the trunk b has the number 0 now");
    let registers = world.requests.iter().filter(|it| it.at >= before);
    let of = registers.filter(|it| it.bytes.starts_with(b"REGISTER"));
    let to: Vec<_> = of.map(|it| flow::value(&it.bytes, HeaderName::Expires)).collect();
    assert_eq!(to, ["0", "0"], "without and with credentials");
    // The changed trunk registers after its old registrations have ended.
    let mut changed = trunk("b", &["2"]);
    changed.expires = Duration::from_secs(120);
    world.configure(&[changed]);
    world.pass(10);
    assert_eq!(world.bindings.keys().map(|(_, user)| user.as_str()).collect::<Vec<_>>(), ["2"]);
    assert_eq!(world.target(), Some(server(1)));
    world.registry.end(world.now);
    assert!(world.registry.is_ending());
    world.pass(5);
    assert!(world.bindings.is_empty() && !world.registry.is_ending());
}

#[test]
fn after_any_history_a_trunk_is_registered_where_it_should_be() {
    for seed in 0..60 {
        let mut world = World::new(seed, 3);
        let mut config = trunk("a", &["1", "2"]);
        if seed % 4 == 0 {
            config.probe = None;
        }
        world.configure(&[config]);
        for _ in 0..40 {
            let number = 1 + world.random.below(3) as u8;
            let mood = *world.random.pick(&MOODS);
            world.set(number, mood);
            if world.random.chance(100) {
                world.dns.rotate_left(1);
            }
            let seconds = world.random.below(120);
            world.pass(seconds);
            // The states agree with each other at all times.
            let report = world.report();
            let targets = report.places.iter().filter(|place| place.is_target);
            let best = report.places.iter().find(|place| place.state != State::Failed);
            assert_eq!(targets.collect::<Vec<_>>(), best.into_iter().collect::<Vec<_>>());
            assert_eq!(world.target().is_some(), report.is_usable);
        }
        (1..=3).for_each(|number| world.set(number, Mood::Works));
        // The longest wait of a server, and then that of an account.
        world.pass(2 * 1800 + 60);
        let target = world.target().unwrap_or_else(|| panic!("{seed}: {:?}", world.report()));
        assert_eq!(target, world.report().places[0].flow.remote, "seed {seed}");
        for user in ["1", "2"] {
            let key = (target, user.to_owned());
            assert!(world.bindings.contains_key(&key), "seed {seed}: {:?}", world.report());
        }
    }
}
