//! Two sessions on a line with delay and packet loss.

use super::super::tests::{address, sessions};
use super::*;
use crate::negotiation::Security;
use alloc::collections::VecDeque;
use rtp::rtcp::{SdesItem, Writer};
use std::vec;

const DELAY: Duration = Duration::from_millis(40);

fn seed(number: u8) -> ReportSeed {
    let random = core::array::from_fn(|place| number.wrapping_mul(37).wrapping_add(place as u8));
    ReportSeed { random, time_of_day: Duration::from_secs(1_700_000_000), extended: false }
}

/// A packet in transit.
struct Packet {
    arrives: Duration,
    to: usize,
    channel: Channel,
    bytes: Vec<u8>,
}

/// Lets both ends talk until `end`. `drops` returns true for a lost packet, by its sender and
/// number. Returns the reports: sender, time, socket and destination.
fn run(
    ends: &mut [Session; 2],
    end: Duration,
    drops: impl Fn(usize, u32) -> bool,
) -> Vec<(usize, Duration, Channel, SocketAddr)> {
    let mut line: VecDeque<Packet> = VecDeque::new();
    let (mut reported, mut out) = (Vec::new(), Vec::new());
    // Later than any time of an earlier run.
    let mut now = ends[0].clock;
    let mut count = 0;
    while now < end {
        while line.front().is_some_and(|packet| packet.arrives <= now) {
            let Some(Packet { arrives, to, channel, mut bytes }) = line.pop_front() else { break };
            let port = if channel == Channel::Rtp { 0 } else { 1 };
            let from = address(1 - to);
            let from = SocketAddr::new(from.ip(), from.port() + port);
            ends[to].receive_on(channel, arrives, from, &mut bytes);
        }
        for one in [0, 1] {
            let arrives = now + DELAY;
            if ends[one].send(&[1000; 160], &mut out).unwrap().is_some() && !drops(one, count) {
                let (to, channel) = (1 - one, Channel::Rtp);
                line.push_back(Packet { arrives, to, channel, bytes: out.clone() });
            }
            while ends[one].next_timer().is_some_and(|next| next <= now) {
                let Some((channel, to)) = ends[one].poll(now, &mut out).unwrap() else { continue };
                reported.push((one, now, channel, to));
                line.push_back(Packet { arrives, to: 1 - one, channel, bytes: out.clone() });
            }
            ends[one].play(now, &mut Vec::new());
        }
        count += 1;
        now += FRAME;
    }
    reported
}

fn with_reports(security: Security) -> [Session; 2] {
    let mut ends = sessions(security);
    for (end, number) in ends.iter_mut().zip(1..) {
        end.start_reports(Duration::ZERO, seed(number));
    }
    ends
}

#[test]
fn each_end_knows_the_round_trip_and_how_the_other_hears() {
    for security in [Security::Off, Security::Required] {
        let mut ends = with_reports(security);
        let lost = |one, count: u32| one == 0 && count % 10 == 9;
        let reported = run(&mut ends, Duration::from_secs(40), lost);
        let [one, other] = [0, 1].map(|end| ends[end].statistics());
        for statistics in [one, other] {
            let round_trip = statistics.round_trip.unwrap();
            assert!(round_trip.abs_diff(2 * DELAY) < FRAME, "{round_trip:?}");
            assert_eq!((statistics.refused, statistics.strangers), (0, 0));
            assert!(statistics.reports_received > 5, "{statistics:?}");
            assert_eq!(statistics.flow, AudioFlow::Flowing);
        }
        assert!((one.far_loss.unwrap() - 0.1).abs() < 0.02, "{one:?}");
        assert_eq!(other.far_loss, Some(0.0));
        assert!(one.far_mos.unwrap() < 3.5 && other.far_mos.unwrap() > 4.0, "{one:?} {other:?}");
        assert_eq!(one.far_jitter, Some(Duration::ZERO));
        // The first one within half of the reduced minimum of 4.5 s, with its random factor, then
        // the full interval.
        for end in [0, 1] {
            let mut times = reported.iter().filter(|report| report.0 == end).map(|report| report.1);
            let first = times.next().unwrap();
            assert!(first > Duration::from_millis(900) && first < Duration::from_millis(2800));
            assert!((6..20).contains(&times.count()));
        }
        assert!(reported.iter().all(|report| report.2 == Channel::Rtp), "the port is shared");
    }
}

#[test]
fn who_only_receives_knows_the_round_trip_by_extended_reports() {
    let mut ends = with_reports(Security::Off);
    (ends[1].stream.sends, ends[0].stream.receives) = (false, false);
    run(&mut ends, Duration::from_secs(30), |_, _| false);
    let statistics = ends[1].statistics();
    assert_eq!(statistics.sent, 0);
    assert!(statistics.round_trip.unwrap().abs_diff(2 * DELAY) < FRAME, "{statistics:?}");
    assert_eq!(ends[0].silence(), None, "nothing has to come");
    // Without reports the state is unknown.
    let mut ends = with_reports(Security::Off);
    (ends[1].stream.sends, ends[0].stream.receives) = (false, false);
    ends.iter_mut().for_each(|end| end.stream.extended_reports = ExtendedReports::default());
    run(&mut ends, Duration::from_secs(30), |_, _| false);
    assert_eq!(ends[1].statistics().round_trip, None);
    assert_eq!(ends[0].statistics().far_mos, None);
    assert!(ends[0].statistics().round_trip.is_some());
}

#[test]
fn rtcp_has_a_socket_of_its_own_where_the_port_is_not_shared() {
    for security in [Security::Off, Security::Required] {
        let mut ends = with_reports(security);
        ends.iter_mut().for_each(|end| end.stream.multiplexes_rtcp = false);
        let reported = run(&mut ends, Duration::from_secs(20), |_, _| false);
        for (one, _, channel, to) in reported {
            let there = address(1 - one);
            let there = SocketAddr::new(there.ip(), there.port() + 1);
            assert_eq!((channel, to), (Channel::Rtcp, there));
        }
        assert!(ends[0].statistics().round_trip.is_some());
    }
}

#[test]
fn a_goodbye_is_told_of_but_not_a_strangers() {
    for security in [Security::Off, Security::Required] {
        let mut ends = with_reports(security);
        assert_eq!(ends[0].bye(Duration::ZERO, &mut Vec::new()).unwrap(), None, "nothing was sent");
        run(&mut ends, Duration::from_secs(3), |_, _| false);
        let mut out = Vec::new();
        let now = Duration::from_secs(3);
        assert_eq!(ends[0].bye(now, &mut out).unwrap(), Some((Channel::Rtp, address(1))));
        assert_eq!(
            (ends[0].next_timer(), ends[0].bye(now, &mut Vec::new()).unwrap()),
            (None, None)
        );
        if security == Security::Off {
            let same_host = SocketAddr::new(address(0).ip(), 9);
            for stranger in [([203, 0, 113, 9], 9).into(), same_host] {
                let heard = ends[1].receive(now, stranger, &mut out.clone());
                assert_eq!(heard, Received::Nothing, "{stranger}");
            }
        } else {
            // In clear, though from the right address.
            let mut forged = vec![0; 100];
            let mut writer = Writer::new(&mut forged);
            writer.receiver_report(1, &[]).unwrap();
            writer.bye(&[1], None).unwrap();
            let length = writer.len();
            let heard = ends[1].receive(now, address(0), &mut forged[..length]);
            assert_eq!((heard, ends[1].statistics().refused), (Received::Nothing, 1));
        }
        // A BYE for another source is not one of the other end.
        let mut other = vec![0; 100];
        let mut writer = Writer::new(&mut other);
        writer.receiver_report(1, &[]).unwrap();
        writer.bye(&[77], None).unwrap();
        let length = writer.len();
        assert_eq!(ends[1].receive(now, address(0), &mut other[..length]), Received::Nothing);
        assert_eq!(ends[1].receive(now, address(0), &mut out), Received::Bye);
    }
}

#[test]
fn one_way_is_told_by_both_ends() {
    let mut ends = with_reports(Security::Off);
    run(&mut ends, Duration::from_secs(40), |one, count| one == 0 && count > 500);
    assert_eq!(ends[0].flow(), AudioFlow::NothingGetsThrough);
    assert_eq!(ends[1].flow(), AudioFlow::NothingArrives);
    let silence = ends[1].silence().unwrap();
    assert!(silence.abs_diff(Duration::from_secs(30)) < Duration::from_millis(100), "{silence:?}");
    run(&mut ends, Duration::from_secs(60), |_, _| false);
    assert_eq!((ends[0].flow(), ends[1].flow()), (AudioFlow::Flowing, AudioFlow::Flowing));
    // Also from the beginning.
    let mut ends = with_reports(Security::Off);
    run(&mut ends, Duration::from_secs(40), |one, _| one == 0);
    assert_eq!(
        (ends[0].flow(), ends[1].flow()),
        (AudioFlow::NothingGetsThrough, AudioFlow::NothingArrives)
    );
}

#[test]
fn a_report_has_a_name_that_says_nothing_and_is_a_compound_packet() {
    let mut ends = with_reports(Security::Off);
    run(&mut ends, Duration::from_secs(3), |_, _| false);
    let mut names = Vec::new();
    for end in &mut ends {
        let mut out = Vec::new();
        end.bye(Duration::from_secs(3), &mut out).unwrap().unwrap();
        let compound = Compound::parse(&out).unwrap();
        let packets: Vec<_> = compound.packets().collect();
        let [rtp::rtcp::Packet::SenderReport(report), ..] = packets[..] else {
            panic!("{packets:?}")
        };
        assert_eq!((report.blocks().len(), report.sender.packets), (1, 150));
        let name = packets.iter().find_map(|packet| match packet {
            rtp::rtcp::Packet::Description(description) => description.chunks().next()?.cname(),
            _ => None,
        });
        names.push(name.unwrap().to_vec());
        assert!(matches!(packets.last(), Some(rtp::rtcp::Packet::Bye(_))));
    }
    assert!(names[0].len() == 16 && names[0] != names[1] && names[0].is_ascii());
}

#[test]
fn what_nobody_could_know_is_not_believed() {
    let mut ends = with_reports(Security::Off);
    run(&mut ends, Duration::from_secs(3), |_, _| false);
    let now = Duration::from_secs(3);
    let before = ends[0].statistics();
    let forged = |from: SocketAddr, session: &mut Session| {
        let mut bytes = vec![0; 200];
        let mut writer = Writer::new(&mut bytes);
        let block = rtp::rtcp::ReportBlock {
            ssrc: 1,
            fraction_lost: 255,
            last_sender_report: 0x1234_5678,
            ..rtp::rtcp::ReportBlock::default()
        };
        writer.receiver_report(2, &[block]).unwrap();
        let item = SdesItem { kind: SdesItem::CNAME, text: b"x" };
        writer.description(2, &[item]).unwrap();
        let length = writer.len();
        session.receive(now, from, &mut bytes[..length]);
    };
    forged(([203, 0, 113, 9], 9).into(), &mut ends[0]);
    assert_eq!(ends[0].statistics().strangers, before.strangers + 1);
    assert_eq!(ends[0].statistics().far_loss, before.far_loss);
    forged(address(1), &mut ends[0]);
    let statistics = ends[0].statistics();
    assert_eq!(statistics.far_loss, Some(255.0 / 256.0));
    assert_eq!(statistics.round_trip, before.round_trip, "no report of ours had that time");
}

#[test]
fn metrics_tell_of_losses_in_bursts() {
    use rtp::rtcp::extended::Block;
    let metrics = |drops: &dyn Fn(u32) -> bool| {
        let mut ends = with_reports(Security::Off);
        run(&mut ends, Duration::from_secs(20), |one, count| one == 0 && drops(count));
        let mut out = Vec::new();
        ends[1].bye(Duration::from_secs(20), &mut out).unwrap().unwrap();
        let compound = Compound::parse(&out).unwrap();
        let blocks: Vec<_> = compound
            .packets()
            .filter_map(|packet| match packet {
                rtp::rtcp::Packet::ExtendedReport(report) => Some(report.blocks()),
                _ => None,
            })
            .flatten()
            .collect();
        let found = blocks.iter().find_map(|block| match block {
            Block::VoipMetrics(metrics) => Some(*metrics),
            _ => None,
        });
        found.unwrap()
    };
    let good = metrics(&|_| false);
    assert_eq!((good.ssrc, good.loss_rate, good.burst_density, good.gap_density), (1, 0, 0, 0));
    assert_eq!((good.mos_conversation, good.r_factor, good.minimum_gap), (44, 93, 16));
    assert!(good.round_trip_delay.abs_diff(80) <= 20 && good.jitter_buffer_maximum > 0);
    // Four of six packets every two seconds, and no other loss.
    let bursts = metrics(&|count| (10..16).contains(&(count % 100)) && count % 3 != 0);
    assert_eq!(bursts.loss_rate, 10, "4 of 100 in 256ths");
    assert!(bursts.burst_density > 128 && bursts.gap_density == 0, "{bursts:?}");
    assert!((80..=140).contains(&bursts.burst_duration), "{bursts:?}");
    assert!((1800..=2000).contains(&bursts.gap_duration), "{bursts:?}");
    // The same number, each alone.
    let single = metrics(&|count| count % 25 == 10);
    assert_eq!((single.burst_density, single.burst_duration), (0, 0), "{single:?}");
    assert!((9..=11).contains(&single.gap_density), "{single:?}");
}
