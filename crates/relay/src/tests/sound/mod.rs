//! The sound of converted packets, and what happens to them on the way.

#[cfg(feature = "opus")]
mod opus;
mod rig;

use super::codecs::{callee, caller};
use super::{CALLEE, CALLER, Phone, Rig, place};
use crate::{Channel, Codec, Drop, Keying, Limits, Side};
use core::cell::Cell;
use core::time::Duration;
use media::Security;
use proptest::prelude::*;
use rig::{
    Call, HERE, Received, THERE, decoded, event_number, level, number, packets, pairs, rtp, sine,
};
use rtp::event::TelephoneEvent;
use rtp::rtcp::{Compound, ReportBlock, SenderInfo, Writer};
use rtp::{Packet, rtcp};
use std::vec::Vec;

#[test]
fn each_pair_of_codecs_keeps_a_tone_in_both_directions() {
    for codecs in pairs() {
        let call = Call::new(codecs, [&[], &[]]);
        for (side, [from, to], frequency) in
            [(Side::Caller, codecs, 440.0), (Side::Callee, [codecs[1], codecs[0]], 1330.0)]
        {
            let mut received = Vec::new();
            for packet in packets(from, &sine(frequency, from.sample_rate(), 1000), &[20]) {
                received.extend(call.send(side, &packet).unwrap());
            }
            assert_eq!(received.len(), 50, "{codecs:?}");
            assert!(received[0].marker && !received[1].marker, "{codecs:?}");
            let samples = decoded(to, &received);
            let steady = &samples[samples.len() / 4..];
            let found = level(frequency, to.sample_rate(), steady);
            assert!(found.abs() < 1.0, "{codecs:?} {side:?}: {found} dB");
            let power: f64 = steady.iter().map(|&it| f64::from(it).powi(2)).sum();
            let power = power / steady.len() as f64 / 3.2e7;
            assert!(power < 1.3, "{codecs:?} {side:?}: noise {power}");
        }
    }
}

#[test]
fn packets_of_any_duration_are_divided_and_joined() {
    let [from, to] = [Codec::G722, Codec::Pcmu];
    for (line, milliseconds) in
        [("ptime:20", 20), ("ptime:40", 40), ("ptime:10", 10), ("ptime:30", 30)]
    {
        let call = Call::new([from, to], [&[], &[line]]);
        let mut received = Vec::new();
        let samples = sine(440.0, 16_000, 2000);
        for packet in packets(from, &samples, &[20, 10, 10, 40, 30, 60, 10, 5, 5, 100]) {
            received.extend(call.send(Side::Caller, &packet).unwrap());
        }
        let length = 8 * milliseconds;
        assert!(received.iter().all(|packet| packet.payload.len() == length), "{line}");
        let samples = decoded(to, &received);
        assert!(samples.len() + length > 2000 * 8 - 800, "{} {line}", samples.len());
        assert!(level(440.0, 8000, &samples[2000..]).abs() < 1.0, "{line}");
    }
}

#[test]
fn lost_packets_stay_lost_and_late_ones_are_sorted() {
    let call = Call::new([Codec::Pcma, Codec::G722], [&[], &[]]);
    let sent = packets(Codec::Pcma, &sine(440.0, 8000, 1000), &[20]);
    let mut received = Vec::new();
    // The packets 5 and 7 are exchanged with their neighbours, 10 and 11 come twice, 20 is lost,
    // and 31 comes after two later ones.
    let order = (0..5).chain([6, 5, 8, 7, 9, 10, 10, 11, 12, 11]).chain(13..20).chain(21..31);
    let order = order.chain([32, 33, 31]).chain(34..50);
    for at in order {
        received.extend(call.send(Side::Caller, &sent[at]).unwrap());
    }
    let first = Packet::parse(&sent[0]).unwrap().header;
    let places = received.iter().map(|packet| {
        let number = packet.sequence_number.wrapping_sub(first.sequence_number());
        let time = packet.timestamp.wrapping_sub(first.timestamp());
        assert_eq!(u32::from(number) * 160, time);
        number
    });
    let expected: Vec<u16> = (0..50).filter(|at| ![20, 31].contains(at)).collect();
    assert_eq!(places.collect::<Vec<_>>(), expected);
    let conversions = call.rig.stream().summary()[0].conversions.unwrap();
    let counts = (conversions.late, conversions.repeated, conversions.missing);
    assert_eq!(counts, (1, 2, 2));
}

#[test]
fn a_loss_within_a_packet_is_concealed() {
    let call = Call::new([Codec::Pcma, Codec::Pcmu], [&[], &["ptime:40"]]);
    let sent = packets(Codec::Pcma, &sine(440.0, 8000, 2000), &[20]);
    let mut received = Vec::new();
    for (at, packet) in sent.iter().enumerate() {
        if at % 20 != 9 {
            received.extend(call.send(Side::Caller, packet).unwrap());
        }
    }
    // The sequence numbers go on, and the sound does.
    let samples = decoded(Codec::Pcmu, &received);
    assert_eq!(samples.len(), 16_000);
    assert!(level(440.0, 8000, &samples[1000..]).abs() < 1.0);
}

#[test]
fn a_pause_stays_a_pause() {
    let call = Call::new([Codec::Pcma, Codec::Gsm], [&[], &[]]);
    let mut sent = packets(Codec::Pcma, &sine(440.0, 8000, 200), &[20]);
    for packet in &mut sent[5..] {
        let timestamp = Packet::parse(packet).unwrap().header.timestamp().wrapping_add(4000);
        packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
    }
    let received: Vec<_> =
        sent.iter().flat_map(|packet| call.send(Side::Caller, packet).unwrap()).collect();
    let steps = received.windows(2).map(|pair| {
        assert_eq!(pair[0].sequence_number.wrapping_add(1), pair[1].sequence_number);
        (pair[1].timestamp.wrapping_sub(pair[0].timestamp), pair[1].marker)
    });
    let mut expected = [(160, false); 9];
    expected[4] = (4160, true);
    assert_eq!(steps.collect::<Vec<_>>(), expected);
}

#[test]
fn comfort_noise_passes_or_becomes_sound() {
    let noise = ["rtpmap:13 CN/8000"];
    for has_noise in [true, false] {
        let rig = Rig::new(Limits::default());
        rig.offer(&caller("8 13", &noise), &[Codec::Pcmu]);
        rig.first_answer(&callee(if has_noise { "0 13" } else { "0" }, &[])).unwrap();
        let call = Call { rig, codecs: [Codec::Pcma, Codec::Pcmu], now: Cell::default() };
        let sent = packets(Codec::Pcma, &sine(440.0, 8000, 60), &[20]);
        let mut received = Vec::new();
        for packet in &sent {
            received.extend(call.send(Side::Caller, packet).unwrap());
        }
        let last = Packet::parse(&sent[2]).unwrap().header;
        let (number, time) = (last.sequence_number(), last.timestamp());
        let at = time.wrapping_add(160);
        let described = rtp(13, number.wrapping_add(1), at, &[40, 1, 2]);
        received.extend(call.send(Side::Caller, &described).unwrap());
        let next = rtp(8, number.wrapping_add(2), time.wrapping_add(1760), &[0xd5; 160]);
        received.extend(call.send(Side::Caller, &next).unwrap());
        assert_eq!(received.len(), 5);
        assert_eq!(received[3].timestamp, at);
        if has_noise {
            assert_eq!((received[3].payload_type, &received[3].payload[..]), (13, &[40, 1, 2][..]));
        } else {
            assert_eq!((received[3].payload_type, received[3].payload.len()), (0, 160));
            assert!(received[3].payload.iter().any(|byte| *byte != received[3].payload[0]));
        }
        let after = &received[4];
        assert_eq!((after.timestamp, after.marker), (time.wrapping_add(1760), true));
    }
}

/// Sends a digit of 100 ms in packets of 20 ms, the last one three times.
fn press(call: &Call, side: Side, codec: Codec, event: u8, start: (u16, u32)) -> Vec<Received> {
    let mut received = Vec::new();
    for (at, step) in (0_u16..).zip([1, 2, 3, 4, 5, 5, 5]) {
        let duration = (codec.clock_rate() / 50) as u16 * step;
        let payload = TelephoneEvent { event, end: at >= 4, volume: 10, duration }.to_bytes();
        let mut packet = rtp(event_number(codec), start.0.wrapping_add(at), start.1, &payload);
        packet[1] |= u8::from(at == 0) << 7;
        received.extend(call.send(side, &packet).unwrap());
    }
    received
}

#[test]
fn keys_pass_with_the_payload_type_and_the_clock_rate_of_the_other_leg() {
    for codecs in pairs() {
        let call = Call::new(codecs, [&[], &[]]);
        for (side, [from, to]) in [(Side::Caller, codecs), (Side::Callee, [codecs[1], codecs[0]])] {
            let mut last = (0, 0);
            let mut sound = Vec::new();
            for packet in packets(from, &sine(440.0, from.sample_rate(), 100), &[20]) {
                let header = Packet::parse(&packet).unwrap().header;
                last = (header.sequence_number(), header.timestamp());
                sound.extend(call.send(side, &packet).unwrap());
            }
            let next = last.1.wrapping_add(from.clock_rate() / 50);
            let events = press(&call, side, from, 7, (last.0.wrapping_add(1), next));
            assert_eq!(events.len(), 7, "{codecs:?}");
            let before = sound.last().unwrap();
            let after = before.timestamp.wrapping_add(to.clock_rate() / 50);
            for (at, (packet, step)) in events.iter().zip([1, 2, 3, 4, 5, 5, 5]).enumerate() {
                assert_eq!(packet.payload_type, event_number(to));
                assert_eq!((packet.timestamp, packet.marker), (after, at == 0), "{codecs:?}");
                let number = before.sequence_number.wrapping_add(1 + at as u16);
                assert_eq!(packet.sequence_number, number);
                let event = TelephoneEvent::parse_all(&packet.payload).next().unwrap();
                let duration = (to.clock_rate() / 50) as u16 * step;
                let expected = TelephoneEvent { event: 7, end: at >= 4, volume: 10, duration };
                assert_eq!(event, expected, "{codecs:?}");
            }
        }
    }
}

#[test]
fn the_numbers_go_on_when_the_codec_changes() {
    let mut call = Call::new([Codec::Pcma, Codec::Pcmu], [&[], &["ptime:10"]]);
    let mut last: Option<Received> = None;
    let (mut number, mut timestamp) = (100_u16, 5000_u32);
    // The callee has another codec, then the same as the caller, then another one again.
    for codec in [Codec::Pcmu, Codec::Gsm, Codec::Pcma, Codec::G722, Codec::Pcma] {
        call.codecs[1] = codec;
        let [offer, answer] = call.descriptions([&[], &["ptime:10"]]);
        call.rig.exchange(Side::Caller, &offer, &answer);
        for _ in 0..20 {
            let packet = rtp(8, number, timestamp, &[0x5a; 160]);
            number = number.wrapping_add(1);
            timestamp = timestamp.wrapping_add(160);
            for packet in call.send(Side::Caller, &packet).unwrap() {
                if let Some(last) = &last {
                    assert_eq!(packet.sequence_number, last.sequence_number.wrapping_add(1));
                    let step = packet.timestamp.wrapping_sub(last.timestamp);
                    assert!(step <= 160, "{step} {codec:?}");
                }
                assert_eq!(packet.payload_type, self::number(codec));
                last = Some(packet);
            }
        }
    }
    // On hold the other direction goes on.
    let [offer, answer] = call.descriptions([&["recvonly"], &["sendonly"]]);
    call.rig.exchange(Side::Callee, &answer, &offer);
    let packet = rtp(8, 1, 0, &[0x5a; 160]);
    assert_eq!(call.send(Side::Callee, &packet).unwrap()[0].payload, [0x5a; 160]);
}

#[test]
fn encryption_ends_on_either_side_of_a_conversion() {
    for (caller, callee, keying) in [
        (Security::Required, Security::Off, Keying::Clear),
        (Security::Off, Security::Required, Keying::Required),
        (Security::Required, Security::Required, Keying::Required),
    ] {
        let mut rig = Rig::new(Limits::default());
        (rig.keying, rig.transcode) = (keying, Codec::ALL);
        let mut here = Phone::with_codec(CALLER, caller, Codec::Gsm);
        let mut there = Phone::with_codec(CALLEE, callee, Codec::G722);
        let answer = there.answer(&rig.first_offer(&here.offer())).unwrap();
        here.accept(&rig.first_answer(&answer).unwrap());
        // A burst of two seconds in each direction.
        for _ in 0..2 {
            here.talk(&rig, Side::Caller, &mut there);
            there.talk(&rig, Side::Callee, &mut here);
            // The rollover counters go on.
            let [offer, answer] = rig.renew(&mut there, &mut here);
            assert!(offer.contains("G722/8000") && answer.contains("G722/8000"));
        }
        let [from_here, from_there] = rig.stream().summary();
        assert_eq!(from_here.converted_to.as_deref(), Some("G722/8000"));
        assert_eq!((from_there.codec.as_deref(), from_there.unsent), (Some("G722/8000"), 0));
    }
}

#[test]
fn reports_are_true_for_the_leg_of_their_receiver() {
    let [from, to] = [Codec::Pcma, Codec::ALL[0]];
    let call = Call::new([from, to], [&[], &["ptime:40"]]);
    let sent = packets(from, &sine(440.0, 8000, 1000), &[20]);
    let mut received = Vec::new();
    for (at, packet) in sent.iter().enumerate() {
        // One of two packets within one of 40 ms is lost.
        if at != 21 {
            received.extend(call.send(Side::Caller, packet).unwrap());
        }
    }
    let header = Packet::parse(sent.last().unwrap()).unwrap().header;
    let pass = |side: Side, write: &dyn Fn(&mut Writer<'_>)| {
        let mut buffer = [0; 400];
        let mut writer = Writer::new(&mut buffer);
        write(&mut writer);
        let length = writer.len();
        let source = place(if side == Side::Caller { HERE } else { THERE });
        let source = core::net::SocketAddr::new(source.ip(), source.port() + 1);
        let stream = call.rig.stream();
        let relayed =
            stream.relay(side, Channel::Rtcp, source, &mut buffer, length, call.now.get()).unwrap();
        buffer[..relayed.length].to_vec()
    };
    let info = SenderInfo {
        ntp_time: rtp::ntp::NtpTime(42),
        timestamp: header.timestamp().wrapping_sub(800),
        packets: 50,
        bytes: 8000,
    };
    let report = pass(Side::Caller, &|writer| writer.sender_report(77, &info, &[]).unwrap());
    let rtcp::Packet::SenderReport(report) =
        Compound::parse(&report).unwrap().packets().next().unwrap()
    else {
        panic!("a sender report is expected");
    };
    let last = received.last().unwrap();
    // The last packet has begun 20 ms before the last one of the caller.
    let expected = last.timestamp.wrapping_sub(to.clock_rate() / 1000 * (100 - 20));
    assert_eq!((report.sender.ntp_time.0, report.sender.timestamp), (42, expected));
    assert_eq!(report.sender.packets, 50 - 49 + received.len() as u32);

    let block = ReportBlock {
        ssrc: 77,
        fraction_lost: 7,
        lost: 2,
        highest_sequence_number: last.sequence_number.into(),
        jitter: to.clock_rate() / 100,
        last_sender_report: 5,
        delay_since_last_sender_report: 6,
    };
    let report = pass(Side::Callee, &|writer| {
        writer.receiver_report(8, &[block, ReportBlock { ssrc: 1, ..block }]).unwrap();
        writer.bye(&[8], None).unwrap();
    });
    let compound = Compound::parse(&report).unwrap();
    let mut packets = compound.packets();
    let Some(rtcp::Packet::ReceiverReport(report)) = packets.next() else {
        panic!("a receiver report is expected");
    };
    let blocks: Vec<_> = report.blocks().collect();
    let expected = ReportBlock {
        // The loss that the packets of the relay do not tell.
        lost: 3,
        highest_sequence_number: 1 << 16 | u32::from(header.sequence_number()),
        jitter: 80,
        ..block
    };
    assert_eq!(blocks, [expected, ReportBlock { ssrc: 1, ..block }]);
    assert!(matches!(packets.next(), Some(rtcp::Packet::Bye(_))));
    let reported = call.rig.stream().summary()[0].reported.unwrap();
    assert_eq!((reported.lost, reported.jitter), (3, Duration::from_millis(10)));
}

#[test]
fn a_stream_converts_a_bounded_amount_of_sound() {
    let call = Call::new([Codec::Pcma, Codec::G722], [&[], &[]]);
    let (mut bytes, mut drops) = (0, 0);
    // Ten seconds with a packet of 20 ms or of 1 ms for each millisecond.
    for (at, length) in (0..10_000_u32).zip([160, 8].into_iter().cycle()) {
        let now = Duration::from_millis(at.into());
        let packet = rtp(8, at as u16, at * 160, &[0xd5; 160][..length]);
        match call.rig.send_all(Side::Caller, HERE, &packet, now) {
            Ok(packets) => bytes += packets.iter().map(|it| it.len() - 12).sum::<usize>(),
            Err(Drop::Excess) => drops += 1,
            // The rest of the flood is over the bandwidth of the codec.
            Err(error) => assert_eq!(error, Drop::Bandwidth),
        }
    }
    // Real time and a half, and a burst of two seconds.
    assert!(bytes <= 8 * 17_000 + 8 * 300, "{bytes}");
    assert!(bytes > 8 * 5000, "{bytes}");
    assert_eq!(call.rig.stream().summary()[0].conversions.unwrap().excess, drops);
}

#[test]
fn unusable_packets_are_counted() {
    let call = Call::new([Codec::Gsm, Codec::Pcma], [&[], &[]]);
    for (payload_type, payload, drop) in [
        (3, &[0xd5; 4000][..], Drop::Payload),
        (3, &[], Drop::Payload),
        (3, &[1; 32], Drop::Payload),
        (8, &[0xd5; 160], Drop::PayloadType(8)),
        (102, &[1; 4], Drop::PayloadType(102)),
    ] {
        assert_eq!(call.send(Side::Caller, &rtp(payload_type, 1, 1, payload)), Err(drop));
    }
    let [caller, _] = call.rig.stream().summary();
    assert_eq!((caller.refused, caller.conversions.unwrap().unusable), (5, 3));
}

proptest! {
    #[test]
    fn any_packets_are_converted_within_the_limits(
        pair in 0..42_usize,
        steps in prop::collection::vec(
            (0..130_u8, any::<u16>(), any::<u32>(), 0..3_u32, prop::collection::vec(any::<u8>(), 0..400), 0..30_u64),
            0..60,
        )
    ) {
        let Some(codecs) = pairs().nth(pair) else { return Ok(()) };
        let call = Call::new(codecs, [&["ptime:10"], &["ptime:60"]]);
        let numbers = [number(codecs[0]), event_number(codecs[0]), 13];
        let (mut sequence_number, mut timestamp) = (0_u16, 0_u32);
        for (kind, jump, time, ssrc, payload, elapsed) in steps {
            call.now.update(|now| now + Duration::from_millis(elapsed));
            // Most packets follow one another.
            sequence_number = if kind % 8 == 7 { jump } else { sequence_number.wrapping_add(1) };
            timestamp = if kind % 8 == 6 { time } else { timestamp.wrapping_add(160) };
            let mut packet = rtp(numbers[usize::from(kind / 8) % 3], sequence_number, timestamp, &payload);
            packet[8..12].copy_from_slice(&(77 + ssrc / 2).to_be_bytes());
            if let Ok(packets) = call.rig.send_all(Side::Caller, HERE, &packet, call.now.get()) {
                // Three packets of 240 ms, and the filling of one before.
                prop_assert!(packets.len() <= 80);
                prop_assert!(packets.iter().all(|packet| Packet::parse(packet).is_ok()));
            }
        }
    }
}
