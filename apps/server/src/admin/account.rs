//! The accounts of the panel.

use net::wall_clock;
use serde::{Deserialize, Serialize};
use store::{PanelAction, PanelData};

/// An account of the panel, without its password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) role: String,
    /// The time of its creation in seconds since 1970.
    pub(crate) created: u64,
    /// True if a login needs a code, too.
    pub(crate) second_factor: bool,
}

/// The accounts in `data`, by name.
///
/// # Errors
/// [`store::Error`] if the storage fails.
pub(super) fn list(data: &dyn PanelData) -> Result<Vec<Account>, store::Error> {
    let accounts = data.panel_accounts()?.into_iter();
    accounts
        .map(|account| {
            let second_factor = data.second_factor(&account.name)?.is_some();
            let (name, role, created) = (account.name, account.role, account.created);
            Ok(Account { name, role, created, second_factor })
        })
        .collect()
}

/// Removes the second factor of an account, and records it as an action.
///
/// # Errors
/// A message: there is no such account, it has no second factor, or the storage fails.
pub(super) fn remove_second_factor(data: &dyn PanelData, name: &str) -> Result<Account, String> {
    let found = list(data).map_err(|error| error.to_string())?.into_iter();
    let Some(account) = found.into_iter().find(|account| account.name == name) else {
        return Err(format!("there is no account {name}: see `barebell account list`"));
    };
    if !data.remove_second_factor(name).map_err(|error| error.to_string())? {
        return Err(format!("the account {name} has no second factor"));
    }
    let action = PanelAction {
        at: wall_clock().as_secs(),
        account: "barebell account".to_owned(),
        source: String::new(),
        action: "turn off second factor".to_owned(),
        object: name.to_owned(),
        error: String::new(),
    };
    data.add_panel_action(&action).map_err(|error| error.to_string())?;
    Ok(Account { second_factor: false, ..account })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::open;
    use store::{PanelAccount, SecondFactor};

    #[test]
    fn a_second_factor_is_removed_and_the_action_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let (name, role) = ("eve".to_owned(), "operator".to_owned());
        let account = PanelAccount { name, role, password: "$x".to_owned(), created: 7 };
        storage.put_panel_account(&account).unwrap();
        let factor = SecondFactor { secret: vec![1; 20], used: 5 };
        assert!(remove_second_factor(&storage, "eve").unwrap_err().contains("no second factor"));
        storage.put_second_factor("eve", &factor).unwrap();
        let row = |second_factor| Account {
            name: "eve".to_owned(),
            role: "operator".to_owned(),
            created: 7,
            second_factor,
        };
        assert_eq!(list(&storage).unwrap(), [row(true)]);
        assert!(remove_second_factor(&storage, "bob").unwrap_err().contains("account list"));
        assert_eq!(remove_second_factor(&storage, "eve").unwrap(), row(false));
        assert_eq!(list(&storage).unwrap(), [row(false)]);
        let actions = storage.panel_actions(i64::MAX, 9).unwrap();
        assert_eq!((actions.len(), &*actions[0].1.object), (1, "eve"));
    }
}
