//! DNS for RFC 3263: queries, records, and the order of SRV records.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::Transport;

/// The maximum number of targets of one location.
pub const MAX_TARGETS: usize = 32;

/// A type of DNS records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// The services of a domain (RFC 2915).
    Naptr,
    /// The servers of a service (RFC 2782).
    Srv,
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// A DNS query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// The type of the records.
    pub record: RecordType,
    /// The full name, without a trailing dot.
    pub name: String,
}

/// The answer to a [`Query`]: the records of the queried type, with CNAMEs followed.
///
/// The list is empty if the name or the records do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to [`RecordType::Naptr`].
    Naptr(Vec<Naptr>),
    /// The answer to [`RecordType::Srv`].
    Srv(Vec<Srv>),
    /// The answer to [`RecordType::A`] and [`RecordType::Aaaa`].
    Addresses(Vec<IpAddr>),
    /// A timeout, or a server failure.
    Failure,
}

/// A NAPTR record, without its regular expression, which SIP does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naptr {
    /// The order; lower values first.
    pub order: u16,
    /// The preference within an order; lower values first.
    pub preference: u16,
    /// The flags. `s` means that the replacement is the name of SRV records.
    pub flags: String,
    /// The service, such as `SIP+D2U`.
    pub service: String,
    /// The name of the next query.
    pub replacement: String,
}

impl Naptr {
    /// The transport of the service. `None` for an unsupported service.
    pub(super) fn transport(&self) -> Option<Transport> {
        [("SIP+D2U", Transport::Udp), ("SIP+D2T", Transport::Tcp), ("SIPS+D2T", Transport::Tls)]
            .into_iter()
            .find(|(service, _)| service.eq_ignore_ascii_case(&self.service))
            .map(|(_, transport)| transport)
    }

    /// Returns true if the replacement names SRV records.
    pub(super) fn is_terminal(&self) -> bool {
        self.flags.eq_ignore_ascii_case("s") && is_name(&self.replacement)
    }
}

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srv {
    /// The priority; lower values first.
    pub priority: u16,
    /// The share of the load within a priority.
    pub weight: u16,
    /// The server's port.
    pub port: u16,
    /// The server's name; `.` means that the service is not available.
    pub target: String,
}

/// The usable servers in the order of RFC 2782.
pub(super) fn in_order(mut records: Vec<Srv>, random: &mut impl FnMut(u32) -> u32) -> Vec<Srv> {
    records.retain(|srv| is_name(&srv.target));
    // Records without weight go first in their priority, which gives them a small chance.
    records.sort_unstable_by_key(|srv| (srv.priority, srv.weight > 0));
    records.truncate(MAX_TARGETS);
    for next in 0..records.len() {
        let rest = &mut records[next..];
        let priority = rest[0].priority;
        let peers = rest.iter().take_while(|srv| srv.priority == priority);
        let sum: u32 = peers.clone().map(|srv| u32::from(srv.weight)).sum();
        let drawn = random(sum + 1).min(sum);
        let mut running = 0;
        let chosen = peers
            .map(|srv| {
                running += u32::from(srv.weight);
                running
            })
            .position(|running| running >= drawn)
            .unwrap_or(0);
        rest[..=chosen].rotate_right(1);
    }
    for srv in &mut records {
        srv.target = normal(&srv.target);
    }
    records
}

/// Returns true if `text` is a name that can be queried, other than the root.
pub(super) fn is_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let allowed = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    text.len() <= 253
        && text
            .split('.')
            .all(|label| (1..=63).contains(&label.len()) && label.bytes().all(allowed))
}

/// Converts `name` to lower case without a trailing dot.
pub(super) fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
