//! Accounts that are added while the phone runs.

use super::{Line, Phone};
use sip_ua::{Account, AccountId, RegistrationState};

impl Phone {
    /// Adds an account, and registers it if it is to be registered. It replaces accounts with the
    /// same URI.
    ///
    /// # Errors
    /// A description of the fault.
    pub(crate) fn add_account(&mut self, account: Account) -> Result<AccountId, String> {
        let same = self.lines.iter().enumerate().filter(|(_, line)| line.uri == account.uri);
        for (number, line) in same {
            if matches!(line.state, Some(RegistrationState::Registered { .. })) {
                return Err(format!("{} is registered already", line.uri));
            }
            self.agent.forget_account(AccountId(number));
        }
        let line = Line::of(&account);
        let id = self.agent.add_account(account);
        let id = id.map_err(|error| format!("{}: {error}", line.uri))?;
        if line.registers {
            self.agent.register(self.clock.now(), id);
        }
        self.lines.push(line);
        Ok(id)
    }
}
