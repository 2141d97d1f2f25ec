//! `barebell-phone`: a softphone for the shell.

mod audio;
mod call;
mod cli;
mod config;
mod exit;
mod leg;
mod lookups;
mod phone;
mod report;

use clap::Parser;
use cli::{Cli, Command};
use exit::Outcome;
use phone::{Phone, Task};
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = run(Cli::parse()).unwrap_or_else(|outcome| outcome);
    if outcome != Outcome::Done {
        eprintln!("barebell-phone: {outcome}");
    }
    outcome.into()
}

fn run(cli: Cli) -> Result<Outcome, Outcome> {
    let phone = match cli.command {
        Command::Call(args) => {
            let task = Task::Call { uri: args.uri, duration: args.duration };
            Phone::new(task, &args.line, false, 0)?
        }
        Command::Answer(args) => {
            let task = Task::Answer { auto: args.auto, calls: args.calls };
            Phone::new(task, &args.line, args.echo, 5060)?
        }
    };
    Ok(phone.run())
}
