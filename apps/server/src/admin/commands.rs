//! The execution of requests, independent of their origin and of the destination of the answer.

use super::account;
use super::actions::note;
use super::desk::Desk;
use super::sink::Sink;
use super::token::{self, Token};
use super::{
    CallRecord, MessageCounts, Request, UserDomain, UserFound, UserRemoved, UserRow, UsersMoved,
    UsersStored,
};
use crate::accounts::{self, Services, ServicesRow, Stored};
use crate::backup::{self, Wish};
use crate::domains;
use crate::trace::{Search, Target};
use notifier::Messages;
use sip::Instant;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;
use store::{CallFilter, Change, Replaced, Users};

/// Executes `request` at `desk`, with the `file` that follows it, and writes the answer to `sink`.
///
/// # Errors
/// The error of `sink`, if it does not accept the answer.
pub(crate) fn answer<S: Sink>(
    desk: &dyn Desk,
    request: &Request,
    file: &mut dyn BufRead,
    sink: &mut S,
) -> Result<(), S::Error> {
    match answer_rows(desk, request, file, sink) {
        Ok(()) => sink.end(),
        Err(Refusal::Sink(error)) => Err(error),
        Err(Refusal::Request(text)) => sink.error(&text),
    }
}

fn answer_rows<S: Sink>(
    desk: &dyn Desk,
    request: &Request,
    file: &mut dyn BufRead,
    sink: &mut S,
) -> Result<(), Refusal<S::Error>> {
    let mut result = Ok(());
    let changes_users = matches!(
        request,
        Request::AddUser { .. }
            | Request::ImportUsers { .. }
            | Request::MoveUsers { .. }
            | Request::RemoveUser { .. }
    );
    let copied = desk.copied_users()?;
    if changes_users
        && copied.is_none()
        && let Some(place) = desk.accounts()?
    {
        return Err(Refusal::Request(format!(
            "the users are those of {place}: name the configuration of the server with --config"
        )));
    }
    let users: &dyn Users = match &copied {
        Some(copied) => copied,
        None => desk.users(),
    };
    match request {
        Request::Status => result = sink.row(desk.condition()?),
        Request::Registrations => desk.registrations(&mut |registration| {
            result = sink.row(registration);
            result.is_ok()
        })?,
        Request::EndRegistration { name, domain, contact } => {
            let identity = accounts::identify(name, domain.as_deref(), &desk.domains())?;
            let ended = desk
                .end_registration(&identity.name, &identity.domain, contact.as_deref())
                .map_err(Refusal::Request)?;
            result = ended.into_iter().try_for_each(|registration| sink.row(registration));
        }
        Request::Calls => {
            for call in desk.calls() {
                if result.is_ok() {
                    result = sink.row(call);
                }
            }
        }
        Request::Trunks => {
            result = desk.trunks().into_iter().try_for_each(|trunk| sink.row(trunk));
        }
        Request::Limits => {
            result = desk.limits().into_iter().try_for_each(|used| sink.row(used));
        }
        Request::History { user, since, until, failed, limit } => {
            let filter = CallFilter {
                user: user.clone(),
                since: since.map(Instant::from_micros),
                until: until.map(Instant::from_micros),
                is_failed: *failed,
            };
            desk.call_records().calls(&filter, *limit, &mut |record| {
                // A record of another version of this program is omitted if it cannot be read.
                if let Ok(record) = serde_json::from_str::<CallRecord>(&record) {
                    result = sink.row(record);
                }
                result.is_ok()
            })?;
        }
        Request::EndCall { id } => {
            result = sink.row(desk.end_call(id).map_err(Refusal::Request)?);
        }
        Request::Messages { name, domain, counts } => {
            let identity = accounts::identify(name, domain.as_deref(), &desk.domains())?;
            if !desk.users().has_user(&identity.name, &identity.domain)? {
                return Err(accounts::Error::Unknown(identity.uri()).into());
            }
            let user = format!("{}@{}", identity.name, identity.domain);
            let counts = counts.map(|(new, old)| Messages { new, old });
            let Messages { new, old } = desk.messages(&user, counts).map_err(Refusal::Request)?;
            result = sink.row(MessageCounts { user, new, old });
        }
        Request::FindUser { name } => {
            let identity = accounts::identify(name, None, &desk.domains())?;
            let is_known = desk.users().has_user(&identity.name, &identity.domain)?;
            result = sink.row(UserFound { is_known });
        }
        Request::MarkTrace { target, seconds, has_secrets } => {
            let target = match target {
                Target::Call(id) => Target::Call(desk.call_id(id)),
                user => user.clone(),
            };
            let time = Duration::from_secs(*seconds);
            let tracer = desk.tracer().map_err(Refusal::Request)?;
            let mark = tracer.mark(target, time, *has_secrets).map_err(Refusal::Request)?;
            result = sink.row(mark);
        }
        Request::TraceMarks => {
            let marks = desk.tracer().map_err(Refusal::Request)?.marks();
            result = marks.into_iter().try_for_each(|mark| sink.row(mark));
        }
        Request::Traces => {
            let calls = desk.tracer().map_err(Refusal::Request)?.calls();
            result = calls.into_iter().try_for_each(|call| sink.row(call));
        }
        Request::Trace { call } => {
            let tracer = desk.tracer().map_err(Refusal::Request)?;
            let messages = tracer.messages(&desk.call_id(call));
            result = messages.into_iter().try_for_each(|message| sink.row(message));
        }
        Request::EndTraces => {
            let tracer = desk.tracer().map_err(Refusal::Request)?;
            let calls = tracer.calls();
            tracer.clear();
            result = calls.into_iter().try_for_each(|call| sink.row(call));
        }
        Request::Recent { target, user, since } => {
            let tracer = desk.tracer().map_err(Refusal::Request)?;
            let call_id = desk.call_id(target);
            let search = Search { target, call_id: &call_id, user, since: *since };
            result = tracer.recent.find(&search).rows().try_for_each(|row| sink.row(row));
        }
        Request::Why { target, user } => {
            let refusals = desk.refusals().map_err(Refusal::Request)?;
            let legs = desk.tracer().map_err(Refusal::Request)?.recent.legs(&desk.call_id(target));
            let refusals = refusals.find(target, &legs, user);
            result = refusals.into_iter().try_for_each(|refusal| sink.row(refusal));
        }
        Request::Drain { drains } => {
            result = sink.row(desk.drain(*drains).map_err(Refusal::Request)?);
        }
        Request::Users { domain } => {
            let mut all = HashMap::new();
            desk.users().services(domain.as_deref(), &mut |it| {
                all.insert((it.name, it.domain), Services::from(&it.services));
            })?;
            desk.users().users(domain.as_deref(), &mut |user| {
                let services = all.remove(&(user.name.clone(), user.domain.to_string()));
                result = sink.row(UserRow::new(user, services.unwrap_or_default()));
                result.is_ok()
            })?;
        }
        Request::AddUser { name, domain, password, auth_name } => {
            let identity = accounts::identify(name, domain.as_deref(), &desk.domains())?;
            let stored = accounts::add(users, &identity, password, auth_name.as_deref())?;
            let uri = Some(identity.uri());
            result = sink.row(take_effect(desk, &stored, uri, identity.domain));
        }
        Request::ImportUsers { domain, length, dry_run } => {
            let mut file = BufReader::new(Exactly { input: file, left: *length });
            let domain = accounts::domain("the file", domain.as_deref(), &desk.domains())?;
            let row = match dry_run {
                true => try_import(desk, users, &mut file, domain)?,
                false => {
                    let stored = accounts::import(users, &domain, &mut file)?;
                    take_effect(desk, &stored, None, domain)
                }
            };
            result = sink.row(row);
        }
        Request::MoveUsers { from, to } => {
            let moved = accounts::move_users(users, from, to)?;
            desk.users_moved(from, to)?;
            let served = is_served(desk, to);
            result = sink.row(UsersMoved { moved, domain: to.clone(), served });
        }
        Request::UserDomains { except } => {
            let except: Vec<&str> = except.iter().map(String::as_str).collect();
            for (domain, users) in desk.users().domains(&except)? {
                if result.is_ok() {
                    result = sink.row(UserDomain { domain, users });
                }
            }
        }
        Request::ChangeServices { name, domain, change } => {
            let served = desk.domains();
            let identity = accounts::identify(name, domain.as_deref(), &served)?;
            let (services, changed) =
                accounts::change_services(desk.users(), &identity, change, &served)?;
            let unknown = accounts::unknown_targets(desk.users(), &services)?;
            let (uri, shown) = (identity.uri(), Services::from(&services));
            let row = ServicesRow { uri, services: shown, unknown, changed };
            desk.services_changed(&identity.name, &identity.domain, services);
            result = sink.row(row);
        }
        Request::Accounts => {
            let accounts = account::list(desk.panel_data())?;
            result = accounts.into_iter().try_for_each(|it| sink.row(it));
        }
        Request::RemoveSecondFactor { name } => {
            let changed = account::remove_second_factor(desk.panel_data(), name);
            result = sink.row(changed.map_err(Refusal::Request)?);
        }
        Request::SetPassword { name, password, removes_second_factor } => {
            let data = desk.panel_data();
            let changed = account::set_password(data, name, password, *removes_second_factor);
            result = sink.row(changed.map_err(Refusal::Request)?);
        }
        Request::Backup { with } => {
            let made = backup::make(&desk.stored()?, with, &mut |line| {
                result = sink.row(line);
                result.is_ok()
            });
            // A failure to record it is no failure of the backup.
            let _ = note(desk.panel_data(), "barebell backup", "make backup", "", told(&made));
            made.map_err(Refusal::Request)?;
        }
        Request::Restore { length, .. } if *length > backup::MAX_LENGTH => {
            return Err(Refusal::Request(format!(
                "the backup has {length} bytes: at most {} are read",
                backup::MAX_LENGTH
            )));
        }
        Request::Restore { parts, dry_run, length } => {
            let mut file = BufReader::new(Exactly { input: file, left: *length });
            let wish = Wish { parts: parts.clone(), is_trial: *dry_run };
            let apply = |replaced: &Replaced, has_users| desk.restored(replaced, has_users);
            let restored = backup::restore(&desk.stored()?, &mut file, &wish, &apply);
            if !dry_run {
                let (data, error) = (desk.panel_data(), told(&restored));
                let _ = note(data, "barebell restore", "restore backup", "", error);
            }
            result = sink.row(restored.map_err(Refusal::Request)?);
        }
        Request::AddToken { name, role } => {
            let added = token::add(desk.panel_data(), name, role).map_err(Refusal::Request)?;
            result = sink.row(added);
        }
        Request::Tokens => {
            let tokens = desk.panel_data().panel_tokens()?;
            result = tokens.iter().try_for_each(|it| sink.row(Token::from(it)));
        }
        Request::RemoveToken { name } => {
            let removed = token::remove(desk.panel_data(), name).map_err(Refusal::Request)?;
            result = sink.row(removed);
        }
        Request::RemoveUser { name, domain } => {
            let identity = accounts::identify(name, domain.as_deref(), &desk.domains())?;
            accounts::remove(users, &identity)?;
            desk.user_removed(&identity.name, &identity.domain);
            result = sink.row(UserRemoved { uri: identity.uri() });
        }
    }
    result.map_err(Refusal::Sink)
}

fn take_effect(
    desk: &dyn Desk,
    stored: &Stored,
    uri: Option<String>,
    domain: String,
) -> UsersStored {
    desk.users_added(&stored.users);
    let served = is_served(desk, &domain);
    let Change { added, changed, unchanged } = stored.change;
    let (mistakes, mistake_count) = (Vec::new(), 0);
    UsersStored { added, changed, unchanged, uri, domain, served, mistakes, mistake_count }
}

/// The effect of an import into `domain`, or the mistakes of its lines.
fn try_import(
    desk: &dyn Desk,
    users: &dyn Users,
    file: &mut dyn BufRead,
    domain: String,
) -> Result<UsersStored, accounts::Error> {
    let (change, mistakes, mistake_count) = match accounts::try_import(users, &domain, file) {
        Ok(change) => (change, Vec::new(), 0),
        Err(accounts::Error::BadLines { named, count }) => (Change::default(), named, count),
        Err(error) => return Err(error),
    };
    let (served, uri) = (is_served(desk, &domain), None);
    let Change { added, changed, unchanged } = change;
    Ok(UsersStored { added, changed, unchanged, uri, domain, served, mistakes, mistake_count })
}

/// The error of a result, for the record of actions.
fn told<T>(result: &Result<T, String>) -> Option<&str> {
    result.as_ref().err().map(String::as_str)
}

fn is_served(desk: &dyn Desk, domain: &str) -> bool {
    domains::find(&desk.domains(), domain).is_some()
}

/// A reader of the next `left` bytes of `input`. It is an error if there are fewer.
struct Exactly<'i> {
    input: &'i mut dyn BufRead,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.take(self.left).read(buffer)?;
        self.left -= read as u64;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            let text = format!("the command ended {} bytes early", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(read)
    }
}

/// The failure of a request.
enum Refusal<E> {
    /// The sink does not accept the answer.
    Sink(E),
    /// The request cannot be executed.
    Request(String),
}

impl<E> From<accounts::Error> for Refusal<E> {
    fn from(error: accounts::Error) -> Self {
        Self::Request(error.to_string())
    }
}

impl<E> From<store::Error> for Refusal<E> {
    fn from(error: store::Error) -> Self {
        Self::Request(error.to_string())
    }
}
