//! Backup and restore.

use super::frame::{View, page};
use super::parts::{cell, form, table, upload_form};
use crate::rows::{number, text, time};
use crate::texts::fill;
use maud::{Markup, html};
use serde_json::Value;

const PATH: &str = "/panel/backup";

/// The page with the forms.
pub(crate) fn form_page(view: &View<'_>) -> String {
    let texts = view.texts;
    let parts = [
        ("certificates", texts.backup_certificates),
        ("records", texts.records),
        ("voicemail", texts.voicemail),
    ];
    let download = html! {
        @for (name, label) in parts {
            label.check {
                input type="checkbox" name=(name) value="1";
                span { (label) }
            }
        }
        button { (texts.backup_download) }
    };
    let restore = html! {
        label {
            span { (texts.backup_file) }
            input type="file" name="file" required;
        }
        button { (texts.restore_try) }
    };
    let body = html! {
        section {
            h2 { (texts.backup_make) }
            p { (texts.backup_about) }
            (form(view, "/panel/backup/download", None, &download))
        }
        section {
            h2 { (texts.restore) }
            p { (texts.restore_about) }
            (upload_form(view, "/panel/backup/restore", &restore))
        }
    };
    page(view, PATH, texts.backup, &body)
}

/// The page with the effect of a restore, and the form that applies it.
pub(crate) fn effect_page(view: &View<'_>, report: &Value) -> String {
    let texts = view.texts;
    let kinds = [
        ("users", texts.users),
        ("services", texts.services),
        ("accounts", texts.accounts),
        ("tokens", texts.tokens),
    ];
    let there: Vec<_> = kinds.into_iter().filter(|(name, _)| report[*name].is_object()).collect();
    let rows: Vec<_> = there
        .iter()
        .map(|(name, label)| {
            let changes = &report[*name];
            vec![
                cell(label),
                names(&changes["added"]),
                names(&changes["changed"]),
                names(&changes["removed"]),
                cell(text(changes, "unchanged")),
            ]
        })
        .collect();
    let heads = [texts.restored_data, texts.added, texts.changed, texts.removed, texts.unchanged];
    let files = report["certificates"].as_array();
    let files: Vec<_> = files.into_iter().flatten().filter_map(Value::as_str).collect();
    let notes = report["notes"].as_array();
    let made = time(number(report, "made").unwrap_or_default());
    let apply = html! { button.danger { (texts.restore_do) } };
    let body = html! {
        p { (fill(texts.backup_of, &[&made])) }
        (table(texts.restore_effect, &heads, &rows, texts.restore_nothing))
        ul {
            @if let Some(count) = number(report, "records") {
                li { (fill(texts.records_added, &[&count.to_string()])) }
            }
            @if let Some(count) = number(report, "messages") {
                li { (fill(texts.messages_added, &[&count.to_string()])) }
            }
            @if !files.is_empty() {
                li { (fill(texts.certificates_replaced, &[&files.join(", ")])) }
            }
            @for note in notes.into_iter().flatten().filter_map(Value::as_str) { li { (note) } }
        }
        p { (texts.restore_last_chance) }
        (form(view, "/panel/backup/restore/apply", Some(texts.restore_sure), &apply))
        p { a href=(PATH) { (texts.back) } }
    };
    page(view, PATH, texts.restore_effect, &body)
}

/// A number of names, with the first ones.
fn names(names: &Value) -> Markup {
    let count = number(names, "count").unwrap_or_default();
    let first = names["first"].as_array();
    let first: Vec<_> = first.into_iter().flatten().filter_map(Value::as_str).collect();
    let more = if (first.len() as u64) < count { ", …" } else { "" };
    html! { (count) @if count > 0 { ": " (first.join(", ")) (more) } }
}
