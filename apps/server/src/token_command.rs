//! `barebell token`: the tokens of the HTTP API.

use crate::access::Access;
use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::admin::token::{AddedToken, Token};
use crate::cli::TokenCommand;
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::screens::aligned;
use std::time::{Duration, UNIX_EPOCH};

/// Runs `command`.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed, or it refuses the command.
pub(crate) fn run(command: &TokenCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        TokenCommand::Add { name, role, place } => {
            let request = Request::AddToken { name: name.clone(), role: role.clone() };
            let added: AddedToken = Access::open(place)?.ask(&request)?;
            out.line(&added.token)
        }
        TokenCommand::List { json, place } => {
            let mut tokens: Vec<Token> = Vec::new();
            if let Some(access) = Access::open_existing(place)? {
                access.list(&Request::Tokens, &mut |token| {
                    tokens.push(token);
                    Ok(())
                })?;
            }
            match (json, tokens.is_empty()) {
                (true, _) => tokens.iter().try_for_each(|token| out.json(token)),
                (false, true) => out.line("there is no token"),
                (false, false) => out.text(&table(&tokens)),
            }
        }
        TokenCommand::Remove { name, place } => {
            let request = Request::RemoveToken { name: name.clone() };
            let removed: Token = Access::open(place)?.ask(&request)?;
            out.line(&format!("removed the token {}", printable(&removed.name)))
        }
    }
}

fn table(tokens: &[Token]) -> String {
    let rows = tokens.iter().map(|token| {
        let created = UNIX_EPOCH + Duration::from_secs(token.created);
        let created = humantime::format_rfc3339_seconds(created).to_string();
        [printable(&token.name), token.role.clone(), created]
    });
    aligned(std::iter::once(["name", "role", "created"].map(str::to_owned)).chain(rows))
}
