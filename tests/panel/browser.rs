//! The panel in Chromium: an administrator adds a user, sees a call and ends it. All pages fit a
//! narrow screen, and axe-core finds no fault in them.

use crate::page::Panel;
use crate::rig::PASSWORD;
use peers::call::establish;
use peers::server::DOMAIN;

/// The pages of the menu.
const PAGES: [&str; 14] = [
    "",
    "users",
    "registrations",
    "calls",
    "records",
    "refusals",
    "trace?target=alice",
    "trunks",
    "route?number=112",
    "bans",
    "system?doctor=1",
    "import",
    "backup",
    "access",
];

#[test]
fn an_administrator_adds_a_user_and_ends_a_call() {
    let mut panel = Panel::open();
    panel.set_up();
    panel.send("/panel/logout");
    panel.wait_for("Log in");
    panel.fill("/panel/login", "name", "eve");
    panel.fill("/panel/login", "password", "wrong password");
    panel.send("/panel/login");
    panel.wait_for("The name or the password is wrong");
    panel.fill("/panel/login", "name", "eve");
    panel.fill("/panel/login", "password", PASSWORD);
    panel.send("/panel/login");
    panel.wait_for("The server is ready");
    panel.go("users");
    panel.fill("/panel/users", "user", "dave");
    panel.fill("/panel/users", "new", "very secret");
    panel.send("/panel/users\"][method=\"post");
    panel.wait_for(&format!("dave@{DOMAIN} was added"));
    panel.go("calls");
    panel.wait_for("No call stands");
    let exchange = &panel.rig.exchange;
    let (mut caller, mut callee) = establish(exchange.agent("alice"), exchange.agent("bob"));
    // The page shows the call without a reload.
    panel.wait_for(&format!("alice@{DOMAIN}"));
    panel.page.confirm_all();
    panel.send("/panel/calls/end");
    let _ = caller.agent.request("BYE");
    let _ = callee.agent.request("BYE");
    panel.wait_for("was ended");
    panel.wait_for("No call stands");
}

#[test]
fn an_administrator_imports_users_and_restores_a_backup() {
    let mut panel = Panel::open();
    panel.set_up();
    let backup = panel.rig.exchange.server.run(&["backup", "-"]);
    panel.go("users");
    panel.page.evaluate("document.querySelector('a[href=\"/panel/import\"]').click()");
    panel.wait_for("Each line is name:password");
    panel.fill("/panel/import", "text", "dave:very secret\\nno colon");
    panel.send("/panel/import");
    panel.wait_for("1 lines cannot be used");
    panel.wait_for("expected name:password");
    panel.go("import");
    panel.fill("/panel/import", "text", "dave:very secret\\nerin:as secret");
    panel.send("/panel/import");
    panel.wait_for("Nothing was changed yet");
    panel.send("/panel/import/apply");
    panel.wait_for("Users were imported: 2 new");
    panel.wait_for(&format!("erin@{DOMAIN}"));
    panel.go("backup");
    let text = serde_json::to_string(&backup).expect("a text is JSON");
    panel.page.evaluate(&format!(
        "(() => {{ const files = new DataTransfer(); files.items.add(new File([{text}], 'a.jsonl')); \
         document.querySelector('input[type=file]').files = files.files; }})()"
    ));
    panel.send("/panel/backup/restore");
    panel.wait_for("The effect of the restore");
    panel.wait_for("Data");
    panel.wait_for(&format!("2: dave@{DOMAIN}, erin@{DOMAIN}"));
    panel.keep_picture("restore");
    panel.page.confirm_all();
    panel.send("/panel/backup/restore/apply");
    panel.wait_for("The backup was restored");
    panel.go("users");
    assert!(
        !panel
            .page
            .evaluate("document.body.innerText")
            .as_str()
            .unwrap_or_default()
            .contains("dave")
    );
}

#[test]
fn pages_fit_their_screens_and_are_accessible() {
    let mut panel = Panel::open();
    panel.check("setup");
    panel.set_up();
    let exchange = &panel.rig.exchange;
    let _ends = establish(exchange.agent("alice"), exchange.agent("bob"));
    let user = format!("users/alice%40{DOMAIN}");
    for path in PAGES.into_iter().chain([&*user]) {
        panel.go(path);
        let name = path.split(['?', '/']).next().expect("a text has a first part");
        panel.check(match name {
            _ if path == user => "user",
            "" => "overview",
            name => name,
        });
    }
    panel.send("/panel/logout");
    panel.wait_for("Password");
    panel.check("login");
    panel.assert_faultless();
}
