//! `barebell-bench capture`: prints and reports the analysis of captures.

use super::error::CommandError;
use crate::capture::{Analysis, CaptureError, Reading, Tables, analyse, join, listen};
use crate::cli::capture::CaptureArgs;
use crate::report;
use std::io::{self, Write as _};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Prints the analyses, also if some captures cannot be read.
///
/// # Errors
/// [`CommandError`] for invalid or unreadable captures, after the others were printed.
pub(crate) fn run(args: &CaptureArgs, ending: &AtomicBool) -> Result<(), CommandError> {
    args.output.iter().try_for_each(|path| report::check_page(path))?;
    let mut printer = Printer { json: args.json, calls: args.calls, printed: 0 };
    let (mut reported, mut errors) = (Vec::new(), Vec::new());
    if let Some(name) = &args.interface {
        let duration = args.duration.map(Duration::from);
        let analysis = listen(name, duration, ending, Reading::new(&args.rtpmap), || {
            eprintln!("barebell-bench: listening to {name}");
        })?;
        printer.print(&analysis)?;
        reported.extend(args.output.is_some().then_some(analysis));
    }
    let analyses: Box<dyn Iterator<Item = _>> = match args.join {
        true => Box::new(std::iter::once_with(|| join(&args.files, Reading::new(&args.rtpmap)))),
        false => Box::new(args.files.iter().map(|file| analyse(file, Reading::new(&args.rtpmap)))),
    };
    for analysis in analyses {
        match analysis {
            Ok(analysis) => {
                printer.print(&analysis)?;
                reported.extend(args.output.is_some().then_some(analysis));
            }
            Err(error) => errors.push(error),
        }
    }
    printer.finish()?;
    if let Some(path) = &args.output {
        report::write_capture(&reported, path)?;
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0).into()),
        _ => Err(CaptureError::Some(errors).into()),
    }
}

/// Prints analyses one by one.
struct Printer {
    json: bool,
    calls: bool,
    printed: usize,
}

impl Printer {
    fn print(&mut self, analysis: &Analysis) -> Result<(), CommandError> {
        let mut out = io::stdout().lock();
        let result = if self.json {
            let separator = if self.printed == 0 { "[" } else { "," };
            writeln!(out, "{separator}")
                .and_then(|()| Ok(serde_json::to_writer_pretty(&mut out, analysis)?))
        } else {
            let text = Tables { analysis, calls: self.calls };
            write!(out, "{text}")
        };
        self.printed += 1;
        result.map_err(|error| CaptureError::Write(error).into())
    }

    fn finish(&self) -> Result<(), CommandError> {
        if !self.json {
            return Ok(());
        }
        let end = if self.printed == 0 { "[]" } else { "\n]" };
        writeln!(io::stdout().lock(), "{end}").map_err(|error| CaptureError::Write(error).into())
    }
}
