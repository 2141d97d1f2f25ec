//! Bans, certificates, the configuration, and the checks of the doctor.

use super::frame::{View, page};
use super::parts::{button, cell, form, live, table, tag};
use crate::role::Role;
use crate::rows::text;
use maud::html;
use serde_json::Value;

/// The banned sources.
pub(crate) fn bans(view: &View<'_>, bans: &[Value]) -> String {
    let texts = view.texts;
    let rows: Vec<_> = bans
        .iter()
        .map(|row| {
            let source = text(row, "source");
            let mut cells = vec![cell(&source), cell(text(row, "until"))];
            if view.may(Role::Operator) {
                let sure = format!("{}: {source}?", texts.lift);
                let sent = ("source", &*source);
                cells.push(button(view, "/panel/bans/lift", sent, texts.lift, &sure));
            }
            cells
        })
        .collect();
    let mut heads = vec![texts.source, texts.until];
    if view.may(Role::Operator) {
        heads.push(texts.lift);
    }
    let body = html! {
        p { (texts.bans_about) }
        (live("bans", &table(texts.bans, &heads, &rows, texts.no_bans)))
    };
    page(view, "/panel/bans", texts.bans, &body)
}

/// Certificates and the check of the configuration. `findings` are those of the doctor, if it was
/// asked.
pub(crate) fn system(
    view: &View<'_>,
    certificates: &[Value],
    check: &Value,
    findings: Option<&[Value]>,
) -> String {
    let texts = view.texts;
    let heads = [texts.file, texts.valid_until, texts.fingerprint];
    let rows: Vec<_> = certificates
        .iter()
        .map(|row| {
            vec![
                html! { code { (text(row, "file")) } },
                cell(text(row, "valid_until")),
                html! { code { (text(row, "fingerprint")) } },
            ]
        })
        .collect();
    let is_good = check["ok"] == true;
    let lines = check["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // The notice says it.
    let lines: Vec<_> = lines.filter(|line| !line.ends_with("has no mistakes")).collect();
    let has_warnings = lines.iter().any(|line| line.starts_with("warning"));
    let state = match (is_good, has_warnings) {
        (true, false) => texts.check_good,
        (true, true) => texts.check_warnings,
        (false, _) => texts.check_bad,
    };
    let reload = html! { button { (texts.reload) } };
    let body = html! {
        section {
            h2 { (texts.certificates) }
            (table(texts.certificates, &heads, &rows, texts.no_certificates))
        }
        section {
            h2 { (texts.configuration) }
            p.notice.good[is_good && !has_warnings].bad[!is_good] { (state) }
            ul { @for line in lines { li { (line) } } }
            @if view.may(Role::Administrator) && is_good {
                (form(view, "/panel/system/reload", Some(texts.reload_sure), &reload))
            }
        }
        section {
            h2 id="doctor" { (texts.doctor) }
            p { (texts.doctor_about) }
            @match findings {
                Some(findings) => (doctor(view, findings)),
                None => {
                    form method="get" action="/panel/system" {
                        input type="hidden" name="doctor" value="1";
                        button { (texts.run_doctor) }
                    }
                }
            }
        }
    };
    page(view, "/panel/system", texts.system, &body)
}

fn doctor(view: &View<'_>, findings: &[Value]) -> maud::Markup {
    let texts = view.texts;
    let rows: Vec<_> = findings
        .iter()
        .map(|row| {
            let severity = text(row, "severity");
            vec![
                cell(text(row, "check")),
                tag(severity == "ok", &severity),
                cell(text(row, "text")),
                cell(text(row, "remedy")),
            ]
        })
        .collect();
    let heads = [texts.check, texts.state, texts.finding, texts.remedy];
    table(texts.doctor, &heads, &rows, "")
}
