//! Trunks, and the dry run of a number.

use super::frame::{View, page};
use super::parts::{cell, field, live, table, tag};
use crate::rows::{duration, number, text};
use maud::{Markup, html};
use serde_json::Value;

/// The trunks with their states.
pub(crate) fn trunks(view: &View<'_>, trunks: &[Value]) -> String {
    let texts = view.texts;
    let heads = [texts.part, texts.state, texts.since, texts.reason];
    let part = |row: &Value| -> Vec<Markup> {
        let state = text(row, "state");
        let is_good = !matches!(&*state, "failed" | "not registered");
        vec![
            html! { code { (text(row, "name")) } },
            tag(is_good, &state),
            cell(duration(number(row, "seconds").unwrap_or_default())),
            cell(text(row, "reason")),
        ]
    };
    let all = html! {
        @if trunks.is_empty() { p.empty { (texts.no_trunks) } }
        @for trunk in trunks {
            @let name = text(trunk, "name");
            @let is_usable = trunk["usable"] == true;
            section {
                h2 {
                    (name) " "
                    (tag(is_usable, if is_usable { texts.usable } else { texts.not_usable }))
                }
                @let reason = text(trunk, "lookup");
                @if !reason.is_empty() { p { (reason) } }
                @let parts = ["servers", "accounts"].map(|it| trunk[it].as_array());
                @let rows: Vec<_> = parts.into_iter().flatten().flatten().map(part).collect();
                (table(&name, &heads, &rows, ""))
            }
        }
    };
    page(view, "/panel/trunks", texts.trunks, &live("trunks", &all))
}

/// The dry run of `dialed` by the user `from`. `found` is its route.
pub(crate) fn route(
    view: &View<'_>,
    (dialed, from): (&str, &str),
    found: Option<&Value>,
) -> String {
    let texts = view.texts;
    let body = html! {
        p { (texts.route_about) }
        form.row method="get" action="/panel/route" {
            (field("text", "number", texts.number, dialed))
            (field("text", "from", texts.from_user, from))
            button { (texts.try_it) }
        }
        @if let Some(found) = found {
            section {
                h2 { (texts.outcome) }
                p { strong { (in_words(found)) } }
                h2 { (texts.steps) }
                ol {
                    @for step in found["steps"].as_array().into_iter().flatten() {
                        li { (step.as_str().unwrap_or_default()) }
                    }
                }
            }
        }
    };
    page(view, "/panel/route", texts.route, &body)
}

/// The lines of the destination, as the command prints them.
fn in_words(found: &Value) -> String {
    let lines = found["lines"].as_array();
    let lines: Vec<_> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
    lines.join("; ")
}
