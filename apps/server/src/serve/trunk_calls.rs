//! The trunks as the B2BUA calls through them.

use crate::trunks::{CallerIdentity, TrunkSettings};
use b2bua::{Trunk, TrunkAccount, TrunkFrom};
use trunk::TrunkConfig;

/// The trunks of `settings`, with the passwords of the accounts in `configs`.
pub(super) fn trunks(settings: &[TrunkSettings], configs: &[TrunkConfig]) -> Vec<Trunk> {
    settings.iter().zip(configs).map(|(settings, config)| trunk(settings, config)).collect()
}

fn trunk(settings: &TrunkSettings, config: &TrunkConfig) -> Trunk {
    let host = settings.host.host_text();
    let port = settings.host.port.map_or_else(String::new, |port| format!(":{port}"));
    // The first account is that of calls.
    let account = settings.accounts.first().zip(config.accounts.first());
    let domain = account.and_then(|(account, _)| account.domain.clone());
    Trunk {
        name: settings.name.clone(),
        domain: format!("{host}{port}"),
        caller_domain: domain.unwrap_or(host),
        prefix: settings.prefix.clone(),
        account: account.map(|(_, account)| TrunkAccount {
            user: account.user.clone(),
            username: account.auth_name.clone(),
            password: account.password.clone(),
        }),
        from: match settings.identity {
            CallerIdentity::Account => TrunkFrom::Account,
            CallerIdentity::Caller => TrunkFrom::Number,
        },
        is_trusted: settings.is_trusted,
        calls: settings.max_calls.unwrap_or(usize::MAX),
    }
}
