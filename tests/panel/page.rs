//! A page of the panel in Chromium, as tests drive and check it.

use crate::rig::{PASSWORD, Rig};
use peers::devtools::Devtools;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The text of the page.
const SHOWN: &str = "document.body.innerText";

/// A server with a panel, and a browser.
pub(crate) struct Panel {
    pub(crate) rig: Rig,
    pub(crate) page: Devtools,
    /// The faults that [`check`](Self::check) has found.
    faults: Vec<String>,
}

impl Panel {
    /// A browser at the page for the first administrator of a server.
    pub(crate) fn open() -> Self {
        let rig = Rig::new("[media]\nrelay = \"all\"\n");
        let path = rig.setup_path();
        Self::open_at(rig, &path, "The first administrator")
    }

    /// A browser at the page `path` of the server of `rig`, which has `text`.
    pub(crate) fn open_at(rig: Rig, path: &str, text: &str) -> Self {
        let url = format!("http://{}{path}", rig.address);
        let page = Devtools::open(&url, &rig.exchange.server.certificate());
        let mut panel = Self { rig, page, faults: Vec::new() };
        panel.wait_for(text);
        panel
    }

    pub(crate) fn wait_for(&mut self, text: &str) {
        self.page.wait_for(&format!("document.body.innerText.includes('{text}')"), SHOWN);
    }

    pub(crate) fn shows(&mut self, text: &str) -> bool {
        let shown = self.page.evaluate(SHOWN);
        shown.as_str().is_some_and(|shown| shown.contains(text))
    }

    /// Fills the field of the form that posts to `action`.
    pub(crate) fn fill(&mut self, action: &str, name: &str, text: &str) {
        self.page.evaluate(&format!(
            "document.querySelector('form[action$=\"{action}\"] [name=\"{name}\"]').value = '{text}'"
        ));
    }

    pub(crate) fn value(&mut self, name: &str) -> String {
        let value =
            self.page.evaluate(&format!("document.querySelector('[name=\"{name}\"]').value"));
        value.as_str().expect("a field has a value").to_owned()
    }

    pub(crate) fn send(&mut self, action: &str) {
        self.page.evaluate(&format!(
            "document.querySelector('form[action$=\"{action}\"] button').click()"
        ));
    }

    /// Sends a form, and waits for the next page, which may have the same text.
    pub(crate) fn send_and_wait(&mut self, action: &str) {
        self.page.evaluate("window.isFormer = true");
        self.send(action);
        self.page.wait_for("!window.isFormer && document.readyState === 'complete'", SHOWN);
    }

    pub(crate) fn go(&mut self, path: &str) {
        self.page.evaluate(&format!("window.isFormer = true; location.href = '/panel/{path}'"));
        let place = format!("!window.isFormer && location.href.endsWith('/panel/{path}')");
        self.page.wait_for(&format!("{place} && document.readyState === 'complete'"), SHOWN);
    }

    /// Makes the first administrator.
    pub(crate) fn set_up(&mut self) {
        for (name, text) in [("name", "eve"), ("new", PASSWORD), ("again", PASSWORD)] {
            self.fill("/panel/setup", name, text);
        }
        self.send("/panel/setup");
        self.wait_for("The server is ready");
    }

    /// Checks that the page fits wide and narrow screens, and that axe-core finds no fault in it,
    /// in light and in dark colours. Keeps pictures of it in the folder that `BAREBELL_PICTURES`
    /// names.
    pub(crate) fn check(&mut self, name: &str) {
        let axe = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/browsers/axe.js");
        let axe = std::fs::read_to_string(axe).unwrap_or_else(|error| {
            panic!("{axe}: {error}; ./test copies it, by tests/browsers/bundle")
        });
        for (width, is_dark) in [(1280, false), (1280, true), (400, false), (400, true)] {
            self.page.show_as(width, is_dark);
            let wide =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            let wide = self.page.evaluate(wide);
            if wide.as_i64() != Some(0) {
                self.faults.push(format!("{name} at {width}: {wide} pixels too wide"));
            }
            self.page.evaluate(&axe);
            let found = self.page.evaluate(
                "axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) => \
                 `${impact} ${id}: ${nodes.map((node) => node.target + ' ' + node.failureSummary)}`))",
            );
            let found = found.as_array().expect("axe gives a list").clone();
            let found = found.iter().filter_map(Value::as_str);
            self.faults
                .extend(found.map(|fault| format!("{name} at {width}, dark {is_dark}: {fault}")));
            let colours = if is_dark { "dark" } else { "light" };
            self.keep_picture(&format!("{name}-{width}-{colours}"));
        }
    }

    /// Fails if a checked page had faults.
    pub(crate) fn assert_faultless(&self) {
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n"));
    }

    pub(crate) fn keep_picture(&mut self, name: &str) {
        if let Some(folder) = std::env::var_os("BAREBELL_PICTURES") {
            let folder = PathBuf::from(folder);
            let text = folder.join(format!("{name}.base64"));
            std::fs::write(&text, self.page.picture()).expect("the folder can be written");
            let decoded = Command::new("base64").arg("-d").arg(&text).output();
            let decoded = decoded.expect("coreutils are installed").stdout;
            std::fs::write(folder.join(format!("{name}.png")), decoded)
                .expect("the folder can be written");
            std::fs::remove_file(&text).expect("the folder can be written");
        }
    }
}
