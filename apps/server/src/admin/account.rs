//! The accounts of the panel.

use super::actions::note;
use serde::{Deserialize, Serialize};
use store::{PanelAccount, PanelData};

/// The name of the command in the record of actions.
const COMMAND: &str = "barebell account";

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

fn find(data: &dyn PanelData, name: &str) -> Result<Account, String> {
    let mut found = list(data).map_err(|error| error.to_string())?.into_iter();
    found
        .find(|account| account.name == name)
        .ok_or_else(|| format!("there is no account {name}: see `barebell account list`"))
}

/// Sets a new password of an account and records it as an action. The sessions of the account end.
/// `removes_second_factor` removes the second factor, too.
///
/// # Errors
/// A message: there is no such account, the password is too short or too long, or the storage
/// fails.
pub(super) fn set_password(
    data: &dyn PanelData,
    name: &str,
    password: &str,
    removes_second_factor: bool,
) -> Result<Account, String> {
    let text = |error: store::Error| error.to_string();
    let account = find(data, name)?;
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| format!("cannot choose a salt: {error}"))?;
    let hash = panel::password_hash(password, salt)?;
    let (role, created) = (account.role.clone(), account.created);
    let stored = PanelAccount { name: name.to_owned(), role, password: hash, created };
    data.put_panel_account(&stored).map_err(text)?;
    note(data, COMMAND, "set password", name, None).map_err(text)?;
    match removes_second_factor && account.second_factor {
        true => remove_second_factor(data, name),
        false => Ok(account),
    }
}

/// Removes the second factor of an account, and records it as an action.
///
/// # Errors
/// A message: there is no such account, it has no second factor, or the storage fails.
pub(super) fn remove_second_factor(data: &dyn PanelData, name: &str) -> Result<Account, String> {
    let account = find(data, name)?;
    if !data.remove_second_factor(name).map_err(|error| error.to_string())? {
        return Err(format!("the account {name} has no second factor"));
    }
    note(data, COMMAND, "turn off second factor", name, None).map_err(|error| error.to_string())?;
    Ok(Account { second_factor: false, ..account })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::open;
    use store::SecondFactor;

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

    #[test]
    fn a_password_is_set_and_the_second_factor_stays_unless_it_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let (name, role) = ("eve".to_owned(), "administrator".to_owned());
        let account = PanelAccount { name, role, password: "$x".to_owned(), created: 7 };
        storage.put_panel_account(&account).unwrap();
        storage.put_second_factor("eve", &SecondFactor { secret: vec![1; 20], used: 5 }).unwrap();
        assert!(set_password(&storage, "bob", "long enough", false).is_err());
        assert!(set_password(&storage, "eve", "too short", false).is_err());
        assert_eq!(storage.panel_accounts().unwrap(), [account]);
        assert!(set_password(&storage, "eve", "long enough", false).unwrap().second_factor);
        let stored = storage.panel_accounts().unwrap().remove(0);
        assert!(panel::is_password_hash(&stored.password), "{stored:?}");
        assert_eq!((&*stored.role, stored.created), ("administrator", 7));
        assert!(!set_password(&storage, "eve", "long enough", true).unwrap().second_factor);
        let again = storage.panel_accounts().unwrap().remove(0);
        assert_ne!(again.password, stored.password, "another salt");
        let actions = storage.panel_actions(i64::MAX, 9).unwrap();
        let actions: Vec<_> = actions.iter().map(|(_, it)| &*it.action).collect();
        assert_eq!(actions, ["turn off second factor", "set password", "set password"]);
    }
}
