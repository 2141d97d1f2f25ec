//! Tokens of the HTTP API.

use net::wall_clock;
use panel::{Role, new_token};
use serde::{Deserialize, Serialize};
use store::{PanelData, PanelToken};

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 64;

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) role: String,
    /// The time of its creation in seconds since 1970.
    pub(crate) created: u64,
}

/// A new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AddedToken {
    pub(crate) name: String,
    pub(crate) role: String,
    /// The secret, which is shown once.
    pub(crate) token: String,
}

impl From<&PanelToken> for Token {
    fn from(token: &PanelToken) -> Self {
        Self { name: token.name.clone(), role: token.role.clone(), created: token.created }
    }
}

/// Adds a token to `data`.
///
/// # Errors
/// A message: the name or the role is invalid, the name is in use, or the storage fails.
pub(super) fn add(data: &dyn PanelData, name: &str, role: &str) -> Result<AddedToken, String> {
    let known = Role::named(role).ok_or_else(|| {
        let names = Role::ALL.map(Role::name).join(", ");
        format!("`{role}` is no role; expected one of {names}")
    })?;
    if !(1..=MAX_NAME).contains(&name.len()) || name.chars().any(char::is_control) {
        return Err(format!("a token needs a name of 1 to {MAX_NAME} bytes"));
    }
    if find(data, name)?.is_some() {
        return Err(format!("there is a token {name} already: see `barebell token list`"));
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("cannot choose a token: {error}"))?;
    let token = new_token(name, known, random, wall_clock().as_secs());
    data.put_panel_token(&token.stored).map_err(|error| error.to_string())?;
    Ok(AddedToken { name: name.to_owned(), role: role.to_owned(), token: token.text })
}

/// Removes a token from `data`.
///
/// # Errors
/// A message: there is no such token, or the storage fails.
pub(super) fn remove(data: &dyn PanelData, name: &str) -> Result<Token, String> {
    let Some(token) = find(data, name)? else {
        return Err(format!("there is no token {name}: see `barebell token list`"));
    };
    data.remove_panel_token(name).map_err(|error| error.to_string())?;
    Ok(token)
}

fn find(data: &dyn PanelData, name: &str) -> Result<Option<Token>, String> {
    let tokens = data.panel_tokens().map_err(|error| error.to_string())?;
    Ok(tokens.iter().find(|token| token.name == name).map(Token::from))
}
