//! The login and the making of the first administrator.

use super::frame::bare;
use super::parts::{code_field, field};
use crate::password::MIN_LENGTH;
use crate::texts::Texts;
use maud::html;

/// The login of accounts, with a link to that of users if they have pages.
pub(crate) fn login(texts: &Texts, has_users: bool, notice: Option<&(bool, String)>) -> String {
    let other = has_users.then_some(("/panel/me/login", texts.user_log_in));
    let names = (texts.log_in, texts.name);
    form("/panel/login", texts, names, Some(texts.login_code), other, notice)
}

/// The login of users.
pub(crate) fn user_login(texts: &Texts, notice: Option<&(bool, String)>) -> String {
    let other = Some(("/panel/login", texts.account_log_in));
    form("/panel/me/login", texts, (texts.user_log_in, texts.user_name), None, other, notice)
}

fn form(
    path: &str,
    texts: &Texts,
    (title, name): (&str, &str),
    code: Option<&str>,
    other: Option<(&str, &str)>,
    notice: Option<&(bool, String)>,
) -> String {
    let body = html! {
        form.card method="post" action=(path) {
            label {
                span { (name) }
                input name="name" autocomplete="username" required autofocus maxlength="320";
            }
            (field("password", "password", texts.password, ""))
            @if let Some(label) = code { (code_field(label)) }
            button { (texts.log_in) }
        }
        @if let Some((path, text)) = other { p { a href=(path) { (text) } } }
    };
    bare(texts, title, notice, &body)
}

/// The form for the first administrator, behind the link with `key`, with the `name` that was
/// entered before.
pub(crate) fn setup(
    texts: &Texts,
    key: &str,
    name: &str,
    notice: Option<&(bool, String)>,
) -> String {
    let password = |name: &str, label: &str| {
        html! {
            label {
                span { (label) }
                input type="password" name=(name) autocomplete="new-password" required
                    minlength=(MIN_LENGTH);
            }
        }
    };
    let body = html! {
        p { (texts.setup_about) }
        form.card method="post" action="/panel/setup" {
            input type="hidden" name="key" value=(key);
            label {
                span { (texts.account_name) }
                input name="name" value=(name) autocomplete="username" required autofocus
                    maxlength="64" pattern="[A-Za-z0-9._\\-]+" title=(texts.bad_account);
            }
            (password("new", texts.password))
            (password("again", texts.password_again))
            button { (texts.setup_do) }
        }
    };
    bare(texts, texts.setup, notice, &body)
}

/// A page with a message and a link to the login.
pub(crate) fn message(texts: &Texts, text: &str) -> String {
    let body = html! {
        p { (text) }
        p { a href="/panel/login" { (texts.log_in) } }
    };
    bare(texts, texts.failed, None, &body)
}
