//! The options of the experiments of the source documents.

use crate::seeds::part::Part;
use clap::Args;
use std::path::PathBuf;

/// The options of the experiments of the source documents.
#[derive(Debug, Args)]
pub(crate) struct SeedsArgs {
    /// The parts to measure [default: all]
    #[arg(long, value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub(crate) part: Vec<Part>,
    /// The loads and lengths of the sources: hours; otherwise a short form of less than 45 minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// The servers
    #[arg(long, value_name = "SYSTEM", default_values = ["barebell", "kamailio"])]
    pub(crate) sut: Vec<String>,
    /// The folder with the images of the bare machine, `server` and `phone` [default: that of this
    /// program, or target/image]
    #[arg(long, value_name = "DIR")]
    pub(crate) images: Option<PathBuf>,
    /// The folder for the page, its figures and all records. Records of parts that are not measured
    /// now are kept, and stay on the page
    #[arg(long, short, value_name = "DIR", default_value = "barebell-bench-seeds")]
    pub(crate) output: PathBuf,
    /// Measure nothing, and list the parts with their figures and needs
    #[arg(long, conflicts_with_all = ["part", "full"])]
    pub(crate) list: bool,
    /// Measure nothing, and print the numbers of the sources as Markdown
    #[arg(long, conflicts_with_all = ["part", "full", "list"])]
    pub(crate) numbers: bool,
    /// Measure nothing, and print as Markdown what the sources describe, and where it is here
    #[arg(long, conflicts_with_all = ["part", "full", "list", "numbers"])]
    pub(crate) rows: bool,
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
