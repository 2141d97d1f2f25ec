//! `barebell-phone`: a softphone for the shell.

mod audio;
mod call;
mod cli;
mod config;
mod front;
mod impression;
mod junit;
mod leg;
mod links;
mod lookups;
mod outcome;
mod phone;
mod report;
mod saved;
mod system;
mod trace;
mod warnings;

use audio::Source;
use clap::Parser;
use cli::{Cli, Command, LineArgs};
use front::Front;
use front::Judge;
use leg::Sound;
use media::Wishes;
use media::ear::Ear;
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
    let Some(command) = cli.command else { return run_screen(&cli.line) };
    let (setup, mut front): (Setup, Box<dyn Front>) = match command {
        Command::Call(args) => {
            let report = Report::new(args.line.json);
            let judge = Judge::new(args.expected.all(), args.expected.junit, report);
            let ear = judge.ear();
            let front = front::Call::new(args.uri, args.duration, report, judge);
            (Setup { ear, ..setup(&args.line, false, 0)? }, Box::new(front))
        }
        Command::Answer(args) => {
            let report = Report::new(args.line.json);
            let judge = Judge::new(args.expected.all(), args.expected.junit, report);
            let ear = judge.ear();
            let front = front::Answer::new(args.auto, args.calls, report, judge);
            (Setup { ear, ..setup(&args.line, args.echo, 5060)? }, Box::new(front))
        }
        Command::Control(args) => {
            let front = front::Control::new(Report::new(true));
            (setup(&args.line, false, 5060)?, Box::new(front))
        }
    };
    Ok(front::run(Phone::new(setup)?, &mut *front))
}

/// The phone that has the whole screen. Its configuration may be where nobody has named it, or not be there yet.
fn run_screen(line: &LineArgs) -> Result<Outcome, Outcome> {
    if line.json {
        let text = "--json goes with a command: call, answer or control";
        return Err(Outcome::Usage(text.into()));
    }
    front::Screen::check().map_err(Outcome::Usage)?;
    let path = line.config.clone().or_else(config::default_path);
    let is_there = path.as_ref().is_some_and(|path| path.exists());
    let wanted = line.account.as_deref();
    let config = match &path {
        Some(path) if is_there || wanted.is_some() => {
            config::read(path, wanted).map_err(Outcome::Usage)?
        }
        _ => config::Config::default(),
    };
    let setup = Setup {
        accounts: config.accounts,
        ..setup(&LineArgs { config: None, ..line.clone() }, false, 5060)?
    };
    let phone = Phone::new(setup)?;
    let mut screen = front::Screen::open(config.dials, path).map_err(Outcome::Failed)?;
    Ok(front::run(phone, &mut screen))
}

/// What a phone is started with, whose port without `--listen` is `port`.
fn setup(line: &LineArgs, echo: bool, port: u16) -> Result<Setup, Outcome> {
    let accounts = match &line.config {
        Some(path) => config::read(path, line.account.as_deref()).map_err(Outcome::Usage)?.accounts,
        None => Vec::new(),
    };
    let sound = match echo {
        true => Sound::Echo,
        false => Sound::Source(Source::named(&line.play).map_err(Outcome::Usage)?),
    };
    Ok(Setup {
        accounts,
        listen: line.listen.unwrap_or((Ipv4Addr::UNSPECIFIED, port).into()),
        wishes: Wishes { security: line.srtp.into(), ..Wishes::default() },
        sound,
        early: line.early,
        ear: Ear::default(),
        record: line.record.clone(),
        incoming_calls: 4,
    })
}
