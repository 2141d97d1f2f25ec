//! The jitter buffer over recorded calls, with their packets' arrival times.

use barebell_rtp::jitter_buffer::{Config, Counts, Playout};
use barebell_rtp::{Header, JitterBuffer, is_rtcp};
use std::collections::BTreeMap;
use std::time::Duration;
use test_support::pcap::datagrams;

/// The result of playing a recorded stream.
#[derive(Debug)]
struct Played {
    packets: usize,
    counts: Counts,
    /// The target delay at the end.
    target: Duration,
}

/// Plays the stream of one source through a buffer.
fn play(stream: &[(Duration, u32)], frame: Duration) -> Played {
    let mut config = Config::new(8000);
    config.frame = frame;
    let mut buffer = JitterBuffer::new(config);
    let mut packets = stream.iter().peekable();
    // The playout clock starts between two packets.
    let mut now = stream[0].0 + Duration::from_millis(7);
    let mut last = None;
    loop {
        while let Some(&(arrival, timestamp)) = packets.next_if(|packet| packet.0 <= now) {
            buffer.insert(timestamp, arrival, timestamp);
        }
        if let Playout::Frame(timestamp) = buffer.play(now) {
            let is_after = last.is_none_or(|last: u32| timestamp.wrapping_sub(last) < 1 << 31);
            assert!(is_after, "{timestamp} after {last:?}");
            last = Some(timestamp);
        }
        now += frame;
        if packets.peek().is_none() && buffer.is_empty() {
            let (counts, target) = (buffer.counts(), buffer.target());
            return Played { packets: stream.len(), counts, target };
        }
    }
}

/// The streams of a capture with at least 200 packets of audio at 8000 Hz, by SSRC.
fn streams(datagrams: &[(Duration, Vec<u8>)]) -> BTreeMap<u32, Vec<(Duration, u32)>> {
    let mut streams: BTreeMap<u32, Vec<(Duration, u32)>> = BTreeMap::new();
    for (time, datagram) in datagrams.iter().filter(|(_, datagram)| !is_rtcp(datagram)) {
        // SRTP leaves the header unencrypted.
        let Ok(header) = Header::parse(datagram) else { continue };
        if matches!(header.payload_type(), 0 | 3 | 8 | 9 | 18) {
            streams.entry(header.ssrc()).or_default().push((*time, header.timestamp()));
        }
    }
    let is_audio = |stream: &[(Duration, u32)]| {
        (Duration::from_millis(10)..=Duration::from_millis(60)).contains(&frame(stream))
    };
    streams.retain(|_, stream| stream.len() >= 200 && is_audio(stream));
    streams
}

/// The duration of most packets.
fn frame(stream: &[(Duration, u32)]) -> Duration {
    let mut steps: Vec<u32> =
        stream.windows(2).map(|pair| pair[1].1.wrapping_sub(pair[0].1)).collect();
    steps.sort_unstable();
    Duration::from_micros(u64::from(steps[steps.len() / 2]) * 125)
}

#[test]
fn recorded_calls_are_played() {
    let Some(root) = test_support::corpora() else { return };
    let mut count = 0;
    for file in [
        "rtpproxy/extractaudio/call1_g722_srtp.a.rtp",
        "rtpproxy/extractaudio/call1_g722_srtp.o.rtp",
        "sipnab/SIP_CALL_RTP_G711",
        "sipp/g711a.pcap",
    ] {
        for (ssrc, stream) in streams(&datagrams(&root.join("pcap").join(file))) {
            let played = play(&stream, frame(&stream));
            println!("{file} {ssrc:08x}, frames of {:?}: {played:?}", frame(&stream));
            let about = format!("{file} {ssrc:08x} {played:?}");
            // Some captures contain every packet twice.
            let packets = played.packets as u64 - played.counts.duplicate;
            assert!(played.counts.played * 100 >= packets * 97, "{about}");
            assert!(played.counts.late * 100 <= packets, "{about}");
            assert!(played.target <= Duration::from_millis(200), "{about}");
            count += 1;
        }
    }
    assert!(count >= 4, "{count} streams");
}
