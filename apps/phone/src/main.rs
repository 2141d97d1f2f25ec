//! `barebell-phone`: a softphone for the shell.

mod audio;
mod call;
mod cli;
mod config;
mod front;
mod leg;
mod links;
mod lookups;
mod outcome;
mod phone;
mod report;
mod sip_log;

use audio::Source;
use clap::Parser;
use cli::{Cli, Command, LineArgs};
use front::Front;
use leg::Sound;
use media::Wishes;
use outcome::Outcome;
use phone::{Phone, Setup};
use report::Report;
use std::net::Ipv4Addr;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = run(Cli::parse()).unwrap_or_else(|outcome| outcome);
    if outcome != Outcome::Done {
        eprintln!("barebell-phone: {outcome}");
    }
    outcome.into()
}

fn run(cli: Cli) -> Result<Outcome, Outcome> {
    let (setup, mut front): (Setup, Box<dyn Front>) = match cli.command {
        Command::Call(args) => {
            let report = Report::new(args.line.json);
            let front = front::Call::new(args.uri, args.duration, report);
            (setup(&args.line, false, 0)?, Box::new(front))
        }
        Command::Answer(args) => {
            let report = Report::new(args.line.json);
            let front = front::Answer::new(args.auto, args.calls, report);
            (setup(&args.line, args.echo, 5060)?, Box::new(front))
        }
        Command::Control(args) => {
            let front = front::Control::new(Report::new(true));
            (setup(&args.line, false, 5060)?, Box::new(front))
        }
    };
    Ok(front::run(Phone::new(setup)?, &mut *front))
}

/// What a phone is started with, whose port without `--listen` is `port`.
fn setup(line: &LineArgs, echo: bool, port: u16) -> Result<Setup, Outcome> {
    let accounts = match &line.config {
        Some(path) => config::accounts(path, line.account.as_deref()).map_err(Outcome::Usage)?,
        None => Vec::new(),
    };
    let sound = match echo {
        true => Sound::Echo,
        false => Sound::Source(Source::named(&line.play).map_err(Outcome::Usage)?),
    };
    let mut wishes = Wishes { security: line.srtp.into(), ..Wishes::default() };
    if let Some(suites) = &line.suites {
        wishes.suites.clone_from(suites);
    }
    Ok(Setup {
        accounts,
        listen: line.listen.unwrap_or((Ipv4Addr::UNSPECIFIED, port).into()),
        wishes,
        sound,
        record: line.record.clone(),
        sip_log: line.sip_log.clone(),
        incoming_calls: 4,
    })
}
