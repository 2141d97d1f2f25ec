//! The `barebell user` commands.

use crate::access::Access;
use crate::accounts;
use crate::admin::ask::Ask;
use crate::admin::{Request, UserRemoved, UserRow, UsersMoved, UsersStored};
use crate::cli::{Password, Place, UserCommand, UserFlags};
use crate::domains;
use crate::failure::{Failure, during};
use crate::output::{Out, note};
use crate::user_services;
use std::io::{self, Read};
use std::path::Path;

/// Runs `command`.
///
/// # Errors
/// [`Failure`] if the command fails.
pub(crate) fn run(command: &UserCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        UserCommand::Add { name, password, auth_name, user } => {
            add(name, password, auth_name.as_deref(), user, out)
        }
        UserCommand::Import { file, dry_run, user } => import(file, *dry_run, user, out),
        UserCommand::List { user, json } => list(user, *json, out),
        UserCommand::Forward { name, forwards, user } => {
            user_services::forward(name, forwards, user, out)
        }
        UserCommand::Dnd { name, is_on, user } => {
            user_services::do_not_disturb(name, *is_on, user, out)
        }
        UserCommand::Move { from, to, place } => move_users(from, to, place, out),
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
    let password = password.given()?;
    let stored: UsersStored = Access::open(&flags.place)?.ask(&Request::AddUser {
        name: name.to_owned(),
        domain: flags.domain.clone(),
        password,
        auth_name: auth_name.map(str::to_owned),
    })?;
    let uri = stored.uri.as_deref().unwrap_or(name);
    out.line(&match (stored.added, stored.changed) {
        (0, 0) => format!("{uri} has this password already: its registrations stay"),
        (0, _) => format!("changed the password of {uri}"),
        _ => format!("added {uri}"),
    })?;
    note_unserved(&stored.domain, stored.served);
    Ok(())
}

fn import(file: &Path, dry_run: bool, flags: &UserFlags, out: &mut Out) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    match file.to_str() {
        Some("-") => io::stdin().read_to_end(&mut bytes).map(drop),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)).map(drop),
    }
    .map_err(during(format!("cannot read {}", file.display())))?;
    let (domain, length) = (flags.domain.clone(), bytes.len() as u64);
    let request = Request::ImportUsers { domain, length, dry_run };
    let stored: UsersStored = Access::open(&flags.place)?.ask_with(&request, &bytes)?;
    if stored.mistake_count > 0 {
        let (named, count) = (stored.mistakes, stored.mistake_count);
        return Err(Failure::message(accounts::Error::BadLines { named, count }.to_string()));
    }
    let done = if dry_run { "dry run: would import" } else { "imported" };
    out.line(&format!(
        "{done} {} users into {}: {} new, {} with a new password",
        stored.added + stored.changed + stored.unchanged,
        stored.domain,
        stored.added,
        stored.changed
    ))?;
    note_unserved(&stored.domain, stored.served);
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
            let services = match user.services.in_words() {
                words if words.is_empty() => words,
                words => format!(" ({words})"),
            };
            let uri = uri.trim_start_matches("sip:");
            out.line(&format!("{uri}{}{services}", auth.unwrap_or_default()))
        }
    };
    if let Some(access) = Access::open_existing(&flags.place)? {
        access.list(&Request::Users { domain: flags.domain.clone() }, &mut show)?;
    }
    if found == 0 {
        note("there are no users; `barebell user add NAME --password-stdin` adds one");
    }
    Ok(())
}

fn move_users(from: &str, to: &str, place: &Place, out: &mut Out) -> Result<(), Failure> {
    let request = Request::MoveUsers { from: from.to_owned(), to: to.to_owned() };
    let moved: UsersMoved = Access::open(place)?.ask(&request)?;
    out.line(&format!("moved {} users from {from} to {}", moved.moved, moved.domain))?;
    note_unserved(&moved.domain, moved.served);
    Ok(())
}

fn remove(name: &str, flags: &UserFlags, out: &mut Out) -> Result<(), Failure> {
    let request = Request::RemoveUser { name: name.to_owned(), domain: flags.domain.clone() };
    let removed: UserRemoved = Access::open(&flags.place)?.ask(&request)?;
    out.line(&format!("removed {}", removed.uri))
}

fn note_unserved(domain: &str, is_served: bool) {
    if !is_served {
        note(&format!(
            "{domain} is not among the domains that the server serves: its users can log in once it is \
             (--domain of `barebell serve`, or `domains` in the configuration), or once they are in \
             another one (`barebell user move {domain} DOMAIN`)"
        ));
    }
}
