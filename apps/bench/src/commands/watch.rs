//! `watch`: another command with a live page.

use super::error::CommandError;
use crate::cli::{Cli, Command, OutputArgs, WatchArgs};
use crate::console::complain;
use crate::live::{Board, LiveServer};
use clap::Parser;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval of checks for the end that the user requests.
const LOOK: Duration = Duration::from_millis(100);

/// The live page of a command.
pub(crate) struct Watched {
    board: Board,
    server: LiveServer,
    waits: bool,
}

/// Parses the command of `args`, and starts its live page. `None` if the command line only asks for
/// help, which is printed.
///
/// # Errors
/// [`CommandError`] if the command is invalid, has no course, or the address cannot be bound.
pub(crate) fn open(args: &WatchArgs) -> Result<Option<(Command, Watched)>, CommandError> {
    let words = std::iter::once("barebell-bench").chain(args.command.iter().map(String::as_str));
    let mut command = match Cli::try_parse_from(words) {
        Ok(cli) => cli.command,
        Err(error) if !error.use_stderr() => {
            error.print().map_err(CommandError::Print)?;
            return Ok(None);
        }
        Err(error) => return Err(CommandError::Usage(error.render().to_string())),
    };
    let Some(output) = output_of(&mut command) else {
        let text = "watch is for run, sweep, limit, burst, qos, proxy, media and compare";
        return Err(CommandError::Usage(text.to_owned()));
    };
    let board = Board::new(format!("barebell-bench {}", args.command.join(" ")));
    output.board = Some(board.clone());
    let server = LiveServer::start(args.listen, board.clone())
        .map_err(|error| CommandError::LivePage(args.listen, error))?;
    complain(format_args!("the course of the command is at {}", server.url));
    Ok(Some((command, Watched { board, server, waits: !args.no_wait })))
}

/// Returns the output options of a command with loads.
fn output_of(command: &mut Command) -> Option<&mut OutputArgs> {
    match command {
        Command::Run(args) => Some(&mut args.output),
        Command::Sweep(args) => Some(&mut args.output),
        Command::Limit(args) => Some(&mut args.output),
        Command::Burst(args) => Some(&mut args.output),
        Command::Qos(args) => Some(&mut args.output),
        Command::Proxy(args) => Some(&mut args.output),
        Command::Compare(args) => Some(&mut args.output),
        Command::Media(args) => Some(&mut args.output),
        _ => None,
    }
}

impl Watched {
    /// Shows the result of the command, and keeps the page until `ending` is set.
    pub(crate) fn finish(self, result: &Result<bool, CommandError>, ending: &AtomicBool) {
        let (text, good) = match result {
            Ok(true) => ("The command has ended: its checks passed.".to_owned(), true),
            Ok(false) => ("The command has ended: a check failed.".to_owned(), false),
            Err(error) => (format!("The command has failed: {error}"), false),
        };
        self.board.end(text, good);
        if !self.waits || ending.load(Ordering::Relaxed) {
            return;
        }
        complain(format_args!("the report stays at {}report until Ctrl-C", self.server.url));
        while !ending.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
    }
}
