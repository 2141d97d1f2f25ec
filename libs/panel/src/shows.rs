//! The pages of a session, with the data that they need.

use crate::form::Form;
use crate::http::{Reply, Request};
use crate::pages::access::Lists;
use crate::pages::calls::Wanted;
use crate::pages::{access, backup, calls, import, overview, system, traces, trunks, users};
use crate::panel::{Client, Panel, Problem};
use crate::role::Role;
use crate::rows;
use crate::server::{Question, RecordFilter};
use crate::sessions::Session;
use serde_json::Value;

/// The number of rows of a page.
const PAGE: usize = 50;
/// The maximum number of exported records. They are read in parts.
const MAX_EXPORTED: usize = 100_000;
/// The number of records that are read at once.
const PART: usize = 500;
/// The time of a day in seconds.
const DAY: u64 = 86_400;

impl Panel {
    /// The page `rest` for `session`, with the fields of the query in `form`.
    pub(crate) fn show(
        &self,
        request: &Request,
        session: &Session,
        rest: &[&str],
        form: &Form,
    ) -> Result<Reply, Problem> {
        let view = self.view(session);
        let client = Client { name: session.account.clone(), role: session.role() };
        let ask = |question: &Question| self.ask(request, &client, question);
        let one = |question: &Question| {
            ask(question).map(|rows| rows.into_iter().next().unwrap_or_default())
        };
        let page = match *rest {
            [""] => overview::overview(&view, &one(&Question::Status)?),
            ["users"] => {
                let (search, after) = (form.get("search").to_owned(), form.some("after"));
                let after = after.map(str::to_owned);
                let question = Question::Users { search, after, most: PAGE + 1 };
                let mut rows = ask(&question)?;
                let next = cut(&mut rows).map(|last| users::address(&last));
                let status = one(&Question::Status)?;
                let place = (form.get("search"), form.some("after"));
                users::list(&view, place, &rows, next.as_deref(), &status)
            }
            ["users", user] => {
                let row = ask(&Question::User(user.to_owned()))?.into_iter().next();
                let row = row.ok_or(Problem::NotFound)?;
                let address = users::address(&row);
                let (user, search) = (Some(address), String::new());
                let phones = Question::Registrations { user, search, after: None, most: PAGE };
                let phones = ask(&phones)?;
                let links = self.link_rows(&users::address(&row), &phones, request.now)?;
                users::one(&view, &row, &phones, (&links, &one(&Question::Status)?))
            }
            ["registrations"] => {
                let search = form.get("search").to_owned();
                let after = form.some("after").zip(form.some("contact"));
                let after = after.map(|(user, contact)| (user.to_owned(), contact.to_owned()));
                let is_first = after.is_none();
                let most = PAGE + 1;
                let question = Question::Registrations { user: None, search, after, most };
                let mut rows = ask(&question)?;
                let next = cut(&mut rows);
                let next = next.map(|row| {
                    (rows::text(&row, "address_of_record"), rows::text(&row, "contact"))
                });
                let place = (form.get("search"), is_first);
                users::registrations(&view, place, &rows, next.as_ref())
            }
            ["calls"] => calls::standing(&view, &ask(&Question::Calls)?),
            ["records"] => {
                let (wanted, filter) = wanted(form, PAGE);
                let rows = ask(&Question::Records(filter.clone()))?;
                calls::records(&view, &wanted, &filter, &rows)
            }
            ["records.csv"] => {
                let (_, filter) = wanted(form, PART);
                let lines = self.exported(request, &client, filter)?;
                return Ok(Reply::csv("calls.csv", lines));
            }
            ["refusals"] => {
                let target = form.get("target");
                let question = Question::Refusals { target: target.to_owned(), most: PAGE };
                traces::refusals(&view, target, &ask(&question)?)
            }
            ["trace"] => {
                let target = form.get("target");
                let question = Question::Trace(target.to_owned());
                let found = form.some("target").map(|_| ask(&question)).transpose()?;
                traces::trace(&view, target, found.as_deref())
            }
            ["trunks"] => trunks::trunks(&view, &ask(&Question::Trunks)?),
            ["route"] => {
                let (number, from) = (form.get("number"), form.get("from"));
                let question = Question::Route {
                    number: number.to_owned(),
                    from: form.some("from").map(str::to_owned),
                    trunk: None,
                };
                let found = form.some("number").map(|_| one(&question)).transpose()?;
                trunks::route(&view, (number, from), found.as_ref())
            }
            ["bans"] => system::bans(&view, &ask(&Question::Bans)?),
            ["system"] => {
                let findings = form.some("doctor").map(|_| ask(&Question::Doctor)).transpose()?;
                let certificates = ask(&Question::Certificates)?;
                let check = one(&Question::Check)?;
                system::system(&view, &certificates, &check, findings.as_deref())
            }
            ["import"] if view.may(Role::Operator) => import::form_page(&view),
            ["backup"] if view.may(Role::Administrator) => backup::form_page(&view),
            ["import" | "backup"] => return Err(Problem::NotAllowed),
            ["access"] => {
                let before = form.get("before").parse().ok();
                let is_administrator = session.role() == Role::Administrator;
                let lists = is_administrator.then(|| self.lists(before)).transpose()?;
                let has_second = self.data.second_factor(&session.account)?.is_some();
                access::access(&view, has_second, lists.as_ref())
            }
            _ => return Err(Problem::NotFound),
        };
        Ok(Reply::page(200, page))
    }

    /// The accounts, tokens, and the actions before `before`.
    fn lists(&self, before: Option<i64>) -> Result<Lists, Problem> {
        let mut actions = self.data.panel_actions(before.unwrap_or(i64::MAX), PAGE + 1)?;
        let has_more = actions.len() > PAGE;
        actions.truncate(PAGE);
        let accounts = self.data.panel_accounts()?;
        let mut second_factors = Vec::new();
        for account in &accounts {
            if self.data.second_factor(&account.name)?.is_some() {
                second_factors.push(account.name.clone());
            }
        }
        Ok(Lists {
            accounts,
            second_factors,
            tokens: self.data.panel_tokens()?,
            next: actions.last().filter(|_| has_more).map(|(id, _)| *id),
            is_first: before.is_none(),
            actions,
        })
    }

    /// The records that fit `filter` as CSV, at most [`MAX_EXPORTED`]. Of a part only its lines are
    /// kept: rows of JSON take much more memory.
    fn exported(
        &self,
        request: &Request,
        client: &Client,
        mut filter: RecordFilter,
    ) -> Result<String, Problem> {
        let (mut lines, mut count) = (calls::export_heads(), 0);
        loop {
            let rows = self.ask(request, client, &Question::Records(filter.clone()))?;
            calls::export_rows(&mut lines, &rows);
            count += rows.len();
            if rows.len() < filter.most || count >= MAX_EXPORTED {
                return Ok(lines);
            }
            filter.before = rows.last().and_then(|row| row["id"].as_i64());
        }
    }
}

/// Leaves a page of `rows`. Returns the last row of it, if there are more.
fn cut(rows: &mut Vec<Value>) -> Option<Value> {
    if rows.len() <= PAGE {
        return None;
    }
    rows.truncate(PAGE);
    rows.last().cloned()
}

/// The search for records in `form`.
fn wanted(form: &Form, most: usize) -> (Wanted, RecordFilter) {
    let text = |name: &str| form.get(name).to_owned();
    let failed = !form.get("failed").is_empty();
    let wanted = Wanted { user: text("user"), from: text("from"), to: text("to"), failed };
    let filter = RecordFilter {
        user: form.some("user").map(str::to_owned),
        since: rows::day(&wanted.from),
        until: rows::day(&wanted.to).map(|day| day + DAY),
        is_failed: failed,
        before: form.get("before").parse().ok(),
        most,
    };
    (wanted, filter)
}
