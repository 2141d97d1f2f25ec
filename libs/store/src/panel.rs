//! The accounts, tokens and actions of the panel, and pages of users.

use crate::Error;
use sip::digest::Ha1Set;
use sip_server::CallServices;

/// A person that may use the panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelAccount {
    /// The name at login.
    pub name: String,
    /// The role, in the form of the owner.
    pub role: String,
    /// The hash of the password, as a PHC string.
    pub password: String,
    /// The time of its creation in seconds since 1970.
    pub created: u64,
}

/// The second factor of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondFactor {
    /// The secret of its codes.
    pub secret: Vec<u8>,
    /// The step of the last used code.
    pub used: u64,
}

/// A token of a program that uses the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelToken {
    /// The name, for people.
    pub name: String,
    /// The role, in the form of the owner.
    pub role: String,
    /// The SHA-256 hash of the token.
    pub hash: [u8; 32],
    /// The time of its creation in seconds since 1970.
    pub created: u64,
}

/// A link to the settings of a phone that was not fetched yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhoneLink {
    /// The SHA-256 hash of its secret.
    pub hash: [u8; 32],
    /// The user, `name@domain`.
    pub user: String,
    /// The kind of phone, in the form of the owner.
    pub kind: String,
    /// The host of the server, as the phone reaches it.
    pub server: String,
    /// The transport.
    pub transport: String,
    /// The port of the server.
    pub port: u16,
    /// A value that changes with the password of the user, a hash.
    pub mark: [u8; 32],
    /// The time of its creation in seconds since 1970.
    pub made: u64,
}

/// An action by the panel or the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelAction {
    /// The time in seconds since 1970.
    pub at: u64,
    /// The account or token. At a failed login, the name that was tried.
    pub account: String,
    /// The address of the client.
    pub source: String,
    /// The action, such as `login` or `remove user`.
    pub action: String,
    /// The object of the action, such as a user.
    pub object: String,
    /// The error, or an empty text.
    pub error: String,
}

/// The number of stored actions. The oldest are deleted.
pub const MAX_PANEL_ACTIONS: u32 = 10_000;

/// The number of stored actions of users at their own pages (`user NAME`), and of failed logins,
/// together. They push out no others.
pub const MAX_OWN_ACTIONS: u32 = 2_000;

/// The number of stored actions of one account or token: half of those that are not own ones.
pub const MAX_ACCOUNT_ACTIONS: u32 = (MAX_PANEL_ACTIONS - MAX_OWN_ACTIONS) / 2;

/// The storage of the panel. Every method may block.
pub trait PanelData: Send + Sync {
    /// All accounts, by name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn panel_accounts(&self) -> Result<Vec<PanelAccount>, Error>;

    /// Stores an account, or replaces the one of that name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_panel_account(&self, account: &PanelAccount) -> Result<(), Error>;

    /// Removes an account with its second factor. Returns false if there was none of that name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn remove_panel_account(&self, name: &str) -> Result<bool, Error>;

    /// The second factor of an account, if it has one.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn second_factor(&self, account: &str) -> Result<Option<SecondFactor>, Error>;

    /// Stores or replaces the second factor of an account.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_second_factor(&self, account: &str, factor: &SecondFactor) -> Result<(), Error>;

    /// Removes the second factor of an account. Returns false if it had none.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn remove_second_factor(&self, account: &str) -> Result<bool, Error>;

    /// All tokens, by name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn panel_tokens(&self) -> Result<Vec<PanelToken>, Error>;

    /// Stores a token, or replaces the one of that name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_panel_token(&self, token: &PanelToken) -> Result<(), Error>;

    /// Removes a token. Returns false if there was none of that name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn remove_panel_token(&self, name: &str) -> Result<bool, Error>;

    /// All links for phones.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn phone_links(&self) -> Result<Vec<PhoneLink>, Error>;

    /// Stores a link for a phone.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_phone_link(&self, link: &PhoneLink) -> Result<(), Error>;

    /// Removes the link for a phone with this hash. Returns false if there was none.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn remove_phone_link(&self, hash: &[u8; 32]) -> Result<bool, Error>;

    /// Stores an action. From time to time the oldest ones beyond [`MAX_PANEL_ACTIONS`],
    /// [`MAX_OWN_ACTIONS`] and [`MAX_ACCOUNT_ACTIONS`] are deleted.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn add_panel_action(&self, action: &PanelAction) -> Result<(), Error>;

    /// The latest actions with identifiers below `before`, the latest first, each with its own.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn panel_actions(&self, before: i64, most: usize) -> Result<Vec<(i64, PanelAction)>, Error>;

    /// At most `most` users, by domain and name, behind `after` (domain and name), with `search` in
    /// `name@domain`, in any case of ASCII letters: names and domains.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn find_users(
        &self,
        search: &str,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Result<Vec<(String, String)>, Error>;

    /// The call services of one user.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn services_of(&self, name: &str, domain: &str) -> Result<CallServices, Error>;

    /// The authentication name of one user, if the user has one.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn auth_name_of(&self, name: &str, domain: &str) -> Result<Option<String>, Error>;

    /// The hashes of the password of one user, for the login with the user's name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn login_of(&self, name: &str, domain: &str) -> Result<Option<Ha1Set>, Error>;
}
