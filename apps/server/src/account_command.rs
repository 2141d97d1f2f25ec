//! `barebell account`: the accounts of the panel.

use crate::access::Access;
use crate::admin::Request;
use crate::admin::account::Account;
use crate::admin::ask::Ask;
use crate::cli::AccountCommand;
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::screens::aligned;

/// Runs `command`.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed, or it refuses the command.
pub(crate) fn run(command: &AccountCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        AccountCommand::List { json, place } => {
            let mut accounts: Vec<Account> = Vec::new();
            if let Some(access) = Access::open_existing(place)? {
                access.list(&Request::Accounts, &mut |account| {
                    accounts.push(account);
                    Ok(())
                })?;
            }
            match (json, accounts.is_empty()) {
                (true, _) => accounts.iter().try_for_each(|account| out.json(account)),
                (false, true) => out.line("there is no account of the panel"),
                (false, false) => out.text(&table(&accounts)),
            }
        }
        AccountCommand::Password { name, password, remove_second_factor, place } => {
            let request = Request::SetPassword {
                name: name.clone(),
                password: password.given()?,
                removes_second_factor: *remove_second_factor,
            };
            let changed: Account = Access::open(place)?.ask(&request)?;
            let name = printable(&changed.name);
            out.line(&match changed.second_factor {
                true => format!("set the password of {name}: a login needs a code, too"),
                false => format!("set the password of {name}"),
            })
        }
        AccountCommand::RemoveSecondFactor { name, place } => {
            let request = Request::RemoveSecondFactor { name: name.clone() };
            let changed: Account = Access::open(place)?.ask(&request)?;
            out.line(&format!("removed the second factor of {}", printable(&changed.name)))
        }
    }
}

fn table(accounts: &[Account]) -> String {
    let rows = accounts.iter().map(|account| {
        let second = if account.second_factor { "yes" } else { "no" };
        [printable(&account.name), printable(&account.role), second.to_owned()]
    });
    let head = ["name", "role", "second factor"].map(str::to_owned);
    aligned(std::iter::once(head).chain(rows))
}
