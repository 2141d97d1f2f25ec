//! The fuzz bodies over pseudo-random inputs, the same ones in each run. `fuzz.rs` runs them over
//! the corpora.

/// SplitMix64.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The lines of the descriptions: valid, outdated and invalid ones.
const LINES: &[&str] = &[
    "c=IN IP4 192.0.2.9",
    "c=IN IP4 0.0.0.0",
    "c=IN IP6 2001:db8::7",
    "c=IN IP4 255.255.255.255",
    "m=audio 4000 RTP/AVP 0 8 101",
    "m=audio 4000 RTP/SAVP 0",
    "m=audio 4002 RTP/SAVPF 8 0",
    "m=audio 0 RTP/AVP 0",
    "m=audio 65535 RTP/AVP 96 9 0",
    "m=video 6000 RTP/AVP 96",
    "m=audio",
    "a=rtpmap:101 telephone-event/8000",
    "a=rtpmap:96 PCMU/8000",
    "a=rtpmap:0 PCMA/0",
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw|2^31|1:1",
    "a=crypto:2 AES_CM_128_HMAC_SHA1_32 inline:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkx",
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw UNENCRYPTED_SRTP",
    "a=crypto:3 AEAD_AES_128_GCM inline:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3OA==",
    "a=crypto:9 X inline:",
    "a=rtcp-mux",
    "a=rtcp:53020 IN IP4 192.0.2.8",
    "a=rtcp:0",
    "a=rtcp-xr:rcvr-rtt=all voip-metrics",
    "a=ptime:30",
    "a=ptime:1e300",
    "a=maxptime:10",
    "a=sendonly",
    "a=recvonly",
    "a=inactive",
];

#[test]
fn descriptions_of_chance_break_nothing() {
    for seed in 0..4000 {
        let mut next = numbers(seed);
        let mut text = b"_v=0\r\n".to_vec();
        text[0] = next() as u8;
        for _ in 0..next() % 12 {
            text.extend_from_slice(LINES[next() as usize % LINES.len()].as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        if next().is_multiple_of(4) {
            let place = 1 + next() as usize % (text.len() - 1);
            text[place] = next() as u8;
        }
        fuzz_bodies::negotiation(&text);
    }
}

#[test]
fn events_of_chance_break_nothing() {
    for seed in 0..600 {
        let mut next = numbers(seed);
        let mut events = vec![next() as u8];
        for _ in 0..200 {
            let event = next() as u8;
            events.push(event);
            if event & 0xf < 4 {
                let length = next() as u8 % 80;
                events.push(length);
                events.extend((0..length).map(|_| next() as u8));
                if event & 0x80 != 0 && length > 2 {
                    // RTCP of a known packet type.
                    let start = events.len() - usize::from(length);
                    (events[start], events[start + 1]) =
                        (0x80 | next() as u8 & 3, 200 + next() as u8 % 8);
                }
            }
        }
        fuzz_bodies::session(&events);
    }
}

#[test]
fn messages_of_chance_break_nothing() {
    for seed in 0..20_000 {
        let mut next = numbers(seed);
        let attributes = next() % 4;
        let mut message = vec![next() as u8 & 1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
        message.extend([next() as u8 & 1; 12]);
        for _ in 0..attributes {
            let length = next() as u8 % 24;
            let number = [1, 9, 0x20, 0x28, next() as u8][next() as usize % 5];
            message.extend([(next() as u8 & 1) << 7, number, 0, length]);
            message.extend((0..length.next_multiple_of(4)).map(|_| next() as u8 & 3));
        }
        message[3] = (message.len() - 20) as u8;
        fuzz_bodies::stun(&message);
    }
}
