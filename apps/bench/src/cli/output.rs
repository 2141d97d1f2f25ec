//! The options for the output of a command.

use crate::live::Board;
use crate::record::{Criterion, Run};
use crate::require::Requirements;
use clap::Args;
use std::path::PathBuf;

/// The options for the output of a command.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// The criteria for exit status 0, such as 'success>=100%,srd.p99<50ms'
    #[arg(long, value_name = "CRITERIA")]
    pub(crate) require: Option<Requirements>,
    /// The report file; the suffix selects the form: .html .md .csv .json .xml (JUnit); may be
    /// repeated [default: a .json and a .html file named after the command and the time]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Write no report
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Print the record as JSON in place of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The board of the live page, if there is one.
    #[arg(skip)]
    pub(crate) board: Option<Board>,
}

impl OutputArgs {
    /// Evaluates the criteria over `runs`.
    pub(crate) fn criteria(&self, runs: &[Run]) -> Vec<Criterion> {
        self.require.as_ref().map(|require| require.check(runs)).unwrap_or_default()
    }
}
