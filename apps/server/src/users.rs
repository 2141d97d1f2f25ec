//! The `barebell user` commands, on a running server or on its data.

use crate::accounts;
use crate::admin::client::Client;
use crate::admin::{Request, UserRemoved, UserRow, UsersStored};
use crate::cli::{Password, Place, UserCommand, UserFlags};
use crate::data_dir::DataDir;
use crate::domains::{self, Host};
use crate::failure::{Failure, during};
use crate::output::Out;
use crate::settings::Settings;
use crate::storage::{Storage, remembered_domains};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use sip_server::config::Domain;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

/// Does what `command` says.
///
/// # Errors
/// When it cannot be done.
pub(crate) fn run(command: &UserCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        UserCommand::Add { name, password, auth_name, user } => {
            add(name, password, auth_name.as_deref(), user, out)
        }
        UserCommand::Import { file, user } => import(file, user, out),
        UserCommand::List { user, json } => list(user, *json, out),
        UserCommand::Remove { name, user } => remove(name, user, out),
    }
}

fn add(
    name: &str,
    password: &Password,
    auth_name: Option<&str>,
    flags: &UserFlags,
    out: &mut Out,
) -> Result<(), Failure> {
    let password = match &password.password {
        Some(password) => password.clone(),
        None => read_password()?,
    };
    let stored = match Access::open(&flags.place)? {
        Access::Running(client) => client.ask(&Request::AddUser {
            name: name.to_owned(),
            domain: flags.domain.clone(),
            password,
            auth_name: auth_name.map(str::to_owned),
        })?,
        Access::Stopped(storage, domains) => {
            let identity = accounts::identify(name, flags.domain.as_deref(), &domains)?;
            let stored = accounts::add(&storage, &identity, &password, auth_name)?;
            let (added, changed) = (stored.change.added, stored.change.changed);
            let served = domains::find(&domains, &identity.domain).is_some();
            UsersStored {
                added,
                changed,
                uri: Some(identity.uri()),
                domain: identity.domain,
                served,
            }
        }
    };
    let uri = stored.uri.as_deref().unwrap_or(name);
    out.line(&match stored.added {
        0 => format!("changed the password of {uri}"),
        _ => format!("added {uri}"),
    })?;
    note_unserved(&stored);
    Ok(())
}

fn import(file: &Path, flags: &UserFlags, out: &mut Out) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    match file.to_str() {
        Some("-") => io::stdin().read_to_end(&mut bytes).map(drop),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)).map(drop),
    }
    .map_err(during(format!("cannot read {}", file.display())))?;
    let stored: UsersStored = match Access::open(&flags.place)? {
        Access::Running(client) => {
            let (domain, length) = (flags.domain.clone(), bytes.len() as u64);
            client.ask_with(&Request::ImportUsers { domain, length }, &bytes)?
        }
        Access::Stopped(storage, domains) => {
            let domain = accounts::domain("the file", flags.domain.as_deref(), &domains)?;
            let change = accounts::import(&storage, &domain, &mut &*bytes)?.change;
            let served = domains::find(&domains, &domain).is_some();
            let (added, changed) = (change.added, change.changed);
            UsersStored { added, changed, uri: None, domain, served }
        }
    };
    out.line(&format!(
        "imported {} users into {}: {} new, {} with a new password",
        stored.added + stored.changed,
        stored.domain,
        stored.added,
        stored.changed
    ))?;
    note_unserved(&stored);
    Ok(())
}

fn list(flags: &UserFlags, json: bool, out: &mut Out) -> Result<(), Failure> {
    let mut found = 0_u64;
    let mut show = |user: UserRow| {
        found += 1;
        if json {
            out.json(&user)
        } else {
            let uri = domains::sip_uri(&user.name, &user.domain);
            let auth = user.auth_name.map(|name| format!(" (logs in as {name}, too)"));
            out.line(&format!("{}{}", uri.trim_start_matches("sip:"), auth.unwrap_or_default()))
        }
    };
    match Access::open_existing(&flags.place)? {
        Some(Access::Running(client)) => {
            client.list(&Request::Users { domain: flags.domain.clone() }, &mut show)?;
        }
        Some(Access::Stopped(storage, _)) => {
            let mut result = Ok(());
            storage.users(flags.domain.as_deref(), &mut |user| {
                result = show(UserRow::from(user));
                result.is_ok()
            })?;
            result?;
        }
        None => {}
    }
    if found == 0 {
        note("there are no users; `barebell user add NAME --password-stdin` adds one");
    }
    Ok(())
}

fn remove(name: &str, flags: &UserFlags, out: &mut Out) -> Result<(), Failure> {
    let domain = flags.domain.clone();
    let removed = match Access::open(&flags.place)? {
        Access::Running(client) => {
            client.ask(&Request::RemoveUser { name: name.to_owned(), domain })?
        }
        Access::Stopped(storage, domains) => {
            let identity = accounts::identify(name, domain.as_deref(), &domains)?;
            accounts::remove(&storage, &identity)?;
            UserRemoved { uri: identity.uri() }
        }
    };
    out.line(&format!("removed {}", removed.uri))
}

/// How the data is reached.
pub(crate) enum Access {
    /// Through the server that uses it.
    Running(Client),
    /// Directly, with the domains that a server would serve.
    Stopped(Storage, Vec<Domain>),
}

impl Access {
    /// Reaches the data in `place`, and makes the directory if there is none.
    ///
    /// # Errors
    /// When the data cannot be reached.
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        Self::of(place, &place.settings()?)
    }

    /// Like [`Access::open`]; `None` if there is no such directory.
    ///
    /// # Errors
    /// When the data cannot be reached.
    pub(crate) fn open_existing(place: &Place) -> Result<Option<Self>, Failure> {
        let settings = place.settings()?;
        if settings.data()?.exists() { Self::of(place, &settings).map(Some) } else { Ok(None) }
    }

    fn of(place: &Place, settings: &Settings) -> Result<Self, Failure> {
        let data = settings.data()?;
        let directory = match DataDir::open(&data, || Client::connect(&data))? {
            Ok(directory) => directory,
            Err(client) => return Ok(Self::Running(client)),
        };
        let storage = Storage::open(directory)?;
        let remembered = match place.config {
            Some(_) => None,
            None => remembered_domains(&storage)?,
        };
        let served = || {
            let mut domains = domains::served(&settings.engine.domains, &Host::this());
            if settings.engine.domains.is_empty() {
                // Which domain the server will serve is not known, so what is said means itself.
                domains.iter_mut().for_each(|domain| domain.aliases.clear());
            }
            domains
        };
        Ok(Self::Stopped(storage, remembered.unwrap_or_else(served)))
    }
}

fn read_password() -> Result<String, Failure> {
    let stdin = io::stdin();
    let mut line = String::new();
    let read = if stdin.is_terminal() {
        let _ = write!(io::stderr(), "password: ");
        let shown = tcgetattr(&stdin)?;
        let mut hidden = shown.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&stdin, SetArg::TCSAFLUSH, &hidden)?;
        let read = stdin.read_line(&mut line);
        tcsetattr(&stdin, SetArg::TCSAFLUSH, &shown)?;
        let _ = writeln!(io::stderr());
        read
    } else {
        stdin.read_line(&mut line)
    };
    read.map_err(during("cannot read the password"))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn note_unserved(stored: &UsersStored) {
    if !stored.served {
        note(&format!(
            "{} is not among the domains that the server serves: its users can log in once it is \
             (--domain of `barebell serve`, or `domains` in the configuration)",
            stored.domain
        ));
    }
}

/// Says something on standard error, which may be closed.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}
