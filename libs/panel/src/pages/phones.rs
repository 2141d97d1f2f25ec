//! Links for phones: the form that makes one, the link as a QR code, and the states of links.

use super::frame::View;
use super::parts::{cell, field, form, table};
use crate::links::Made;
use crate::rows::{number, text, time};
use crate::templates::{TEMPLATES, Template};
use crate::texts::fill;
use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::Value;
use std::fmt::Write;

/// The form that makes a link, which is posted to `action`. `has_server` adds a field for the host.
pub(super) fn link_form(view: &View<'_>, action: &str, has_server: bool) -> Markup {
    let texts = view.texts;
    let content = html! {
        label {
            span { (texts.phone_kind) }
            select name="kind" {
                @for template in &TEMPLATES {
                    option value=(template.name) { (template.label) }
                }
            }
        }
        label {
            span { (texts.transport) }
            select name="transport" {
                @for name in ["udp", "tcp", "tls"] { option value=(name) { (name) } }
            }
        }
        @if has_server { (field("text", "server", texts.phone_host, "")) }
        p { (texts.phone_link_about) }
        button { (texts.make_phone_link) }
    };
    form(view, action, None, &content)
}

/// The links of a user with their states.
pub(super) fn link_table(view: &View<'_>, links: &[Value]) -> Markup {
    let texts = view.texts;
    let rows: Vec<_> = links
        .iter()
        .map(|row| {
            let kind = text(row, "kind");
            let label = Template::named(&kind).map_or(&*kind, |template| template.label);
            let state = match &*text(row, "state") {
                "waits" => texts.link_waits,
                "fetched" => texts.link_fetched,
                "registered" => texts.link_registered,
                "heard" => texts.link_heard,
                _ => texts.link_replaced,
            };
            vec![
                cell(label),
                cell(time(number(row, "made").unwrap_or_default())),
                cell(time(number(row, "until").unwrap_or_default())),
                cell(number(row, "fetched").map_or_else(String::new, time)),
                cell(state),
            ]
        })
        .collect();
    let heads = [texts.phone_kind, texts.created, texts.until, texts.link_fetched, texts.state];
    table(texts.phone_links, &heads, &rows, texts.no_phone_links)
}

/// A new link, which is shown once.
pub(super) fn new_link(view: &View<'_>, made: &Made, back: &str) -> Markup {
    let texts = view.texts;
    html! {
        p { (fill(texts.phone_link_made, &[made.template.label, &time(made.until)])) }
        p { code { (made.url) } }
        (qr(texts.phone_link_code, &made.url))
        p { a href=(back) { (texts.back) } }
    }
}

/// The QR code of `text`.
pub(super) fn qr(label: &str, text: &str) -> Markup {
    let Ok(code) = QrCode::encode_text(text, QrCodeEcc::Medium) else { return html! {} };
    // Four modules of white around it, as ISO/IEC 18004 demands.
    let size = code.size() + 8;
    let mut path = String::new();
    for (x, y) in (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y))) {
        if code.get_module(x, y) {
            // Writing to a string cannot fail.
            let _ = write!(path, "M{} {}h1v1h-1z", x + 4, y + 4);
        }
    }
    html! {
        svg.qr role="img" aria-label=(label) viewBox=(format!("0 0 {size} {size}")) {
            rect width=(size) height=(size) fill="#ffffff" {}
            path d=(path) fill="#000000" {}
        }
    }
}
