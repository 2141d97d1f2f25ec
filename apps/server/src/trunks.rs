//! The settings of trunks: the connections to providers and to other telephone systems.

use crate::failure::{Failure, during};
use sip::locate::{Destination, Host};
use sip::{Duration, Transport};
use sip_server::TrunkMedia;
use sip_server::config::Network;
use std::path::PathBuf;
use trunk::{AccountConfig, Password, TrunkConfig};

/// The maximum number of trunks: their number is one byte.
pub(crate) const MAX_TRUNKS: usize = 256;

/// The maximum number of accounts of a trunk.
pub(crate) const MAX_ACCOUNTS: usize = 64;

/// A trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrunkSettings {
    /// The name of the trunk in commands and in the numbering plan.
    pub(crate) name: String,
    /// The domain or the address of the provider.
    pub(crate) host: Server,
    /// The transport. `None`: as the DNS says, or UDP.
    pub(crate) transport: Option<Transport>,
    /// The outbound proxy, if all requests pass one.
    pub(crate) proxy: Option<Server>,
    /// The accounts at the provider.
    pub(crate) accounts: Vec<TrunkAccount>,
    /// True if the accounts register.
    pub(crate) registers: bool,
    /// The requested duration of a registration.
    pub(crate) expires: Duration,
    /// Further addresses from which the trunk sends requests.
    pub(crate) sources: Vec<Network>,
    /// The interval of OPTIONS requests. `None`: none are sent.
    pub(crate) probe: Option<Duration>,
    /// The maximum number of calls at a time. `None`: no limit.
    pub(crate) max_calls: Option<usize>,
    /// True if the trunk is a trusted network of RFC 3325: its P-Asserted-Identity counts, and it
    /// gets that of our users.
    pub(crate) is_trusted: bool,
    /// The identity in From of calls to the trunk.
    pub(crate) identity: CallerIdentity,
    /// The digits in front of each number that is called through the trunk.
    pub(crate) prefix: String,
    /// The keys and codecs of its calls.
    pub(crate) media: TrunkMedia,
}

/// A server by its host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// A domain or an address.
    pub(crate) host: Host,
    /// The port. `None`: as the DNS says, or the default one of the transport.
    pub(crate) port: Option<u16>,
}

/// An account at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrunkAccount {
    /// The user part of the address-of-record.
    pub(crate) user: String,
    /// The user name for authentication, if it is another one.
    pub(crate) auth_name: Option<String>,
    /// The password, if there is one.
    pub(crate) password: Option<AccountPassword>,
    /// The domain of the address-of-record, in From. `None`: the host of the trunk.
    pub(crate) domain: Option<String>,
}

/// The password of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccountPassword {
    /// In the configuration.
    Plain(Password),
    /// In this file.
    File(PathBuf),
}

/// The identity in From of calls to a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerIdentity {
    /// The account of the trunk.
    Account,
    /// The number of the caller, in the domain of the account.
    Caller,
}

impl TrunkSettings {
    /// A trunk with the defaults of all keys.
    pub(crate) const fn new(name: String, host: Server) -> Self {
        Self {
            name,
            host,
            transport: None,
            proxy: None,
            accounts: Vec::new(),
            registers: false,
            expires: Duration::from_secs(600),
            sources: Vec::new(),
            probe: Some(Duration::from_secs(30)),
            max_calls: None,
            is_trusted: false,
            identity: CallerIdentity::Account,
            prefix: String::new(),
            media: TrunkMedia { keying: None, codecs: Vec::new() },
        }
    }

    /// The destination that is located for all requests to the trunk.
    pub(crate) fn destination(&self) -> Destination {
        let Server { host, port } = self.proxy.as_ref().unwrap_or(&self.host).clone();
        Destination { host, port, transport: self.transport, sips: false }
    }
}

impl Server {
    /// The SIP URI of the server, with these parameters.
    pub(crate) fn uri(&self, params: &str) -> String {
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        format!("sip:{}{port}{params}", self.host_text())
    }

    /// The host as it stands in a URI.
    pub(crate) fn host_text(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Ip(std::net::IpAddr::V6(address)) => format!("[{address}]"),
            Host::Ip(address) => address.to_string(),
        }
    }
}

/// The configurations of the registry for `trunks`, with the passwords in files.
///
/// # Errors
/// [`Failure`] if a password cannot be read, or is empty.
pub(crate) fn registry_configs(trunks: &[TrunkSettings]) -> Result<Vec<TrunkConfig>, Failure> {
    let account = |trunk: &TrunkSettings, account: &TrunkAccount| {
        let user = sip::uri::escape_user(account.user.as_bytes());
        let user = String::from_utf8_lossy(&user).into_owned();
        let domain = account.domain.clone().unwrap_or_else(|| trunk.host.host_text());
        let password = account.password.as_ref().map(AccountPassword::read).transpose()?;
        Ok(AccountConfig {
            uri: format!("sip:{user}@{domain}"),
            user: account.user.clone(),
            auth_name: account.auth_name.clone().unwrap_or_default(),
            password,
        })
    };
    let config = |trunk: &TrunkSettings| {
        let accounts = trunk.accounts.iter().map(|it| account(trunk, it));
        Ok(TrunkConfig {
            name: trunk.name.clone(),
            destination: trunk.destination(),
            uri: trunk.host.uri(""),
            proxy: trunk.proxy.as_ref().map(|proxy| proxy.uri(";lr")),
            accounts: accounts.collect::<Result<_, Failure>>()?,
            registers: trunk.registers,
            expires: trunk.expires,
            probe: trunk.probe,
        })
    };
    trunks.iter().map(config).collect()
}

impl AccountPassword {
    fn read(&self) -> Result<Password, Failure> {
        let file = match self {
            Self::Plain(password) => return Ok(password.clone()),
            Self::File(file) => file,
        };
        let reading = || format!("cannot read the password of a trunk in {}", file.display());
        let text = std::fs::read_to_string(file).map_err(during(reading()))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(Failure::message(format!("{}: the file is empty", reading()))),
            password => Ok(Password::new(password)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_of_the_host_or_of_their_domain_and_passwords_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "secret\n").unwrap();
        let server =
            |host: &str, port| Server { host: Host::parse(host.as_bytes()).unwrap(), port };
        let account = |domain: Option<&str>| TrunkAccount {
            user: "a b".to_owned(),
            auth_name: None,
            password: Some(AccountPassword::File(file.clone())),
            domain: domain.map(str::to_owned),
        };
        let mut trunk = TrunkSettings::new("one".to_owned(), server("2001:db8::1", Some(5080)));
        trunk.accounts = vec![account(None), account(Some("one.example"))];
        trunk.proxy = Some(server("edge.example", None));
        let config = registry_configs(std::slice::from_ref(&trunk)).unwrap().remove(0);
        assert_eq!(config.uri, "sip:[2001:db8::1]:5080");
        assert_eq!(config.proxy.as_deref(), Some("sip:edge.example;lr"));
        let uris: Vec<_> = config.accounts.iter().map(|account| account.uri.as_str()).collect();
        assert_eq!(uris, ["sip:a%20b@[2001:db8::1]", "sip:a%20b@one.example"]);
        assert_eq!(config.accounts[0].password, Some(Password::new("secret")));
        std::fs::write(&file, "\n").unwrap();
        let error = registry_configs(&[trunk]).unwrap_err().to_string();
        assert!(error.contains("the file is empty"), "{error}");
    }
}
