//! The summary of a capture in words and named figures, for every output form.

use super::analysis::Analysis;
use super::clocks::Transit;
use super::file::End;
use super::flow::seconds;
use crate::record::Histogram;

impl Analysis {
    /// Returns the summary of the file and its messages.
    pub(crate) fn summary(&self) -> [String; 2] {
        let Self { facts, packets, sip, .. } = self;
        let format = match (facts.live, facts.pcapng) {
            (true, _) => "live",
            (_, true) => "pcapng",
            _ => "pcap",
        };
        let packed = if facts.gzip { ", gzip" } else { "" };
        let elapsed = self.ended_us.unwrap_or_default() - self.started_us.unwrap_or_default();
        [
            format!("{format}{packed}, {} packets in {} s", packets.packets, seconds(elapsed)),
            format!(
                "{} UDP datagrams, {} TCP segments; {} SIP messages over UDP, {} over TCP",
                packets.datagrams, packets.segments, sip.udp, sip.tcp
            ),
        ]
    }

    /// Returns the remarks: unread, omitted or unusual data.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Self { facts, packets, streams, sip, registrations, calls, rtp, keys, .. } = self;
        let end = match facts.end {
            End::Whole => None,
            End::Cut => Some("the file ends within a packet"),
            End::Damaged => Some("the file is damaged; the rest was not read"),
            End::TooLarge => Some("a block is too large; the rest was not read"),
            End::TooLong => Some("the unpacked file is too large; only 64 GiB were read"),
            End::Unreadable => Some("the file could not be read to its end"),
        };
        let counts = [
            (facts.dropped, "packets that the kernel had no room for"),
            (facts.untimed, "packets without a time, left out"),
            (packets.cut_off, "truncated packets"),
            (packets.unknown_links.values().sum(), "packets of link types that are not read"),
            (packets.not_ip, "packets that are not IP, or malformed"),
            (packets.other_protocols, "packets neither UDP nor TCP, or malformed"),
            (packets.tunnelled, "packets in tunnels, or sent on by capture agents"),
            (packets.reassembled, "IP packets put together from fragments"),
            (packets.not_reassembled, "fragmented IP packets that could not be put together"),
            (streams.gaps, "gaps in TCP streams: messages may be missing"),
            (streams.unframed, "SIP messages over TCP without a recognizable end"),
            (streams.left_out, "TCP segments left out: too many streams"),
            (streams.given_up, "TCP streams given up: too many bytes held"),
            (sip.malformed, "malformed SIP messages"),
            (sip.keep_alives, "keep-alives"),
            (sip.stray_responses, "SIP responses to requests not in the capture"),
            (sip.other_datagrams + rtp.unrecognised, "other datagrams"),
            (sip.left_out, "SIP messages not followed: too many transactions"),
            (sip.media_left_out, "media descriptions not kept: too many"),
            (registrations.left_out, "registrations not followed: too many"),
            (calls.left_out, "messages of calls not followed: too many"),
            (calls.steps_left_out, "messages not in the flows: too many"),
            (rtp.left_out, "RTP packets not followed: too many streams"),
            (rtp.srtp_left_out, "SRTP streams not decrypted: too many"),
            (rtp.rtcp, "RTCP packets"),
            (keys.left_out, "packets of key exchanges not followed: too many"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} {what}"));
        let end = end.map(str::to_owned).into_iter();
        end.chain(self.clocks()).chain(counts).collect()
    }

    /// Returns the lines about the clocks of joined captures.
    fn clocks(&self) -> impl Iterator<Item = String> {
        let ms = |us: f64| us / 1e3;
        let clocks = self.clocks.iter().map(move |clock| {
            format!(
                "clock of {}: {:.3} ms ahead of the first, at most {:.3} ms wrong, by {} datagrams",
                clock.file.display(),
                ms(clock.ahead_us),
                ms(clock.error_us),
                clock.datagrams
            )
        });
        clocks.chain(self.transits.iter().map(move |Transit { from, to, delay_us }| {
            format!(
                "from {from} to {to}: {} datagrams in {:.3} ms on average, {:.3} ms at most",
                delay_us.count(),
                ms(delay_us.mean()),
                ms(delay_us.max() as f64)
            )
        }))
    }

    /// Returns the delays of registrations and calls, by name.
    pub(crate) fn delays(&self) -> [(&'static str, &Histogram); 11] {
        let Self { registrations, calls, .. } = self;
        [
            ("registration delay (RRD)", &registrations.delay),
            ("  REGISTER to challenge", &registrations.challenge_delay),
            ("  challenge to REGISTER", &registrations.client_delay),
            ("  REGISTER to 2xx", &registrations.authorised_delay),
            ("invite delay", &calls.invite_delay),
            ("call setup delay", &calls.setup_delay),
            ("INVITE to challenge", &calls.challenge_delay),
            ("SRD, successful", &calls.srd),
            ("SRD, failed", &calls.srd_failed),
            ("SDD", &calls.sdd),
            ("SDT", &calls.sdt),
        ]
    }
}
