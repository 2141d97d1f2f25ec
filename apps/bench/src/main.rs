//! `barebell-bench`: measures the capacity and the delays of any SIP server, and reports them.

mod agents;
mod analysis;
mod bare;
mod capture;
mod ceiling;
mod cli;
mod commands;
mod console;
mod cpu;
mod curve;
mod encode;
mod flood;
mod lifetime;
mod link;
mod live;
mod load;
mod measure;
mod meters;
mod metrics;
mod peer;
mod record;
mod report;
mod require;
mod scenario;
mod seeds;
mod series;
mod ssh;
mod sut;
mod target;
mod tls;
mod traffic;
mod users;
mod voice;
mod watch;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::try_parse() {
        Ok(cli) => commands::execute(cli),
        Err(error) => match error.print() {
            Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Err(unprinted) => {
                console::complain(format_args!("standard output cannot be written: {unprinted}"));
                ExitCode::from(2)
            }
        },
    }
}
