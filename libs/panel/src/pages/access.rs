//! Accounts, tokens, actions, and the own password.

use super::frame::{View, page};
use super::parts::{button, cell, code_field, field, form, pager, role_field, table};
use super::phones::qr;
use crate::form::query;
use crate::role::Role;
use crate::rows::time;
use crate::texts::fill;
use maud::{Markup, html};
use store::{PanelAccount, PanelAction, PanelToken};

/// The data of the page that administrators see.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) accounts: Vec<PanelAccount>,
    /// The names of the accounts with a second factor.
    pub(crate) second_factors: Vec<String>,
    pub(crate) tokens: Vec<PanelToken>,
    pub(crate) actions: Vec<(i64, PanelAction)>,
    /// True if the actions are the latest.
    pub(crate) is_first: bool,
    /// The identifier of the last action, if there are more.
    pub(crate) next: Option<i64>,
}

/// The page, with the lists if the account is of an administrator.
pub(crate) fn access(view: &View<'_>, has_second: bool, lists: Option<&Lists>) -> String {
    let texts = view.texts;
    let own = html! {
        (field("password", "password", texts.present_password, ""))
        (field("password", "new", texts.new_password, ""))
        (field("password", "again", texts.password_again, ""))
        button { (texts.change_password) }
    };
    let body = html! {
        section {
            h2 { (texts.own_password) }
            (form(view, "/panel/access/password", None, &own))
        }
        (second_factor_part(view, has_second))
        @if let Some(lists) = lists {
            (accounts(view, lists))
            (tokens(view, &lists.tokens))
            (actions(view, lists))
        }
    };
    page(view, "/panel/access", texts.access, &body)
}

/// The part of the page about the own second factor.
fn second_factor_part(view: &View<'_>, is_on: bool) -> Markup {
    let texts = view.texts;
    let off = html! {
        (field("password", "password", texts.present_password, ""))
        (code_field(texts.code))
        button.danger { (texts.turn_off) }
    };
    let on = html! { button { (texts.turn_on) } };
    html! {
        section {
            h2 { (texts.second_factor) }
            @if is_on {
                p { (texts.second_factor_is_on) }
                (form(view, "/panel/access/second-factor/off", None, &off))
            } @else {
                p { (texts.second_factor_about) }
                (form(view, "/panel/access/second-factor", None, &on))
            }
        }
    }
}

/// The page with the new `secret` of a second factor, which the form turns on.
pub(crate) fn second_factor(view: &View<'_>, secret: &str, uri: &str) -> String {
    let texts = view.texts;
    let confirm = html! {
        input type="hidden" name="secret" value=(secret);
        (field("password", "password", texts.present_password, ""))
        (code_field(texts.code))
        button { (texts.turn_on) }
    };
    let body = html! {
        p { (texts.second_factor_scan) }
        (qr(texts.second_factor_code, uri))
        p { code { (secret) } }
        (form(view, "/panel/access/second-factor/on", None, &confirm))
        p { a href="/panel/access" { (texts.back) } }
    };
    page(view, "/panel/access", texts.second_factor, &body)
}

fn role(view: &View<'_>, name: &str) -> String {
    Role::named(name).map_or(name, |role| view.role_name(role)).to_owned()
}

fn accounts(view: &View<'_>, lists: &Lists) -> Markup {
    let texts = view.texts;
    let rows: Vec<_> = lists
        .accounts
        .iter()
        .map(|account| {
            let sure = fill(texts.remove_sure, &[&account.name]);
            let sent = ("name", &*account.name);
            vec![
                cell(&account.name),
                cell(role(view, &account.role)),
                cell(match lists.second_factors.contains(&account.name) {
                    true => texts.yes,
                    false => texts.no,
                }),
                cell(time(account.created)),
                button(view, "/panel/access/accounts/remove", sent, texts.remove, &sure),
            ]
        })
        .collect();
    let heads = [texts.account, texts.role, texts.second_factor, texts.created, texts.remove];
    let add = html! {
        (field("text", "name", texts.name, ""))
        (field("password", "new", texts.password, ""))
        (role_field(view))
        button { (texts.add_account_do) }
    };
    html! {
        section {
            h2 { (texts.accounts) }
            (table(texts.accounts, &heads, &rows, ""))
            h3 { (texts.add_account) }
            (form(view, "/panel/access/accounts", None, &add))
        }
    }
}

fn tokens(view: &View<'_>, tokens: &[PanelToken]) -> Markup {
    let texts = view.texts;
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            let sure = fill(texts.remove_sure, &[&token.name]);
            let sent = ("name", &*token.name);
            vec![
                cell(&token.name),
                cell(role(view, &token.role)),
                cell(time(token.created)),
                button(view, "/panel/access/tokens/remove", sent, texts.remove, &sure),
            ]
        })
        .collect();
    let heads = [texts.name, texts.role, texts.created, texts.remove];
    let add = html! {
        (field("text", "name", texts.name, ""))
        (role_field(view))
        button { (texts.add_token) }
    };
    html! {
        section {
            h2 { (texts.tokens) }
            p { (texts.tokens_about) " " a href="/api/v1/openapi.json" { "OpenAPI" } }
            (table(texts.tokens, &heads, &rows, texts.no_tokens))
            h3 { (texts.add_token) }
            (form(view, "/panel/access/tokens", None, &add))
        }
    }
}

fn actions(view: &View<'_>, lists: &Lists) -> Markup {
    let texts = view.texts;
    let rows: Vec<_> = lists
        .actions
        .iter()
        .map(|(_, action)| {
            let is_done = action.error.is_empty();
            vec![
                cell(time(action.at)),
                cell(&action.account),
                cell(&action.source),
                cell(&action.action),
                cell(&action.object),
                cell(if is_done { texts.done } else { &action.error }),
            ]
        })
        .collect();
    let heads = [texts.time, texts.account, texts.source, texts.action, texts.object, texts.result];
    let next = lists
        .next
        .map(|last| format!("/panel/access{}#actions", query(&[("before", &last.to_string())])));
    html! {
        section {
            h2 id="actions" { (texts.actions) }
            (table(texts.actions, &heads, &rows, texts.no_actions))
            (pager(texts, (!lists.is_first).then_some("/panel/access#actions"), next.as_deref()))
        }
    }
}
