//! A server with 10,000 users, and the rows of data by which SIPp plays them.

use crate::server::{Barebell, DOMAIN, Options};
use std::net::SocketAddr;

/// Users of the server (row A3 of docs/sources.md), numbered from 1.
pub const USERS: usize = 10_000;

/// A configuration for authentication by SIPp: it knows MD5 only, and fails when another algorithm
/// is offered before it.
pub const ONLY_MD5: &str = "[authentication]\nalgorithms = [\"MD5\"]\n";

/// The time after which SIPp and the server repeat a message that was not answered, in
/// milliseconds. Four times the usual, so that on a busy machine what is late is not taken for
/// lost.
pub(super) const T1: u32 = 2000;

/// Name of the user with this number.
#[must_use]
pub fn user(number: usize) -> String {
    format!("user{number:05}")
}

/// Password of the user with this number.
#[must_use]
pub fn password(number: usize) -> String {
    format!("secret-{number:05}")
}

/// Starts a server with these arguments, this configuration and [`USERS`] users. Unless the
/// configuration has timers, it is as patient as SIPp here.
#[must_use]
pub fn start_server(arguments: &[&str], configuration: &str) -> Barebell {
    let patient = format!("{configuration}[timers]\nt1 = \"{T1}ms\"\n");
    let configuration = if configuration.contains("[timers]") { configuration } else { &patient };
    let users: Vec<_> = (1..=USERS).map(|number| (user(number), password(number))).collect();
    Barebell::start(&Options { arguments, configuration, users: &users })
}

/// The domain of `server` as the user with this number writes it: odd ones its name, even ones the
/// server's address, which means the same.
#[must_use]
pub fn domain(server: impl Into<SocketAddr>, number: usize) -> String {
    if number % 2 == 1 { DOMAIN.into() } else { server.into().to_string() }
}

/// One row of injected data: the user who calls or registers, the user name and password of the
/// credentials, the user who is called, and how the domain is written. SIPp takes changing
/// credentials in this form only from injected data.
#[must_use]
pub fn row(user: &str, name: &str, password: &str, callee: &str, domain: &str) -> String {
    format!("{user};[authentication username={name} password={password}];{callee};{domain}")
}
