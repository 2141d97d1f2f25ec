//! The progress display during a load.

use crate::agents::Force;
use crate::console::complain;
use crate::load::gather;
use crate::measure::LoadSpec;
use crate::record::{Second, tells};
use hdrhistogram::Histogram as Hdr;
use std::io::{IsTerminal, Write};
use std::sync::PoisonError;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The form of the progress display. It is written to standard error, so that standard output has
/// only the result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// No display.
    Quiet,
    /// A line per second.
    Lines,
    /// A few lines that are overwritten.
    Live,
}

impl Progress {
    /// Returns lines that are overwritten on a terminal, else plain lines.
    pub(crate) fn new(is_quiet: bool) -> Self {
        match (is_quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Live,
            (false, false) => Self::Lines,
        }
    }

    /// Writes a note.
    pub(crate) fn note(self, text: &str) {
        if !matches!(self, Self::Quiet) {
            complain(text);
        }
    }

    /// Displays the progress of a load until the result is dropped.
    pub(crate) fn show(
        self,
        force: &Force,
        spec: &LoadSpec,
        system: &str,
        label: &str,
    ) -> Option<Shown> {
        let title = format!(
            "{system}: {}{}{}, {:.0}/s offered",
            spec.operation.name(),
            if spec.authentication { " with authentication" } else { "" },
            if label.is_empty() { String::new() } else { format!(" ({label})") },
            spec.rate()
        );
        let total = (spec.warmup + spec.tail).as_micros() as f64 / 1e6 + spec.seconds();
        self.show_titled(force, title, Some(total))
    }

    /// As `show`, with this title. The length of the load is in seconds, if known.
    pub(crate) fn show_titled(
        self,
        force: &Force,
        title: String,
        total: Option<f64>,
    ) -> Option<Shown> {
        if matches!(self, Self::Quiet) {
            return None;
        }
        let shared = force.shared().clone();
        // Remove the seconds of an earlier load.
        shared.glances.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let tellers = force.tellers();
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                let mut view = View { progress: self, title, total, lines: 0 };
                let begun = Instant::now();
                let mut last = None;
                loop {
                    let look = match self {
                        Self::Live => Duration::from_millis(250),
                        _ => Duration::from_secs(1),
                    };
                    let wait = stopped.recv_timeout(look);
                    let now = gather(&shared, tellers);
                    let number = now.as_ref().map(|(number, ..)| *number);
                    if matches!(self, Self::Live) || (number.is_some() && number != last) {
                        view.draw(
                            begun.elapsed(),
                            now.as_ref().map(|(_, second, all)| (second, all)),
                        );
                        last = number;
                    }
                    if wait != Err(RecvTimeoutError::Timeout) {
                        view.clear();
                        return;
                    }
                }
            })
            .ok();
        Some(Shown { stop: Some(stop), thread })
    }
}

/// A progress display that ends when it is dropped.
pub(crate) struct Shown {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct View {
    progress: Progress,
    title: String,
    total: Option<f64>,
    lines: usize,
}

impl View {
    fn draw(&mut self, elapsed: Duration, now: Option<(&Second, &Hdr<u64>)>) {
        let seconds = elapsed.as_secs_f64();
        let text = match (self.progress, now) {
            (Progress::Live, None) => {
                format!("{}\n  getting ready, {seconds:.0} s\n", self.title)
            }
            (_, Some((second, _))) if second.offered == 0 && second.in_flight > 0 => {
                format!("{}: waiting for {} operations under way\n", self.title, second.in_flight)
            }
            (Progress::Live, Some((second, response))) => format!(
                "{}\n  {seconds:.0} s{}\n  rate      {}/s answered, {}/s failed, {} under way, \
                 {} sent again\n  response  {}\n",
                self.title,
                self.total
                    .map_or_else(String::new, |total| format!(" of {total:.0} s and waiting")),
                second.succeeded,
                second.failed,
                second.in_flight,
                second.retransmitted,
                delays(response, &[50.0, 99.0, 99.9]),
            ),
            (_, Some((second, response))) => format!(
                "{}: {}/s answered, {}/s failed, {} under way, {} sent again, {}\n",
                self.title,
                second.succeeded,
                second.failed,
                second.in_flight,
                second.retransmitted,
                delays(response, &[50.0, 99.0]),
            ),
            (_, None) => return,
        };
        self.clear();
        self.lines = text.lines().count();
        // A closed standard error does not stop the load.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn clear(&mut self) {
        if matches!(self.progress, Progress::Live) && self.lines > 0 {
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.lines);
        }
        self.lines = 0;
    }
}

/// Returns the percentiles with enough delays, and the maximum.
fn delays(response: &Hdr<u64>, percentiles: &[f64]) -> String {
    let told = percentiles.iter().filter(|&&percent| tells(response.len(), percent));
    let told = told.map(|&percent| {
        format!("p{percent} {}, ", time(response.value_at_percentile(percent).min(response.max())))
    });
    told.chain([format!("max {}", time(response.max()))]).collect()
}

/// Formats microseconds for reading.
pub(crate) fn time(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} us"),
        1000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}
