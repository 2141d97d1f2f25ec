//! The commands `barebell user forward` and `barebell user dnd`.

use crate::access::Access;
use crate::accounts::{ServiceChange, ServicesRow};
use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::cli::{ForwardFlags, UserFlags};
use crate::failure::Failure;
use crate::output::{Out, note};

/// Changes the forwards of the user `name`, or shows its call services without flags.
///
/// # Errors
/// [`Failure`] if the command fails.
pub(crate) fn forward(
    name: &str,
    forwards: &ForwardFlags,
    flags: &UserFlags,
    out: &mut Out,
) -> Result<(), Failure> {
    let ForwardFlags { always, busy, no_answer, after, unreachable, off } = forwards.clone();
    let after = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    let change =
        ServiceChange { off, always, busy, no_answer, unreachable, after, do_not_disturb: None };
    apply(name, change, flags, out)
}

/// Turns do not disturb of the user `name` on or off.
///
/// # Errors
/// [`Failure`] if the command fails.
pub(crate) fn do_not_disturb(
    name: &str,
    is_on: bool,
    flags: &UserFlags,
    out: &mut Out,
) -> Result<(), Failure> {
    let change = ServiceChange { do_not_disturb: Some(is_on), ..ServiceChange::default() };
    apply(name, change, flags, out)
}

fn apply(
    name: &str,
    change: ServiceChange,
    flags: &UserFlags,
    out: &mut Out,
) -> Result<(), Failure> {
    let request =
        Request::ChangeServices { name: name.to_owned(), domain: flags.domain.clone(), change };
    let row: ServicesRow = Access::open(&flags.place)?.ask(&request)?;
    out.line(&match row.services.in_words() {
        words if words.is_empty() => format!("{}: no forwards", row.uri),
        words => format!("{}: {words}", row.uri),
    })?;
    for target in &row.unknown {
        let (user, _) = target.rsplit_once('@').unwrap_or((target, ""));
        let digits = user.strip_prefix('+').unwrap_or(user);
        match user {
            // The mailbox of the user.
            "voicemail" => {}
            _ if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                note(&format!(
                    "{user} is a number: the user needs the right to call it; barebell route \
                     {user} --from {name} tells"
                ));
            }
            _ => note(&format!(
                "{target} is no user: calls that are forwarded there fail, unless it is a group \
                 or a service"
            )),
        }
    }
    Ok(())
}
