//! The section `[trace]`.

use super::reader::Section;
use super::values::{at_least, memory_or_none, word};
use crate::settings::TraceSettings;

/// Reads the section.
pub(super) fn read(section: &mut Section<'_, '_>, trace: &mut TraceSettings) {
    section.read("memory", &mut trace.memory, memory_or_none);
    section.read_some("hep", &mut trace.hep, word(host_and_port));
    section.read("hep_id", &mut trace.hep_id, at_least(1));
    section.check(trace.hep.is_none() || trace.memory > 0, &["hep", "memory"], || {
        "hep needs memory, from which the messages are sent; expected one such as \"16MiB\""
            .to_owned()
    });
}

/// Parses a host and a port, as `"homer.example.com:9060"`.
fn host_and_port(text: &str) -> Result<String, String> {
    let is_host = |host: &str| match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(ip) => ip.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        }
    };
    let parts = text.rsplit_once(':');
    let is_place = parts.is_some_and(|(host, port)| {
        is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    is_place.then(|| text.to_owned()).ok_or_else(|| {
        format!("\"{text}\" is no host and port; expected one such as \"192.0.2.1:9060\"")
    })
}
