//! The progress display during a load.

use crate::agents::Force;
use crate::cli::OutputArgs;
use crate::console::complain;
use crate::live::Board;
use crate::load::gather;
use crate::measure::LoadSpec;
use crate::record::{Moment, Second, tells};
use crate::watch::Readings;
use hdrhistogram::Histogram as Hdr;
use std::io::{IsTerminal, Write};
use std::sync::PoisonError;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The progress display of the loads of a command, on a terminal and on the live page.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    form: Form,
    board: Option<Board>,
}

/// The form of the display on standard error. Standard output has only the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// No display.
    Quiet,
    /// A line per second.
    Lines,
    /// A few lines that are overwritten.
    Live,
}

impl Progress {
    /// Returns a display of lines that are overwritten on a terminal, else of plain lines; and of
    /// the live page that `output` names.
    pub(crate) fn new(output: &OutputArgs) -> Self {
        let form = match (output.quiet, std::io::stderr().is_terminal()) {
            (true, _) => Form::Quiet,
            (false, true) => Form::Live,
            (false, false) => Form::Lines,
        };
        Self { form, board: output.board.clone() }
    }

    /// Writes a note.
    pub(crate) fn note(&self, text: &str) {
        if self.form != Form::Quiet {
            complain(text);
        }
        if let Some(board) = &self.board {
            board.note(text);
        }
    }

    /// Displays the progress of a load, and the use of the server by `readings`, until the result
    /// is dropped.
    pub(crate) fn show(
        &self,
        force: &Force,
        spec: &LoadSpec,
        system: &str,
        label: &str,
        readings: Option<Readings>,
    ) -> Option<Shown> {
        let title = format!(
            "{system}: {}{}{}, {:.0}/s offered",
            spec.operation.name(),
            if spec.authentication { " with authentication" } else { "" },
            if label.is_empty() { String::new() } else { format!(" ({label})") },
            spec.rate()
        );
        let total = (spec.warmup + spec.tail).as_micros() as f64 / 1e6 + spec.seconds();
        self.show_titled(force, title, Some(total), readings)
    }

    /// As `show`, with this title. The length of the load is in seconds, if known.
    pub(crate) fn show_titled(
        &self,
        force: &Force,
        title: String,
        total: Option<f64>,
        readings: Option<Readings>,
    ) -> Option<Shown> {
        let shared = force.shared().clone();
        // Remove the seconds of an earlier load.
        shared.glances.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let tellers = force.tellers();
        self.start(self.form, title, total, readings, move || gather(&shared, tellers))
    }

    /// Displays the use of the server by `readings` on the live page, until the result is dropped.
    /// The load does not report each second.
    pub(crate) fn show_usage(&self, title: &str, readings: Option<Readings>) -> Option<Shown> {
        self.start(Form::Quiet, title.to_owned(), None, readings, || None)
    }

    /// Starts the thread of a display. `gather` returns the last complete second.
    fn start(
        &self,
        form: Form,
        title: String,
        total: Option<f64>,
        mut readings: Option<Readings>,
        gather: impl Fn() -> Option<(u64, Second, Hdr<u64>)> + Send + 'static,
    ) -> Option<Shown> {
        if form == Form::Quiet && self.board.is_none() {
            return None;
        }
        let board = self.board.clone();
        if let Some(board) = &board {
            board.begin_load(&title, total);
        }
        let (stop, stopped) = channel();
        let look = match form {
            Form::Live => Duration::from_millis(250),
            _ => Duration::from_secs(1),
        };
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                let mut view = View { form, title, total, lines: 0 };
                let begun = Instant::now();
                let (mut last, mut told) = (None, begun);
                loop {
                    let wait = stopped.recv_timeout(look);
                    let now = gather();
                    let number = now.as_ref().map(|(number, ..)| *number);
                    let is_new = number.is_some() && number != last;
                    if form == Form::Live || is_new {
                        let all = now.as_ref().map(|(_, second, all)| (second, all));
                        view.draw(begun.elapsed(), all);
                    }
                    // A load that does not report its seconds shows the use of the server alone.
                    let is_due = is_new || (number.is_none() && told.elapsed() >= SECOND);
                    if let Some(board) = board.as_ref().filter(|_| is_due) {
                        told = Instant::now();
                        let second =
                            now.filter(|_| is_new).map(|(_, second, all)| of(second, &all));
                        let usage = readings.as_mut().and_then(Readings::usage);
                        if second.is_some() || usage.is_some() {
                            board.push(Moment { at: board.seconds(), second, usage });
                        }
                    }
                    last = number;
                    if wait != Err(RecvTimeoutError::Timeout) {
                        view.clear();
                        board.inspect(Board::end_load);
                        return;
                    }
                }
            })
            .ok();
        Some(Shown { stop: Some(stop), thread })
    }
}

/// The interval of the use of a server, where the load does not report each second.
const SECOND: Duration = Duration::from_secs(1);

/// Returns `second` with the delays of `response`.
fn of(second: Second, response: &Hdr<u64>) -> Second {
    let at = |percent: f64| {
        tells(response.len(), percent).then(|| response.value_at_percentile(percent))
    };
    Second { p50_us: at(50.0), p99_us: at(99.0), max_us: response.max(), ..second }
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
    form: Form,
    title: String,
    total: Option<f64>,
    lines: usize,
}

impl View {
    fn draw(&mut self, elapsed: Duration, now: Option<(&Second, &Hdr<u64>)>) {
        let seconds = elapsed.as_secs_f64();
        let text = match (self.form, now) {
            (Form::Live, None) => {
                format!("{}\n  getting ready, {seconds:.0} s\n", self.title)
            }
            (_, Some((second, _))) if second.offered == 0 && second.in_flight > 0 => {
                format!("{}: waiting for {} operations under way\n", self.title, second.in_flight)
            }
            (Form::Live, Some((second, response))) => format!(
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
        if self.form == Form::Quiet {
            return;
        }
        self.clear();
        self.lines = text.lines().count();
        // A closed standard error does not stop the load.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn clear(&mut self) {
        if self.form == Form::Live && self.lines > 0 {
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
