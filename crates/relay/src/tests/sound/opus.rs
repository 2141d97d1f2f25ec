//! The bandwidth of the sound that Opus carries.

use super::rig::{Call, Received, formats, level, number, packets, rtp, sine};
use crate::tests::codecs::caller;
use crate::{Codec, Side};
use ::codec::Decoder;
use std::string::String;
use std::vec::Vec;

#[test]
fn a_narrow_band_stays_narrow_and_a_wide_one_wide() {
    let call = Call::new([Codec::Pcmu, Codec::Opus], [&[], &[]]);
    // The caller may send both.
    let (_, maps) = formats(Codec::Pcmu);
    let maps: Vec<&str> = maps.iter().map(String::as_str).collect();
    let [_, answer] = call.descriptions([&[], &[]]);
    call.rig.exchange(Side::Caller, &caller("0 9 101", &maps), &answer);
    let mut last: Option<Received> = None;
    let (mut sequence_number, mut timestamp) = (100, 5000);
    // 30 ms, so that samples of the other rate wait at each change.
    for codec in [Codec::Pcmu, Codec::G722, Codec::Pcmu, Codec::G722] {
        let rate = codec.sample_rate();
        let sound = packets(codec, &sine(440.0, rate, 930), &[30]);
        let mut received = Vec::new();
        for packet in &sound {
            let payload = &packet[12..];
            let packet = rtp(number(codec), sequence_number, timestamp, payload);
            received.extend(call.send(Side::Caller, &packet).unwrap());
            (sequence_number, timestamp) = (sequence_number + 1, timestamp + 240);
        }
        for packet in &received {
            if let Some(last) = last.replace(packet.clone()) {
                assert_eq!(packet.sequence_number, last.sequence_number.wrapping_add(1));
                assert_eq!(packet.timestamp.wrapping_sub(last.timestamp), 960);
            }
        }
        // The bandwidth of SILK is in the first byte (RFC 6716 section 3.1). The first packet may
        // fill one that has begun.
        let wide = if rate == 8000 { 0 } else { 2 };
        assert!(received[1..].iter().all(|packet| packet.payload[0] >> 5 == wide), "{codec:?}");
        let (mut decoder, mut samples) = (Decoder::new(Codec::Opus), Vec::new());
        received[1..].iter().for_each(|packet| decoder.decode(&packet.payload, &mut samples));
        let found = level(440.0, 16_000, &samples[samples.len() / 4..]);
        assert!(found.abs() < 1.0, "{codec:?}: {found} dB");
    }
}
