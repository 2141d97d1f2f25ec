//! The import of users.

use super::frame::{View, page};
use super::parts::{cell, facts, field, form, table, upload_form};
use crate::multipart::TEXT;
use crate::rows::{number, text};
use crate::texts::fill;
use maud::html;
use serde_json::Value;

const PATH: &str = "/panel/import";

/// The page with the form.
pub(crate) fn form_page(view: &View<'_>) -> String {
    let texts = view.texts;
    let content = html! {
        label {
            span { (texts.import_file) }
            input type="file" name="file";
        }
        label {
            span { (texts.import_text) }
            textarea name=(TEXT) rows="8" spellcheck="false" autocomplete="off" {}
        }
        (field("text", "domain", texts.import_domain, ""))
        button { (texts.import_try) }
    };
    let body = html! {
        p { (texts.import_about) }
        (upload_form(view, PATH, &content))
        p { a href="/panel/users" { (texts.back) } }
    };
    page(view, "/panel/users", texts.import_users, &body)
}

/// The page with the effect of an import and the form that applies it, or with the mistakes.
pub(crate) fn effect_page(view: &View<'_>, row: &Value) -> String {
    let texts = view.texts;
    let mistakes = row["mistakes"].as_array();
    let rows: Vec<_> = mistakes
        .into_iter()
        .flatten()
        .map(|it| vec![cell(text(it, "line")), cell(text(it, "column")), cell(text(it, "text"))])
        .collect();
    let count = number(row, "mistake_count").unwrap_or_default();
    let apply = html! { button { (texts.import_do) } };
    let body = html! {
        @if count > 0 {
            p.notice.bad role="status" { (fill(texts.import_mistakes, &[&count.to_string()])) }
            (table(texts.import_users, &[texts.line, texts.column, texts.mistake], &rows, ""))
        } @else {
            (facts(&[
                (texts.domain, text(row, "domain")),
                (texts.added, text(row, "added")),
                (texts.changed, text(row, "changed")),
                (texts.unchanged, text(row, "unchanged")),
            ]))
            @if row["served"] == false { p.notice.bad { (texts.domain_not_served) } }
            p { (texts.import_last_chance) }
            (form(view, "/panel/import/apply", None, &apply))
        }
        p { a href=(PATH) { (texts.back) } }
    };
    page(view, "/panel/users", texts.import_users, &body)
}
