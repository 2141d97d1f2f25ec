//! The names in groups of the configuration, with their domains.

use crate::domains;
use sip_server::Group;
use sip_server::config::Domain;

/// Returns `groups` with complete names: a group without a domain is in the first one of `served`,
/// and its members and its fallback are in the domain of the group. Aliases are replaced by their
/// domains.
pub(crate) fn complete(groups: &[Group], served: &[Domain]) -> Vec<Group> {
    let default = served.first().map_or("", |domain| domain.name.as_str());
    let in_domain = |name: &str, default: &str| match name.rsplit_once('@') {
        Some((user, domain)) => {
            let known = domains::find(served, domain).map(|domain| domain.name.as_str());
            format!("{user}@{}", known.unwrap_or(domain))
        }
        None => format!("{name}@{default}"),
    };
    let group = |group: &Group| {
        let name = in_domain(&group.name, default);
        let own = name.rsplit_once('@').map_or(default, |(_, domain)| domain);
        let members = group.members.iter().map(|member| in_domain(member, own)).collect();
        let fallback = group.fallback.as_ref().map(|target| in_domain(target, own));
        Group { members, fallback, name: name.clone(), ..group.clone() }
    };
    groups.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Duration;
    use sip_server::Strategy;

    #[test]
    fn names_get_the_domain_of_their_group() {
        let domain = |name: &str, alias: &str| Domain {
            name: name.to_owned(),
            aliases: vec![alias.to_owned()],
        };
        let group = |name: &str, members: &[&str], fallback: &str| Group {
            name: name.to_owned(),
            members: members.iter().map(|&member| member.to_owned()).collect(),
            strategy: Strategy::InTurn,
            timeout: Duration::from_secs(9),
            fallback: Some(fallback.to_owned()),
            forwards: true,
        };
        let served = [domain("a.com", "192.0.2.1"), domain("b.com", "sip.b.com")];
        let groups = [
            group("sales", &["al", "bo@sip.b.com"], "desk"),
            group("help@sip.b.com", &["al", "bo@a.com"], "sales@a.com"),
        ];
        let expected = [
            group("sales@a.com", &["al@a.com", "bo@b.com"], "desk@a.com"),
            group("help@b.com", &["al@b.com", "bo@a.com"], "sales@a.com"),
        ];
        assert_eq!(complete(&groups, &served), expected);
    }
}
