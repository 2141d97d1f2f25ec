//! The figures of the streams in the measured time.

use super::{LINGER, LONG_ENOUGH, Worker};
use crate::voice::end::{CALLEE, CALLER, End, Window};
use crate::voice::found::add_stream;
use crate::voice::line::Line;
use crate::voice::signal::FRAME_MILLIS;
use sip::{Duration, Instant};

/// A stream that is silent for this time has stopped.
const STOPPED: Duration = Duration::from_secs(1);

impl Worker {
    /// Begins the measured time: what came before does not count.
    pub(super) fn begin_window(&mut self) {
        self.air.is_measuring = true;
        for end in self.ends.iter_mut().flatten() {
            if let Some(line) = &mut end.line {
                line.take_figures(None);
                (line.reports, line.refused) = ((0, 0), 0);
                end.window = Window { frames: line.frames, ..Window::default() };
            }
        }
    }

    /// Ends the measured time.
    pub(super) fn end_window(&mut self, now: Instant) {
        if !self.air.is_measuring {
            return;
        }
        for index in 0..self.ends.len() {
            if let Some(mut end) = self.ends[index].take() {
                self.close_streams(&mut end, now);
                self.ends[index] = Some(end);
            }
        }
        self.air.is_measuring = false;
    }

    /// Adds the figures of an end to the results.
    pub(super) fn close_streams(&mut self, end: &mut End, now: Instant) {
        let Some(mut line) = end.line.take() else { return };
        self.add_figures(end, &mut line, now);
        end.line = Some(line);
    }

    fn add_figures(&mut self, end: &mut End, line: &mut Line, now: Instant) {
        let found = &mut self.air.found;
        found.media.reports.sent += line.reports.0;
        found.media.reports.received += line.reports.1;
        found.media.refused += line.refused;
        let frames = line.frames - end.window.frames;
        let (until, is_stopped) = match end.side {
            CALLER => awaited(line, end, now),
            _ => (None, false),
        };
        let (mut figures, verified) = line.take_figures(until);
        if figures.expected == 0 && is_stopped {
            figures.expected = frames;
        }
        if figures.expected == 0 {
            return;
        }
        let delay = end.window.mean_delay();
        let codec = line.stream.codec;
        if end.side == CALLEE {
            add_stream(found.media.forward.get_or_insert_default(), &figures, codec, delay, false);
            return;
        }
        let mos = add_stream(&mut found.media.echo, &figures, codec, delay / 2, is_stopped);
        if end.was_heard || now.since(end.placed) >= LONG_ENOUGH {
            found.add_sound(verified, end.was_heard);
        }
        if let Some(mut observed) = end.observed.take() {
            let micros = |span: std::time::Duration| span.as_micros() as u64;
            observed.expected = figures.expected;
            observed.received = figures.received;
            observed.late = figures.late;
            observed.duplicates = figures.duplicates;
            observed.mean_jitter_us = micros(figures.mean_jitter);
            observed.max_delta_us = observed.delta_us.iter().copied().max().unwrap_or_default();
            observed.mos = mos;
            found.media.observed = Some(observed);
        }
    }
}

/// Returns the time until which packets were to come back to a caller, if packets that did not come
/// are lost; and true if the stream has stopped.
fn awaited(line: &Line, end: &End, now: Instant) -> (Option<Instant>, bool) {
    let Some(sent) = line.sent.as_ref() else { return (None, false) };
    let begun = sent.start + Duration::from_millis(end.window.frames * FRAME_MILLIS);
    let last_frame = end.audio_end - Duration::from_millis(FRAME_MILLIS);
    let until = now.min(last_frame);
    let is_stopped = until.since(line.last_arrival().unwrap_or(begun)) > STOPPED;
    // Packets of a call that goes on may still be under way.
    let is_over = now >= end.audio_end + LINGER;
    ((is_over || is_stopped).then_some(until), is_stopped)
}
