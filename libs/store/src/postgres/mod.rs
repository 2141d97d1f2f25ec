//! Accounts in a PostgreSQL database: the table `subscriber` of OpenSIPS and Kamailio, read as it
//! is. The server copies it to its own storage, and follows its changes.

mod calls;
mod client;
mod error;
mod hashes;
mod messages;
mod security;
mod table;
mod users;
mod voicemail;
mod watch;

pub use calls::CallsCopy;
pub use error::AccountsError;
pub use messages::MessageTable;
pub use users::CopiedUsers;
pub use voicemail::VoicemailCopy;

use crate::User;
use client::{Client, Rows};
use security::Security;
use sip_server::Logins;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use table::{Columns, Values};
use tokio_postgres::config::Host;
use tokio_postgres::{Config, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The time for a TCP connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time without an acknowledgment (TCP) after which a connection has ended.
const SILENCE: Duration = Duration::from_secs(10);

/// The database gives up a query after this time, such as one that waits for a lock.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '10s'";

/// The place of the accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountsPlace {
    /// The connection URI, `postgresql://user@host/database`.
    pub url: String,
    /// A file with the password, if that is not in the URI.
    pub password_file: Option<PathBuf>,
    /// The name of the table, perhaps with a schema before it.
    pub table: String,
}

impl AccountsPlace {
    /// Checks the URI and the name of the table.
    ///
    /// # Errors
    /// [`AccountsError`] if one is malformed.
    pub fn check(&self) -> Result<(), AccountsError> {
        self.config().map(drop)?;
        match table::is_name(&self.table) {
            true => Ok(()),
            false => Err(AccountsError::Table(self.table.clone())),
        }
    }

    /// Connects to the database, and checks the columns of the table.
    ///
    /// # Errors
    /// [`AccountsError`]: there is no such database, or the table lacks columns.
    pub fn examine(&self) -> Result<(), AccountsError> {
        Columns::of(&mut self.connect()?, &self.table).map(drop)
    }

    /// True if the connection crosses a network, and an attacker there could read or change it,
    /// because the certificate of the database is not verified.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let Ok((config, security)) = self.config() else { return false };
        let is_near = |host: &Host| match host {
            Host::Tcp(name) => {
                name == "localhost" || name.parse().is_ok_and(|it: IpAddr| it.is_loopback())
            }
            Host::Unix(_) => true,
        };
        !matches!(security, Security::Verified(_)) && !config.get_hosts().iter().all(is_near)
    }

    fn config(&self) -> Result<(Config, Security), AccountsError> {
        let (url, security) = Security::separate(&self.url)?;
        let mut config: Config = url.parse().map_err(AccountsError::Url)?;
        config.ssl_mode(security.mode());
        match config.get_dbname() {
            Some(_) if !config.get_hosts().is_empty() => Ok((config, security)),
            _ => Err(AccountsError::Incomplete),
        }
    }

    /// Connects to the database.
    ///
    /// # Errors
    /// [`AccountsError`] if a file cannot be read, or there is no such database.
    fn connect(&self) -> Result<Client, AccountsError> {
        self.check()?;
        let (mut config, security) = self.config()?;
        config.connect_timeout(CONNECT_TIMEOUT);
        config.tcp_user_timeout(SILENCE);
        config.keepalives_idle(SILENCE);
        config.application_name("barebell");
        if let Some(file) = &self.password_file {
            let password = std::fs::read_to_string(file)
                .map_err(|error| AccountsError::PasswordFile(file.clone(), error))?;
            config.password(password.trim_end_matches(['\r', '\n']));
        }
        match security {
            Security::Off => Client::connect(&config, NoTls),
            _ => Client::connect(&config, MakeRustlsConnect::new(security.config()?)),
        }
    }

    /// Connects to the database, and executes `definition` if the table `name` is missing, or its
    /// `newest` column.
    ///
    /// # Errors
    /// [`AccountsError`]: there is no such database, or the role may not create the table.
    fn connect_to_table(
        &self,
        (name, newest): (&str, &str),
        definition: &str,
    ) -> Result<Client, AccountsError> {
        let mut client = self.connect()?;
        client.batch_execute(STATEMENT_TIMEOUT)?;
        let query = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1)
                     AND attname::text = $2 AND NOT attisdropped)";
        if !client.query_one(query, &[&name, &newest])?.try_get::<_, bool>(0)? {
            client.batch_execute(definition)?;
        }
        Ok(client)
    }
}

/// The database without the password, as logs and messages name it.
impl fmt::Display for AccountsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok((config, _)) = self.config() else { return f.write_str("the database of accounts") };
        f.write_str("postgresql://")?;
        for (place, host) in config.get_hosts().iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
        }
        write!(f, "/{}", config.get_dbname().unwrap_or_default())
    }
}

/// A connection to the database.
pub struct Accounts {
    client: Client,
    table: String,
    columns: Columns,
    /// The key that fills in the hashes that the table does not have.
    key: [u8; 32],
    has_trigger: bool,
}

impl Accounts {
    /// Connects to the database at `place`, and begins to watch the table. `key` has to be secret
    /// and stay the same.
    ///
    /// # Errors
    /// [`AccountsError`]: there is no such database, or the table lacks columns.
    pub fn connect(place: &AccountsPlace, key: [u8; 32]) -> Result<Self, AccountsError> {
        let mut client = place.connect()?;
        let columns = Columns::of(&mut client, &place.table)?;
        let has_trigger = watch::listen(&mut client, &place.table)?;
        Ok(Self { client, table: place.table.clone(), columns, key, has_trigger })
    }

    /// True if the table tells of its changes at once. Otherwise the role may not create the
    /// trigger, and changes are found by reading the whole table.
    #[must_use]
    pub const fn has_trigger(&self) -> bool {
        self.has_trigger
    }

    /// True if the table has hashes for SHA-256. Otherwise its users log in with MD5 only.
    #[must_use]
    pub const fn has_sha256(&self) -> bool {
        self.columns.sha256 || self.columns.password
    }

    /// Begins to read all users, by domain and name in the order of their bytes.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub fn users(&mut self) -> Result<UserRows<'_>, AccountsError> {
        let rows = self.client.rows(&self.columns.query(&self.table, ""))?;
        Ok(UserRows { rows, columns: self.columns, key: self.key, domain: None, omitted: 0 })
    }

    /// The user `name` of `domain`, if there is one with a hash or a password.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub fn one(&mut self, name: &str, domain: &str) -> Result<Option<User>, AccountsError> {
        let query = self.columns.query(&self.table, "WHERE username = $1 AND lower(domain) = $2");
        let rows = self.client.query(&query, &[&name, &domain])?;
        Ok(rows.iter().find_map(|row| user(&self.columns, row, &self.key)))
    }

    /// Waits for changes of the table, at most for `time`, and returns the names and domains of
    /// changed users. `None` if it has changed in another way: the whole table has to be read.
    ///
    /// # Errors
    /// [`AccountsError`] if the connection has ended.
    pub fn changes(
        &mut self,
        time: Duration,
    ) -> Result<Option<Vec<(String, String)>>, AccountsError> {
        watch::changes(&mut self.client, time)
    }
}

/// The users of a table that is being read.
pub struct UserRows<'a> {
    rows: Rows<'a>,
    columns: Columns,
    key: [u8; 32],
    /// The domain of the last user: one text for all users of a domain.
    domain: Option<Arc<str>>,
    omitted: u64,
}

impl UserRows<'_> {
    /// Reads the next user. Rows without a name, or without a hash and a password, are omitted.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub fn read(&mut self) -> Result<Option<User>, AccountsError> {
        while let Some(row) = self.rows.next()? {
            let Some(mut user) = user(&self.columns, &row, &self.key) else {
                self.omitted += 1;
                continue;
            };
            match &self.domain {
                Some(domain) if *domain == user.domain => user.domain = Arc::clone(domain),
                _ => self.domain = Some(Arc::clone(&user.domain)),
            }
            return Ok(Some(user));
        }
        Ok(None)
    }

    /// The number of omitted rows so far.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

impl fmt::Debug for UserRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserRows").field("omitted", &self.omitted).finish_non_exhaustive()
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("table", &self.table).finish_non_exhaustive()
    }
}

/// The user of a row. `None` if it has neither a hash nor a password, or no name.
fn user(columns: &Columns, row: &Row, key: &[u8; 32]) -> Option<User> {
    user_of(&columns.values(row), key)
}

/// The user of `values`. See [`user`].
fn user_of(values: &Values<'_>, key: &[u8; 32]) -> Option<User> {
    let name = values.name?.to_owned();
    let domain = values.domain?.to_ascii_lowercase();
    let has_place = !name.is_empty() && is_domain(&domain);
    let by_name = values.hashes(&name, &domain, key).filter(|_| has_place)?;
    let by_address = values.hashes_of_address(&name, &domain, key);
    let domain = Arc::from(domain);
    Some(User { name, domain, logins: Logins { by_name, by_address, by_auth_name: None } })
}

/// True if `domain` is not empty, and no IPv6 address in another form than that of domains: the
/// shortest one, without brackets.
fn is_domain(domain: &str) -> bool {
    match domain.parse::<IpAddr>() {
        Ok(address) => address.to_string() == domain,
        Err(_) => !domain.is_empty() && !domain.contains([':', '[', ']']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_of_a_row_is_a_name_or_an_address() {
        for domain in ["example.com", "192.0.2.7", "2001:db8::7", "::1"] {
            assert!(is_domain(domain), "{domain}");
        }
        for domain in ["", "[2001:db8::7]", "2001:db8:0::7", "2001:db8::7:5060:x"] {
            assert!(!is_domain(domain), "{domain}");
        }
        let md5 = "0".repeat(32);
        let hashes = || hashes::Hashes { md5: Some(&md5), ..hashes::Hashes::default() };
        let user = |domain| user_of(&Values::new("alice", domain, hashes(), None), &[7; 32]);
        assert_eq!(&*user("2001:DB8::7").expect("a user").domain, "2001:db8::7");
        assert_eq!(user("[2001:db8::7]"), None);
    }
}
