//! The messages of the server at its start.

use crate::domains::unserved_users;
use crate::listen::Listen;
use crate::log;
use sip_server::config::{Config, Domain};
use std::collections::BTreeMap;

/// The listening addresses, the served domains, the number of users, and the command that adds a
/// user, with the flags `place` of the data directory.
pub(super) fn welcome(
    listens: &[Listen],
    domains: &[Domain],
    users: usize,
    place: Vec<String>,
) -> String {
    let mut text = format!("barebell {} listens on", env!("CARGO_PKG_VERSION"));
    for (index, listen) in listens.iter().enumerate() {
        text.push_str(if index == 0 { " " } else { ", " });
        text.push_str(&listen.to_string());
    }
    for domain in domains {
        text.push_str(&format!("\nserves the domain {}", domain.name));
        if !domain.aliases.is_empty() {
            text.push_str(&format!(", also called {}", domain.aliases.join(", ")));
        }
    }
    let mut command = vec![std::env::args().next().unwrap_or_else(|| "barebell".to_owned())];
    command.extend(["user", "add"].map(str::to_owned));
    command.push(match domains {
        [] | [_] => "NAME".to_owned(),
        [first, ..] => format!("NAME@{}", first.name),
    });
    command.push("--password-stdin".to_owned());
    command.extend(place);
    let are = if users == 1 { "is 1 user" } else { &format!("are {users} users") };
    text.push_str(&format!("\nthere {are}; this command adds one: {}\n", command.join(" ")));
    text
}

/// Warns of insecure settings in `config`.
pub(super) fn warn(config: &Config) {
    if !config.authentication.required {
        log::warn("start", || {
            "AUTHENTICATION IS OFF: any client may register as any user, take other users' calls \
             and call in their names; only limits.trusted may call other destinations than users. \
             Outside of a laboratory, leave authentication.required out of the configuration"
                .to_owned()
        });
    }
}

/// Warns of users with a domain that is not among the `served`.
pub(super) fn warn_of_users(served: &[Domain], unserved: &BTreeMap<String, u64>) {
    let served = served.first().map(|domain| domain.name.as_str());
    for (domain, &users) in unserved {
        log::warn("users", || unserved_users(served, domain, users));
    }
}
