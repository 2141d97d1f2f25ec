//! The page of the relayed calls: two rows for each, with the packets of the caller and those of
//! the callee.

use super::clock::Clock;
use crate::screen::page::hint;
use crate::screen::{Grid, Style};
use crate::server::media::RelayedMedia;
use crate::server::quality::{Milliseconds, Score, codec, party};
use alloc::string::ToString;
use alloc::vec::Vec;
use sip::Instant;

/// The rows of a call.
pub(super) const ROWS: usize = 2;

/// Draws the calls after the first `skipped`, in the order of their beginnings.
pub(super) fn draw(grid: &mut Grid, media: Option<&RelayedMedia>, skipped: usize, now: Instant) {
    let reports = media.map(RelayedMedia::reports).unwrap_or_default();
    let mut order: Vec<_> = reports.iter().map(|report| report.created).zip(0..).collect();
    order.sort_unstable();
    // The remaining columns are for names.
    let name = grid.width().saturating_sub(56).max(1);
    let labels = ["time", "codec", "packets", "lost", "jitter", "MOS"];
    let columns = [name + 2, name + 13, name + 28, name + 37, name + 44, name + 51];
    grid.print(1, 1, Style::Label, format_args!("caller, callee"));
    for (label, column) in labels.into_iter().zip(columns) {
        grid.print(1, column, Style::Label, format_args!("{label}"));
    }
    let room = grid.height().saturating_sub(3) / ROWS;
    let shown = order.iter().skip(skipped).take(room);
    let count = shown.len();
    for (at, &(_, number)) in shown.enumerate() {
        let report: &relay::CallReport = &reports[number];
        let [time, codecs, packets, lost, jitter, score] = columns;
        let row = 2 + ROWS * at;
        let state = match report.answered {
            Some(answered) => Clock(now.since_epoch().saturating_sub(answered).into()).to_string(),
            None => "rings".into(),
        };
        grid.print(row, time, Style::Plain, format_args!("{state:>9}"));
        for (side, uri) in report.parties.iter().enumerate() {
            let row = row + side;
            let party = party(uri);
            grid.print(row, 1, Style::Strong, format_args!("{party:.name$}"));
            let Some(direction) = report.streams.first().map(|stream| &stream[side]) else {
                continue;
            };
            grid.print(row, codecs, Style::Plain, format_args!("{:.14}", codec(direction)));
            grid.print(row, packets, Style::Plain, format_args!("{:>7}", direction.packets));
            if let Some(number) = direction.lost {
                grid.print(row, lost, Style::Plain, format_args!("{number:>4}"));
            }
            if let Some(time) = direction.jitter {
                grid.print(row, jitter, Style::Plain, format_args!("{}", Milliseconds(time)));
            }
            if let Some(number) = direction.mean_opinion_score {
                grid.print(row, score, Style::Plain, format_args!("{}", Score(number)));
            }
        }
    }
    let (first, last) = (skipped + usize::from(count > 0), skipped + count);
    hint(grid, format_args!("{first}-{last} of {}   Page Up, Page Down", order.len()));
}
