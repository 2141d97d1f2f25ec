//! A server with 10,000 users, and SIPp's rows of data for them.

use crate::server::{DOMAIN, Options, ServerProcess};
use std::net::SocketAddr;

/// The number of users, who are numbered from 1.
pub const USERS: usize = 10_000;

/// The authentication settings for SIPp, which only supports MD5 and fails if another algorithm is
/// offered first.
pub const ONLY_MD5: &str = "[authentication]\nalgorithms = [\"MD5\"]\n";

/// T1 of SIPp and of the server in milliseconds: four times the default, so that delays on a busy
/// machine are not treated as loss.
pub(super) const T1: u32 = 2000;

/// The name of the user with this number.
#[must_use]
pub fn user(number: usize) -> String {
    format!("user{number:05}")
}

/// The password of the user with this number.
#[must_use]
pub fn password(number: usize) -> String {
    format!("secret-{number:05}")
}

/// Starts a server with these arguments, this configuration and [`USERS`] users. Its timers match
/// those of SIPp, unless the configuration sets them.
#[must_use]
pub fn start_server(arguments: &[&str], configuration: &str) -> ServerProcess {
    let patient = format!("{configuration}[timers]\nt1 = \"{T1}ms\"\n");
    let configuration = if configuration.contains("[timers]") { configuration } else { &patient };
    let users: Vec<_> = (1..=USERS).map(|number| (user(number), password(number))).collect();
    ServerProcess::start(&Options { arguments, configuration, users: &users, domain: "" })
}

/// The domain of `server` as written by the user with this number: odd ones use its name, even ones
/// its address, which is equivalent.
#[must_use]
pub fn domain(server: impl Into<SocketAddr>, number: usize) -> String {
    if number % 2 == 1 { DOMAIN.into() } else { server.into().to_string() }
}

/// A row of injected data: the calling or registering user, the user name and password of the
/// credentials, the called user, and the domain. SIPp supports variable credentials only in
/// injected data.
#[must_use]
pub fn row(user: &str, name: &str, password: &str, callee: &str, domain: &str) -> String {
    format!("{user};[authentication username={name} password={password}];{callee};{domain}")
}
