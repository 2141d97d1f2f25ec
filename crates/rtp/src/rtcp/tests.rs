//! Round trips, packets of other implementations, and arbitrary bytes.

use super::extended::{Block, LastReceiverReport, VoipMetrics};
use super::*;
use crate::WriteError;
use crate::ntp::NtpTime;
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn every_packet_type_is_written_and_parsed() {
    let sender = SenderInfo {
        ntp_time: NtpTime(0x0102_0304_0506_0708),
        timestamp: 9,
        packets: 10,
        bytes: 11,
    };
    let block = ReportBlock {
        ssrc: 2,
        fraction_lost: 25,
        lost: -3,
        highest_sequence_number: 0x1_0005,
        jitter: 7,
        last_sender_report: 8,
        delay_since_last_sender_report: 9,
    };
    let items = [
        SdesItem { kind: SdesItem::CNAME, text: b"user@host" },
        SdesItem { kind: SdesItem::TOOL, text: b"barebell" },
    ];
    let application = Application { subtype: 3, ssrc: 1, name: *b"bare", data: b"bell" };
    let metrics = VoipMetrics { signal_level: -20, r_factor: 93, ..VoipMetrics::unknown(2) };
    let receivers = [LastReceiverReport { ssrc: 2, last: 3, delay: 4 }];

    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer);
    writer.sender_report(1, &sender, &[block, block]).unwrap();
    writer.receiver_report(1, &[block]).unwrap();
    writer.description(1, &items).unwrap();
    writer.application(&application).unwrap();
    writer
        .extended_report(1, |blocks| {
            blocks.receiver_reference_time(NtpTime(5))?;
            blocks.delay_since_last_receiver_report(&receivers)?;
            blocks.voip_metrics(&metrics)
        })
        .unwrap();
    writer.bye(&[1, 2], Some(b"off")).unwrap();
    let length = writer.len();

    let compound = Compound::parse(&buffer[..length]).unwrap();
    assert!(compound.begins_with_report());
    let packets: Vec<_> = compound.packets().collect();
    let [
        Packet::SenderReport(sr),
        Packet::ReceiverReport(rr),
        Packet::Description(description),
        Packet::Application(app),
        Packet::ExtendedReport(xr),
        Packet::Bye(bye),
    ] = packets[..]
    else {
        panic!("{packets:?}");
    };
    assert_eq!((sr.ssrc, sr.sender), (1, sender));
    assert_eq!(sr.blocks().collect::<Vec<_>>(), [block, block]);
    assert_eq!((rr.ssrc, rr.blocks().collect::<Vec<_>>()), (1, [block].into()));
    let chunks: Vec<_> = description.chunks().collect();
    assert_eq!((chunks.len(), chunks[0].cname()), (1, Some(&b"user@host"[..])));
    assert_eq!(chunks[0].items().collect::<Vec<_>>(), items);
    assert_eq!(app, application);
    let blocks: Vec<_> = xr.blocks().collect();
    assert_eq!(blocks[0], Block::ReceiverReferenceTime(NtpTime(5)));
    let Block::DelaySinceLastReceiverReport(delays) = blocks[1] else { panic!("{blocks:?}") };
    assert_eq!(delays.iter().collect::<Vec<_>>(), receivers);
    assert_eq!(blocks[2], Block::VoipMetrics(metrics));
    assert_eq!(bye.sources().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(bye.reason, Some(&b"off"[..]));

    // A datagram truncated anywhere parses only where a packet ends.
    let ends: Vec<_> = (0..length).filter(|&end| Compound::parse(&buffer[..end]).is_ok()).collect();
    assert_eq!(ends, [76, 108, 140, 156, 228]);
}

#[test]
fn oversized_packets_are_not_written() {
    for size in 0..36 {
        let mut buffer = [7; 36];
        let mut writer = Writer::new(&mut buffer[..size]);
        let written = writer.receiver_report(1, &[ReportBlock::default()]);
        let expected = if size >= 32 { Ok(()) } else { Err(WriteError::BufferTooShort) };
        assert_eq!(written, expected);
        assert_eq!(writer.len(), if size >= 32 { 32 } else { 0 });
    }
    let mut buffer = [0; 2048];
    let mut writer = Writer::new(&mut buffer);
    let too_many = writer.receiver_report(1, &[ReportBlock::default(); 32]);
    assert_eq!(too_many, Err(WriteError::TooLong));
    assert_eq!(writer.bye(&[1], Some(&[0; 256])), Err(WriteError::TooLong));
    let item = SdesItem { kind: 0, text: b"" };
    assert_eq!(writer.description(1, &[item]), Err(WriteError::Element));
    assert_eq!(writer.len(), 0);
}

#[test]
fn negative_loss_keeps_its_sign() {
    for lost in [0, 1, -1, (1 << 23) - 1, -(1 << 23), i32::MAX, i32::MIN] {
        let mut buffer = [0; 32];
        let block = ReportBlock { lost, ..ReportBlock::default() };
        Writer::new(&mut buffer).receiver_report(1, &[block]).unwrap();
        let Some(Packet::ReceiverReport(report)) =
            Compound::parse(&buffer).unwrap().packets().next()
        else {
            panic!("no receiver report");
        };
        let read = report.blocks().next().unwrap().lost;
        assert_eq!(read, lost.clamp(-(1 << 23), (1 << 23) - 1));
    }
}

#[test]
fn only_the_last_packet_may_have_padding() {
    let padded = [0xa0, 201, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4];
    let compound = Compound::parse(&padded).unwrap();
    assert!(matches!(compound.packets().next(), Some(Packet::ReceiverReport(_))));
    let mut two = padded.to_vec();
    two.extend([0x80, 201, 0, 1, 0, 0, 0, 1]);
    assert_eq!(Compound::parse(&two), Err(RtcpError::Padding));
    for wrong in [0, 3, 12] {
        let mut packet = padded;
        packet[11] = wrong;
        assert_eq!(Compound::parse(&packet), Err(RtcpError::Padding));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(mut bytes: Vec<u8>, packet_type in 198u8..210, whole: bool) {
        if bytes.len() >= 4 && whole {
            bytes.truncate(bytes.len() / 4 * 4);
            let words = bytes.len() / 4 - 1;
            let header = [0x80 | bytes[0] & 0x3f, packet_type, 0, words as u8];
            bytes[..4].copy_from_slice(&header);
        }
        let Ok(compound) = Compound::parse(&bytes) else { return Ok(()) };
        for packet in compound.packets() {
            match packet {
                Packet::SenderReport(report) => report.blocks().for_each(drop),
                Packet::ReceiverReport(report) => report.blocks().for_each(drop),
                Packet::Description(description) => {
                    description.chunks().for_each(|chunk| chunk.items().for_each(drop));
                }
                Packet::Bye(bye) => bye.sources().for_each(drop),
                Packet::ExtendedReport(report) => report.blocks().for_each(drop),
                Packet::Application(_) | Packet::Other(_) => {}
            }
        }
    }
}
