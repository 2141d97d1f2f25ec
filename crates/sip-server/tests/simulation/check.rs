//! The invariants.

use crate::phone::{Call, Leg, LegEnd, Outcome, Phone};
use crate::world::{Tables, World, number_of};
use std::collections::{BTreeMap, BTreeSet};

/// Checks the bindings. Every binding that the server has confirmed exists, with the flow to the
/// phone, unless it was removed, has expired, was on a closed stream, or was replaced by a newer
/// one. No removed binding exists.
pub(crate) fn bindings(world: &World) {
    let Some(server) = world.ends.host.server() else { return };
    let now = world.rig.now();
    let mut bindings = BTreeMap::new();
    server.for_each_binding(now, &mut |binding| {
        let key = (binding.address_of_record.to_vec(), binding.contact.to_vec());
        let double = bindings.insert(key, (binding.flow, binding.expires));
        assert_eq!(double, None, "a contact has one binding");
    });
    assert!(server.bindings() >= bindings.len(), "what expired may wait to be taken away");
    for (at, phone) in world.ends.phones.iter().enumerate() {
        let key = (phone.address_of_record().into_bytes(), phone.contact().into_bytes());
        let found = bindings.get(&key);
        let is_cut_off = phone.on_stream && !world.rig.has_stream(number_of(at));
        let of_user = |other: &&Phone| other.address_of_record().as_bytes() == key.0;
        let may_make_room =
            world.ends.phones.iter().filter(of_user).count() > world.ends.host.max_contacts();
        let made_room = found.is_none() && may_make_room;
        let granted = phone.registration.granted.filter(|granted| *granted > now);
        if let Some(granted) = granted.filter(|_| !is_cut_off && !made_room) {
            let (flow, expires) = found.unwrap_or_else(|| {
                panic!("the binding of {} is lost, which ends at {granted:?}", phone.contact())
            });
            assert_eq!(flow.remote, phone.address);
            assert!(*expires >= granted, "{expires:?} is before {granted:?}");
        }
        // A registrar that has dropped a binding has dropped its CSeq. A late copy of an earlier
        // REGISTER may restore the binding.
        if phone.registration.is_gone && !world.has_copies() {
            assert_eq!(found, None, "{} was removed", phone.contact());
        }
    }
}

/// Checks that every call has ended as RFC 3261 allows, and that both sides agree on it.
pub(crate) fn calls(world: &World) {
    let all_legs = || world.ends.phones.iter().flat_map(|phone| &phone.legs);
    let silent: BTreeSet<&str> = all_legs()
        .filter(|leg| leg.end == Some(LegEnd::Silent))
        .map(|leg| &leg.invite[..])
        .collect();
    let unheard: BTreeSet<&str> = world
        .ends
        .host
        .unheard()
        .filter(|(invite, _)| !silent.contains(invite))
        .map(|(_, call_id)| call_id)
        .collect();
    let mut legs: BTreeMap<&str, Vec<&Leg>> = BTreeMap::new();
    for leg in all_legs() {
        assert!(leg.is_over(), "a callee is left behind: {:?} {:?}", leg.answered, leg.end);
        legs.entry(&leg.call_id).or_default().push(leg);
    }
    for phone in &world.ends.phones {
        for (call_id, call) in &phone.calls {
            let legs = legs.get(&call_id[..]).map_or(&[][..], |legs| legs);
            assert!(call.is_over(), "a caller is left behind: {call:?}");
            for (session, _) in &call.sessions {
                let leg = legs.iter().find(|leg| session.is_with(&leg.tag));
                let leg = leg.expect("a 2xx comes from a phone");
                assert_eq!(leg.answered, Some(200));
            }
            for leg in legs.iter().filter(|leg| leg.is_confirmed()) {
                let known = call.sessions.iter().any(|(session, _)| session.is_with(&leg.tag));
                assert!(known, "a callee talks to nobody");
                assert_eq!(call.outcome, Some(Outcome::Answered));
            }
            if world.is_calm {
                undisturbed_call(world, call, legs, unheard.contains(&call_id[..]));
            }
        }
        for (number, status) in phone.messages.iter().enumerate() {
            assert_ne!(*status, None, "MESSAGE {number} of {} hangs", phone.contact());
        }
    }
}

/// Checks a call without disturbances other than lost datagrams. If all those of a timer B were
/// lost, the call `is_unheard`.
fn undisturbed_call(world: &World, call: &Call, legs: &[&Leg], is_unheard: bool) {
    let context = || {
        let legs: Vec<_> = legs.iter().map(|leg| (leg.answered, leg.end)).collect();
        format!("{call:?}\n{legs:?}")
    };
    if is_unheard {
        assert!(world.rig.link().loss > 0, "{}", context());
        return;
    }
    if call.outcome == Some(Outcome::Refused(480)) {
        // The call was rejected without a transaction (RFC 3261 section 8.2.7). A copy of the
        // INVITE that arrives just after the callee has registered is forwarded.
        return assert!(
            legs.is_empty() || world.rig.link().jitter.as_millis() > 1,
            "{}",
            context()
        );
    }
    let sent = |status| legs.iter().any(|leg| leg.answered == Some(status));
    for leg in legs {
        assert_ne!(leg.end, Some(LegEnd::RangTooLong), "{}", context());
        if leg.answered == Some(200) {
            let known = call.sessions.iter().any(|(session, _)| session.is_with(&leg.tag));
            assert!(known, "a 2xx is lost: {}", context());
        }
    }
    let number: u64 = call.callee[1..].parse().expect("a number");
    let has_silent = legs.iter().any(|leg| leg.end == Some(LegEnd::Silent));
    let fits = match call.outcome {
        Some(Outcome::Answered) => sent(200),
        Some(Outcome::Refused(404)) => number > 42,
        Some(Outcome::Refused(407)) => call.was_cancelled,
        Some(Outcome::Refused(487)) => call.was_cancelled || sent(487),
        Some(Outcome::Refused(408)) => legs.iter().all(|leg| leg.end == Some(LegEnd::Silent)),
        Some(Outcome::Refused(status)) => sent(status),
        // The branch to a silent phone ends with its own timer B.
        Some(Outcome::GivenUp) => world.rig.link().loss > 0 || has_silent,
        Some(Outcome::Silence) => world.rig.link().loss > 0,
        Some(Outcome::Off) | None => false,
    };
    assert!(fits, "{}", context());
    if matches!(call.outcome, Some(Outcome::Refused(_))) && sent(603) && !call.was_cancelled {
        assert_eq!(call.outcome, Some(Outcome::Refused(603)), "{}", context());
    }
}

/// Checks that no transaction is stuck.
pub(crate) fn transactions(world: &World) {
    let server = world.ends.host.server().expect("the power is on");
    assert_eq!(server.transactions(), 0);
    let tally = world.ends.host.tally();
    let counter = |name| tally.counters[name];
    assert_eq!(counter("requests") + counter("responses"), tally.received);
    assert_eq!(counter("sent"), tally.sent);
    assert_eq!(counter("registers"), tally.registered);
    assert_eq!(counter("challenges"), tally.challenged);
    assert_eq!(counter("undeliverable"), tally.undeliverable);
    assert!(counter("answered") <= counter("invites"));
    for name in [
        "malformed-requests",
        "authentication-failures",
        "identity-mismatches",
        "relay-denied",
        "loops",
        "too-many-hops",
        "rate-limited",
        "bans",
        "dns-queries",
    ] {
        assert_eq!(counter(name), 0, "{name}");
    }
    if world.tables == Tables::Ample {
        LIMITS.iter().for_each(|name| assert_eq!(counter(name), 0, "{name}"));
    }
}

const LIMITS: [&str; 4] =
    ["contact-limit", "registration-limit", "transaction-limit", "fork-limit"];

/// Checks that no state is left.
pub(crate) fn rest(world: &World) {
    let server = world.ends.host.server().expect("the power is on");
    assert_eq!(server.transactions(), 0);
    assert_eq!((server.registered(), server.bindings()), (0, 0));
    assert!(world.ends.phones.iter().all(Phone::is_at_rest));
}

/// The totals over all runs, to check that enough of each event happened.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    runs: u32,
    calm_runs: u32,
    kills: u64,
    registrations: u64,
    calls: u64,
    answered: u64,
    refused: BTreeMap<u16, u64>,
    silent: u64,
    given_up: u64,
    two_answers: u64,
    ends_of_legs: BTreeMap<String, u64>,
    messages: BTreeMap<u16, u64>,
    counters: BTreeMap<&'static str, u64>,
}

impl Sum {
    pub(crate) fn add(&mut self, world: &World) {
        let tally = world.ends.host.tally();
        self.runs += 1;
        self.calm_runs += u32::from(world.is_calm);
        self.kills += tally.kills;
        for (name, count) in tally.counters {
            *self.counters.entry(name).or_default() += count;
        }
        for phone in &world.ends.phones {
            self.registrations += u64::from(phone.registration.successes);
            for call in phone.calls.values() {
                self.calls += 1;
                match call.outcome {
                    Some(Outcome::Answered) => self.answered += 1,
                    Some(Outcome::Refused(status)) => {
                        *self.refused.entry(status).or_default() += 1;
                    }
                    Some(Outcome::Silence) => self.silent += 1,
                    Some(Outcome::GivenUp) => self.given_up += 1,
                    Some(Outcome::Off) | None => {}
                }
                self.two_answers += u64::from(call.sessions.len() > 1);
            }
            for leg in &phone.legs {
                *self.ends_of_legs.entry(format!("{:?}", leg.end)).or_default() += 1;
            }
            for status in phone.messages.iter().flatten() {
                *self.messages.entry(*status).or_default() += 1;
            }
        }
    }

    /// Checks that enough happened. A simulation with few events proves little.
    pub(crate) fn check(&self) {
        assert!(self.calm_runs > 0 && self.calm_runs < self.runs);
        assert!(self.kills > 0);
        assert!(self.registrations > 100 * u64::from(self.runs), "{}", self.registrations);
        assert!(self.answered > self.calls / 4, "{} of {}", self.answered, self.calls);
        assert!(self.silent + self.given_up < self.calls / 20);
        for status in [404, 480, 486, 487, 603] {
            assert!(self.refused.contains_key(&status), "{status}");
        }
        assert!(self.two_answers > 0);
        assert!(self.messages.contains_key(&200));
    }
    /// With small tables each limit must be reached, and most operations must still succeed.
    pub(crate) fn check_limits(&self) {
        for name in LIMITS {
            assert!(self.counters[name] > 0, "{name}");
        }
        assert!(self.registrations > 50 * u64::from(self.runs), "{}", self.registrations);
        assert!(self.answered > self.calls / 20, "{} of {}", self.answered, self.calls);
        assert!(self.refused.contains_key(&503));
    }
}
