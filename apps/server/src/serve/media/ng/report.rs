//! The reports of calls, as `query` and `delete` return them.

use super::surroundings::Surroundings;
use ng::report::{Counts, Media, Party, Quality, Source, Stream};
use relay::{CallReport, Direction};
use std::time::Duration;

/// Calls `act` with the report on the branches of a Call-ID. A caller with several branches has the
/// media of the last one.
pub(super) fn with_report(
    branches: &[CallReport],
    surroundings: &Surroundings<'_>,
    act: impl FnOnce(&ng::CallReport<'_>),
) {
    // The time of the relay as seconds since 1970.
    let seconds = |time: Duration| {
        let age = surroundings.now.saturating_sub(time);
        surroundings.wall.saturating_sub(age).as_secs()
    };
    let mut branches: Vec<_> = branches.iter().collect();
    branches.sort_by_key(|branch| std::cmp::Reverse(branch.described));
    let mut legs: Vec<Leg<'_>> = Vec::new();
    for leg in branches.iter().flat_map(|branch| Leg::both(branch)) {
        if legs.iter().all(|known| known.tag != leg.tag) {
            legs.push(leg);
        }
    }
    let streams: Vec<Vec<[Stream<'_>; 1]>> = legs
        .iter()
        .map(|leg| leg.directions().map(|direction| [stream(direction, seconds)]).collect())
        .collect();
    let media: Vec<Vec<Media<'_>>> = legs
        .iter()
        .zip(&streams)
        .map(|(leg, streams)| {
            let media = leg.directions().zip(streams);
            media.map(|(direction, streams)| medium(direction, streams)).collect()
        })
        .collect();
    let parties: Vec<_> = legs
        .iter()
        .zip(&media)
        .map(|(leg, media)| Party {
            tag: leg.tag,
            label: leg.branch.ends[leg.side].label.as_deref(),
            created: seconds(leg.branch.created),
            in_dialogue_with: Some(leg.other).filter(|tag| !tag.is_empty()),
            media,
        })
        .collect();
    let mut sources: Vec<_> = legs.iter().flat_map(Leg::directions).filter_map(source).collect();
    sources.sort_by_key(|source| source.ssrc);
    sources.dedup_by_key(|source| source.ssrc);
    act(&ng::CallReport {
        created: branches.iter().map(|branch| seconds(branch.created)).min().unwrap_or_default(),
        last_signal: branches.first().map_or(0, |branch| seconds(branch.described)),
        parties: &parties,
        sources: &sources,
    });
}

/// One end of a branch.
struct Leg<'r> {
    branch: &'r CallReport,
    side: usize,
    tag: &'r [u8],
    other: &'r [u8],
}

impl<'r> Leg<'r> {
    fn both(branch: &'r CallReport) -> [Self; 2] {
        let (caller, callee) = (&*branch.caller_tag, &*branch.callee_tag);
        [
            Self { branch, side: 0, tag: caller, other: callee },
            Self { branch, side: 1, tag: callee, other: caller },
        ]
    }

    fn directions(&self) -> impl Iterator<Item = &'r Direction> + use<'r> {
        let side = self.side;
        self.branch.streams.iter().map(move |stream| &stream[side])
    }
}

fn medium<'r>(direction: &'r Direction, streams: &'r [Stream<'r>]) -> Media<'r> {
    Media { kind: &direction.media_type, protocol: &direction.protocol, flags: &[], streams }
}

fn stream(direction: &Direction, seconds: impl Fn(Duration) -> u64) -> Stream<'_> {
    Stream {
        is_rtcp: false,
        local_port: Some(direction.local_port),
        endpoint: direction.source.or(direction.announced),
        advertised_endpoint: direction.announced,
        is_confirmed: direction.source.is_some(),
        crypto_suite: None,
        ssrc: direction.ssrc,
        last_packet: direction.last.map(seconds),
        counts: Counts {
            packets: direction.packets,
            bytes: direction.bytes,
            errors: direction.refused + direction.unsent,
        },
    }
}

fn source(direction: &Direction) -> Option<Source> {
    let quality = direction.mean_opinion_score.map(|score| {
        let lost = direction.lost.unwrap_or_default();
        let expected = (direction.packets + lost).max(1);
        let jitter = direction.jitter.unwrap_or_default().as_millis();
        Quality {
            mos: score as f32,
            jitter: u32::try_from(jitter).unwrap_or(u32::MAX),
            packet_loss: (100 * lost / expected) as u32,
            round_trip: None,
            samples: 1,
        }
    });
    Some(Source { ssrc: direction.ssrc?, cumulative_loss: direction.lost, quality })
}
