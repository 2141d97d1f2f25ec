//! Accounts that come while the phone runs.

use super::{Line, Phone};
use sip_ua::{Account, AccountId, RegistrationState};

impl Phone {
    /// Takes one more account, and registers it where it wants that. It takes the place of those of
    /// the same URI.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn add_account(&mut self, account: Account) -> Result<AccountId, String> {
        let same = self.lines.iter().enumerate().filter(|(_, line)| line.uri == account.uri);
        for (number, line) in same {
            if matches!(line.state, Some(RegistrationState::Registered { .. })) {
                return Err(format!("{} is registered already", line.uri));
            }
            self.agent.forget_account(AccountId(number));
        }
        let line = Line::of(&account);
        let id = self
            .agent
            .add_account(account)
            .ok_or_else(|| format!("{}: expected a URI such as sip:alice@example.org", line.uri))?;
        if line.registers {
            self.agent.register(self.clock.now(), id);
        }
        self.lines.push(line);
        Ok(id)
    }
}
