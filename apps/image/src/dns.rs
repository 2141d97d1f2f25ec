//! A DNS resolver that locates SIP servers (RFC 3263), without I/O.
//!
//! A response is accepted only from the server queried, at the port the query was sent from, with
//! the id and the question of the query. Records are cached for their time to live.

use crate::machine::random::Random;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use sip::locate::{
    AddressFamilies, Answer, Destination, LocateStep, Locator, Naptr, Query, RecordType, Srv,
    Target,
};
use sip::{Duration, Instant, Transport};
use smoltcp::wire::{
    DnsFlags, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode, DnsRecord, DnsRecordData,
};

/// The port of name servers.
const PORT: u16 = 53;
/// Time limit of a query, and the number of rounds through all servers.
const INTERVAL: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;
/// Maximum number of searches at the same time.
const MOST: usize = 256;
/// Maximum number of cached answers, and the maximum time they are cached.
const MOST_KEPT: usize = 512;
const LONGEST: Duration = Duration::from_secs(3600);
/// Time that a negative answer is cached.
const NOTHING: Duration = Duration::from_secs(30);

/// The supported transports, the preferred first.
const OURS: [Transport; 2] = [Transport::Udp, Transport::Tcp];

/// A question to a name server: record type and name.
type Question = (RecordType, String);

/// A search for a destination. The caller gets `what` back with the result.
#[derive(Debug)]
struct Search<T> {
    what: T,
    locator: Locator,
    question: Question,
    /// The id of the query, and its local port.
    number: u16,
    port: u16,
    tries: usize,
    due: Instant,
}

/// The result of a search: the caller's value, and the addresses in the order to try.
pub type Found<T> = (T, Vec<Target>);

/// A datagram to send: local port, server, and payload.
pub type Transmit = (u16, SocketAddrV4, Vec<u8>);

/// The resolver.
#[derive(Debug)]
pub struct Resolver<T> {
    servers: Vec<Ipv4Addr>,
    searches: Vec<Search<T>>,
    kept: BTreeMap<(u16, String), (Answer, Instant)>,
    transmits: Vec<Transmit>,
    found: Vec<Found<T>>,
    /// Ports to open and to close since the last call of [`Resolver::work`].
    opened: Vec<u16>,
    closed: Vec<u16>,
}

impl<T> Default for Resolver<T> {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            searches: Vec::new(),
            kept: BTreeMap::new(),
            transmits: Vec::new(),
            found: Vec::new(),
            opened: Vec::new(),
            closed: Vec::new(),
        }
    }
}

impl<T> Resolver<T> {
    /// Sets the name servers in order of preference, and clears the cache.
    pub fn set_servers(&mut self, servers: &[Ipv4Addr]) {
        self.servers = servers.to_owned();
        self.kept.clear();
    }

    /// Starts a search for `destination`; `what` is returned with the result.
    pub fn locate(&mut self, now: Instant, destination: Destination, what: T, random: &mut Random) {
        let locator = Locator::new(destination, &OURS, AddressFamilies::V4);
        if self.searches.len() >= MOST {
            return self.found.push((what, Vec::new()));
        }
        self.advance(now, locator, what, random);
    }

    /// Advances a search as far as the cache answers its questions.
    fn advance(&mut self, now: Instant, mut locator: Locator, what: T, random: &mut Random) {
        loop {
            let query = match locator.step() {
                LocateStep::Done(targets) => return self.found.push((what, targets)),
                LocateStep::Failed(_) => return self.found.push((what, Vec::new())),
                LocateStep::Query(query) => query,
            };
            let key = (number_of(query.record), query.name.clone());
            let kept = self.kept.get(&key).filter(|(_, until)| *until > now);
            let answer = match kept {
                Some((answer, _)) => answer.clone(),
                None if self.servers.is_empty() => Answer::Failure,
                None => return self.ask(now, locator, query, what, random),
            };
            locator.on_dns_answer(answer, &mut |bound| random.below(bound));
        }
    }

    fn ask(&mut self, now: Instant, locator: Locator, query: Query, what: T, random: &mut Random) {
        let search = Search {
            what,
            locator,
            question: (query.record, query.name),
            number: u16::from_le_bytes(random.bytes()),
            port: 49_152 + random.below(16_384) as u16,
            tries: 1,
            due: now + INTERVAL,
        };
        self.opened.push(search.port);
        self.transmits.push(search.transmit(self.servers[0]));
        self.searches.push(search);
    }

    /// Handles a datagram from `remote` to the local `port`. Returns false if the port does not
    /// belong to a query.
    pub fn receive(
        &mut self,
        now: Instant,
        remote: SocketAddrV4,
        port: u16,
        datagram: &[u8],
        random: &mut Random,
    ) -> bool {
        let Some(at) = self.searches.iter().position(|search| search.port == port) else {
            return false;
        };
        let is_server = remote.port() == PORT && self.servers.contains(remote.ip());
        let search = &self.searches[at];
        let Some((answer, lifetime)) =
            read(datagram, search.number, &search.question).filter(|_| is_server)
        else {
            return true;
        };
        let (record, name) = &search.question;
        self.keep(now, (number_of(*record), name.clone()), answer.clone(), lifetime);
        self.end(now, at, answer, random);
        true
    }

    fn keep(&mut self, now: Instant, key: (u16, String), answer: Answer, lifetime: Duration) {
        if self.kept.len() >= MOST_KEPT {
            self.kept.retain(|_, (_, until)| *until > now);
        }
        if self.kept.len() >= MOST_KEPT {
            self.kept.clear();
        }
        self.kept.insert(key, (answer, now + lifetime));
    }

    /// Passes an answer to its search.
    fn end(&mut self, now: Instant, at: usize, answer: Answer, random: &mut Random) {
        let Search { what, mut locator, port, .. } = self.searches.swap_remove(at);
        self.closed.push(port);
        locator.on_dns_answer(answer, &mut |bound| random.below(bound));
        self.advance(now, locator, what, random);
    }

    /// Queries the next server after a timeout.
    pub fn on_time(&mut self, now: Instant, random: &mut Random) {
        let mut at = 0;
        while let Some(search) = self.searches.get_mut(at) {
            if search.due > now {
                at += 1;
            } else if search.tries >= ROUNDS * self.servers.len() {
                self.end(now, at, Answer::Failure, random);
            } else {
                let server = self.servers[search.tries % self.servers.len()];
                search.tries += 1;
                search.due = now + INTERVAL;
                self.transmits.push(search.transmit(server));
                at += 1;
            }
        }
    }

    /// The time at which [`Resolver::on_time`] is due.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.searches.iter().map(|search| search.due).min()
    }

    /// Returns the ports to open, the ports to close, and the datagrams to send after that.
    pub fn work(&mut self) -> (Vec<u16>, Vec<u16>, Vec<Transmit>) {
        let take = core::mem::take::<Vec<u16>>;
        (take(&mut self.opened), take(&mut self.closed), core::mem::take(&mut self.transmits))
    }

    /// Returns a finished search.
    pub fn found(&mut self) -> Option<Found<T>> {
        self.found.pop()
    }
}

impl<T> Search<T> {
    fn transmit(&self, server: Ipv4Addr) -> Transmit {
        let (record, name) = &self.question;
        let query = write(self.number, *record, name);
        (self.port, SocketAddrV4::new(server, PORT), query)
    }
}

const fn number_of(record: RecordType) -> u16 {
    match record {
        RecordType::A => 1,
        RecordType::Aaaa => 28,
        RecordType::Srv => 33,
        RecordType::Naptr => 35,
    }
}

/// A query: id, recursion desired, and the question.
fn write(number: u16, record: RecordType, name: &str) -> Vec<u8> {
    let mut encoded = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        encoded.push(label.len().min(63) as u8);
        encoded.extend_from_slice(&label.as_bytes()[..label.len().min(63)]);
    }
    encoded.push(0);
    let question = DnsQuestion { name: &encoded, type_: DnsQueryType::from(number_of(record)) };
    let mut bytes = alloc::vec![0; 12 + question.buffer_len()];
    let mut packet = DnsPacket::new_unchecked(&mut bytes);
    packet.set_transaction_id(number);
    packet.set_flags(DnsFlags::RECURSION_DESIRED);
    packet.set_question_count(1);
    question.emit(packet.payload_mut());
    bytes
}

/// Parses `datagram` as the response to the query `number` with this question: the answer, and its
/// time to live.
fn read(datagram: &[u8], number: u16, question: &Question) -> Option<(Answer, Duration)> {
    let packet = DnsPacket::new_checked(datagram).ok()?;
    let is_answer = packet.flags().contains(DnsFlags::RESPONSE);
    if !is_answer || packet.transaction_id() != number || packet.question_count() != 1 {
        return None;
    }
    let (record, asked) = question;
    let (mut rest, repeated) = DnsQuestion::parse(packet.payload()).ok()?;
    let is_ours = u16::from(repeated.type_) == number_of(*record)
        && name(&packet, repeated.name)?.eq_ignore_ascii_case(asked);
    if !is_ours {
        return None;
    }
    let mut answer = empty(*record);
    match packet.rcode() {
        DnsRcode::NoError => {}
        DnsRcode::NXDomain => return Some((answer, NOTHING)),
        _ => return Some((Answer::Failure, Duration::from_secs(1))),
    }
    let mut lifetime = LONGEST;
    let mut owner = asked.clone();
    for _ in 0..packet.answer_record_count() {
        // Records behind a truncated one are missing.
        let Ok((behind, record)) = DnsRecord::parse(rest) else { break };
        rest = behind;
        if !name(&packet, record.name)?.eq_ignore_ascii_case(&owner) {
            continue;
        }
        lifetime = lifetime.min(Duration::from_secs(record.ttl.into()));
        match (&mut answer, record.data) {
            (_, DnsRecordData::Cname(data)) => owner = name(&packet, data)?,
            (Answer::Addresses(all), DnsRecordData::A(address)) => all.push(IpAddr::V4(address)),
            (Answer::Srv(all), DnsRecordData::Other(kind, data)) if u16::from(kind) == 33 => {
                all.extend(srv(&packet, data));
            }
            (Answer::Naptr(all), DnsRecordData::Other(kind, data)) if u16::from(kind) == 35 => {
                all.extend(naptr(&packet, data));
            }
            _ => {}
        }
    }
    let is_empty = answer == empty(*record);
    Some((answer, if is_empty { NOTHING } else { lifetime }))
}

const fn empty(record: RecordType) -> Answer {
    match record {
        RecordType::Naptr => Answer::Naptr(Vec::new()),
        RecordType::Srv => Answer::Srv(Vec::new()),
        RecordType::A | RecordType::Aaaa => Answer::Addresses(Vec::new()),
    }
}

/// The name that begins with `bytes`, in lower case, without a trailing dot.
fn name(packet: &DnsPacket<&[u8]>, bytes: &[u8]) -> Option<String> {
    let mut name = String::new();
    for label in packet.parse_name(bytes) {
        let label = core::str::from_utf8(label.ok()?).ok()?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(label);
        if name.len() > 255 {
            return None;
        }
    }
    name.make_ascii_lowercase();
    Some(name)
}

fn number_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn srv(packet: &DnsPacket<&[u8]>, data: &[u8]) -> Option<Srv> {
    Some(Srv {
        priority: number_at(data, 0)?,
        weight: number_at(data, 2)?,
        port: number_at(data, 4)?,
        target: name(packet, data.get(6..)?)?,
    })
}

fn naptr(packet: &DnsPacket<&[u8]>, data: &[u8]) -> Option<Naptr> {
    let mut rest = data.get(4..)?;
    let mut text = || {
        let (&length, behind) = rest.split_first()?;
        let text = behind.get(..usize::from(length))?;
        rest = &behind[usize::from(length)..];
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let (flags, service) = (text()?, text()?);
    text()?;
    Some(Naptr {
        order: number_at(data, 0)?,
        preference: number_at(data, 2)?,
        flags,
        service,
        replacement: name(packet, rest)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::locate::Host;

    const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);

    fn encoded(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    /// The response to `query` of a server with these records.
    fn answer(query: &[u8], records: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
        let (_, question) = DnsQuestion::parse(&query[12..]).expect("a question");
        let mut bytes = query.to_vec();
        bytes[2] |= 0x80;
        let mut count = 0;
        for (name, kind, data) in records {
            if encoded(name) == question.name && *kind == u16::from(question.type_) {
                count += 1;
                // A compression pointer to the name in the question.
                bytes.extend_from_slice(&[0xc0, 12]);
                bytes.extend_from_slice(&kind.to_be_bytes());
                bytes.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
                bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
                bytes.extend_from_slice(data);
            }
        }
        bytes[7] = count;
        bytes
    }

    fn srv_data(port: u16, target: &str) -> Vec<u8> {
        [&[0, 1, 0, 1][..], &port.to_be_bytes(), &encoded(target)].concat()
    }

    fn located(
        resolver: &mut Resolver<u8>,
        records: &[(&str, u16, Vec<u8>)],
        host: &str,
        queries: &mut usize,
    ) -> Vec<Target> {
        let mut random = Random::new([7; 32]);
        let host = Host::parse(host.as_bytes()).expect("a host");
        let destination = Destination { host, port: None, transport: None, sips: false };
        resolver.locate(Instant::ZERO, destination, 9, &mut random);
        loop {
            if let Some((what, targets)) = resolver.found() {
                assert_eq!(what, 9);
                return targets;
            }
            for (port, remote, query) in resolver.work().2 {
                assert_eq!(remote, SocketAddrV4::new(SERVER, PORT));
                *queries += 1;
                let answer = answer(&query, records);
                let mut wrong = answer.clone();
                wrong[0] ^= 1;
                resolver.receive(Instant::ZERO, remote, port, &wrong, &mut random);
                let other = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 54), PORT);
                resolver.receive(Instant::ZERO, other, port, &answer, &mut random);
                assert!(resolver.found().is_none(), "a stranger was believed");
                for length in 0..answer.len() {
                    read(&answer[..length], 0, &(RecordType::A, String::new()));
                }
                assert!(resolver.receive(Instant::ZERO, remote, port, &answer, &mut random));
            }
        }
    }

    #[test]
    fn a_domain_is_located_and_remembered() {
        let records = [
            ("_sip._udp.example.com", 33, srv_data(5080, "one.example.com")),
            ("one.example.com", 1, alloc::vec![192, 0, 2, 1]),
        ];
        let mut resolver = Resolver::default();
        resolver.set_servers(&[SERVER]);
        let mut queries = 0;
        let address = "192.0.2.1:5080".parse().expect("an address");
        let target = Target { transport: Transport::Udp, address };
        assert_eq!(located(&mut resolver, &records, "example.com", &mut queries), [target]);
        let before = queries;
        assert_eq!(located(&mut resolver, &records, "example.com", &mut queries), [target]);
        assert_eq!(queries, before);
        assert_eq!(located(&mut resolver, &records, "nobody.example.com", &mut queries), []);
    }

    #[test]
    fn silence_ends() {
        let (mut resolver, mut random) = (Resolver::default(), Random::new([7; 32]));
        let host = Host::parse(b"example.com").expect("a host");
        let destination = Destination { host, port: Some(5060), transport: None, sips: false };
        resolver.locate(Instant::ZERO, destination.clone(), 1, &mut random);
        assert_eq!(resolver.found(), Some((1, Vec::new())), "nobody can be asked");
        resolver.set_servers(&[SERVER, Ipv4Addr::new(192, 0, 2, 54)]);
        resolver.locate(Instant::ZERO, destination, 1, &mut random);
        let (mut now, mut count) = (Instant::ZERO, 0);
        while resolver.found().is_none() {
            count += resolver.work().2.len();
            now += INTERVAL;
            resolver.on_time(now, &mut random);
        }
        assert_eq!(count, 4);
    }
}
