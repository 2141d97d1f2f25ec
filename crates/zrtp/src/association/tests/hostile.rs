//! Other programs in the path, damaged and forged messages, floods.

use super::*;
use crate::message::{self, Message};
use crate::packet::{frame, unframe};
use test_support::Random;

/// The message of a packet.
fn message_of(packet: &[u8]) -> &[u8] {
    unframe(packet).expect("a sent packet is intact").1
}

/// The type of the message of a packet.
fn kind(packet: &[u8]) -> &[u8] {
    &message_of(packet)[4..12]
}

/// Two ends, and two of a man in the middle between them, with these caches of the ends.
fn intercepted(call: u8, caches: [Cache; 2]) -> Vec<End> {
    let [one, other] = caches;
    vec![
        End::new(config(1, call), one),
        End::new(config(3, call), Cache::default()),
        End::new(config(2, call), other),
        End::new(config(4, call), Cache::default()),
    ]
}

#[test]
fn a_man_in_the_middle_makes_the_strings_differ() {
    for call in 0..20 {
        let mut ends = intercepted(call, [Cache::default(), Cache::default()]);
        run_well(&mut ends);
        assert!(ends[0].sas().is_some() && ends[2].sas().is_some());
        assert_ne!(ends[0].sas(), ends[2].sas());
    }
}

#[test]
fn a_man_in_the_middle_with_the_zids_of_both_breaks_the_continuity() {
    let mut ends = intercepted(9, verified());
    for (number, zid) in [(1, 2), (3, 1)] {
        let zid = Zid([zid; 12]);
        let config = Config { zid, ..config(number as u8 + 2, 9) };
        ends[number] = End::new(config, Cache::default());
    }
    run_well(&mut ends);
    for number in [0, 2] {
        assert_eq!(ends[number].continuity(), Continuity::Broken);
        assert!(!ends[number].keyed[0].is_verified && ends[number].updates.is_empty());
    }
}

#[test]
fn a_man_in_the_middle_is_found_by_the_hash_in_the_description() {
    let mut ends = intercepted(1, [Cache::default(), Cache::default()]);
    let hash = ends[2].association.config.hello_hash();
    ends[0].association.expect(hash);
    run_well(&mut ends);
    assert_eq!((&ends[0].failures[..], ends[0].sas()), (&[Failure::HelloHash][..], None));

    let mut ends = intercepted(1, [Cache::default(), Cache::default()]);
    let hash = ends[2].association.config.hello_hash();
    run_well(&mut ends);
    // The description of the peer comes after its Hello message.
    ends[0].association.expect(hash);
    ends[0].note();
    assert_eq!(ends[0].failures, [Failure::HelloHash]);
}

#[test]
fn the_right_peer_is_accepted_by_its_hash() {
    let mut ends = new_ends(1);
    for (end, peer) in [(0, 1), (1, 0)] {
        let hash = ends[peer].association.config.hello_hash();
        ends[end].association.expect(hash);
    }
    run_well(&mut ends);
    assert_agreed(&mut ends);
}

#[test]
fn damaged_packets_change_nothing() {
    let mut random = Random::new(5);
    let mut ends = new_ends(1);
    let link = Link { delay: Duration::from_millis(10), ..Link::default() };
    run(&mut ends, &mut Network::new(1, link), |_, packet| {
        let mut packets = vec![];
        for _ in 0..30 {
            let mut damaged = packet.clone();
            let place = random.below(packet.len() as u64) as usize;
            damaged[place] ^= 1 << random.below(8);
            packets.push(damaged);
            packets.push(packet[..place].to_vec());
        }
        packets.push(packet);
        packets
    });
    assert_agreed(&mut ends);
}

/// Runs two ends with known Hello messages. Each message of `end` arrives first with the bits
/// `mask` of the byte at `place` flipped, in an intact packet.
fn run_forged(ends: &mut [End; 2], end: usize, place: usize, mask: u8) {
    let link = Link { delay: Duration::from_millis(10), ..Link::default() };
    run(ends, &mut Network::new(1, link), |number, packet| {
        let mut forged = message_of(&packet).to_vec();
        let is_error = kind(&packet) == b"Error   ";
        if number != end || is_error || place >= forged.len() {
            return vec![packet];
        }
        forged[place] ^= mask;
        vec![frame(&forged, 7, 9), packet]
    });
}

#[test]
fn forged_messages_never_make_keys_that_differ() {
    let mut succeeded = 0;
    for place in (0..140).chain((140..480).step_by(31)) {
        let mut ends = new_ends(1);
        for end in 0..2 {
            let hash = ends[1 - end].association.config.hello_hash();
            ends[end].association.expect(hash);
        }
        run_forged(&mut ends, place % 2, place, 1 << (place % 7));
        for end in &ends {
            // Keys, or a reason; never both.
            assert_ne!(end.keyed.is_empty(), end.failures.is_empty(), "{place}");
            assert_eq!(end.association.next_timeout(), None);
        }
        if ends.iter().all(|end| end.failures.is_empty()) {
            assert_agreed(&mut ends);
            succeeded += 1;
        }
    }
    assert!(succeeded > 50, "only {succeeded} agreements succeeded");
}

#[test]
fn a_forged_chain_is_ignored() {
    // H3 in Hello, H2 in Commit and H1 in DHPart begin at the same place but for Hello.
    for end in 0..2 {
        for place in 12..44 {
            let mut ends = new_ends(place as u8);
            for end in 0..2 {
                let hash = ends[1 - end].association.config.hello_hash();
                ends[end].association.expect(hash);
            }
            run_forged(&mut ends, end, place, 0x10);
            assert_agreed(&mut ends);
        }
    }
}

#[test]
fn a_flood_of_hello_and_commit_messages_costs_no_exponentiation() {
    let cache = Cache::default();
    let mut end = End::new(config(1, 1), Cache::default());
    while end.association.poll_transmit().is_some() {}
    let (mut answers, before) = (0, end.association.random.count());
    let mut seed = [0; 32];
    for number in 0..5000_u32 {
        seed[..4].copy_from_slice(&number.to_be_bytes());
        let stranger = Association::new(Config::new(Zid([9; 12]), seed, number), Duration::ZERO);
        let commit = message::commit(
            Zid([9; 12]),
            message_suite(&stranger),
            &[0xff; 32],
            // The chain of another end than that of the first Hello message.
            &crate::crypto::HashChain::new([0xee; 32]).0,
        );
        for message in [&stranger.hello, &commit] {
            end.association.handle(Duration::ZERO, &frame(message, 0, number), &cache);
        }
        while let Some(packet) = end.association.poll_transmit() {
            assert_eq!(kind(&packet), b"HelloACK");
            answers += 1;
        }
    }
    assert_eq!((answers, end.association.random.count()), (1, before));
    assert_eq!(end.association.next_timeout(), Some(Duration::from_millis(50)));
}

/// The algorithms that the peers of an association choose.
fn message_suite(association: &Association) -> crate::algorithm::Suite {
    let Some(Message::Hello(hello)) = Message::parse(&association.hello) else {
        panic!("a Hello message is one");
    };
    hello.choose(&Preferences::default())
}

#[test]
fn repetitions_are_answered_from_memory_and_not_for_ever() {
    let (mut end, mut peer) =
        (End::new(config(1, 1), Cache::default()), End::new(config(2, 1), Cache::default()));
    let cache = Cache::default();
    let mut commit = None;
    while commit.is_none() {
        while let Some(packet) = end.association.poll_transmit() {
            if kind(&packet) == b"Commit  " {
                commit = Some(packet.clone());
            }
            peer.association.handle(Duration::ZERO, &packet, &cache);
        }
        while let Some(packet) = peer.association.poll_transmit() {
            if !matches!(kind(&packet), b"Commit  " | b"DHPart1 ") {
                end.association.handle(Duration::ZERO, &packet, &cache);
            }
        }
    }
    let count = peer.association.random.count();
    let mut answers = 0;
    for _ in 0..1000 {
        peer.association.handle(Duration::ZERO, commit.as_ref().expect("it was sent"), &cache);
        while let Some(packet) = peer.association.poll_transmit() {
            assert_eq!(kind(&packet), b"DHPart1 ");
            answers += 1;
        }
    }
    assert_eq!((answers, peer.association.random.count()), (super::super::ANSWERS, count));
}

#[test]
fn the_packets_of_an_end_that_are_returned_to_it_are_no_peer() {
    let mut ends = new_ends(1);
    let link = Link { delay: Duration::from_millis(10), ..Link::default() };
    let mut network = Network::new(1, link);
    let cache = Cache::default();
    while network.now() < END {
        let Some(due) = ends[0].association.next_timeout() else { break };
        network.wake_at(due, 0);
        network.next_event();
        ends[0].association.handle_timeout(network.now());
        while let Some(packet) = ends[0].association.poll_transmit() {
            ends[0].association.handle(network.now(), &packet, &cache);
        }
        ends[0].note();
    }
    assert_eq!((ends[0].silences.len(), ends[0].sas()), (1, None));
}

/// Two ends with keys.
fn secure() -> [End; 2] {
    let mut ends = new_ends(1);
    run_well(&mut ends);
    assert_agreed(&mut ends);
    ends
}

/// Delivers a message, and returns the messages that are sent for it.
fn deliver(end: &mut End, message: &[u8]) -> Vec<Vec<u8>> {
    let packet = frame(message, 0, 77);
    end.association.handle(END, &packet, &Cache::default());
    end.note();
    let packets = core::iter::from_fn(|| end.association.poll_transmit());
    packets.map(|packet| message_of(&packet).to_vec()).collect()
}

#[test]
fn a_request_to_stop_the_encryption_is_refused() {
    let [mut one, _] = secure();
    let super::super::State::Secure(secured) = &one.association.state else {
        panic!("the end has keys");
    };
    let peer = secured.keys.side(secured.role.other());
    let tag = crate::crypto::short_mac(Hash::S256, &peer.mac, b"GoClear ");
    let forged = deliver(&mut one, &message::write(b"GoClear ", &[&[1; 8]]));
    assert!(forged.is_empty());
    let refusal = deliver(&mut one, &message::write(b"GoClear ", &[&tag]));
    assert_eq!(refusal, [message::write(b"Error   ", &[&[0, 0, 1, 0]])]);
    assert!(one.association.next_timeout().is_some());
    assert!(deliver(&mut one, &message::write(b"ErrorACK", &[])).is_empty());
    assert_eq!((one.association.next_timeout(), &one.failures[..]), (None, &[][..]));
}

#[test]
fn a_relayed_string_is_refused_if_it_is_authentic() {
    let [mut one, _] = secure();
    let super::super::State::Secure(secured) = &one.association.state else {
        panic!("the end has keys");
    };
    let peer = secured.keys.side(secured.role.other());
    let encrypted = [7; 44];
    let tag = crate::crypto::short_mac(Hash::S256, &peer.mac, &encrypted);
    let relay = |tag: &[u8; 8]| message::write(b"SASrelay", &[tag, &[0; 16], &encrypted]);
    assert!(deliver(&mut one, &relay(&[1; 8])).is_empty());
    let refusal = deliver(&mut one, &relay(&tag));
    assert_eq!(refusal, [message::write(b"Error   ", &[&[0, 0, 0, 0x63]])]);
}

#[test]
fn an_error_message_ends_an_agreement_but_no_keys() {
    let error = message::write(b"Error   ", &[&[0, 0, 0, 0xa0]]);
    let [mut one, _] = secure();
    assert_eq!(deliver(&mut one, &error), [message::write(b"ErrorACK", &[])]);
    assert!(one.failures.is_empty());

    let mut ends = new_ends(1);
    let hello = ends[1].association.hello.clone();
    deliver(&mut ends[0], &hello);
    deliver(&mut ends[0], &error);
    assert_eq!(ends[0].failures, [Failure::Peer(crate::ErrorCode(0xa0))]);
    assert_eq!(
        ends[0].failures[0].to_string(),
        "the ZRTP peer reports: an unavailable service (0xa0)"
    );
    assert_eq!(ends[0].association.next_timeout(), None);
}

#[test]
fn a_ping_is_answered() {
    let [mut one, _] = secure();
    let ping = message::write(b"Ping    ", &[b"1.10", b"endpoint"]);
    let answers = deliver(&mut one, &ping);
    let expected: [&[u8]; 4] = [b"1.10", &[1; 8], b"endpoint", &77_u32.to_be_bytes()];
    assert_eq!(answers, [message::write(b"PingACK ", &expected)]);
}

#[test]
fn a_peer_of_another_version_or_with_our_zid_is_told() {
    let hello = |version: &[u8; 4], zid: u8| {
        let chain = crate::crypto::HashChain::new([8; 32]).0;
        message::hello(
            *version,
            *b"Barebell        ",
            Zid([zid; 12]),
            &Preferences::default(),
            &chain,
        )
    };
    for (message, failure, code) in
        [(hello(b"0.85", 2), Failure::Version, 0x30), (hello(b"1.10", 1), Failure::EqualZids, 0x90)]
    {
        let mut end = End::new(config(1, 1), Cache::default());
        while end.association.poll_transmit().is_some() {}
        let answers = deliver(&mut end, &message);
        assert_eq!(answers, [message::write(b"Error   ", &[&[0, 0, 0, code]])]);
        assert_eq!(end.failures, [failure]);
    }
    let mut end = End::new(config(1, 1), Cache::default());
    while end.association.poll_transmit().is_some() {}
    assert!(deliver(&mut end, &hello(b"2.00", 2)).is_empty());
    assert_eq!(deliver(&mut end, &hello(b"1.15", 2)), [message::write(b"HelloACK", &[])]);
}

#[test]
fn other_modes_and_algorithms_are_refused() {
    for (name, place, code) in [
        (b"Prsh", 3, 0x56),
        (b"Mult", 3, 0x53),
        (b"DH2k", 3, 0x53),
        (b"S999", 0, 0x51),
        (b"2FS1", 1, 0x52),
        (b"SK32", 2, 0x54),
        (b"B99 ", 4, 0x55),
    ] {
        let mut ends = new_ends(1);
        let hello = ends[1].association.hello.clone();
        deliver(&mut ends[0], &hello);
        let mut algorithms = [*b"S256", *b"AES1", *b"HS80", *b"DH3k", *b"B32 "];
        algorithms[place] = *name;
        let value = match name {
            b"Mult" => &[9; 16][..],
            b"Prsh" => &[9; 24],
            _ => &[9; 32],
        };
        let chain = &ends[1].association.chain.0;
        let parts = [&chain[2], &[2; 12][..], algorithms.as_flattened(), value];
        let commit = message::write_with_mac(b"Commit  ", &parts, &chain[1]);
        let answers = deliver(&mut ends[0], &commit);
        assert_eq!(answers, [message::write(b"Error   ", &[&[0, 0, 0, code]])]);
    }
}

proptest! {
    #[test]
    fn random_messages_are_handled(
        kind in 0_usize..16,
        length in 0_u16..130,
        content: Vec<u8>,
        damage: bool,
    ) {
        let kinds = [
            b"Hello   ", b"HelloACK", b"Commit  ", b"DHPart1 ", b"DHPart2 ", b"Confirm1",
            b"Confirm2", b"Conf2ACK", b"Error   ", b"ErrorACK", b"GoClear ", b"ClearACK",
            b"SASrelay", b"RelayACK", b"Ping    ", b"PingACK ",
        ];
        let mut content: Vec<u8> = content.into_iter().cycle().take(4 * usize::from(length)).collect();
        content.resize(4 * usize::from(length), 0);
        let mut message = message::write(kinds[kind], &[&content]);
        if damage {
            message.pop();
        }
        let mut end = End::new(config(1, 1), Cache::default());
        prop_assert!(deliver(&mut end, &message).len() <= 3);
    }
}
