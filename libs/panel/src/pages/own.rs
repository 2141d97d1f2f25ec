//! The pages of a user.

use super::calls::{clock, end, party, seconds};
use super::frame::{View, own_page};
use super::parts::{button, cell, field, form, live, pager, table, tag};
use super::phones::{link_form, link_table, new_link, settings};
use super::users::service_fields;
use crate::form::query;
use crate::links::Made;
use crate::rows::{duration, number, text, time};
use crate::texts::fill;
use maud::{Markup, html};
use serde_json::Value;

/// The data of the first page.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) user: Value,
    pub(crate) phones: Vec<Value>,
    pub(crate) messages: Vec<Value>,
    pub(crate) status: Value,
    /// The links for phones.
    pub(crate) links: Vec<Value>,
}

/// The first page of a user.
pub(crate) fn own(view: &View<'_>, data: &Data) -> String {
    let texts = view.texts;
    let password = html! {
        p { (texts.own_password_about) }
        (field("password", "password", texts.present_password, ""))
        (field("password", "new", texts.new_password, ""))
        (field("password", "again", texts.password_again, ""))
        button { (texts.change_password) }
    };
    let body = html! {
        h2 { (texts.voicemail) }
        (messages(view, &data.messages))
        h2 { (texts.own_phones) }
        (live("phones", &phones(view, &data.phones)))
        section {
            h2 { (texts.forwards) }
            (form(view, "/panel/me/services", None, &service_fields(view, &data.user["services"])))
        }
        section {
            h2 { (texts.change_password) }
            (form(view, "/panel/me/password", None, &password))
        }
        section {
            h2 { (texts.phone_settings) }
            (live("links", &link_table(view, &data.links)))
            (link_form(view, "/panel/me/phone", &data.status, false))
            (settings(view, view.account, &data.status))
        }
    };
    own_page(view, "/panel/me/", view.account, &body)
}

/// The page of a new link for a phone.
pub(crate) fn link(view: &View<'_>, link: &Made) -> String {
    own_page(view, "", view.account, &new_link(view, link, "/panel/me/"))
}

fn messages(view: &View<'_>, messages: &[Value]) -> Markup {
    let texts = view.texts;
    let rows: Vec<_> = messages
        .iter()
        .map(|row| {
            let (id, caller) = (text(row, "id"), party(row, "caller"));
            let sure = fill(texts.delete_sure, &[&caller]);
            vec![
                cell(time(number(row, "at").unwrap_or_default())),
                html! {
                    (caller)
                    @if row["proved"] == false { " (" (texts.not_proved) ")" }
                },
                html! {
                    (duration(number(row, "seconds").unwrap_or_default()))
                    @if row["heard"] == false { " " (tag(true, texts.message_new)) }
                },
                html! {
                    audio controls preload="none" src=(format!("/panel/me/voicemail/{id}.wav"))
                        aria-label=(fill(texts.message_of, &[&caller])) {}
                },
                button(view, "/panel/me/voicemail/delete", ("id", &id), texts.delete, &sure),
            ]
        })
        .collect();
    let heads = [texts.time, texts.caller, texts.duration, texts.listen, texts.delete];
    table(texts.voicemail, &heads, &rows, texts.no_voicemail)
}

fn phones(view: &View<'_>, phones: &[Value]) -> Markup {
    let texts = view.texts;
    let rows: Vec<_> = phones
        .iter()
        .map(|row| {
            vec![
                cell(text(row, "user_agent")),
                html! { code { (text(row, "contact")) } },
                cell(duration(number(row, "expires_in").unwrap_or_default())),
            ]
        })
        .collect();
    let heads = [texts.phone, texts.contact, texts.expires_in];
    table(texts.own_phones, &heads, &rows, texts.no_own_phones)
}

/// A page of the calls of a user. `next` is the last one of it, if there are more.
pub(crate) fn calls(view: &View<'_>, rows: &[Value], is_first: bool, next: Option<&str>) -> String {
    let texts = view.texts;
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            vec![
                cell(clock(&text(row, "created"))),
                cell(party(row, "caller")),
                cell(party(row, "callee")),
                cell(seconds(row, "duration").map_or_else(String::new, duration)),
                cell(end(view, row)),
            ]
        })
        .collect();
    let heads = [texts.time, texts.caller, texts.callee, texts.duration, texts.end];
    let next = next.map(|last| format!("/panel/me/calls{}", query(&[("before", last)])));
    let body = html! {
        (table(texts.own_calls, &heads, &cells, texts.no_records))
        (pager(texts, (!is_first).then_some("/panel/me/calls"), next.as_deref()))
    };
    own_page(view, "/panel/me/calls", texts.own_calls, &body)
}
