//! Agreements of two ends over a simulated network.

mod hostile;

use super::{Association, Config};
use crate::algorithm::{Algorithm, AuthTag, Cipher, Hash, KeyAgreement, Preferences, SasType};
use crate::cache::{Cache, Update, Zid};
use crate::error::Failure;
use crate::event::{Continuity, Event, Keyed};
use core::time::Duration;
use proptest::prelude::*;
use srtp::{Policy, Receiver, Sender};
use std::net::SocketAddr;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;
use test_support::network::{self, Link, Network};

/// The time after which every agreement has succeeded or failed.
const END: Duration = Duration::from_secs(60);

/// An end with its owner.
struct End {
    association: Association,
    cache: Cache,
    keyed: Vec<Keyed>,
    updates: Vec<Update>,
    silences: Vec<bool>,
    failures: Vec<Failure>,
}

impl End {
    fn new(config: Config, cache: Cache) -> Self {
        Self {
            association: Association::new(config, Duration::ZERO),
            cache,
            keyed: vec![],
            updates: vec![],
            silences: vec![],
            failures: vec![],
        }
    }

    /// Handles the events.
    fn note(&mut self) {
        while let Some(event) = self.association.poll_event() {
            match event {
                Event::Keyed(keyed) => self.keyed.push(*keyed),
                Event::Update(update) => {
                    self.cache.store(update.clone(), 0);
                    self.updates.push(update);
                }
                Event::Silent { is_expected } => self.silences.push(is_expected),
                Event::Failed(failure) => self.failures.push(failure),
            }
        }
    }

    fn sas(&self) -> Option<String> {
        assert!(self.keyed.len() <= 1, "keys come once");
        self.keyed.first().map(|keyed| keyed.sas.to_string())
    }

    fn continuity(&self) -> Continuity {
        self.keyed[0].continuity
    }
}

fn config(name: u8, call: u8) -> Config {
    let mut seed = [name; 32];
    seed[0] = call;
    Config::new(Zid([name; 12]), seed, u32::from(name))
}

/// Two ends in a call with this number, with their caches.
fn ends(call: u8, caches: [Cache; 2]) -> [End; 2] {
    let [one, other] = caches;
    [End::new(config(1, call), one), End::new(config(2, call), other)]
}

fn new_ends(call: u8) -> [End; 2] {
    ends(call, [Cache::default(), Cache::default()])
}

fn address(number: usize) -> SocketAddr {
    ([192, 0, 2, number as u8], 4000).into()
}

/// Runs ends, of which 0 and 1 are connected, 2 and 3, and so on. A packet of an end passes
/// `between` first, which returns those that arrive in its place.
fn run(
    ends: &mut [End],
    network: &mut Network<usize>,
    mut between: impl FnMut(usize, Vec<u8>) -> Vec<Vec<u8>>,
) {
    for number in 0..ends.len() {
        network.wake_at(network.now(), number);
    }
    while network.next_time().is_some_and(|time| time < END) {
        let event = network.next_event().expect("there is an event");
        let now = network.now();
        let number = match event {
            network::Event::Datagram { to, bytes, .. } => {
                let number = (0..ends.len()).find(|it| address(*it) == to).expect("it is known");
                let End { association, cache, .. } = &mut ends[number];
                association.handle(now, &bytes, cache);
                number
            }
            network::Event::Wake(number) => {
                let association = &mut ends[number].association;
                if association.next_timeout().is_some_and(|due| due <= now) {
                    association.handle_timeout(now);
                }
                number
            }
            other => panic!("{other:?} without streams"),
        };
        ends[number].note();
        while let Some(packet) = ends[number].association.poll_transmit() {
            assert!(crate::is_zrtp(&packet));
            for packet in between(number, packet) {
                network.send(address(number), address(number ^ 1), &packet);
            }
        }
        if let Some(due) = ends[number].association.next_timeout() {
            network.wake_at(due, number);
        }
    }
}

/// Runs ends over a network with a delay only.
fn run_well(ends: &mut [End]) {
    let link = Link { delay: Duration::from_millis(10), ..Link::default() };
    run(ends, &mut Network::new(1, link), |_, packet| vec![packet]);
}

/// Asserts that both ends have the same string, and each the keys for the packets of the other.
fn assert_agreed(ends: &mut [End; 2]) {
    for end in &*ends {
        assert_eq!(end.failures, []);
        assert_eq!(end.association.next_timeout(), None, "{:?}", end.association);
    }
    assert!(ends[0].sas().is_some());
    assert_eq!(ends[0].sas(), ends[1].sas());
    assert_eq!(ends[0].keyed[0].suite, ends[1].keyed[0].suite);
    for (from, to) in [(0, 1), (1, 0)] {
        let policy = Policy::new(ends[from].keyed[0].suite);
        let mut sender = Sender::new(&policy, vec![ends[from].keyed[0].local.clone()]).unwrap();
        let key = ends[to].keyed[0].remote.clone();
        let mut receiver = Receiver::new(&policy, vec![key]).unwrap();
        let packet = [&[0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1][..], &[0x5a; 20]].concat();
        let mut protected = [&packet[..], &[0; 32]].concat();
        let length = sender.protect(&mut protected, packet.len()).unwrap();
        assert!(!protected.starts_with(&packet));
        assert_eq!(receiver.unprotect(&mut protected[..length]).unwrap(), packet);
    }
}

/// Asserts that the caches of both ends have the same secret of the last call.
fn assert_retained(ends: &[End; 2]) {
    let [one, other] = [0, 1].map(|it: usize| ends[it].cache.get(Zid([2 - it as u8; 12])));
    assert_eq!(one.expect("a secret is stored").rs1, other.expect("a secret is stored").rs1);
}

#[test]
fn every_algorithm_is_agreed_on() {
    let only = |change: &dyn Fn(&mut Preferences)| {
        let mut preferences = Preferences::default();
        change(&mut preferences);
        let mut ends = [1, 2].map(|name| {
            let preferences = preferences.clone();
            End::new(Config { preferences, ..config(name, 1) }, Cache::default())
        });
        run_well(&mut ends);
        assert_agreed(&mut ends);
        ends
    };
    for kind in KeyAgreement::ALL {
        let ends = only(&|it| it.key_agreements = vec![*kind]);
        assert_eq!(ends[0].keyed[0].key_agreement, *kind);
    }
    for hash in Hash::ALL {
        assert_eq!(only(&|it| it.hashes = vec![*hash])[0].keyed[0].hash, *hash);
    }
    for cipher in Cipher::ALL {
        assert_eq!(only(&|it| it.ciphers = vec![*cipher])[0].keyed[0].cipher, *cipher);
    }
    for tag in AuthTag::ALL {
        let ends = only(&|it| it.auth_tags = vec![*tag]);
        let bytes = ends[0].keyed[0].suite.rtp_tag_length();
        assert_eq!(bytes == 4, *tag == AuthTag::Hs32);
    }
    for kind in SasType::ALL {
        let ends = only(&|it| it.sas_types = vec![*kind]);
        let sas = ends[0].sas().expect("there is a string");
        assert_eq!(
            (ends[0].keyed[0].sas.kind(), sas.contains(' ')),
            (*kind, *kind == SasType::B256)
        );
    }
}

#[test]
fn ends_without_a_common_preference_take_the_mandatory_algorithms() {
    let mut ends = new_ends(1);
    for (end, kind) in [(0, KeyAgreement::X255), (1, KeyAgreement::Ec25)] {
        let preferences = Preferences {
            key_agreements: vec![kind],
            hashes: vec![],
            ciphers: vec![],
            auth_tags: vec![],
            sas_types: vec![],
        };
        let config = Config { preferences, ..config(end as u8 + 1, 1) };
        ends[end] = End::new(config, Cache::default());
    }
    run_well(&mut ends);
    assert_agreed(&mut ends);
    let keyed = &ends[0].keyed[0];
    assert_eq!((keyed.key_agreement, keyed.hash), (KeyAgreement::Dh3k, Hash::S256));
    assert_eq!((keyed.cipher, keyed.sas.kind()), (Cipher::Aes1, SasType::B32));
    assert_eq!(keyed.peer_client, "Barebell");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn ends_agree_in_spite_of_loss_and_reordering(
        seed: u64,
        loss in 0_u64..250,
        duplication in 0_u64..300,
        jitter in 0_u64..300,
    ) {
        let [delay, jitter] = [10, jitter].map(Duration::from_millis);
        let mut network = Network::new(seed, Link { loss, duplication, delay, jitter });
        let mut ends = new_ends(seed as u8);
        run(&mut ends, &mut network, |_, packet| vec![packet]);
        assert_agreed(&mut ends);
        assert_retained(&ends);
    }
}

/// A call of ends with these caches. Returns them with the caches as they are after it.
fn call(number: u8, caches: [Cache; 2]) -> [End; 2] {
    let mut ends = ends(number, caches);
    run_well(&mut ends);
    assert_agreed(&mut ends);
    ends
}

/// The caches after a first call with compared strings.
fn verified() -> [Cache; 2] {
    let mut ends = call(1, [Cache::default(), Cache::default()]);
    for end in &mut ends {
        assert_eq!((end.continuity(), end.keyed[0].is_verified), (Continuity::New, false));
        end.association.set_verified(true);
        end.note();
    }
    assert_retained(&ends);
    ends.map(|end| end.cache)
}

#[test]
fn a_later_call_continues_a_verified_one() {
    let mut caches = verified();
    for number in 2..5 {
        let ends = call(number, caches);
        assert_retained(&ends);
        for end in &ends {
            assert_eq!((end.continuity(), end.keyed[0].is_verified), (Continuity::Continued, true));
        }
        caches = ends.map(|end| end.cache);
    }
}

#[test]
fn a_call_is_verified_only_if_both_users_have_compared() {
    let mut ends = call(1, [Cache::default(), Cache::default()]);
    ends[0].association.set_verified(true);
    ends[0].note();
    let ends = call(2, ends.map(|end| end.cache));
    for end in ends {
        assert_eq!((end.continuity(), end.keyed[0].is_verified), (Continuity::Continued, false));
    }
}

#[test]
fn an_end_that_missed_an_update_continues_by_the_secret_before() {
    let old = verified();
    let new = call(2, old.clone()).map(|end| end.cache);
    let ([old_one, old_other], [one, other]) = (old, new);
    for caches in [[one, old_other], [old_one, other]] {
        let ends = call(3, caches);
        assert_retained(&ends);
        for end in &ends {
            assert_eq!((end.continuity(), end.keyed[0].is_verified), (Continuity::Continued, true));
        }
    }
}

#[test]
fn a_lost_cache_is_reported_and_changes_nothing_until_the_user_confirms() {
    let [one, _] = verified();
    let before = one.to_string();
    let mut ends = call(2, [one, Cache::default()]);
    assert_eq!(ends[0].continuity(), Continuity::Broken);
    assert_eq!(ends[1].continuity(), Continuity::New);
    assert!(!ends[0].keyed[0].is_verified && !ends[1].keyed[0].is_verified);
    assert_eq!(ends[0].cache.to_string(), before);
    assert!(ends[0].updates.is_empty());
    ends[0].association.set_verified(true);
    ends[0].note();
    assert_retained(&ends);
    let ends = call(3, ends.map(|end| end.cache));
    assert!(ends.iter().all(|end| end.continuity() == Continuity::Continued));
}

#[test]
fn a_peer_that_retains_nothing_changes_no_cache() {
    let mut ends = [
        End::new(Config { lifetime: Some(0), ..config(1, 1) }, Cache::default()),
        End::new(config(2, 1), Cache::default()),
    ];
    run_well(&mut ends);
    assert_agreed(&mut ends);
    assert!(ends.iter().all(|end| end.updates.is_empty()));

    ends[0] = End::new(Config { lifetime: Some(60), ..config(1, 2) }, Cache::default());
    ends[1] = End::new(config(2, 2), Cache::default());
    run_well(&mut ends);
    for end in &ends {
        assert_eq!(end.updates[0].lifetime, Some(Duration::from_secs(60)));
    }
}

#[test]
fn an_authentic_packet_of_srtp_stands_for_a_lost_acknowledgement() {
    let mut ends = new_ends(1);
    let link = Link { delay: Duration::from_millis(10), ..Link::default() };
    run(&mut ends, &mut Network::new(1, link), |_, packet| {
        let is_ack = packet.windows(8).any(|it| it == b"Conf2ACK");
        if is_ack { vec![] } else { vec![packet] }
    });
    let initiator = usize::from(ends[1].updates.is_empty());
    let end = &mut ends[initiator];
    assert_eq!((end.updates.len(), &end.failures[..]), (0, &[Failure::Timeout][..]));

    let mut end = End::new(config(1, 1), Cache::default());
    let mut peer = End::new(config(2, 1), Cache::default());
    exchange_until_acknowledging(&mut end, &mut peer);
    end.association.srtp_received();
    end.note();
    assert_eq!((end.updates.len(), end.association.next_timeout()), (1, None));
}

/// Exchanges packets without delay until `end` is the initiator and has sent Confirm2.
fn exchange_until_acknowledging(end: &mut End, peer: &mut End) {
    let cache = Cache::default();
    loop {
        while let Some(packet) = end.association.poll_transmit() {
            peer.association.handle(Duration::ZERO, &packet, &cache);
        }
        end.note();
        if !end.keyed.is_empty() {
            return;
        }
        while let Some(packet) = peer.association.poll_transmit() {
            // The peer does not commit: `end` becomes the initiator.
            if !packet.windows(8).any(|it| it == b"Commit  ") {
                end.association.handle(Duration::ZERO, &packet, &cache);
            }
        }
    }
}

#[test]
fn silence_is_reported_and_a_late_peer_is_answered() {
    for is_expected in [false, true] {
        let mut ends = new_ends(1);
        ends[0] = End::new(Config { is_expected, ..config(1, 1) }, Cache::default());
        let link = Link { delay: Duration::from_millis(10), ..Link::default() };
        let mut network = Network::new(1, link);
        run(&mut ends[..1], &mut network, |_, _| vec![]);
        assert_eq!(ends[0].silences, [is_expected]);
        assert_eq!(ends[0].association.next_timeout(), None);
        run_well(&mut ends);
        assert_agreed(&mut ends);
    }
    let mut ends = new_ends(1);
    let hash = ends[1].association.config.hello_hash();
    ends[0].association.expect(hash);
    run(&mut ends[..1], &mut Network::new(1, Link::default()), |_, _| vec![]);
    assert_eq!(ends[0].silences, [true], "a description with the hash says that there is ZRTP");
}
