//! What the server says when it has started.

use crate::listen::Listen;
use sip_server::config::Domain;

/// What it listens on, which domains it serves, how many users it has, and the command that adds one to the data that it
/// uses, which the flags `place` name.
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
