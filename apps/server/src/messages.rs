//! `barebell messages`.

use crate::admin::ask::Ask;
use crate::admin::{MessageCounts, Request};
use crate::calls::running;
use crate::cli::MessagesFlags;
use crate::failure::Failure;
use crate::output::{Out, printable};

/// Shows the numbers of messages of a user, or sets them.
///
/// # Errors
/// [`Failure`] if no server runs, or the user name is invalid.
pub(crate) fn run(flags: &MessagesFlags, out: &mut Out) -> Result<(), Failure> {
    let MessagesFlags { name, new, old, user, json } = flags;
    let (name, domain) = (name.clone(), user.domain.clone());
    let request = Request::Messages { name, domain, counts: (*new).zip(*old) };
    let counts: MessageCounts = running(&user.place)?.ask(&request)?;
    if *json {
        return out.json(&counts);
    }
    let MessageCounts { user, new, old } = counts;
    out.line(&format!("{}: {new} new, {old} old", printable(&user)))
}
