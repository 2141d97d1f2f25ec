//! Backups and lists of users that are uploaded: first their effect is shown, then they are
//! applied. The content waits in memory, one at a time.

use crate::form::Form;
use crate::http::{Method, Reply, Request};
use crate::pages::frame::{View, page};
use crate::pages::{backup, import};
use crate::panel::{Client, Panel, Problem};
use crate::pending::Pending;
use crate::role::Role;
use crate::rows;
use crate::server::Question;
use crate::sessions::Session;
use crate::texts::fill;
use maud::html;
use std::sync::Arc;
use std::time::Duration;

/// The maximum length of the content of most requests in bytes.
pub const MAX_CONTENT: usize = 64 * 1024;
/// The maximum length of a backup in bytes, for administrators only.
const MAX_BACKUP: usize = 64 * 1024 * 1024;
/// The maximum length of a list of users in bytes, for operators.
const MAX_LIST: usize = 4 * 1024 * 1024;
/// The time after which content is forgotten that was not confirmed.
const PATIENCE: Duration = Duration::from_secs(600);

impl Panel {
    /// The maximum length of the content of a request with these header fields. The content itself
    /// is not looked at. Only a session or a token of a sufficient role may send more than
    /// [`MAX_CONTENT`].
    pub fn most_content(&mut self, request: &Request) -> usize {
        let Some(segments) = request.segments().filter(|_| request.method == Method::Post) else {
            return MAX_CONTENT;
        };
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        let (role, most, is_api) = match segments[..] {
            ["panel", "backup", "restore"] => (Role::Administrator, MAX_BACKUP, false),
            ["panel", "import"] => (Role::Operator, MAX_LIST, false),
            ["api", "v1", "restore"] => (Role::Administrator, MAX_BACKUP, true),
            ["api", "v1", "users"] => (Role::Operator, MAX_LIST, true),
            _ => return MAX_CONTENT,
        };
        let found = match is_api {
            // Tokens are not tried by the length that is accepted.
            true if self.clients.must_wait(request.source, request.now) => None,
            true => self.token_client(request).ok().flatten().map(|client| client.role),
            false => self.session_role(request),
        };
        if found >= Some(role) { most } else { MAX_CONTENT }
    }

    /// Forgets content that has waited for too long.
    pub(crate) fn forget_pending(&mut self, now: Duration) {
        self.pending = self.pending.take().filter(|it| now.saturating_sub(it.at) < PATIENCE);
    }

    /// Replies with a backup.
    pub(crate) fn download(&self, request: &Request, session: &Session, form: &Form) -> Reply {
        let client = client(session);
        let is_on = |name: &str| !form.get(name).is_empty();
        match self.backup(request, &client, &is_on) {
            Ok(lines) => Reply::lines("backup.jsonl", lines),
            Err(problem) => self.failed(session, "/panel/backup", problem),
        }
    }

    /// The lines of a backup with the further parts that are on.
    pub(crate) fn backup(
        &self,
        request: &Request,
        client: &Client,
        is_on: &dyn Fn(&str) -> bool,
    ) -> Result<String, Problem> {
        let question = Question::Backup {
            certificates: is_on("certificates"),
            records: is_on("records"),
            voicemail: is_on("voicemail"),
        };
        let rows = self.ask(request, client, &question)?;
        let lines = rows.iter().filter_map(|row| row.as_str());
        Ok(lines.flat_map(|line| [line, "\n"]).collect())
    }

    /// Shows the effect of an uploaded backup.
    pub(crate) fn try_restore(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session,
        form: &Form,
    ) -> Reply {
        let content = Arc::clone(&form.content);
        if content.is_empty() {
            let problem = Problem::Refused(self.texts.no_file.to_owned());
            return self.failed(session, "/panel/backup", problem);
        }
        let trial = Question::Restore { content: Arc::clone(&content), is_trial: true };
        match self.ask(request, &client(session), &trial) {
            Ok(rows) => {
                let question = Question::Restore { content, is_trial: false };
                self.wait_for_confirmation(request, id, question);
                let report = rows.into_iter().next().unwrap_or_default();
                Reply::page(200, backup::effect_page(&self.view(session), &report))
            }
            Err(problem) => self.failed(session, "/panel/backup", problem),
        }
    }

    /// Restores the backup of the session `id` that waits. Returns the message about it.
    pub(crate) fn apply_restore(
        &mut self,
        request: &Request,
        id: &str,
        client: &Client,
    ) -> Result<String, Problem> {
        let question = self.confirmed(id, |it| matches!(it, Question::Restore { .. }))?;
        let rows = self.ask(request, client, &question)?;
        let notes = rows.first().and_then(|row| row["notes"].as_array());
        let notes = notes.into_iter().flatten().filter_map(|note| note.as_str());
        let all: Vec<_> = [self.texts.backup_restored].into_iter().chain(notes).collect();
        Ok(all.join(" "))
    }

    /// Shows the effect of an uploaded list of users, or its mistakes.
    pub(crate) fn try_import(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session,
        form: &Form,
    ) -> Reply {
        let (text, domain) = (Arc::clone(&form.content), form.some("domain").map(str::to_owned));
        if text.is_empty() {
            let problem = Problem::Refused(self.texts.no_list.to_owned());
            return self.failed(session, "/panel/import", problem);
        }
        let question = |is_trial| Question::ImportUsers {
            text: Arc::clone(&text),
            domain: domain.clone(),
            is_trial,
        };
        match self.ask(request, &client(session), &question(true)) {
            Ok(rows) => {
                let row = rows.into_iter().next().unwrap_or_default();
                let is_good = rows::number(&row, "mistake_count").is_none_or(|count| count == 0);
                if is_good {
                    self.wait_for_confirmation(request, id, question(false));
                }
                let status = if is_good { 200 } else { 422 };
                Reply::page(status, import::effect_page(&self.view(session), &row))
            }
            Err(problem) => self.failed(session, "/panel/import", problem),
        }
    }

    /// Imports the list of the session `id` that waits. Returns the message about it.
    pub(crate) fn apply_import(
        &mut self,
        request: &Request,
        id: &str,
        client: &Client,
    ) -> Result<String, Problem> {
        let question = self.confirmed(id, |it| matches!(it, Question::ImportUsers { .. }))?;
        let rows = self.ask(request, client, &question)?;
        let row = rows.into_iter().next().unwrap_or_default();
        let count = |name: &str| rows::number(&row, name).unwrap_or_default().to_string();
        let counts = [count("added"), count("changed"), count("unchanged")];
        Ok(fill(self.texts.users_imported, &counts.each_ref().map(String::as_str)))
    }

    fn wait_for_confirmation(&mut self, request: &Request, id: &str, question: Question) {
        let (session, at) = (id.to_owned(), request.now);
        self.pending = Some(Pending { session, question, at });
    }

    /// The question of the session `id` that waits, if it is of this kind.
    fn confirmed(
        &mut self,
        id: &str,
        is_it: impl Fn(&Question) -> bool,
    ) -> Result<Question, Problem> {
        let is_own = |it: &Pending| it.session == id && is_it(&it.question);
        if !self.pending.as_ref().is_some_and(is_own) {
            return Err(Problem::Refused(self.texts.nothing_waits.to_owned()));
        }
        let pending = self.pending.take();
        pending.map(|it| it.question).ok_or(Problem::NotFound)
    }

    /// The page about a failure of an upload.
    fn failed(&self, session: &Session, path: &str, problem: Problem) -> Reply {
        let (status, text) = match problem {
            Problem::Refused(text) => (422, text),
            Problem::NotAllowed => (403, self.texts.not_allowed.to_owned()),
            Problem::NotFound => (404, self.texts.not_found.to_owned()),
        };
        let view = View { notice: Some((true, text)), ..self.view(session) };
        let back = html! { p { a href=(path) { (self.texts.back) } } };
        Reply::page(status, page(&view, path, self.texts.failed, &back))
    }
}

fn client(session: &Session) -> Client {
    Client { name: session.account.clone(), role: session.role() }
}
