//! The frame of each page: head, menu, message.

use crate::role::Role;
use crate::texts::{Texts, fill};
use maud::{DOCTYPE, Markup, html};

/// The circumstances of a page.
#[derive(Clone, Debug)]
pub(crate) struct View<'v> {
    pub(crate) texts: &'v Texts,
    pub(crate) account: &'v str,
    pub(crate) role: Role,
    /// The value that each form contains.
    pub(crate) csrf: &'v str,
    /// A message: true if it is about a failure.
    pub(crate) notice: Option<(bool, String)>,
}

impl View<'_> {
    /// The name of a role in the language of the page.
    pub(crate) const fn role_name(&self, role: Role) -> &'static str {
        match role {
            Role::Reader => self.texts.role_reader,
            Role::Operator => self.texts.role_operator,
            Role::Administrator => self.texts.role_administrator,
        }
    }

    /// True if the account may do what needs `role`.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.role >= role
    }
}

/// The pages of the menu: path, title, and the role that sees it.
fn menu(texts: &Texts) -> [(&'static str, &'static str, Role); 13] {
    [
        ("/panel/", texts.overview, Role::Reader),
        ("/panel/users", texts.users, Role::Reader),
        ("/panel/registrations", texts.registrations, Role::Reader),
        ("/panel/calls", texts.calls, Role::Reader),
        ("/panel/records", texts.records, Role::Reader),
        ("/panel/refusals", texts.refusals, Role::Reader),
        ("/panel/trace", texts.trace, Role::Operator),
        ("/panel/trunks", texts.trunks, Role::Reader),
        ("/panel/route", texts.route, Role::Reader),
        ("/panel/bans", texts.bans, Role::Reader),
        ("/panel/system", texts.system, Role::Reader),
        ("/panel/backup", texts.backup, Role::Administrator),
        ("/panel/access", texts.access, Role::Reader),
    ]
}

/// The page `title` at `path` of the menu, with the content `body`.
pub(crate) fn page(view: &View<'_>, path: &str, title: &str, body: &Markup) -> String {
    let texts = view.texts;
    let header = html! {
        header {
            a.brand href="/panel/" { (texts.product) }
            nav aria-label=(texts.menu) {
                @for (target, name, role) in menu(texts) {
                    @if view.may(role) {
                        a href=(target) aria-current=[(target == path).then_some("page")] { (name) }
                    }
                }
            }
            form.self method="post" action="/panel/logout" {
                input type="hidden" name="csrf" value=(view.csrf);
                span { (fill(texts.logged_in_as, &[view.account, view.role_name(view.role)])) }
                button.plain { (texts.log_out) }
            }
        }
    };
    document(texts, title, &header, view.notice.as_ref(), body)
}

/// The page `title` of a user, with the content `body`.
pub(crate) fn own_page(view: &View<'_>, path: &str, title: &str, body: &Markup) -> String {
    let texts = view.texts;
    let menu = [("/panel/me/", texts.own_page), ("/panel/me/calls", texts.own_calls)];
    let header = html! {
        header {
            a.brand href="/panel/me/" { (texts.product) }
            nav aria-label=(texts.menu) {
                @for (target, name) in menu {
                    a href=(target) aria-current=[(target == path).then_some("page")] { (name) }
                }
            }
            form.self method="post" action="/panel/me/logout" {
                input type="hidden" name="csrf" value=(view.csrf);
                span { (view.account) }
                button.plain { (texts.log_out) }
            }
        }
    };
    document(texts, title, &header, view.notice.as_ref(), body)
}

/// A page without a session, such as the login.
pub(crate) fn bare(
    texts: &Texts,
    title: &str,
    notice: Option<&(bool, String)>,
    body: &Markup,
) -> String {
    let header = html! { header { span.brand { (texts.product) } } };
    document(texts, title, &header, notice, body)
}

fn document(
    texts: &Texts,
    title: &str,
    header: &Markup,
    notice: Option<&(bool, String)>,
    body: &Markup,
) -> String {
    let page = html! {
        (DOCTYPE)
        html lang=(texts.language) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – " (texts.product) }
                link rel="stylesheet" href="/panel/panel.css";
                link rel="icon" type="image/svg+xml" href="/panel/icon.svg";
                script src="/panel/panel.js" defer {}
            }
            body {
                a.skip href="#content" { (texts.skip) }
                (header)
                main id="content" tabindex="-1" {
                    h1 { (title) }
                    @if let Some((is_failure, text)) = notice {
                        p.notice.bad[*is_failure].good[!*is_failure] role="status" { (text) }
                    }
                    (body)
                }
            }
        }
    };
    page.into_string()
}
