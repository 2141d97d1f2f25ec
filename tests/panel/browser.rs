//! The panel in Chromium: an administrator adds a user, sees a call and ends it. All pages fit a
//! narrow screen, and axe-core finds no fault in them.

use crate::rig::{PASSWORD, Rig};
use peers::call::establish;
use peers::devtools::Devtools;
use peers::server::DOMAIN;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The text of the page.
const SHOWN: &str = "document.body.innerText";

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

struct Panel {
    rig: Rig,
    page: Devtools,
}

impl Panel {
    /// A browser at the login or the setup of a server.
    fn open() -> Self {
        let rig = Rig::new("[media]\nrelay = \"all\"\n");
        let url = format!("http://{}{}", rig.address, rig.setup_path());
        let page = Devtools::open(&url, &rig.exchange.server.certificate());
        let mut panel = Self { rig, page };
        panel.wait_for("The first administrator");
        panel
    }

    fn wait_for(&mut self, text: &str) {
        self.page.wait_for(&format!("document.body.innerText.includes('{text}')"), SHOWN);
    }

    /// Fills the field of the form that posts to `action`.
    fn fill(&mut self, action: &str, name: &str, text: &str) {
        self.page.evaluate(&format!(
            "document.querySelector('form[action$=\"{action}\"] [name=\"{name}\"]').value = '{text}'"
        ));
    }

    fn send(&mut self, action: &str) {
        self.page.evaluate(&format!(
            "document.querySelector('form[action$=\"{action}\"] button').click()"
        ));
    }

    fn go(&mut self, path: &str) {
        self.page.evaluate(&format!("location.href = '/panel/{path}'"));
        let place = format!("location.href.endsWith('/panel/{path}')");
        self.page.wait_for(&format!("{place} && document.readyState === 'complete'"), SHOWN);
    }

    fn set_up(&mut self) {
        for (name, text) in [("name", "eve"), ("new", PASSWORD), ("again", PASSWORD)] {
            self.fill("/panel/setup", name, text);
        }
        self.send("/panel/setup");
        self.wait_for("The server is ready");
    }

    /// Keeps a picture of the page in the folder that `BAREBELL_PICTURES` names.
    fn keep_picture(&mut self, name: &str) {
        if let Some(folder) = std::env::var_os("BAREBELL_PICTURES") {
            let folder = PathBuf::from(folder);
            let text = folder.join("picture.base64");
            std::fs::write(&text, self.page.picture()).expect("the folder can be written");
            let decoded = Command::new("base64").arg("-d").arg(&text).output();
            let decoded = decoded.expect("coreutils are installed").stdout;
            std::fs::write(folder.join(format!("{name}.png")), decoded)
                .expect("the folder can be written");
        }
    }
}

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
    assert!(!panel.page.evaluate(SHOWN).as_str().unwrap_or_default().contains("dave"));
}

#[test]
fn pages_fit_their_screens_and_are_accessible() {
    let axe = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/browsers/axe.js");
    let axe = std::fs::read_to_string(axe).unwrap_or_else(|error| {
        panic!("{axe}: {error}; ./test copies it, by tests/browsers/bundle")
    });
    let mut panel = Panel::open();
    let mut faults = Vec::new();
    let mut check = |panel: &mut Panel, name: &str| {
        for (width, is_dark) in [(1280, false), (1280, true), (400, false), (400, true)] {
            panel.page.show_as(width, is_dark);
            let wide =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            let wide = panel.page.evaluate(wide);
            if wide.as_i64() != Some(0) {
                faults.push(format!("{name} at {width}: {wide} pixels too wide"));
            }
            panel.page.evaluate(&axe);
            let found = panel.page.evaluate(
                "axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) => \
                 `${impact} ${id}: ${nodes.map((node) => node.target + ' ' + node.failureSummary)}`))",
            );
            let found = found.as_array().expect("axe gives a list").clone();
            let found = found.iter().filter_map(Value::as_str);
            faults.extend(found.map(|fault| format!("{name} at {width}, dark {is_dark}: {fault}")));
            let colours = if is_dark { "dark" } else { "light" };
            panel.keep_picture(&format!("{name}-{width}-{colours}"));
        }
    };
    check(&mut panel, "setup");
    panel.set_up();
    let exchange = &panel.rig.exchange;
    let _ends = establish(exchange.agent("alice"), exchange.agent("bob"));
    let user = format!("users/alice%40{DOMAIN}");
    for path in PAGES.into_iter().chain([&*user]) {
        panel.go(path);
        let name = path.split(['?', '/']).next().expect("a text has a first part");
        let name = if path == user {
            "user"
        } else if name.is_empty() {
            "overview"
        } else {
            name
        };
        check(&mut panel, name);
    }
    panel.send("/panel/logout");
    panel.wait_for("Password");
    check(&mut panel, "login");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
