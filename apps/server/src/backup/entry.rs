//! The lines of a backup.

use super::hex::Hex;
use crate::accounts::Services;
use serde::{Deserialize, Serialize};
use sip::Duration;
use sip::digest::Ha1Set;
use sip_server::{AuthName, CallServices, Logins};
use std::sync::Arc;
use store::{PanelAccount, PanelToken, SecondFactor, User, UserServices};

/// The version of the form.
pub(super) const VERSION: u32 = 1;

/// A part of a backup.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Users with the hashes of their passwords
    Users,
    /// Forwards and do not disturb of users
    Services,
    /// Accounts, second factors and tokens of the panel
    Panel,
    /// The text of the configuration file, with groups and rights
    Configuration,
    /// Certificates in the data directory, with their keys
    Certificates,
    /// Records of calls
    Records,
    /// Messages of mailboxes, with their sound
    Voicemail,
    /// The passwords in the configuration, of trunks and of the database
    Secrets,
}

impl Part {
    /// The parts that each backup has.
    pub(super) const USUAL: [Self; 4] =
        [Self::Users, Self::Services, Self::Panel, Self::Configuration];

    /// The name in flags, requests and backups.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Services => "services",
            Self::Panel => "panel",
            Self::Configuration => "configuration",
            Self::Certificates => "certificates",
            Self::Records => "records",
            Self::Voicemail => "voicemail",
            Self::Secrets => "secrets",
        }
    }
}

/// A line: an object with one member, which names the kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    Backup(Head),
    Realm(Realm),
    User(StoredUser),
    Services(StoredServices),
    Account(Account),
    Token(Token),
    Configuration(Configuration),
    Certificate(CertificateFile),
    Record(CallRecord),
    Message(VoiceMessage),
    End(End),
}

impl Entry {
    /// The part that the entry is of. `None` of the head and the end.
    pub(super) const fn part(&self) -> Option<Part> {
        Some(match self {
            Self::Backup(_) | Self::End(_) => return None,
            Self::Realm(_) | Self::User(_) => Part::Users,
            Self::Services(_) => Part::Services,
            Self::Account(_) | Self::Token(_) => Part::Panel,
            Self::Configuration(_) => Part::Configuration,
            Self::Certificate(_) => Part::Certificates,
            Self::Record(_) => Part::Records,
            Self::Message(_) => Part::Voicemail,
        })
    }
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// The version of the form.
    pub(super) version: u32,
    /// The version of the program.
    pub(super) program: String,
    /// The time of the backup in seconds since 1970.
    pub(super) made: u64,
    /// The parts that the backup has, even if they are empty.
    pub(super) parts: Vec<Part>,
}

/// The digest realm of a domain, if it is another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Realm {
    pub(super) domain: String,
    pub(super) realm: String,
}

/// The hashes of a password for one login name (HA1, RFC 7616 section 3.4.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ha1 {
    md5: Hex<16>,
    sha256: Hex<32>,
    sha512_256: Hex<32>,
}

impl From<&Ha1Set> for Ha1 {
    fn from(set: &Ha1Set) -> Self {
        Self { md5: Hex(set.md5), sha256: Hex(set.sha256), sha512_256: Hex(set.sha512_256) }
    }
}

impl From<&Ha1> for Ha1Set {
    fn from(ha1: &Ha1) -> Self {
        Self { md5: ha1.md5.0, sha256: ha1.sha256.0, sha512_256: ha1.sha512_256.0 }
    }
}

/// An authentication name of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Authentication {
    pub(super) name: String,
    pub(super) ha1: Ha1,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredUser {
    pub(super) name: String,
    pub(super) domain: String,
    /// For the login with `name`.
    ha1: Ha1,
    /// For the login with `name@domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address_ha1: Option<Ha1>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) authentication: Option<Authentication>,
}

impl From<&User> for StoredUser {
    fn from(user: &User) -> Self {
        let Logins { by_name, by_address, by_auth_name } = &user.logins;
        Self {
            name: user.name.clone(),
            domain: user.domain.to_string(),
            ha1: by_name.into(),
            address_ha1: by_address.as_ref().map(Ha1::from),
            authentication: by_auth_name.as_ref().map(|auth| Authentication {
                name: String::from_utf8_lossy(&auth.name).into_owned(),
                ha1: (&auth.ha1).into(),
            }),
        }
    }
}

impl StoredUser {
    /// The user. Users of one domain share its name, which is cached in `last`.
    pub(super) fn user(&self, last: &mut Arc<str>) -> User {
        if **last != *self.domain {
            *last = Arc::from(&*self.domain);
        }
        let by_auth_name = self.authentication.as_ref().map(|auth| {
            Box::new(AuthName { name: auth.name.as_bytes().into(), ha1: (&auth.ha1).into() })
        });
        let logins = Logins {
            by_name: (&self.ha1).into(),
            by_address: self.address_ha1.as_ref().map(Ha1Set::from),
            by_auth_name,
        };
        User { name: self.name.clone(), domain: Arc::clone(last), logins }
    }
}

/// The call services of a user: targets of forwards as `name@domain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredServices {
    pub(super) name: String,
    pub(super) domain: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) always: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) busy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) no_answer: Option<String>,
    /// The time before the forward on no answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unreachable: Option<String>,
    #[serde(default)]
    pub(super) do_not_disturb: bool,
}

impl From<&UserServices> for StoredServices {
    fn from(stored: &UserServices) -> Self {
        let Services { always, busy, no_answer, after, unreachable, do_not_disturb } =
            Services::from(&stored.services);
        let (name, domain) = (stored.name.clone(), stored.domain.clone());
        Self { name, domain, always, busy, no_answer, after, unreachable, do_not_disturb }
    }
}

impl From<StoredServices> for UserServices {
    fn from(stored: StoredServices) -> Self {
        let after = stored.after.map(Duration::from_millis);
        let services = CallServices {
            always: stored.always,
            busy: stored.busy,
            no_answer: stored.no_answer,
            no_answer_after: after.unwrap_or(CallServices::DEFAULT_RINGING),
            unreachable: stored.unreachable,
            do_not_disturb: stored.do_not_disturb,
        };
        Self { name: stored.name, domain: stored.domain, services }
    }
}

/// The second factor of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Factor {
    /// The secret of its codes.
    secret: Hex<20>,
    /// The step of the last used code.
    used: u64,
}

/// An account of the panel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) role: String,
    /// The hash of the password, as a PHC string.
    pub(super) password: String,
    /// The time of its creation in seconds since 1970.
    pub(super) created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    second_factor: Option<Factor>,
}

impl Account {
    /// The entry of a stored account. `None` if the second factor is damaged.
    pub(super) fn new(account: PanelAccount, factor: Option<SecondFactor>) -> Option<Self> {
        let second_factor = match factor {
            Some(SecondFactor { secret, used }) => {
                Some(Factor { secret: Hex(secret.try_into().ok()?), used })
            }
            None => None,
        };
        let PanelAccount { name, role, password, created } = account;
        Some(Self { name, role, password, created, second_factor })
    }

    /// The account as it is stored.
    pub(super) fn stored(self) -> (PanelAccount, Option<SecondFactor>) {
        let Self { name, role, password, created, second_factor } = self;
        let factor =
            second_factor.map(|it| SecondFactor { secret: it.secret.0.to_vec(), used: it.used });
        (PanelAccount { name, role, password, created }, factor)
    }
}

/// A token of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    pub(super) name: String,
    pub(super) role: String,
    /// The SHA-256 hash of the token.
    pub(super) hash: Hex<32>,
    /// The time of its creation in seconds since 1970.
    pub(super) created: u64,
}

impl From<PanelToken> for Token {
    fn from(token: PanelToken) -> Self {
        let PanelToken { name, role, hash, created } = token;
        Self { name, role, hash: Hex(hash), created }
    }
}

impl From<Token> for PanelToken {
    fn from(token: Token) -> Self {
        let Token { name, role, hash, created } = token;
        Self { name, role, hash: hash.0, created }
    }
}

/// The configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    pub(crate) text: String,
    /// True if the passwords in the text are blank.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) blank: bool,
}

/// The files of certificates in the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum FileName {
    /// The certificate that the server has made itself.
    #[serde(rename = "tls-chain.pem")]
    OwnChain,
    /// Its key.
    #[serde(rename = "tls-key.pem")]
    OwnKey,
    /// The certificate that was issued by ACME, with its key.
    #[serde(rename = "tls-acme.pem")]
    Issued,
    /// The account at the issuer.
    #[serde(rename = "tls-acme-account.json")]
    Account,
}

/// A file of a certificate. The name is one of a few, so that no path can be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CertificateFile {
    pub(super) name: FileName,
    pub(super) text: String,
}

/// A record of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRecord {
    /// The time of day of the end in microseconds since 1970.
    pub(super) ended: u64,
    pub(super) parties: [String; 2],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) led_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) number_of: Option<String>,
    pub(super) failed: bool,
    /// The record as it is stored: the JSON of `barebell calls --history --json`.
    pub(super) record: String,
}

/// A message of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VoiceMessage {
    /// The mailbox, as `name@domain`.
    pub(super) mailbox: String,
    pub(super) id: u64,
    /// The address-of-record of the caller, or the URI in From.
    pub(super) caller: String,
    /// True if the caller has authenticated.
    pub(super) proved: bool,
    /// The time of its end in seconds since 1970.
    pub(super) at: u64,
    pub(super) heard: bool,
    /// The WAV file in base64 (RFC 4648).
    pub(super) sound: String,
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// The number of lines before.
    pub(super) lines: u64,
}
