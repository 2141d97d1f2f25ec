//! Users and their registrations.

use super::frame::{View, page};
use super::parts::{cell, field, form, live, pager, search, table};
use super::phones::{link_form, link_table, new_link, settings};
use crate::form::{encoded, query};
use crate::links::Made;
use crate::role::Role;
use crate::rows::{duration, number, text};
use crate::texts::fill;
use maud::{Markup, html};
use serde_json::Value;

/// The address of a user, `name@domain`.
pub(crate) fn address(row: &Value) -> String {
    format!("{}@{}", text(row, "name"), text(row, "domain"))
}

fn path(address: &str) -> String {
    format!("/panel/users/{}", encoded(address))
}

/// The call services of a user in words.
fn in_words(services: &Value, view: &View<'_>) -> String {
    let texts = view.texts;
    let mut words = Vec::new();
    if services["do_not_disturb"] == true {
        words.push(texts.do_not_disturb.to_owned());
    }
    for (name, label) in [
        ("always", texts.forward_always),
        ("busy", texts.forward_busy),
        ("no_answer", texts.forward_no_answer),
        ("unreachable", texts.forward_unreachable),
    ] {
        let target = text(services, name);
        if !target.is_empty() {
            words.push(format!("{label} {target}"));
        }
    }
    words.join("; ")
}

/// A page of the users that fit `wanted`. `next` is the last one of it, if there are more.
pub(crate) fn list(
    view: &View<'_>,
    (wanted, after): (&str, Option<&str>),
    users: &[Value],
    next: Option<&str>,
    status: &Value,
) -> String {
    let texts = view.texts;
    let elsewhere = text(status, "accounts");
    let rows: Vec<_> = users
        .iter()
        .map(|row| {
            let address = address(row);
            vec![
                html! { a href=(path(&address)) { (address) } },
                cell(in_words(&row["services"], view)),
            ]
        })
        .collect();
    let heads = [texts.user, texts.services];
    let first = format!("/panel/users{}", query(&[("search", wanted)]));
    let next =
        next.map(|last| format!("/panel/users{}", query(&[("search", wanted), ("after", last)])));
    let domains = status["domains"].as_array().map_or(&[][..], Vec::as_slice);
    let name = match domains {
        [domain] => fill(texts.new_user_name, &[domain.as_str().unwrap_or_default()]),
        _ => texts.user_name.to_owned(),
    };
    let add = html! {
        label {
            span { (name) }
            input name="user" required maxlength="320" autocapitalize="none";
        }
        (field("password", "new", texts.new_user_password, ""))
        button { (texts.add_user_do) }
    };
    let empty = if wanted.is_empty() { texts.no_users } else { texts.no_user_fits };
    let body = html! {
        @if !elsewhere.is_empty() { p.notice { (fill(texts.users_elsewhere, &[&elsewhere])) } }
        (search(texts, "/panel/users", texts.search_users, wanted))
        (table(texts.users, &heads, &rows, empty))
        (pager(texts, after.map(|_| &*first), next.as_deref()))
        @if view.may(Role::Operator) && elsewhere.is_empty() {
            section {
                h2 { (texts.add_user) }
                (form(view, "/panel/users", None, &add))
                p { a href="/panel/import" { (texts.import_users) } }
            }
        }
    };
    page(view, "/panel/users", texts.users, &body)
}

/// The fields of a form for call services.
pub(super) fn service_fields(view: &View<'_>, services: &Value) -> Markup {
    let texts = view.texts;
    let after = number(services, "after").map_or_else(String::new, |it| (it / 1000).to_string());
    html! {
        (field("text", "always", texts.forward_always, &text(services, "always")))
        (field("text", "busy", texts.forward_busy, &text(services, "busy")))
        (field("text", "no_answer", texts.forward_no_answer, &text(services, "no_answer")))
        (field("number", "after", texts.forward_after, &after))
        (field("text", "unreachable", texts.forward_unreachable, &text(services, "unreachable")))
        label.check {
            input type="checkbox" name="do_not_disturb" value="1"
                checked[services["do_not_disturb"] == true];
            span { (texts.do_not_disturb) }
        }
        p { (texts.forward_help) }
        button { (texts.save) }
    }
}

/// The page of a new link for a phone of the user `address`.
pub(crate) fn link(view: &View<'_>, address: &str, made: &Made) -> String {
    let body = new_link(view, made, &path(address));
    page(view, "/panel/users", address, &body)
}

/// The page of one user: the registered phones, the links for phones, and the status of the server.
pub(crate) fn one(
    view: &View<'_>,
    user: &Value,
    phones: &[Value],
    (links, status): (&[Value], &Value),
) -> String {
    let (texts, address) = (view.texts, address(user));
    let services = &user["services"];
    let changes = service_fields(view, services);
    let password = html! {
        (field("password", "new", texts.new_password, ""))
        button { (texts.change_password) }
    };
    let remove = html! {
        p { (texts.remove_user_about) }
        button.danger { (texts.remove_user) }
    };
    let records = format!("/panel/records{}", query(&[("user", &address)]));
    let body = html! {
        p { a href=(records) { (fill(texts.records_of_user, &[&address])) } }
        h2 { (texts.phones) }
        (live("phones", &phone_table(view, phones, texts.no_registrations)))
        @if view.may(Role::Operator) {
            section {
                h2 { (texts.phone_links) }
                (live("links", &link_table(view, links)))
                (link_form(view, &format!("{}/phone", path(&address)), status, true))
                details {
                    summary { (texts.settings_by_hand) }
                    (settings(view, &address, status))
                }
            }
            section {
                h2 { (texts.forwards) }
                (form(view, &format!("{}/services", path(&address)), None, &changes))
            }
            section {
                h2 { (texts.change_password) }
                (form(view, &format!("{}/password", path(&address)), None, &password))
            }
            section {
                h2 { (texts.remove_user) }
                (form(
                    view,
                    &format!("{}/remove", path(&address)),
                    Some(&fill(texts.remove_user_sure, &[&address])),
                    &remove,
                ))
            }
        } @else {
            p { (texts.services) ": " (in_words(services, view)) }
        }
    };
    page(view, "/panel/users", &address, &body)
}

/// A page of the registrations that fit `wanted`.
pub(crate) fn registrations(
    view: &View<'_>,
    (wanted, is_first): (&str, bool),
    rows: &[Value],
    next: Option<&(String, String)>,
) -> String {
    let texts = view.texts;
    let empty = match wanted {
        "" => texts.no_registrations,
        _ => texts.no_registration_fits,
    };
    let first = format!("/panel/registrations{}", query(&[("search", wanted)]));
    let next = next.map(|(user, contact)| {
        let fields = [("search", wanted), ("after", &**user), ("contact", &**contact)];
        format!("/panel/registrations{}", query(&fields))
    });
    let body = html! {
        (search(texts, "/panel/registrations", texts.search_registrations, wanted))
        (live("registrations", &phone_table(view, rows, empty)))
        (pager(texts, (!is_first).then_some(&*first), next.as_deref()))
    };
    page(view, "/panel/registrations", texts.registrations, &body)
}

fn end_registration(view: &View<'_>, user: &str, contact: &str) -> Markup {
    let content = html! {
        input type="hidden" name="user" value=(user);
        input type="hidden" name="contact" value=(contact);
        button.danger { (view.texts.end_registration) }
    };
    let sure = fill(view.texts.end_registration_sure, &[user, contact]);
    form(view, "/panel/registrations/end", Some(&sure), &content)
}

fn phone_table(view: &View<'_>, rows: &[Value], empty: &str) -> Markup {
    let texts = view.texts;
    let has_agents = rows.iter().any(|row| row["user_agent"].is_string());
    let mut heads = vec![texts.user, texts.contact, texts.flow, texts.expires_in];
    if has_agents {
        heads.insert(1, texts.phone);
    }
    if view.may(Role::Operator) {
        heads.push(texts.end_registration);
    }
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let user = text(row, "address_of_record");
            let mut cells = vec![
                html! { a href=(path(&user)) { (user) } },
                html! { code { (text(row, "contact")) } },
                html! { code { (text(row, "flow")) } },
                cell(duration(number(row, "expires_in").unwrap_or_default())),
            ];
            if view.may(Role::Operator) {
                cells.push(end_registration(view, &user, &text(row, "contact")));
            }
            if has_agents {
                cells.insert(1, cell(text(row, "user_agent")));
            }
            cells
        })
        .collect();
    table(texts.registrations, &heads, &rows, empty)
}
