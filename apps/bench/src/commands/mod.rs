//! The commands. Each plans loads, has them measured, and draws conclusions from the runs.

mod beside;
mod burst;
mod capture;
mod compare;
mod cost;
mod error;
mod limit;
mod media;
mod metering;
mod output;
mod probe;
mod progress;
mod proxy;
mod qos;
mod qos_capture;
mod run;
mod scenario;
mod seeds;
mod session;
mod srtp;
mod summary;
mod sweep;
mod systems;
mod voice;
mod watch;
mod watching;

#[cfg(test)]
pub(crate) use sweep::conclusions;

use crate::cli::load::LoadArgs;
use crate::cli::{Cli, Command};
use crate::console::complain;
use crate::record::Operation;
use error::CommandError;
use nix::sys::signal::{SigHandler, Signal};
use sip::Duration;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the command. The exit status is 0 if all runs were valid and the criteria held, 1 if not, 2
/// for an error, and 3 if a search for the limit of a server ended at the ceiling of the generator.
pub(crate) fn execute(cli: Cli) -> ExitCode {
    let ending = Arc::new(AtomicBool::new(false));
    end_on_signals(&cli.command, &ending);
    let result = match cli.command {
        Command::Watch(args) => watch::open(&args).and_then(|watched| {
            let Some((mut command, watched)) = watched else { return Ok(true) };
            let result = check_and_run(&mut command, &ending);
            watched.finish(&result, &ending);
            result
        }),
        mut command => check_and_run(&mut command, &ending),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let status = error.status();
            complain(error);
            ExitCode::from(status)
        }
    }
}

/// Checks the options of the command, and runs it.
fn check_and_run(command: &mut Command, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    output::check(command)?;
    refuse_rate(command)?;
    take_to(command)?;
    check_media(command)?;
    if let Some(load) = load_of(command) {
        probe::settle(load, ending)?;
    }
    run_command(command, ending)
}

/// Sets `ending` on SIGINT, SIGTERM and SIGHUP; the second signal ends the program at once.
fn end_on_signals(command: &Command, ending: &Arc<AtomicBool>) {
    let has_load = !matches!(command, Command::Peer(_) | Command::Agent(_));
    let on_signal = Arc::clone(ending);
    let hangs_up = !is_ignored(Signal::SIGHUP);
    let handled = ctrlc::set_handler(move || {
        // The second signal ends the program without cleaning up.
        if on_signal.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        if has_load {
            complain(
                "stopping: no operation is started, and those in progress are awaited; Ctrl-C \
                 again ends at once",
            );
        }
    });
    if let Err(error) = handled {
        complain(format_args!("it cannot be stopped cleanly: {error}"));
    }
    if !hangs_up {
        // SAFETY: ignoring a signal installs no handler.
        let _ = unsafe { nix::sys::signal::signal(Signal::SIGHUP, SigHandler::SigIgn) };
    }
}

/// Returns true if the parent process has this program ignore `signal`, as `nohup` does.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

/// Rejects `--rate` for a command that sets its own rates.
fn refuse_rate(command: &mut Command) -> Result<(), CommandError> {
    let instead = match command {
        Command::Sweep(_) | Command::Proxy(_) => "--rates",
        Command::Burst(_) => "--registrations",
        Command::Media(_) => "--calls",
        Command::Qos(_) => "--callers",
        _ => return Ok(()),
    };
    match load_of(command).and_then(|load| load.rate) {
        Some(_) => Err(CommandError::Usage(format!("not --rate but {instead} sets this load"))),
        None => Ok(()),
    }
}

/// Rejects `--media` for a load that does not support it.
fn check_media(command: &mut Command) -> Result<(), CommandError> {
    let knows = matches!(
        command,
        Command::Run(_) | Command::Sweep(_) | Command::Limit(_) | Command::Proxy(_)
    );
    // The calls of `proxy` have a holding time of their own.
    let holds = match command {
        Command::Proxy(args) => Some(args.call),
        _ => None,
    };
    let Some(load) = load_of(command) else { return Ok(()) };
    if load.detail.media.is_none() {
        return Ok(());
    }
    let is_call = holds.is_some() || load.operation == Operation::Invite;
    let is_long = holds.unwrap_or(load.detail.hold) >= Duration::from_secs(1);
    if knows && is_call && is_long {
        return Ok(());
    }
    Err(CommandError::Usage(
        "--media is for run, sweep, limit and proxy, with calls (--operation invite) of one second \
         or more (--hold)"
            .to_owned(),
    ))
}

/// Applies `--to`, or rejects it for a command that does not support it.
fn take_to(command: &mut Command) -> Result<(), CommandError> {
    let knows = matches!(
        command,
        Command::Run(_) | Command::Sweep(_) | Command::Limit(_) | Command::Media(_)
    );
    let Some(load) = load_of(command) else { return Ok(()) };
    if load.to.is_some() && !knows {
        return Err(CommandError::Usage("--to is for run, sweep, limit and media".to_owned()));
    }
    load.take_to().map_err(CommandError::Usage)
}

/// Returns the load options of a command, if it has them.
fn load_of(command: &mut Command) -> Option<&mut LoadArgs> {
    match command {
        Command::Run(args) => Some(&mut args.load),
        Command::Sweep(args) => Some(&mut args.load),
        Command::Limit(args) => Some(&mut args.load),
        Command::Burst(args) => Some(&mut args.load),
        Command::Qos(args) => Some(&mut args.load),
        Command::Proxy(args) => Some(&mut args.load),
        Command::Media(args) => Some(&mut args.load),
        Command::Compare(args) => Some(&mut args.load),
        Command::Capture(_)
        | Command::Report(_)
        | Command::Peer(_)
        | Command::Agent(_)
        | Command::Cost(_)
        | Command::Srtp(_)
        | Command::Scenario(_)
        | Command::Seeds(_)
        | Command::Watch(_)
        | Command::Extras { .. } => None,
    }
}

fn run_command(command: &Command, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    match command {
        Command::Run(args) => run::execute(args, ending),
        Command::Sweep(args) => sweep::execute(args, ending),
        Command::Limit(args) => limit::execute(args, ending),
        Command::Burst(args) => burst::execute(args, ending),
        Command::Qos(args) => qos::execute(args, ending),
        Command::Proxy(args) => proxy::execute(args, ending),
        Command::Media(args) => media::execute(args, ending),
        Command::Compare(args) => compare::execute(args, ending),
        Command::Capture(args) => capture::run(args, ending).map(|()| true),
        Command::Report(args) => output::report(args),
        Command::Peer(args) => {
            crate::peer::serve(args, ending).map(|()| true).map_err(CommandError::from)
        }
        Command::Agent(args) => {
            crate::agents::serve(args.remove, ending);
            Ok(true)
        }
        Command::Cost(args) => cost::execute(args, ending),
        Command::Extras { folder } => {
            crate::cli::write_extras(folder).map(|()| true).map_err(CommandError::Extras)
        }
        Command::Srtp(args) => srtp::execute(args, ending),
        Command::Scenario(args) => scenario::execute(args, ending),
        Command::Seeds(args) => seeds::execute(args, ending),
        Command::Watch(_) => Err(CommandError::Usage("watch does not watch itself".to_owned())),
    }
}
