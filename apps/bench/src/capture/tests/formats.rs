//! File formats, link layers, fragments, and damaged files.

use super::build::{
    Capture, FORMS, Fields, Form, LINKS, Link, PCAP, START, analyse, analyse_bytes, message, udp,
};
use crate::capture::file::End;
use crate::capture::hep::tests::datagram;
use crate::capture::{Analysis, CaptureError, Reading};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::{self, Write as _};
use std::path::Path;

const V4: (&str, &str) = ("10.0.0.1:5060", "10.0.0.2:5060");
const V6: (&str, &str) = ("[2001:db8::1]:5060", "[2001:db8::2]:5060");

/// Returns a REGISTER and its 200, 123 microseconds and 500 nanoseconds later.
fn registration(between: (&str, &str)) -> Capture {
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 REGISTER", to_tag: "" };
    let mut capture = Capture::default();
    capture.udp(0, between.0, between.1, &message("REGISTER sip:b", fields, ""));
    capture.udp(123, between.1, between.0, &message("200", fields, ""));
    capture.packets[1].0 += 500;
    capture
}

/// Returns the delay of the registration in microseconds, if there is one.
fn delay(analysis: &Analysis) -> Option<u64> {
    let registration = analysis.registrations.list.first()?;
    Some(registration.final_us? - registration.register_us)
}

#[test]
fn every_format_and_link_is_read() {
    for form in FORMS {
        for link in LINKS {
            for between in [V4, V6] {
                let analysis = analyse(&registration(between).write(form, link)).unwrap();
                assert_eq!(delay(&analysis), Some(123), "{form:?} {link:?} {between:?}");
                assert_eq!(analysis.started_us, Some(START / 1_000));
                assert_eq!(analysis.facts.end, End::Whole);
                assert_eq!(analysis.facts.pcapng, matches!(form, Form::PcapNg { .. }));
                assert_eq!((analysis.packets.packets, analysis.packets.datagrams), (2, 2));
            }
        }
    }
}

#[test]
fn nanoseconds_are_kept() {
    let mut capture = Capture::default();
    for index in 0..4u16 {
        let mut bytes = vec![0x80, 0, 0, index as u8];
        bytes.extend([0; 168]);
        capture.udp(u64::from(index), V4.0, V4.1, &bytes);
        capture.packets[usize::from(index)].0 += 250 * u64::from(index);
    }
    for form in FORMS {
        let is_nanos =
            matches!(form, Form::Pcap { nanos: true, .. } | Form::PcapNg { resolution: 9, .. });
        let analysis = analyse(&capture.write(form, Link::Raw)).unwrap();
        let delta = analysis.rtp.streams[0].max_delta_ms.unwrap();
        let expected = if is_nanos { 0.001_25 } else { 0.001 };
        assert!((delta - expected).abs() < 1e-9, "{form:?}: {delta}");
    }
}

#[test]
fn a_truncated_file_gives_its_complete_packets() {
    for form in [FORMS[0], FORMS[6]] {
        let capture = registration(V4);
        let whole = capture.write(form, Link::Ethernet);
        let one = Capture { packets: capture.packets[..1].to_vec() }.write(form, Link::Ethernet);
        let none = Capture::default().write(form, Link::Ethernet).len();
        let header = if matches!(form, Form::Pcap { .. }) { 24 } else { 28 };
        for length in 0..=whole.len() {
            let result = analyse(&whole[..length]);
            let Ok(analysis) = result else {
                assert!(length < header, "{form:?} cut at {length}");
                continue;
            };
            let expected = u64::from(length >= one.len()) + u64::from(length == whole.len());
            assert_eq!(analysis.packets.packets, expected, "{form:?} cut at {length}");
            let is_whole = [header, none, one.len(), whole.len()].contains(&length);
            assert_eq!(analysis.facts.end == End::Whole, is_whole, "{form:?} cut at {length}");
        }
    }
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"\n", b"#!/bin/sh\necho no capture at all\n", &[0; 100]] {
        assert!(matches!(analyse(bytes), Err(CaptureError::NoCapture(_))));
    }
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("absent.pcap")] {
        assert!(matches!(
            crate::capture::analyse(&path, Reading::default()),
            Err(CaptureError::Read(..))
        ));
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_files_are_unpacked() {
    for form in FORMS {
        let whole = registration(V4).write(form, Link::Ethernet);
        let analysis = analyse(&packed(&whole)).unwrap();
        assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::Whole), "{form:?}");
        assert!(analysis.facts.gzip);
        // Several gzip members are one file.
        let (one, other) = whole.split_at(whole.len() / 2);
        let analysis = analyse(&[packed(one), packed(other)].concat()).unwrap();
        assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::Whole), "{form:?}");
    }
    assert!(!registration(V4).analyse().facts.gzip);
    assert!(matches!(analyse(&packed(b"no capture")), Err(CaptureError::NoCapture(_))));
}

#[test]
fn a_damaged_compressed_file_gives_its_complete_packets() {
    let mut capture = registration(V4);
    for micros in 200..2_000 {
        capture.udp(micros, V4.0, V4.1, &micros.to_be_bytes().repeat(micros as usize % 50));
    }
    let whole = packed(&capture.write(PCAP, Link::Ethernet));
    for length in [whole.len() - 1, whole.len() - 9, whole.len() / 2] {
        let analysis = analyse(&whole[..length]).unwrap();
        assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::Cut), "{length}");
    }
    let mut damaged = whole.clone();
    // The checksum at the end.
    *damaged.iter_mut().rev().nth(5).unwrap() ^= 1;
    damaged.extend(b"and more");
    let analysis = analyse(&damaged).unwrap();
    assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::Damaged));
}

/// A reader that returns a few bytes per call, as a pipe may.
struct Pipe<'a>(&'a [u8]);

impl io::Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(3);
        self.0.read(&mut buffer[..length])
    }
}

#[test]
fn a_pipe_is_read_piece_by_piece() {
    for form in FORMS {
        let whole = registration(V4).write(form, Link::Ethernet);
        for bytes in [packed(&whole), whole] {
            let analysis = analyse_bytes(Path::new("-"), Pipe(&bytes), Reading::default()).unwrap();
            assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::Whole), "{form:?}");
        }
    }
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let mut bytes = registration(V4).write(PCAP, Link::Ethernet);
    bytes.extend([0; 8]);
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend(u32::MAX.to_le_bytes());
    let analysis = analyse(&bytes).unwrap();
    assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::Cut));
    let endless = io::Read::chain(&bytes[..], io::repeat(0));
    let analysis = analyse_bytes(Path::new("endless.pcap"), endless, Reading::default()).unwrap();
    assert_eq!((delay(&analysis), analysis.facts.end), (Some(123), End::TooLarge));
}

#[test]
fn links_that_are_not_read_are_counted() {
    let mut bytes = registration(V4).write(PCAP, Link::Ethernet);
    bytes[20] = 105;
    let packets = analyse(&bytes).unwrap().packets;
    assert_eq!(packets.unknown_links, [(105, 2)].into());
}

/// Returns the packet in fragments of at most `size` bytes, a multiple of 8.
fn fragments(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let is_v6 = packet[0] >> 4 == 6;
    let (header, payload) = packet.split_at(if is_v6 { 40 } else { 20 });
    let pieces = payload.chunks(size).enumerate();
    let last = payload.len().div_ceil(size) - 1;
    pieces
        .map(|(index, piece)| {
            let offset = u16::try_from(index * size).unwrap();
            let more = u16::from(index < last);
            let mut bytes = header.to_vec();
            if is_v6 {
                bytes[6] = 44;
                bytes[4..6].copy_from_slice(&(piece.len() as u16 + 8).to_be_bytes());
                bytes.extend([header[6], 0]);
                bytes.extend((offset | more).to_be_bytes());
                bytes.extend([0, 0, 0, 42]);
            } else {
                bytes[2..4].copy_from_slice(&(piece.len() as u16 + 20).to_be_bytes());
                bytes[4..6].copy_from_slice(&42u16.to_be_bytes());
                bytes[6..8].copy_from_slice(&((offset / 8) | (more << 13)).to_be_bytes());
            }
            bytes.extend(piece);
            bytes
        })
        .collect()
}

#[test]
fn fragments_are_put_together_in_any_order() {
    for between in [V4, V6] {
        let whole = registration(between);
        let pieces = fragments(&whole.packets[0].1, 64);
        assert!(pieces.len() > 2);
        let mut backwards = pieces.clone();
        backwards.reverse();
        for mut order in [pieces.clone(), backwards, [&pieces[..1], &pieces].concat()] {
            let mut capture = Capture::default();
            for (time, piece) in (0..).zip(order.drain(..)) {
                capture.packets.push((START - 40_000 + time * 1_000, piece));
            }
            let count = capture.packets.len() as u64;
            capture.packets.push(whole.packets[1].clone());
            let analysis = analyse(&capture.write(PCAP, Link::Ethernet)).unwrap();
            // The time of the REGISTER is that of its last fragment.
            assert_eq!(delay(&analysis), Some(123 + 40 - (count - 1)), "{between:?}");
            assert_eq!((analysis.packets.fragments, analysis.packets.reassembled), (count, 1));
        }
    }
}

#[test]
fn fragments_without_the_others_are_given_up() {
    let whole = registration(V4);
    let mut pieces = fragments(&whole.packets[0].1, 64);
    pieces.remove(1);
    let mut capture = Capture::default();
    capture.packets.extend(pieces.into_iter().map(|piece| (START, piece)));
    // Many more than the limit of concurrent reassemblies.
    for identification in 100..1_000u16 {
        let mut piece = fragments(&udp(V4.0, V4.1, &[b'a'; 2000]), 1000).remove(0);
        piece[4..6].copy_from_slice(&identification.to_be_bytes());
        capture.packets.push((START + 1, piece));
    }
    let packets = capture.analyse().packets;
    assert_eq!((packets.reassembled, packets.not_reassembled), (0, 901));
}

#[test]
fn packets_that_were_cut_off_are_counted() {
    let capture = registration(V4);
    let mut bytes = Capture { packets: capture.packets[..1].to_vec() }.write(PCAP, Link::Ethernet);
    // The original length is larger than the captured length.
    let length = u32::from_le_bytes(bytes[36..40].try_into().unwrap());
    bytes[36..40].copy_from_slice(&(length + 500).to_le_bytes());
    assert_eq!(analyse(&bytes).unwrap().packets.cut_off, 1);
}

/// Returns an INVITE with an SRTP key in a part of its body.
fn invite_with_keys() -> Vec<u8> {
    let fields = Fields { call_id: "k", branches: &["8"], cseq: "1 INVITE", to_tag: "" };
    let body = "--x\r\nContent-Type: application/sdp\r\n\r\nv=0\r\nc=IN IP4 10.0.0.1\r\n\
        m=audio 4000 RTP/SAVP 0\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 \
        inline:UHXu88YuDj8guQxhCqEeue0CSr+JcQ/Uii4NdaS5\r\n--x--\r\n";
    let whole = String::from_utf8(message("INVITE sip:b", fields, body)).unwrap();
    whole
        .replace(
            "application/sdp\r\nContent-Length",
            "multipart/mixed;boundary=x\r\nContent-Length",
        )
        .into()
}

/// Returns a capture with every kind of content.
fn mixed(form: Form, link: Link) -> Vec<u8> {
    let mut capture = registration(V4);
    let packet = capture.packets[0].1.clone();
    capture.packets.extend(fragments(&packet, 64).into_iter().map(|piece| (START, piece)));
    capture.packets.extend(registration(V6).packets);
    let packet = udp(V6.0, V6.1, &[b'a'; 300]);
    capture.packets.extend(fragments(&packet, 64).into_iter().map(|piece| (START, piece)));
    for index in 0..6u8 {
        let header = [0x90, 0, 0, index, 0, 0, 0, index, 1, 2, 3, 4, 0, 0, 0, 1, 9, 9, 9, 9];
        capture.udp(index.into(), V4.0, "10.0.0.2:4000", &header);
    }
    // The same in tunnels: IP in GRE, and GRE in IP.
    let inner = udp(V4.0, V4.1, &invite_with_keys());
    let outer = udp("192.0.2.1:9", "192.0.2.2:9", &[&[0, 0, 8, 0], &inner[..]].concat());
    let mut outer = [&outer[..20], &outer[28..]].concat();
    outer[9] = 47;
    capture.packets.push((START, outer));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 5, 0], &[2; 12][..], &[8, 0], &inner].concat();
    capture.udp(1, "192.0.2.1:9", "192.0.2.2:4789", &vxlan);
    let hep = datagram(&[
        (0, 3, &[1; 4]),
        (0, 4, &[2; 4]),
        (0, 7, &[1; 2]),
        (0, 8, &[1; 2]),
        (0, 15, &inner),
    ]);
    capture.udp(1, "192.0.2.1:9", "192.0.2.2:9060", &hep);
    for number in 0..6u8 {
        let header = [0xa0, 0, 0, number, 0, 0, 0, number, 1, 2, 3, 4, 0, 0, 0, 1, 9, 9, 9, 9];
        capture.udp(number.into(), "10.0.0.1:4000", "10.0.0.2:4002", &header);
    }
    let between = ("10.0.0.1:7000", "10.0.0.2:5060");
    let fields = Fields { call_id: "t", branches: &["9"], cseq: "1 INVITE", to_tag: "" };
    let invite =
        message("INVITE sip:b", fields, "v=0\r\nc=IN IP4 10.0.0.2\r\nm=audio 4000 RTP/AVP 0\r\n");
    capture.tcp(0, between, (99, true), b"");
    for (index, piece) in invite.chunks(50).enumerate() {
        capture.tcp(1, between, (100 + 50 * index as u32, false), piece);
    }
    capture.write(form, link)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_file_makes_the_reader_panic(
        form in 0..FORMS.len(),
        link in 0..LINKS.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = mixed(FORMS[form], LINKS[link]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(analysis) = analyse(&bytes) {
            let text = crate::capture::tables::Tables { analysis: &analysis, calls: true }.to_string();
            prop_assert!(!text.is_empty());
            prop_assert!(serde_json::to_string(&analysis).is_ok());
            prop_assert!(analysis.started_us <= analysis.ended_us);
        }
    }
}
