//! The overview of the server.

use super::frame::{View, page};
use super::parts::{cell, facts, live, table};
use crate::role::Role;
use crate::rows::{duration, number, text};
use maud::html;
use serde_json::Value;

/// The overview of the server with this status.
pub(crate) fn overview(view: &View<'_>, status: &Value) -> String {
    let texts = view.texts;
    let list = |name: &str| {
        let values = status[name].as_array().cloned().unwrap_or_default();
        let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
        values.join(", ")
    };
    let count = |name: &str| text(status, name);
    let problems = list("problems");
    let is_new = count("registered") == "0" && count("accounts").is_empty();
    let state = html! {
        @if problems.is_empty() {
            p.notice.good { (texts.ready) }
        } @else {
            p.notice.bad { (texts.not_ready) ": " (problems) }
        }
        div.figures {
            @for (name, value, path) in [
                (texts.calls_count, count("calls"), "/panel/calls"),
                (texts.registered_count, count("registered"), "/panel/registrations"),
                (texts.contacts_count, count("contacts"), "/panel/registrations"),
                (texts.users_count, count("users"), "/panel/users"),
            ] {
                a.figure href=(path) { strong { (value) } span { (name) } }
            }
        }
        @if is_new && view.may(Role::Operator) {
            section {
                h2 { (texts.first_steps) }
                ol {
                    li { a href="/panel/users" { (texts.step_users) } }
                    li { (texts.step_phones) }
                    li { (texts.step_call) }
                }
            }
        }
        (facts(&[
            (texts.version, text(status, "version")),
            (texts.running_for, duration(number(status, "uptime").unwrap_or_default())),
            (texts.domains, list("domains")),
            (texts.listens, list("listens")),
            (texts.transactions_count, count("transactions")),
        ]))
    };
    let counters: Vec<_> = status["counters"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.as_u64() != Some(0))
        .map(|(name, value)| vec![cell(name), cell(value.to_string())])
        .collect();
    let counters = html! {
        details {
            summary { (texts.counters) }
            (table(texts.counters, &[texts.counter, texts.value], &counters, ""))
        }
    };
    let body = html! {
        (live("state", &state))
        (counters)
    };
    page(view, "/panel/", texts.overview, &body)
}
