//! Simultaneous calls with media (row D2 of docs/sources.md).

mod figures;
mod limits;
mod steps;

use super::basis::{Report, unless_empty};
use crate::metrics::{self, processors};
use crate::record::{Kind, Media, Streams};
use crate::report::chart::{Axis, Chart, Line, Look, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::Group;
use figures::{FIGURES, at, longest, mean, names};

/// Returns the section of calls with media, if there are any.
pub(super) fn section(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "media",
        "Calls with media",
        "Each callee sends back what it receives. Jitter and delta are those of the streams that came \
         back to the callers, as RFC 3550 and Wireshark define them; the time of a packet is its due time. Of the limits, \
         the processors are used up at the first step at 95 %; the others are the last steps before RRD or SRD \
         exceeds 300 ms (median), before the maximum packet delay of the observed call exceeds 90 ms, and before a call fails.",
    );
    let groups: Vec<(Group<'_>, &Media)> = report
        .groups(&[Kind::Media, Kind::Run, Kind::Sweep, Kind::Limit, Kind::Proxy])
        .into_iter()
        .filter_map(|group| {
            let media = group.used().last()?.media.as_deref()?;
            Some((group, media))
        })
        .collect();
    if groups.is_empty() {
        return None;
    }
    section.table(figures(report, &groups));
    steps::charts(report, &groups, &mut section);
    section.table(steps::normalised(report, &groups));
    section.table(limits::table(report, &groups));
    section.table(streams(report, &groups));
    section.table(sound(report, &groups));
    section.table(handshakes(report, &groups));
    observed(report, &groups, &mut section);
    section.table(headroom(report, &groups));
    unless_empty(section)
}

fn figures(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "Figures (medians of the repeats; times in ms)",
        &[
            "System",
            "Media",
            "#Calls",
            "#Calls held",
            "#Success",
            "#RRD p50",
            "#SRD p50",
            "#Mean jitter",
            "#Max. delta",
            "#Round trip p50",
            "#Round trip p99",
            "#Loss, round trip",
            "#MOS, mean",
            "#MOS, lowest",
            "#Processors busy",
            "#Repeats",
        ],
    );
    for (group, media) in groups {
        let of = |value: fn(&Media) -> Option<f64>| {
            format::maybe(group.median(|run| value(run.media.as_ref()?)))
        };
        let mut cells = names(report, group, media);
        cells.extend([
            of(|media| Some(media.held)),
            format::maybe_percent(group.median(|run| metrics::success(&run.counts))),
            format::maybe(group.median(FIGURES[1].2)),
            format::maybe(group.median(FIGURES[2].2)),
            format::maybe(group.median(FIGURES[3].2)),
            format::maybe(group.median(FIGURES[4].2)),
            of(|media| at(&media.figures.echo.delay, 50.0)),
            of(|media| at(&media.figures.echo.delay, 99.0)),
            format::maybe_percent(
                group.median(|run| {
                    run.media.as_ref().map(|media| 100.0 * media.figures.echo.loss())
                }),
            ),
            of(|media| media.figures.echo.mos()),
            of(|media| media.figures.echo.mos().map(|_| media.figures.echo.mos_min)),
            format::maybe(group.median(processors)),
            group.repeats(),
        ]);
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}

fn streams(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "Streams by direction (the last repeat; times in ms)",
        &[
            "System",
            "Media",
            "#Calls",
            "Direction",
            "#Streams",
            "#Packets expected",
            "#Lost",
            "#Out of order",
            "#Copies",
            "#Stopped",
            "#Delta p99",
            "#Max. delta",
            "#Mean jitter",
            "#Delay p50",
            "#Delay p99",
            "#Delay max",
        ],
    );
    for (group, media) in groups {
        let directions = [
            ("to the callee", media.figures.forward.as_ref()),
            ("back", Some(&media.figures.echo)),
        ];
        for (direction, streams) in directions {
            let Some(streams) = streams else { continue };
            let mut cells = names(report, group, media);
            cells.push(direction.to_owned());
            cells.extend(direction_cells(streams));
            table.row_doubtful(group.is_doubtful(), cells);
        }
    }
    table
}

fn direction_cells(streams: &Streams) -> Vec<String> {
    let counts = [
        streams.streams,
        streams.expected,
        streams.expected.saturating_sub(streams.received),
        streams.late,
        streams.duplicates,
        streams.stopped,
    ];
    let times = [
        at(&streams.delta, 99.0),
        longest(&streams.max_delta),
        mean(&streams.jitter),
        at(&streams.delay, 50.0),
        at(&streams.delay, 99.0),
        longest(&streams.delay),
    ];
    counts.map(format::count).into_iter().chain(times.map(format::maybe)).collect()
}

fn sound(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "What came back, compared with what was sent (the last repeat); RTCP",
        &[
            "System",
            "Media",
            "#Calls",
            "#Calls heard",
            "#Calls not heard",
            "#Payloads unchanged",
            "#Payloads wrong",
            "#Windows found",
            "#Windows not found",
            "#Datagrams refused",
            "#Reports sent",
            "#Reports received",
            "#Round trip by reports p50, ms",
        ],
    );
    for (group, media) in groups {
        let (sound, reports) = (&media.figures.sound, &media.figures.reports);
        let counts = [
            sound.heard,
            sound.unheard,
            sound.exact,
            sound.wrong,
            sound.windows,
            sound.failed,
            media.figures.refused,
            reports.sent,
            reports.received,
        ];
        let mut cells = names(report, group, media);
        cells.extend(counts.map(format::count));
        cells.push(format::maybe(at(&reports.round_trip, 50.0)));
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}

/// The DTLS handshakes of ends as in browsers.
fn handshakes(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "DTLS handshakes of both ends in the measured time (medians of the repeats; times from the answer to the keys, in ms)",
        &["System", "Media", "#Calls", "#Handshakes a second", "#Failed", "#p50", "#p99", "#Max"],
    );
    for (group, media) in groups {
        let Some(rate) = group.median(metrics::handshake_rate) else { continue };
        let of = |value: fn(&Media) -> Option<f64>| {
            format::maybe(group.median(|run| value(run.media.as_ref()?)))
        };
        let mut cells = names(report, group, media);
        cells.extend([
            format::figure(rate),
            of(|media| Some(media.figures.handshakes_failed as f64)),
            of(|media| at(&media.figures.handshakes, 50.0)),
            of(|media| at(&media.figures.handshakes, 99.0)),
            of(|media| longest(&media.figures.handshakes)),
        ]);
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}

/// The call that was observed closely.
fn observed(report: &Report<'_>, groups: &[(Group<'_>, &Media)], section: &mut Section) {
    let mut table = Table::new(
        "One observed call (the last repeat; times in ms)",
        &[
            "System",
            "Media",
            "#Calls",
            "#Call",
            "#Packets expected",
            "#Lost",
            "#Out of order",
            "#Copies",
            "#Mean jitter",
            "#Max. delta",
            "#MOS",
        ],
    );
    let axis = |title: &str| Axis::new(title, Scale::Linear);
    let mut chart =
        Chart::new("The heaviest load: one observed call", axis("seconds of the call"), axis("ms"));
    for (group, media) in groups {
        let Some(call) = &media.figures.observed else { continue };
        let lost = call.expected.saturating_sub(call.received);
        let counts = [call.call, call.expected, lost, call.late, call.duplicates];
        let times = [call.mean_jitter_us, call.max_delta_us].map(|us| us as f64 / 1000.0);
        let mut cells = names(report, group, media);
        cells.extend(counts.map(format::count));
        cells.extend(times.map(format::figure));
        cells.push(format::figure(call.mos));
        table.row_doubtful(group.is_doubtful(), cells);
    }
    let heaviest = groups.iter().filter(|(_, media)| media.figures.observed.is_some());
    if let Some((_, media)) = heaviest.max_by_key(|(_, media)| media.calls)
        && let Some(call) = &media.figures.observed
    {
        let points = |values: &[Option<u64>]| {
            let values = call.at.iter().zip(values);
            values.filter_map(|(at, us)| Some((*at, (*us)? as f64 / 1000.0))).collect::<Vec<_>>()
        };
        let all = |values: &[u64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        for (index, (label, values)) in [
            ("delta", all(&call.delta_us)),
            ("jitter", all(&call.jitter_us)),
            ("round trip", call.delay_us.clone()),
        ]
        .into_iter()
        .enumerate()
        {
            chart.line(Line::plain(label, Look::Number(index), points(&values)));
        }
    }
    section.table(table);
    section.chart(chart);
}

fn headroom(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "The generator alone, between its own ends without a server (delta p99 below 21 ms and no loss are required)",
        &[
            "System",
            "Media",
            "#Calls",
            "#Calls alone",
            "#Delta p99, ms",
            "#Loss",
            "#Busy",
            "Enough",
        ],
    );
    for (group, media) in groups {
        let Some(alone) = &media.headroom else { continue };
        let mut cells = names(report, group, media);
        let is_enough = alone.is_enough && alone.calls >= media.calls;
        cells.extend([
            format::count(alone.calls),
            format::figure(alone.delta_p99_us as f64 / 1000.0),
            format::percent(100.0 * alone.loss),
            format::percent(100.0 * alone.busy),
            if is_enough { "✓ yes" } else { "✗ NO" }.to_owned(),
        ]);
        table.row_doubtful(!is_enough, cells);
    }
    table
}
