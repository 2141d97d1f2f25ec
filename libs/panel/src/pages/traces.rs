//! Refused requests with their reasons, and the messages of calls as ladders.

use super::frame::{View, page};
use super::parts::{cell, field, live, table};
use crate::form::query;
use crate::role::Role;
use crate::rows::{text, time};
use crate::texts::fill;
use maud::{Markup, html};
use serde_json::Value;

/// The address of a page with the target of a search.
fn path(name: &str, target: &str) -> String {
    format!("/panel/{name}{}", query(&[("target", target)]))
}

/// The link to the ladder of a call, and to the reasons of its failures.
pub(super) fn links(view: &View<'_>, call_id: &str) -> Markup {
    let texts = view.texts;
    html! {
        @if !call_id.is_empty() {
            @if view.may(Role::Operator) {
                a href=(path("trace", call_id)) { (texts.show_ladder) }
            } @else {
                a href=(path("refusals", call_id)) { (texts.why_failed) }
            }
        }
    }
}

fn search(view: &View<'_>, name: &str, target: &str) -> Markup {
    html! {
        form.row role="search" method="get" action=(format!("/panel/{name}")) {
            (field("search", "target", view.texts.target, target))
            button { (view.texts.find) }
        }
    }
}

/// The refused requests that fit `target`, the latest first.
pub(crate) fn refusals(view: &View<'_>, target: &str, refusals: &[Value]) -> String {
    let texts = view.texts;
    let rows: Vec<_> = refusals
        .iter()
        .map(|row| {
            let at = row["at"].as_u64().unwrap_or_default() / 1_000_000;
            vec![
                cell(time(at)),
                cell(text(row, "method")),
                cell(text(row, "from")),
                cell(text(row, "to")),
                html! { code { (text(row, "source")) } },
                result(view, row),
                rules(view, row),
                links(view, &text(row, "call_id")),
            ]
        })
        .collect();
    let heads = [
        texts.time,
        texts.request,
        texts.from,
        texts.to,
        texts.source,
        texts.result,
        texts.rule,
        texts.trace,
    ];
    let body = html! {
        p { (texts.refusals_about) }
        (search(view, "refusals", target))
        (live("refusals", &table(texts.refusals, &heads, &rows, texts.no_refusals)))
    };
    page(view, "/panel/refusals", texts.refusals, &body)
}

/// The response, and how often it was sent.
fn result(view: &View<'_>, row: &Value) -> Markup {
    let status = text(row, "status");
    let count = row["count"].as_u64().unwrap_or(1);
    html! {
        @if status.is_empty() { (view.texts.dropped) } @else { (status) " " (text(row, "phrase")) }
        @if count > 1 { ", " (fill(view.texts.refused_times, &[&count.to_string()])) }
    }
}

/// The rules that applied, with the settings and commands to look at.
fn rules(view: &View<'_>, row: &Value) -> Markup {
    let answerer = text(row, "answered_by");
    html! {
        @for reason in row["reasons"].as_array().into_iter().flatten() {
            div { (text(reason, "rule")) }
            div.hint { (fill(view.texts.see, &[&text(reason, "see")])) }
        }
        @if !answerer.is_empty() { (fill(view.texts.answered_by, &[&answerer])) }
    }
}

/// The calls with messages of `target`, if one was given.
pub(crate) fn trace(view: &View<'_>, target: &str, calls: Option<&[Value]>) -> String {
    let texts = view.texts;
    let body = html! {
        p { (texts.trace_about) }
        (search(view, "trace", target))
        @if let Some(calls) = calls {
            @if calls.is_empty() { p.empty { (texts.no_messages) } }
            @for call in calls { (ladder(view, call)) }
            p { a href=(path("refusals", target)) { (texts.why_failed) } }
        }
    };
    page(view, "/panel/trace", texts.trace, &body)
}

fn ladder(view: &View<'_>, call: &Value) -> Markup {
    let texts = view.texts;
    let begun = text(call, "begun");
    let ids = call["call_ids"].as_array().into_iter().flatten();
    let ids = ids.filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    // Calls of the same second need different names.
    let name = format!("{begun}, {ids}");
    let messages = call["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        section {
            h2 { (begun) }
            p { code { (ids) } }
            pre tabindex="0" role="region" aria-label=(fill(texts.ladder_of, &[&name])) {
                (text(call, "ladder"))
            }
            details {
                summary { (texts.messages) ": " (messages.len()) }
                @for message in messages {
                    h3 {
                        (text(message, "time")) " " (text(message, "from")) " → "
                        (text(message, "to"))
                    }
                    pre.message { (text(message, "message")) }
                }
            }
        }
    }
}
