//! The rewrite of frames against frames that are built anew, with checksums over all of their
//! bytes.

use barebell_relay::frame::{Endpoint, Ends, Entry, Refused, rewrite};
use barebell_relay::media::demultiplex::Kind;
use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6Header, PacketBuilder, VlanId};
use proptest::prelude::*;
use std::net::IpAddr;

/// The fields of a frame that a rewrite changes.
#[derive(Clone, Copy, Debug)]
struct Fields {
    link: [[u8; 6]; 2],
    ends: Ends,
    hop_limit: u8,
    traffic_class: u8,
    sequence_number: u16,
    timestamp: u32,
    ssrc: u32,
}

/// The fields that stay.
#[derive(Clone, Debug)]
struct Rest {
    payload_type: u8,
    marker: bool,
    identification: u16,
    has_checksum: bool,
    payload: Vec<u8>,
    padding: usize,
}

fn packet(fields: &Fields, rest: &Rest) -> Vec<u8> {
    let mut packet = vec![0x80, rest.payload_type | u8::from(rest.marker) << 7];
    packet.extend(fields.sequence_number.to_be_bytes());
    packet.extend(fields.timestamp.to_be_bytes());
    packet.extend(fields.ssrc.to_be_bytes());
    packet.extend(&rest.payload);
    packet
}

/// The frame of the datagram `payload`.
fn frame(fields: &Fields, rest: &Rest, payload: &[u8]) -> Vec<u8> {
    let Ends { source, destination } = fields.ends;
    let header = match (source.ip, destination.ip) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            let mut header =
                Ipv4Header::new(0, fields.hop_limit, IpNumber::UDP, source, destination).unwrap();
            header.dscp = (fields.traffic_class >> 2).try_into().unwrap();
            header.ecn = (fields.traffic_class & 3).try_into().unwrap();
            header.identification = rest.identification;
            IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                traffic_class: fields.traffic_class,
                hop_limit: fields.hop_limit,
                next_header: IpNumber::UDP,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Default::default())
        }
        _ => unreachable!("both ends have one family"),
    };
    let is_ipv4 = source.ip.is_ipv4();
    let builder = PacketBuilder::ethernet2(fields.link[0], fields.link[1])
        .ip(header)
        .udp(source.port, destination.port);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    if is_ipv4 && !rest.has_checksum {
        frame[40..42].fill(0);
    }
    frame
}

fn ends(is_ipv4: bool) -> impl Strategy<Value = Ends> {
    let ip = move || {
        any::<[u8; 16]>().prop_map(move |bytes| match is_ipv4 {
            true => IpAddr::from(*bytes.first_chunk::<4>().unwrap()),
            false => IpAddr::from(bytes),
        })
    };
    let end = move || (ip(), any::<u16>()).prop_map(|(ip, port)| Endpoint { ip, port });
    (end(), end()).prop_map(|(source, destination)| Ends { source, destination })
}

fn fields(is_ipv4: bool) -> impl Strategy<Value = Fields> {
    let numbers = (any::<u16>(), any::<u32>(), any::<u32>());
    (any::<[[u8; 6]; 2]>(), ends(is_ipv4), 2..=255_u8, any::<u8>(), numbers).prop_map(
        |(link, ends, hop_limit, traffic_class, (sequence_number, timestamp, ssrc))| Fields {
            link,
            ends,
            hop_limit,
            traffic_class,
            sequence_number,
            timestamp,
            ssrc,
        },
    )
}

prop_compose! {
    fn rest()(
        // Payload types 64 to 95 are RTCP on a shared port.
        payload_type in prop_oneof![0..64_u8, 96..128_u8],
        marker: bool,
        identification: u16,
        has_checksum: bool,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        padding in 0..20_usize,
    ) -> Rest {
        Rest { payload_type, marker, identification, has_checksum, payload, padding }
    }
}

fn both() -> impl Strategy<Value = [Fields; 2]> {
    any::<bool>().prop_flat_map(|is_ipv4| [fields(is_ipv4), fields(is_ipv4)])
}

/// The entry that makes the frame of `sent` from that of `received`.
fn entry([received, sent]: &[Fields; 2]) -> Entry {
    Entry {
        link: sent.link,
        ssrc: sent.ssrc.wrapping_sub(received.ssrc),
        timestamp: sent.timestamp.wrapping_sub(received.timestamp),
        sequence_number: sent.sequence_number.wrapping_sub(received.sequence_number),
        hop_limit: sent.hop_limit,
        traffic_class: sent.traffic_class,
        ..Entry::new(received.ends, sent.ends, u128::MAX)
    }
}

proptest! {
    #[test]
    fn a_rewritten_frame_is_that_of_the_new_fields(both in both(), rest in rest()) {
        let [received, sent] = &both;
        let mut bytes = frame(received, &rest, &packet(received, &rest));
        let length = bytes.len();
        bytes.resize(length + rest.padding, 0xee);
        let rewritten = rewrite(&mut bytes, &entry(&both)).unwrap();
        prop_assert_eq!(rewritten.frame, length);
        prop_assert_eq!(rewritten.packet.len(), 12 + rest.payload.len());
        bytes.truncate(length);
        prop_assert_eq!(bytes, frame(sent, &rest, &packet(sent, &rest)));
    }

    #[test]
    fn a_wrong_checksum_of_the_datagram_stays_wrong(both in both(), mut rest in rest()) {
        rest.has_checksum = true;
        let mut bytes = frame(&both[0], &rest, &packet(&both[0], &rest));
        // A bit of the SSRC.
        let at = bytes.len() - rest.payload.len() - 1;
        bytes[at] ^= 1;
        let mut entry = entry(&both);
        entry.ssrc = 0;
        rewrite(&mut bytes, &entry).unwrap();
        let mut sent = both[1];
        sent.ssrc = both[0].ssrc ^ 1;
        let right = frame(&sent, &rest, &packet(&sent, &rest));
        let checksum = if sent.ends.source.ip.is_ipv4() { 40 } else { 60 };
        prop_assert_ne!(&bytes[checksum..checksum + 2], &right[checksum..checksum + 2]);
    }

    #[test]
    fn a_refused_frame_is_unchanged(
        both in both(),
        rest in rest(),
        at in 0..80_usize,
        value: u8,
        length in 0..120_usize,
    ) {
        let mut bytes = frame(&both[0], &rest, &packet(&both[0], &rest));
        let at = at % bytes.len();
        bytes[at] = value;
        bytes.truncate(length.max(42));
        let before = bytes.clone();
        if rewrite(&mut bytes, &entry(&both)).is_err() {
            prop_assert_eq!(bytes, before);
        }
    }
}

/// A frame of one phone, and an entry for it.
fn example() -> (Vec<u8>, Fields, Rest, Entry) {
    let end = |host: u8, port| Endpoint { ip: [192, 0, 2, host].into(), port };
    let fields = Fields {
        link: [[2; 6], [4; 6]],
        ends: Ends { source: end(1, 4000), destination: end(2, 20000) },
        hop_limit: 64,
        traffic_class: 0,
        sequence_number: 7,
        timestamp: 160,
        ssrc: 9,
    };
    let rest = Rest {
        payload_type: 0,
        marker: false,
        identification: 1,
        has_checksum: true,
        payload: vec![0xd5; 160],
        padding: 0,
    };
    let sent = Ends { source: end(2, 20002), destination: end(3, 6000) };
    let entry = Entry::new(fields.ends, sent, 1);
    (frame(&fields, &rest, &packet(&fields, &rest)), fields, rest, entry)
}

/// The reason why a frame of IPv4 is refused after `change`, with a right checksum of its header.
fn refusal(change: impl FnOnce(&mut Vec<u8>)) -> Option<Refused> {
    let (mut bytes, _, _, entry) = example();
    change(&mut bytes);
    if let Some(header) = bytes.get(14..34) {
        let header = Ipv4Header::from_slice(header).map(|(header, _)| header);
        if let Ok(header) = header {
            bytes[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        }
    }
    rewrite(&mut bytes, &entry).err()
}

#[test]
fn packets_that_need_more_than_a_rewrite_are_refused() {
    assert_eq!(refusal(|_| {}), None);
    // The last fragment, and a first one. Packets that must not be fragmented are rewritten.
    assert_eq!(refusal(|frame| frame[21] = 1), Some(Refused::Fragment));
    assert_eq!(refusal(|frame| frame[20] = 0x20), Some(Refused::Fragment));
    assert_eq!(refusal(|frame| frame[20] = 0x40), None);
    for hop_limit in [0, 1] {
        assert_eq!(refusal(|frame| frame[22] = hop_limit), Some(Refused::HopLimit));
    }
    assert_eq!(refusal(|frame| frame[22] = 2), None);
    assert_eq!(refusal(|frame| frame[23] = 6), Some(Refused::Protocol));
    // Another source address, source port, destination address, destination port.
    for at in [29, 35, 33, 37] {
        assert_eq!(refusal(|frame| frame[at] ^= 1), Some(Refused::Ends), "{at}");
    }
    for (first, second, kind) in [
        (0x80, 200, Kind::Rtcp),
        (0x81, 201, Kind::Rtcp),
        (0, 1, Kind::Stun),
        (22, 254, Kind::Dtls),
        (0x40, 0, Kind::TurnChannel),
        (0xff, 0, Kind::Unknown),
    ] {
        let change = |frame: &mut Vec<u8>| (frame[42], frame[43]) = (first, second);
        assert_eq!(refusal(change), Some(Refused::Kind(kind)));
    }
    assert_eq!(refusal(|frame| frame[43] = 8), Some(Refused::PayloadType(8)));
    // An extension that is longer than the packet.
    assert_eq!(refusal(|frame| (frame[42], frame[57]) = (0x90, 255)), Some(Refused::Header));
    // The lengths of the frame, of the packet, and of the datagram.
    assert_eq!(refusal(|frame| frame.truncate(200)), Some(Refused::Length));
    assert_eq!(refusal(|frame| frame[17] -= 1), Some(Refused::Length));
    assert_eq!(refusal(|frame| frame[39] -= 1), Some(Refused::Length));
    assert_eq!(refusal(|frame| frame.truncate(13)), Some(Refused::Length));
    let (mut bytes, _, _, entry) = example();
    bytes[24] ^= 1;
    assert_eq!(rewrite(&mut bytes, &entry), Err(Refused::Checksum));
}

#[test]
fn options_vlan_tags_and_other_families_are_refused() {
    let (bytes, fields, rest, mut entry) = example();
    let packet = packet(&fields, &rest);
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .single_vlan(VlanId::ZERO)
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .udp(4000, 20000);
    let mut tagged = Vec::new();
    builder.write(&mut tagged, &packet).unwrap();
    assert_eq!(rewrite(&mut tagged, &entry), Err(Refused::Protocol));

    let mut header = Ipv4Header::new(0, 64, IpNumber::UDP, [192, 0, 2, 1], [192, 0, 2, 2]).unwrap();
    header.options = [1; 4].into();
    let header = IpHeaders::Ipv4(header, Default::default());
    let mut with_options = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ip(header).udp(4000, 20000);
    builder.write(&mut with_options, &packet).unwrap();
    assert_eq!(rewrite(&mut with_options, &entry), Err(Refused::Options));

    entry.sent.source.ip = [0; 16].into();
    assert_eq!(rewrite(&mut bytes.clone(), &entry), Err(Refused::Family));
}

#[test]
fn packets_of_ipv6_that_need_more_than_a_rewrite_are_refused() {
    let (_, mut fields, rest, mut entry) = example();
    let end = |host: u16, port| Endpoint { ip: [0x2001, 0xdb8, 0, 0, 0, 0, 0, host].into(), port };
    fields.ends = Ends { source: end(1, 4000), destination: end(2, 20000) };
    entry.received = fields.ends;
    entry.sent = Ends { source: end(2, 20002), destination: end(3, 6000) };
    let refusal = |change: fn(&mut Vec<u8>)| {
        let mut bytes = frame(&fields, &rest, &packet(&fields, &rest));
        change(&mut bytes);
        rewrite(&mut bytes, &entry).err()
    };
    assert_eq!(refusal(|_| {}), None);
    assert_eq!(refusal(|frame| frame[20] = 44), Some(Refused::Fragment));
    for header in [0, 43, 60] {
        let mut bytes = frame(&fields, &rest, &packet(&fields, &rest));
        bytes[20] = header;
        assert_eq!(rewrite(&mut bytes, &entry), Err(Refused::Options));
    }
    assert_eq!(refusal(|frame| frame[20] = 6), Some(Refused::Protocol));
    assert_eq!(refusal(|frame| frame[21] = 1), Some(Refused::HopLimit));
    assert_eq!(refusal(|frame| frame[60..62].fill(0)), Some(Refused::Checksum));
    assert_eq!(refusal(|frame| frame[19] -= 1), Some(Refused::Length));
    assert_eq!(refusal(|frame| frame[14] = 0x50), Some(Refused::Protocol));
}
