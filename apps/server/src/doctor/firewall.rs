//! The firewall of this machine: nftables, which iptables uses as well.

use super::findings::{Findings, Severity};
use crate::settings::Settings;
use serde_json::Value;
use sip::Transport;
use std::process::Command;

/// Checks that the firewall lets SIP and media pass. Only root can see the rules.
pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let Ok(output) = Command::new("nft").args(["-j", "list", "ruleset"]).output() else { return };
    let Ok(rules) = serde_json::from_slice::<Value>(&output.stdout) else { return };
    let mut listens = settings.listens();
    listens.retain(|listen| !listen.address.ip().is_loopback());
    for listen in &listens {
        let protocol = match listen.transport {
            Transport::Udp => "udp",
            _ => "tcp",
        };
        let port = listen.address.port();
        if is_closed(&rules, protocol, port) {
            findings.fault(
                Severity::Warning,
                "firewall",
                format!("the firewall drops by default, and no rule names {protocol} port {port}"),
                format!("nft add rule inet filter input {protocol} dport {port} accept"),
            );
        }
    }
    let (ports, has_media) = (settings.media.ports, settings.media_sockets() > 0);
    let ends = [ports.port(0), ports.port(ports.pairs() - 1) + 1];
    if !listens.is_empty() && has_media && ends.iter().any(|&port| is_closed(&rules, "udp", port)) {
        findings.fault(
            Severity::Warning,
            "firewall",
            format!(
                "the firewall drops by default, and no rule names udp ports {ports}: relayed calls \
                 have no sound"
            ),
            format!("nft add rule inet filter input udp dport {ports} accept"),
        );
    }
    findings.good_unless_found("firewall", "no rule of this machine is seen to drop SIP or media");
}

/// True if a chain of `rules` drops incoming packets by default, and none of its rules accepts a
/// range or set with this port, any port of the protocol, or jumps elsewhere.
fn is_closed(rules: &Value, protocol: &str, port: u16) -> bool {
    let all = rules["nftables"].as_array().map_or(&[][..], |all| all);
    let closed = all.iter().map(|it| &it["chain"]).filter(|chain| {
        chain["hook"] == "input" && chain["policy"] == "drop" && chain["family"] != "bridge"
    });
    closed.into_iter().any(|chain| {
        let is_of_chain = |rule: &&Value| {
            ["family", "table"].iter().all(|key| rule[key] == chain[key])
                && rule["chain"] == chain["name"]
        };
        let rules = all.iter().map(|it| &it["rule"]).filter(is_of_chain);
        !rules.into_iter().any(|rule| may_accept(&rule["expr"], protocol, port))
    })
}

/// True if a rule with the expressions `expressions` may accept packets to `port`.
fn may_accept(expressions: &Value, protocol: &str, port: u16) -> bool {
    let all = expressions.as_array().map_or(&[][..], |all| all);
    let leads_on =
        |it: &Value| ["accept", "jump", "goto", "vmap"].iter().any(|key| it.get(key).is_some());
    all.iter().any(leads_on) && all.iter().all(|it| may_match(&it["match"], protocol, port))
}

/// True if the condition `condition` does not exclude new packets to `port` from other machines.
fn may_match(condition: &Value, protocol: &str, port: u16) -> bool {
    let (left, right) = (&condition["left"], &condition["right"]);
    let payload = &left["payload"];
    if payload["field"] == "dport" {
        let is_protocol = payload["protocol"] == protocol || payload["protocol"] == "th";
        return is_protocol && names(right, port);
    }
    if left["meta"]["key"] == "iifname" || left["meta"]["key"] == "iif" {
        return *right != "lo";
    }
    if left["ct"]["key"] == "state" {
        return right.to_string().contains("new");
    }
    if left["meta"]["key"] == "l4proto" || payload["field"] == "protocol" {
        return right.to_string().contains(protocol);
    }
    // Other conditions may hold.
    payload["protocol"].is_null()
        || !matches!(payload["protocol"].as_str(), Some("icmp" | "icmpv6"))
}

/// True if `value`, a port, a set or a range, has `port`.
fn names(value: &Value, port: u16) -> bool {
    if let Some(set) = value["set"].as_array() {
        return set.iter().any(|element| names(element, port));
    }
    match value["range"].as_array().map(|range| &range[..]) {
        Some([first, last]) => {
            let bound = |value: &Value| value.as_u64().unwrap_or_default();
            (bound(first)..=bound(last)).contains(&port.into())
        }
        // A named set may have it.
        _ => {
            value.as_u64() == Some(port.into())
                || value.as_str().is_some_and(|it| it.starts_with('@'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A chain that drops by default, with a rule of each of `rules`.
    fn ruleset(rules: &[Value]) -> Value {
        let chain = json!({"chain": {"family": "inet", "table": "filter", "name": "input",
            "hook": "input", "policy": "drop"}});
        let rules = rules.iter().map(|expr| {
            json!({"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": expr}})
        });
        json!({"nftables": std::iter::once(chain).chain(rules).collect::<Vec<_>>()})
    }

    fn dport(protocol: &str, right: &Value) -> Value {
        let left = json!({"payload": {"protocol": protocol, "field": "dport"}});
        json!([{"match": {"op": "==", "left": left, "right": right}}, {"accept": null}])
    }

    #[test]
    fn a_port_is_closed_if_no_rule_of_a_chain_that_drops_accepts_it() {
        let of_state = json!([{"match": {"left": {"ct": {"key": "state"}},
            "right": ["established", "related"]}}, {"accept": null}]);
        let of_loopback = json!([{"match": {"left": {"meta": {"key": "iifname"}}, "right": "lo"}},
            {"accept": null}]);
        let usual = [of_state, of_loopback, dport("tcp", &json!(22)), dport("tcp", &json!(5060))];
        assert!(is_closed(&ruleset(&usual), "udp", 5060));
        assert!(!is_closed(&ruleset(&usual), "tcp", 5060));
        for right in [json!(5060), json!({"range": [5000, 6000]}), json!({"set": [53, 5060]})] {
            assert!(!is_closed(&ruleset(&[dport("udp", &right)]), "udp", 5060), "{right}");
        }
        assert!(!is_closed(&ruleset(&[json!([{"accept": null}])]), "udp", 5060));
        assert!(!is_closed(&ruleset(&[json!([{"jump": {"target": "sip"}}])]), "udp", 5060));
        assert!(is_closed(&ruleset(&[json!([{"counter": {}}])]), "udp", 5060));
        assert!(!is_closed(&json!({"nftables": []}), "udp", 5060));
    }
}
