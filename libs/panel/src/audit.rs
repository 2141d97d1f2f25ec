//! The record of actions.

use crate::http::Request;
use store::PanelAction;

/// The maximum length of a stored text in characters.
const MAX_LENGTH: usize = 200;

/// The action `action` on `object` by `account` in `request`, with its error.
pub(crate) fn action(
    request: &Request,
    account: &str,
    action: &str,
    object: &str,
    error: Option<&str>,
) -> PanelAction {
    let cut = |text: &str| text.chars().take(MAX_LENGTH).collect();
    PanelAction {
        at: request.now.as_secs(),
        account: cut(account),
        source: request.source.to_string(),
        action: cut(action),
        object: cut(object),
        error: cut(error.unwrap_or_default()),
    }
}
