//! The running server, as the panel sees it.

use super::listing;
use super::own::Own;
use super::parts::Parts;
use crate::accounts::{self, ServiceChange, Services};
use crate::admin::desk::Desk;
use crate::admin::sink::{Row, Sink};
use crate::admin::{Request, UserRow, commands};
use crate::backup::{self, Line, Part, Wish};
use crate::check;
use crate::cli::{CheckFlags, DoctorFlags, RouteFlags};
use crate::doctor;
use crate::domains;
use crate::failure::Failure;
use crate::history;
use crate::output::Out;
use crate::route_command;
use crate::serve::desk::Running;
use ::panel::{Login, Mark, Question, RecordFilter, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sip::Instant;
use sip_server::Source;
use std::convert::Infallible;
use std::io::BufRead;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use store::{CallFilter, Replaced};

/// The maximum length of a backup in bytes, which can be uploaded again.
const MAX_BACKUP: usize = 64 * 1024 * 1024;

/// The running server.
pub(super) struct PanelServer(Parts);

impl PanelServer {
    pub(super) const fn new(parts: Parts) -> Self {
        Self(parts)
    }
}

impl Server for PanelServer {
    fn ask(&self, question: &Question) -> Result<Vec<Value>, String> {
        let desk = &self.0.desk;
        let admin = |request: Request| command(desk, &request);
        let domain = None;
        match question {
            Question::Status => admin(Request::Status),
            Question::Users { search, after, most } => self.users(search, after.as_deref(), *most),
            Question::User(user) => self.user(user),
            Question::PutUser { user, password } => {
                let (name, password) = (user.clone(), password.clone());
                admin(Request::AddUser { name, domain, password, auth_name: None })
            }
            Question::RemoveUser(user) => admin(Request::RemoveUser { name: user.clone(), domain }),
            Question::ChangeServices { user, change } => {
                let change: ServiceChange =
                    serde_json::from_value(change.clone()).map_err(|error| error.to_string())?;
                admin(Request::ChangeServices { name: user.clone(), domain, change })
            }
            Question::Registrations { user, search, after, most } => {
                Ok(listing::registrations(desk, user.as_deref(), search, after.as_ref(), *most))
            }
            Question::EndRegistration { user, contact } => {
                let (name, contact) = (user.clone(), contact.clone());
                admin(Request::EndRegistration { name, domain, contact })
            }
            Question::Refusals { target, most } => Ok(listing::refusals(desk, target, *most)),
            Question::Trace(target) => Ok(listing::traces(desk, target)),
            Question::Calls => admin(Request::Calls),
            Question::EndCall(id) => admin(Request::EndCall { id: id.clone() }),
            Question::Records(filter) => self.records(filter),
            Question::Trunks => admin(Request::Trunks),
            Question::Route { number, from, trunk } => self.route(number, from, trunk),
            Question::Voicemail(user) => self.own().messages(user),
            Question::DeleteMessage { user, id } => self.own().delete(user, *id),
            Question::Bans => Ok(self.bans()),
            Question::Unban(source) => self.unban(source),
            Question::Certificates => Ok(self.certificates()),
            Question::Check => Ok(vec![self.check()]),
            Question::Reload => self.reload(),
            Question::Doctor => self.doctor(),
            Question::Backup { certificates, records, voicemail } => {
                self.backup([*certificates, *records, *voicemail])
            }
            Question::Restore { content, is_trial } => self.restore(content, *is_trial),
            Question::ImportUsers { text, domain, is_trial } => {
                let (length, dry_run) = (text.len() as u64, *is_trial);
                let domain = domain.as_deref().map(domains::canonical).transpose()?;
                let request = Request::ImportUsers { domain, length, dry_run };
                command_with(desk, &request, &mut &text[..])
            }
        }
    }

    fn canonical(&self, user: &str) -> Option<String> {
        self.own().canonical(user)
    }

    fn log_in(&self, user: &str, password: &str) -> Result<Option<Login>, String> {
        self.own().log_in(user, password)
    }

    fn mark(&self, user: &str) -> Result<Option<Mark>, String> {
        self.own().mark(user)
    }

    fn sound(&self, user: &str, id: u64) -> Result<Vec<u8>, String> {
        self.own().sound(user, id)
    }
}

impl PanelServer {
    const fn own(&self) -> Own<'_> {
        Own(&self.0)
    }

    fn identity(&self, user: &str) -> Result<accounts::Identity, String> {
        accounts::identify(user, None, &self.0.desk.domains()).map_err(|error| error.to_string())
    }

    fn users(&self, search: &str, after: Option<&str>, most: usize) -> Result<Vec<Value>, String> {
        let after = after.map(|user| {
            let (name, domain) = user.rsplit_once('@').unwrap_or((user, ""));
            (domain, name)
        });
        let found = self.0.storage.find_users(search, after, most).map_err(|it| it.to_string())?;
        found.into_iter().map(|(name, domain)| self.user_row(name, domain)).collect()
    }

    fn user(&self, user: &str) -> Result<Vec<Value>, String> {
        let Ok(accounts::Identity { name, domain }) = self.identity(user) else {
            return Ok(Vec::new());
        };
        match self.0.storage.has_user(&name, &domain).map_err(|error| error.to_string())? {
            true => Ok(vec![self.user_row(name, domain)?]),
            false => Ok(Vec::new()),
        }
    }

    fn user_row(&self, name: String, domain: String) -> Result<Value, String> {
        let services = self.0.storage.services_of(&name, &domain);
        let services = Services::from(&services.map_err(|error| error.to_string())?);
        let auth_name = self.0.storage.auth_name_of(&name, &domain);
        let auth_name = auth_name.map_err(|error| error.to_string())?;
        let row = UserRow { name, domain, auth_name, services };
        serde_json::to_value(row).map_err(|error| error.to_string())
    }

    fn records(&self, filter: &RecordFilter) -> Result<Vec<Value>, String> {
        let time = |seconds: u64| Instant::from_micros(seconds.saturating_mul(1_000_000));
        let wanted = CallFilter {
            user: filter.user.as_deref().map(history::user),
            since: filter.since.map(time),
            until: filter.until.map(time),
            is_failed: filter.is_failed,
        };
        let rows = self.0.storage.call_page(&wanted, filter.before, filter.most);
        let rows = rows.map_err(|error| error.to_string())?;
        Ok(rows
            .into_iter()
            .map(|(id, record)| {
                // A record of another version that cannot be read keeps its place.
                let row = serde_json::from_str(&record).ok().filter(Value::is_object);
                let mut row = row.unwrap_or_else(|| json!({}));
                row["id"] = json!(id);
                row
            })
            .collect())
    }

    fn route(
        &self,
        number: &str,
        from: &Option<String>,
        trunk: &Option<String>,
    ) -> Result<Vec<Value>, String> {
        let settings = (self.0.read_settings)().map_err(|failure| failure.to_string())?;
        let flags = RouteFlags {
            number: number.to_owned(),
            from: from.clone(),
            trunk: trunk.clone(),
            stranger: false,
            trunk_down: Vec::new(),
            json: true,
            place: self.0.place.clone(),
        };
        let is_user = |name: &str| {
            let (name, domain) = name.rsplit_once('@')?;
            self.0.storage.has_user(name, domain).ok()
        };
        rows(|out| route_command::run_with(&settings, &flags, &is_user, out))
    }

    fn bans(&self) -> Vec<Value> {
        let hub = &self.0.desk.hub;
        let mut bans = Vec::new();
        hub.engine.for_each_ban(hub.clock.now(), &mut |source, until| bans.push((source, until)));
        bans.sort_unstable();
        let row = |(source, until): &(Source, Instant)| {
            let until = UNIX_EPOCH + Duration::from_secs(until.as_secs());
            let until = humantime::format_rfc3339_seconds(until).to_string();
            json!({ "source": source.to_string(), "until": until })
        };
        bans.iter().map(row).collect()
    }

    fn unban(&self, source: &str) -> Result<Vec<Value>, String> {
        let hub = &self.0.desk.hub;
        let address = source.strip_suffix("/64").unwrap_or(source).parse::<IpAddr>();
        let address = address.map_err(|_| format!("`{source}` is no address"))?;
        match hub.engine.lift_ban(Source::of(address), hub.clock.now()) {
            true => Ok(vec![json!({ "source": Source::of(address).to_string() })]),
            false => Err(format!("{source} is not banned")),
        }
    }

    fn certificates(&self) -> Vec<Value> {
        let certificates = self.0.tls.certificates();
        let row = |it: &crate::certificates::Certificate| {
            let until = it.valid_until.map(|it| humantime::format_rfc3339_seconds(it).to_string());
            json!({
                "file": it.file.display().to_string(),
                "valid_until": until,
                "fingerprint": it.fingerprint.to_string(),
            })
        };
        certificates.iter().map(row).collect()
    }

    /// The check of the configuration: `ok`, and the `lines` of the command.
    fn check(&self) -> Value {
        let mut out = Out::kept();
        let checked = check::run(&CheckFlags { place: self.0.place.clone() }, &mut out);
        let mut lines: Vec<_> = out.into_text().lines().map(str::to_owned).collect();
        if let Err(Failure::Message(text)) = &checked {
            lines.push(text.clone());
        }
        json!({ "ok": checked.is_ok(), "lines": lines })
    }

    fn reload(&self) -> Result<Vec<Value>, String> {
        let check = self.check();
        if check["ok"] != true {
            let lines = check["lines"].as_array();
            let lines: Vec<_> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
            return Err(format!("the configuration has mistakes: {}", lines.join("; ")));
        }
        kill(Pid::this(), Signal::SIGHUP).map_err(|error| error.to_string())?;
        Ok(vec![check])
    }

    /// The lines of a backup with certificates, records and voicemail.
    fn backup(&self, with: [bool; 3]) -> Result<Vec<Value>, String> {
        let parts = [Part::Certificates, Part::Records, Part::Voicemail].into_iter().zip(with);
        let parts: Vec<_> = parts.filter_map(|(part, is_on)| is_on.then_some(part)).collect();
        let (mut rows, mut length) = (Vec::new(), 0);
        let stored = self.0.desk.stored().map_err(|error| error.to_string())?;
        backup::make(&stored, &parts, &mut |Line(line)| {
            length += line.len() + 1;
            rows.push(Value::String(line));
            length <= MAX_BACKUP
        })?;
        match length <= MAX_BACKUP {
            true => Ok(rows),
            false => Err(format!(
                "the backup has more than {MAX_BACKUP} bytes: make it on the machine of the \
                 server, by `barebell backup`"
            )),
        }
    }

    fn restore(&self, content: &[u8], is_trial: bool) -> Result<Vec<Value>, String> {
        let desk = &self.0.desk;
        let stored = desk.stored().map_err(|error| error.to_string())?;
        let wish = Wish { parts: Vec::new(), is_trial };
        let apply = |replaced: &Replaced, has_users| desk.restored(replaced, has_users);
        let report = backup::restore(&stored, &mut &*content, &wish, &apply)?;
        Ok(vec![serde_json::to_value(report).unwrap_or_default()])
    }

    fn doctor(&self) -> Result<Vec<Value>, String> {
        rows(|out| {
            doctor::run(
                &DoctorFlags { json: true, ntp: None, stun: None, place: self.0.place.clone() },
                out,
            )
        })
    }
}

/// The rows that a command prints as JSON.
fn rows(run: impl FnOnce(&mut Out) -> Result<(), Failure>) -> Result<Vec<Value>, String> {
    let mut out = Out::kept();
    match run(&mut out) {
        Ok(()) | Err(Failure::Found | Failure::State(_)) => {}
        Err(failure) => return Err(failure.to_string()),
    }
    let text = out.into_text();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The rows of the answer to a request of the administration.
fn command(desk: &Arc<Running>, request: &Request) -> Result<Vec<Value>, String> {
    command_with(desk, request, &mut std::io::empty())
}

/// Like [`command`], with the `file` that follows the request.
fn command_with(
    desk: &Arc<Running>,
    request: &Request,
    file: &mut dyn BufRead,
) -> Result<Vec<Value>, String> {
    let mut answer = Rows::default();
    let Ok(()) = commands::answer(&**desk, request, file, &mut answer);
    match answer.error {
        Some(text) => Err(text),
        None => Ok(answer.rows),
    }
}

/// An answer that is kept.
#[derive(Default)]
struct Rows {
    rows: Vec<Value>,
    error: Option<String>,
}

impl Sink for Rows {
    type Error = Infallible;

    fn row<R: Row>(&mut self, row: R) -> Result<(), Infallible> {
        self.rows.push(serde_json::to_value(row).unwrap_or_default());
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn error(&mut self, text: &str) -> Result<(), Infallible> {
        self.error = Some(text.to_owned());
        Ok(())
    }
}
