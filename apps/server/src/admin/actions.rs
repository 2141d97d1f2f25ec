//! The record of actions by commands.

use net::wall_clock;
use store::{Error, PanelAction, PanelData};

/// Records that the command `account`, such as `barebell account`, has done `action` to `object`,
/// or that it failed with `error`.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(super) fn note(
    data: &dyn PanelData,
    account: &str,
    action: &str,
    object: &str,
    error: Option<&str>,
) -> Result<(), Error> {
    data.add_panel_action(&PanelAction {
        at: wall_clock().as_secs(),
        account: account.to_owned(),
        source: String::new(),
        action: action.to_owned(),
        object: object.to_owned(),
        error: error.unwrap_or_default().chars().take(200).collect(),
    })
}
