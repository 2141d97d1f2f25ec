//! `barebell limits`.

use crate::admin::Request;
use crate::admin::limited_use::LimitedUse;
use crate::cli::ScreenFlags;
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::screens::{Rows, aligned};

/// Shows the use of trunks within its limits.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed.
pub(crate) fn run(flags: &ScreenFlags, out: &mut Out) -> Result<(), Failure> {
    let none = "no call has gone through a trunk today, or no server runs\n";
    Rows { request: Request::Limits, none, sort: |_| {}, table }.show(flags, out)
}

/// The present value, and its maximum.
fn of(value: u32, most: Option<u32>) -> String {
    most.map_or_else(|| value.to_string(), |most| format!("{value} of {most}"))
}

/// A table: a line for each party.
fn table(uses: &[LimitedUse]) -> String {
    let head = ["calls of", "calls", "minutes today"].map(str::to_owned);
    let lines = uses.iter().map(|used| {
        let LimitedUse { account, calls, max_calls, minutes, max_minutes, .. } = used;
        [printable(account), of(*calls, *max_calls), of(*minutes, *max_minutes)]
    });
    aligned([head].into_iter().chain(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_party_has_its_use_and_its_limits() {
        let used = |account: &str, max_calls, max_minutes| LimitedUse {
            account: account.to_owned(),
            calls: 1,
            max_calls,
            minutes: 12,
            max_minutes,
            max_duration: None,
        };
        assert_eq!(
            table(&[used("user a@b.c", Some(2), Some(300)), used("class x\u{1b}", None, None)]),
            "calls of       calls   minutes today\n\
             user a@b.c     1 of 2  12 of 300\n\
             class x\\u{1b}  1       12\n"
        );
    }
}
