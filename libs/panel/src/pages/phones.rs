//! Links for phones: the form that makes one, the link as a QR code, and the states of links.

use super::frame::View;
use super::parts::{cell, facts, field, form, table};
use crate::links::{Made, transports};
use crate::rows::{number, text, time};
use crate::templates::{TEMPLATES, Template};
use crate::texts::{Texts, fill};
use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::Value;
use std::fmt::Write;

/// The form that makes a link, which is posted to `action`, for the transports of the server with
/// this `status`. `has_server` adds a field for the host.
pub(super) fn link_form(view: &View<'_>, action: &str, status: &Value, has_server: bool) -> Markup {
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
                @for name in transports(status) { option value=(name) { (name) } }
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
                "ended" => texts.link_ended,
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
    let heads = [texts.phone_kind, texts.created, texts.until, texts.fetched_at, texts.state];
    table(texts.phone_links, &heads, &rows, texts.no_phone_links)
}

/// A new link, which is shown once.
pub(super) fn new_link(view: &View<'_>, made: &Made, back: &str) -> Markup {
    let texts = view.texts;
    let is_local = made.is_local && made.template.name != BAREBELL_PHONE;
    html! {
        p { (fill(texts.phone_link_made, &[made.template.label, &time(made.until)])) }
        @if is_local { p.notice.bad { (texts.phone_link_local) } }
        p { (steps(texts, made.template)) }
        @if made.template.name == BAREBELL_PHONE {
            p { code { "barebell-phone provision '" (made.url) "'" } }
        } @else {
            p { code { (made.url) } }
        }
        @if made.template.name == "linphone" { (qr(texts.phone_link_code, &made.url)) }
        p.hint { (texts.phone_link_use) }
        p { a href=(back) { (texts.back) } }
    }
}

/// The name of the template for `barebell-phone`.
const BAREBELL_PHONE: &str = "barebell-phone";

/// The way of the link into a phone.
fn steps(texts: &Texts, template: &Template) -> &'static str {
    match template.name {
        "linphone" => texts.steps_linphone,
        "yealink" => texts.steps_yealink,
        "grandstream" => texts.steps_grandstream,
        "snom" => texts.steps_snom,
        _ => texts.steps_barebell_phone,
    }
}

/// The settings of a phone of the user `address` at the server with this `status`, to be entered by
/// hand.
pub(super) fn settings(view: &View<'_>, address: &str, status: &Value) -> Markup {
    let texts = view.texts;
    let (name, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let listens = status["listens"].as_array().into_iter().flatten();
    let listens: Vec<_> = listens.filter_map(Value::as_str).collect();
    facts(&[
        (texts.phone_user, name.to_owned()),
        (texts.phone_domain, domain.to_owned()),
        (texts.phone_server, listens.join(", ")),
    ])
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
