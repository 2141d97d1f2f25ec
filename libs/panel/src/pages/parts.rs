//! Parts that several pages have: tables, fields, buttons.

use super::frame::View;
use crate::role::Role;
use crate::texts::Texts;
use maud::{Markup, Render, html};

/// A table with a column for each of `heads`. On a narrow screen each row is a card, and
/// each cell has its head before it. Without rows it is the text `empty`.
pub(crate) fn table(caption: &str, heads: &[&str], rows: &[Vec<Markup>], empty: &str) -> Markup {
    html! {
        @if rows.is_empty() {
            p.empty { (empty) }
        } @else {
            table role="table" {
                caption { (caption) }
                thead role="rowgroup" {
                    tr role="row" {
                        @for head in heads { th role="columnheader" scope="col" { (head) } }
                    }
                }
                tbody role="rowgroup" {
                    @for row in rows {
                        tr role="row" {
                            @for (cell, head) in row.iter().zip(heads) {
                                td role="cell" data-label=(head) { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Text as a cell.
pub(crate) fn cell(text: impl Render) -> Markup {
    html! { (text) }
}

/// Names with their values.
pub(crate) fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A labelled field of a form.
pub(crate) fn field(kind: &str, name: &str, label: &str, value: &str) -> Markup {
    let complete = match (kind, name) {
        ("password", "password") => Some("current-password"),
        ("password", _) => Some("new-password"),
        _ => None,
    };
    html! {
        label {
            span { (label) }
            input type=(kind) name=(name) value=(value) autocomplete=[complete];
        }
    }
}

/// The field for a code of a second factor.
pub(crate) fn code_field(label: &str) -> Markup {
    html! {
        label {
            span { (label) }
            input name="code" inputmode="numeric" autocomplete="one-time-code" maxlength="8";
        }
    }
}

/// The choice of a role.
pub(crate) fn role_field(view: &View<'_>) -> Markup {
    html! {
        label {
            span { (view.texts.role) }
            select name="role" {
                @for role in Role::ALL { option value=(role.name()) { (view.role_name(role)) } }
            }
        }
    }
}

/// A form of a page with a session. `sure` is asked before it is sent, if it is given.
pub(crate) fn form(view: &View<'_>, action: &str, sure: Option<&str>, content: &Markup) -> Markup {
    html! {
        form method="post" action=(action) data-confirm=[sure] {
            input type="hidden" name="csrf" value=(view.csrf);
            (content)
        }
    }
}

/// A form of a page with a session that has a file.
pub(crate) fn upload_form(view: &View<'_>, action: &str, content: &Markup) -> Markup {
    html! {
        form method="post" action=(action) enctype="multipart/form-data" {
            input type="hidden" name="csrf" value=(view.csrf);
            (content)
        }
    }
}

/// A button that sends one value, such as the end of a call.
pub(crate) fn button(
    view: &View<'_>,
    action: &str,
    (name, value): (&str, &str),
    text: &str,
    sure: &str,
) -> Markup {
    let content = html! {
        input type="hidden" name=(name) value=(value);
        button.danger { (text) }
    };
    form(view, action, Some(sure), &content)
}

/// The form of a search.
pub(crate) fn search(texts: &Texts, path: &str, label: &str, value: &str) -> Markup {
    html! {
        form.row role="search" method="get" action=(path) {
            (field("search", "search", label, value))
            button { (texts.find) }
        }
    }
}

/// The links to the first and the next page, as far as there are such pages.
pub(crate) fn pager(texts: &Texts, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            p.pager {
                @if let Some(path) = first { a href=(path) { (texts.first_page) } }
                @if let Some(path) = next { a href=(path) rel="next" { (texts.next_page) } }
            }
        }
    }
}

/// A word with the colour of its meaning.
pub(crate) fn tag(is_good: bool, text: &str) -> Markup {
    html! { span.tag.good[is_good].bad[!is_good] { (text) } }
}

/// A part of the page that a script keeps up to date.
pub(crate) fn live(id: &str, content: &Markup) -> Markup {
    html! { div id=(id) data-live { (content) } }
}
