//! `barebell`: a secure SIP telephone server.

mod access;
mod account_command;
mod accounts;
mod acme;
mod admin;
mod b2bua;
mod backup;
mod backup_command;
mod call_lines;
mod calls;
mod certificates;
mod check;
mod cli;
mod config_file;
mod data_dir;
mod decisions;
mod descriptors;
mod doctor;
mod domains;
mod draining;
mod exposition;
mod failure;
mod groups;
mod history;
mod http;
mod http_client;
mod keep_alive;
mod kept_messages;
mod limits_command;
mod listen;
mod log;
mod media;
mod media_server;
mod messages;
mod named_files;
mod ng;
mod output;
mod page;
mod panel_settings;
mod password_input;
mod push;
mod registrations;
mod remote;
mod route_command;
mod screens;
mod serve;
mod served_domains;
mod settings;
mod storage;
mod times;
mod token_command;
mod trace;
mod traces;
mod trunks;
mod trunks_command;
mod turn;
mod turn_command;
mod user_services;
mod users;
mod voicemail;
mod voicemail_command;
mod why;
mod why_command;

use admin::client::Client;
use cli::{Cli, Command, ServeFlags};
use data_dir::DataDir;
use failure::Failure;
use output::Out;
use serve::Setup;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// The memory of a call is freed half a minute later, between allocations of newer calls. An
/// allocator with size classes is faster with that pattern.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::of_process();
    let mut out = Out::new();
    let result = match &cli.command {
        None => serve(&cli.serve),
        Some(Command::Serve(flags)) => serve(flags),
        Some(Command::User(command)) => users::run(command, &mut out),
        Some(Command::Status(flags)) => screens::status(flags, &mut out),
        Some(Command::Registrations(flags)) => registrations::run(flags, &mut out),
        Some(Command::Calls(flags)) => calls::run(flags, &mut out),
        Some(Command::Trunks(flags)) => trunks_command::run(flags, &mut out),
        Some(Command::Limits(flags)) => limits_command::run(flags, &mut out),
        Some(Command::Messages(flags)) => messages::run(flags, &mut out),
        Some(Command::Trace(flags)) => traces::run(flags, &mut out),
        Some(Command::Why(flags)) => why_command::run(flags, &mut out),
        Some(Command::Route(flags)) => route_command::run(flags, &mut out),
        Some(Command::Turn(flags)) => turn_command::run(flags, &mut out),
        Some(Command::Voicemail(command)) => voicemail_command::run(command, &mut out),
        Some(Command::Account(command)) => account_command::run(command, &mut out),
        Some(Command::Token(command)) => token_command::run(command, &mut out),
        Some(Command::Backup(flags)) => backup_command::backup(flags, &mut out),
        Some(Command::Restore(flags)) => backup_command::restore(flags, &mut out),
        Some(Command::Drain(flags)) => draining::run(flags, &mut out),
        Some(Command::Check(flags)) => check::run(flags, &mut out),
        Some(Command::Doctor(flags)) => doctor::run(flags, &mut out),
        Some(Command::Extras { folder }) => cli::write_extras(folder).map_err(Failure::from),
    };
    match result.and_then(|()| out.flush()) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Found) => {
            let _ = out.flush();
            ExitCode::FAILURE
        }
        Err(Failure::State(status)) => {
            let _ = out.flush();
            ExitCode::from(status)
        }
        Err(Failure::Message(text)) => {
            let _ = out.flush();
            // If standard error is closed, the exit status still reports the failure.
            let _ = writeln!(std::io::stderr(), "error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn serve(flags: &ServeFlags) -> Result<(), Failure> {
    let settings = flags.settings()?;
    let is_secure = settings.listens().iter().any(|listen| listen.transport.is_secure());
    if let Some(config) = flags.place.config.as_ref().filter(|_| is_secure) {
        let unreadable = config_file::unreadable_files(config);
        if !unreadable.is_empty() {
            return Err(Failure::message(unreadable.join("\nerror: ")));
        }
    }
    let data = settings.data()?;
    let directory = DataDir::open(&data, || Client::connect(&data))?.map_err(|_| {
        Failure::message(format!(
            "a server runs already with the data in {}: stop it first, or choose another directory \
             with --data",
            data.display()
        ))
    })?;
    let storage = Arc::new(storage::open(directory)?);
    let place = flags.place.clone();
    let flags = flags.clone();
    let read_again = Arc::new(move || Ok(flags.settings()?));
    serve::run(Setup { settings, data, storage, place, read_again })
}
