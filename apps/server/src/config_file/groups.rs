//! The sections `[[groups]]` of the configuration.

use super::reader::Section;
use super::values::{any_array_of, duration, flag, show, word};
use crate::domains;
use sip_server::config::{Config, Mode, State};
use sip_server::{CallServices, Group, Strategy};
use users::check_name;

/// Reads all groups into `engine`. Names without a domain get that of the group, or the default one
/// once it is known: see [`Settings::engine_config`](crate::settings::Settings::engine_config).
pub(super) fn read(top: &mut Section<'_, '_>, engine: &mut Config) {
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    let mut groups: Vec<Group> = Vec::new();
    let served = |name: &str| {
        let domain = name.rsplit_once('@').map(|(_, domain)| domain);
        engine.domains.is_empty()
            || domain.is_none_or(|domain| domains::find(&engine.domains, domain).is_some())
    };
    top.tables("groups", "[groups]", |section| {
        let group = read_group(section);
        section.check(is_usable, &["name"], || {
            "groups need mode = \"proxy\" and state = \"stateful\"".to_owned()
        });
        let is_known = groups.iter().any(|other| other.name == group.name);
        section.check(!is_known, &["name"], || {
            format!("the group `{}` is repeated; each needs a name of its own", group.name)
        });
        let keys = [("name", &group.name)].into_iter();
        let keys = keys.chain(group.members.iter().map(|member| ("members", member)));
        for (key, name) in keys.chain(group.fallback.iter().map(|target| ("fallback", target))) {
            section.check(served(name), &[key], || {
                format!("the domain of `{name}` is not served; expected one of domains")
            });
        }
        groups.push(group);
    });
    engine.groups = groups;
}

fn read_group(section: &mut Section<'_, '_>) -> Group {
    let mut group = Group {
        name: String::new(),
        members: Vec::new(),
        strategy: Strategy::Together,
        timeout: CallServices::DEFAULT_RINGING,
        fallback: None,
        forwards: false,
    };
    section.require("name", "a group has no name; expected one such as name = \"sales\"");
    section.require(
        "members",
        "a group has no members; expected users, such as members = [\"alice\", \"bob\"]",
    );
    section.read("name", &mut group.name, word(name));
    section.read_whole("members", &mut group.members, any_array_of(word(name)));
    section.read("strategy", &mut group.strategy, word(strategy));
    section.read("timeout", &mut group.timeout, duration);
    section.read_some("fallback", &mut group.fallback, word(name));
    section.read("forwards", &mut group.forwards, flag);
    let (min, max) = (CallServices::MIN_RINGING, CallServices::MAX_RINGING);
    section.check((min..=max).contains(&group.timeout), &["timeout"], || {
        format!(
            "timeout ({}) is out of range; expected a time from {} to {}",
            show(group.timeout),
            show(min),
            show(max)
        )
    });
    section.check(!group.members.is_empty(), &["members"], || {
        "the group has no member; expected one user at least".to_owned()
    });
    section.check(group.members.len() <= Group::MAX_MEMBERS, &["members"], || {
        let (count, most) = (group.members.len(), Group::MAX_MEMBERS);
        format!("the group has {count} members; expected {most} at most")
    });
    let is_itself = |name: &String| *name == group.name;
    let names_itself = group.members.iter().chain(&group.fallback).any(is_itself);
    section.check(!names_itself, &["members", "fallback"], || {
        "the group is a member or the fallback of itself; expected other names".to_owned()
    });
    group
}

/// Parses the name of a user or a group, `name` or `name@domain`.
fn name(text: &str) -> Result<String, String> {
    let (user, domain) = match text.rsplit_once('@') {
        Some((user, domain)) => (user, Some(domains::canonical(domain)?)),
        None => (text, None),
    };
    check_name(user).map_err(|error| error.to_string())?;
    Ok(domain.map_or_else(|| user.to_owned(), |domain| format!("{user}@{domain}")))
}

fn strategy(text: &str) -> Result<Strategy, String> {
    match text {
        "together" => Ok(Strategy::Together),
        "in turn" => Ok(Strategy::InTurn),
        "round robin" => Ok(Strategy::RoundRobin),
        _ => Err(format!("`{text}` is unknown; expected one of: together, in turn, round robin")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use sip::Duration;

    fn problems(text: &str) -> Vec<String> {
        let found = parse(text).unwrap_err().into_iter();
        found.map(|it| format!("{}:{}: {}", it.line, it.column, it.text)).collect()
    }

    #[test]
    fn groups_are_read() {
        let text = "[[groups]]\nname = \"sales\"\nmembers = [\"al\", \"bo@B.com\"]\n\
                    strategy = \"round robin\"\ntimeout = \"15s\"\nfallback = \"desk\"\n\
                    forwards = true\n[[groups]]\nname = \"all\"\nmembers = [\"al\"]\n";
        let groups = parse(text).unwrap().engine.groups;
        let first = Group {
            name: "sales".to_owned(),
            members: vec!["al".to_owned(), "bo@b.com".to_owned()],
            strategy: Strategy::RoundRobin,
            timeout: Duration::from_secs(15),
            fallback: Some("desk".to_owned()),
            forwards: true,
        };
        let second = Group {
            name: "all".to_owned(),
            members: vec!["al".to_owned()],
            strategy: Strategy::Together,
            timeout: Duration::from_secs(20),
            fallback: None,
            forwards: false,
        };
        assert_eq!(groups, [first, second]);
    }

    #[test]
    fn each_mistake_has_its_place() {
        let group = |lines: &str| {
            let has = |key: &str| lines.lines().any(|line| line.starts_with(key));
            let name = if has("name") { "" } else { "name = \"g\"\n" };
            let members = if has("members") { "" } else { "members = [\"a\"]\n" };
            problems(&format!("[[groups]]\n{lines}\n{name}{members}"))
        };
        for (lines, expected) in [
            ("timeout = \"0s\"", "2:11: timeout (0s) is out of range; expected a time from 1s"),
            ("timeout = \"4m\"", "2:11: timeout (4m) is out of range"),
            ("strategy = \"all\"", "2:12: strategy: `all` is unknown; expected one of: together"),
            ("members = []", "2:11: the group has no member"),
            ("members = [\"a\", \"a\"]", "2:17: members: this value is repeated"),
            ("members = [\"a b\"]", "2:12: members: "),
            ("members = [\"g\"]", "2:11: the group is a member or the fallback of itself"),
            ("fallback = \"g\"", "4:11: the group is a member or the fallback of itself"),
        ] {
            let found = group(lines);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{lines}: {found:?}");
        }
        let nameless = problems("[[groups]]\n");
        assert!(nameless[0].contains("has no name") || nameless[1].contains("has no name"));
        let stateless = "state = \"stateless\"\n[[groups]]\nname = \"g\"\nmembers = [\"a\"]\n";
        assert!(problems(stateless)[0].starts_with("3:8: groups need mode"));
        let foreign = "domains = [\"a.com\"]\n[[groups]]\nname = \"g\"\nmembers = [\"a@b.com\"]\n";
        assert!(problems(foreign)[0].contains("the domain of `a@b.com` is not served"));
    }
}
