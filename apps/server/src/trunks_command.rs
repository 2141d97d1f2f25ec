//! `barebell trunks`.

use crate::admin::Request;
use crate::admin::trunk::{Part, Trunk};
use crate::cli::ScreenFlags;
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::screens::{Rows, aligned};
use std::time::Duration;

/// Shows the state of the trunks.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed.
pub(crate) fn run(flags: &ScreenFlags, out: &mut Out) -> Result<(), Failure> {
    let none = "no server with trunks runs\n";
    // They come in the order of the configuration.
    Rows { request: Request::Trunks, none, sort: |_| {}, table }.show(flags, out)
}

/// A time in whole seconds.
fn time(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

/// The last reason of a part, and its next event.
fn remark(part: &Part) -> String {
    let retry = part.retry_in.map(|seconds| format!("asked again in {}", time(seconds)));
    let end = part.expires_in.map(|seconds| format!("for {}", time(seconds)));
    let reason = Some(printable(&part.reason)).filter(|reason| !reason.is_empty());
    [reason, retry, end].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// A table of trunks: a line for the trunk, and one for each server and account.
fn table(trunks: &[Trunk]) -> String {
    let head = ["trunk", "part", "state", "since", "remark"].map(str::to_owned);
    let mut lines = vec![head];
    for trunk in trunks {
        let name = printable(&trunk.name);
        let state = if trunk.usable { "usable" } else { "not usable" };
        let target = match &trunk.target {
            Some(target) => format!("requests go to {target}"),
            None if !trunk.lookup.is_empty() => printable(&trunk.lookup),
            None if trunk.servers.is_empty() => "its servers are being located".to_owned(),
            None => "no server works".to_owned(),
        };
        lines.push([name.clone(), "-".to_owned(), state.to_owned(), "-".to_owned(), target]);
        for part in trunk.servers.iter().chain(&trunk.accounts) {
            let what = [printable(&part.name), part.state.clone(), time(part.seconds)];
            let [part_name, state, since] = what;
            lines.push([name.clone(), part_name, state, since, remark(part)]);
        }
    }
    aligned(lines.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_and_account_has_its_last_reason() {
        let part = |name: &str, state: &str, reason: &str, retry_in, expires_in| Part {
            name: name.to_owned(),
            state: state.to_owned(),
            reason: reason.to_owned(),
            seconds: 61,
            retry_in,
            expires_in,
        };
        let trunk = Trunk {
            name: "one".to_owned(),
            usable: true,
            target: Some("udp:192.0.2.2:5060".to_owned()),
            lookup: String::new(),
            servers: vec![
                part("udp:192.0.2.1:5060", "failed", "no answer\u{1b}", Some(9), None),
                part("udp:192.0.2.2:5060", "works", "", None, None),
            ],
            accounts: vec![part("sip:1@a", "registered", "", None, Some(590))],
        };
        let mut lost = trunk.clone();
        (lost.target, lost.usable) = (None, false);
        assert!(table(&[lost]).contains("not usable  -      no server works\n"));
        assert_eq!(
            table(&[trunk]),
            "trunk  part                state       since  remark\n\
             one    -                   usable      -      requests go to udp:192.0.2.2:5060\n\
             one    udp:192.0.2.1:5060  failed      1m 1s  no answer\\u{1b}; asked again in 9s\n\
             one    udp:192.0.2.2:5060  works       1m 1s\n\
             one    sip:1@a             registered  1m 1s  for 9m 50s\n"
        );
    }
}
