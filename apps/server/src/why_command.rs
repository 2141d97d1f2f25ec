//! `barebell why`.

use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::calls::running;
use crate::cli::WhyFlags;
use crate::failure::Failure;
use crate::history::user;
use crate::output::{Out, printable};
use crate::traces::time;
use crate::why::RefusalRow;

/// Shows the last refusals of a user, a call or an address.
///
/// # Errors
/// [`Failure`] if no server runs, or it cannot be accessed.
pub(crate) fn run(flags: &WhyFlags, out: &mut Out) -> Result<(), Failure> {
    let target = flags.target.clone();
    let request = Request::Why { user: user(&target), target };
    let mut count = 0;
    running(&flags.place)?.list(&request, &mut |row: RefusalRow| {
        count += 1;
        match flags.json {
            true => out.json(&row),
            false => out.text(&text(&row)),
        }
    })?;
    if count == 0 && !flags.json {
        let target = printable(&flags.target);
        return out.line(&format!(
            "no request of {target} is among the last refusals; `barebell trace {target}` shows \
             its messages"
        ));
    }
    Ok(())
}

/// A refusal in words, on lines of their own.
fn text(row: &RefusalRow) -> String {
    let [from, to, source, phrase] =
        [&row.from, &row.to, &row.source, &row.phrase].map(|text| printable(text));
    let at = time(row.at);
    let times = if row.count > 1 { format!(", {} times", row.count) } else { String::new() };
    let result = match row.status {
        Some(status) => format!("{status} {phrase}"),
        None => "dropped without a response".to_owned(),
    };
    let method = printable(&row.method);
    let mut text = format!("{at} {method} of {from} to {to} from {source}: {result}{times}\n");
    for reason in &row.reasons {
        text += &format!("    {} (counter {}); see {}\n", reason.rule, reason.counter, reason.see);
    }
    match &row.answered_by {
        Some(answerer) => text += &format!("    this is the response of {answerer}\n"),
        None if row.reasons.is_empty() => {
            let call_id = printable(&row.call_id);
            text += &format!("    no limit was reached; see `barebell trace {call_id}`\n");
        }
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::ReasonRow;

    #[test]
    fn a_refusal_names_its_rule_and_the_setting() {
        let reason = ReasonRow {
            rule: "the user has no registered phone".to_owned(),
            counter: "unavailable".to_owned(),
            see: "`barebell registrations`".to_owned(),
        };
        let row = RefusalRow {
            at: 1_800_000_000_000_000,
            method: "INVITE".to_owned(),
            from: "alice@example.com".to_owned(),
            to: "bob\u{1b}@example.com".to_owned(),
            call_id: "x".to_owned(),
            source: "udp:192.0.2.1:5060".to_owned(),
            status: Some(480),
            phrase: "Temporarily Unavailable".to_owned(),
            reasons: vec![reason],
            answered_by: None,
            count: 2,
        };
        assert_eq!(
            text(&row),
            "2027-01-15T08:00:00.000Z INVITE of alice@example.com to bob\\u{1b}@example.com from \
             udp:192.0.2.1:5060: 480 Temporarily Unavailable, 2 times\n    the user has no \
             registered phone (counter unavailable); see `barebell registrations`\n"
        );
        let dropped = RefusalRow { status: None, reasons: Vec::new(), count: 1, ..row.clone() };
        let shown = text(&dropped);
        assert!(shown.contains(": dropped without a response\n    no limit was"), "{shown}");
        let answered = Some("udp:192.0.2.9:5060".to_owned());
        let answered = RefusalRow { answered_by: answered, reasons: Vec::new(), ..row };
        assert!(text(&answered).ends_with("    this is the response of udp:192.0.2.9:5060\n"));
    }
}
