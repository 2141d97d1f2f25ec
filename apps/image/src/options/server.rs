//! The options of the server.

use super::{Machine, Mistake, Word};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::RangeInclusive;
use relay::PortRange;
use sip::Duration;
use sip_server::config::{MediaKeys, Mode, Relaying, State};
use smoltcp::wire::Ipv4Cidr;

/// The options of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The options of the machine.
    pub machine: Machine,
    /// `mode=proxy`, `redirect` or `registrar`.
    pub mode: Mode,
    /// `auth=on` or `off`: authentication of users.
    pub auth: bool,
    /// `state=stateful` or `stateless`.
    pub state: State,
    /// `domain=NAME,ALIAS,...`: the domains of the server, in addition to its address. Without a
    /// name it serves its address only.
    pub domain: Vec<String>,
    /// `as=A.B.C.D:PORT`: the public address behind a NAT or a forwarded port.
    pub advertised: Option<SocketAddrV4>,
    /// `trusted=A.B.C.D/BITS,...`: the trusted networks.
    pub trusted: Vec<Ipv4Cidr>,
    /// `relay=needed`, `all` or `off`: the calls with relayed media.
    pub relay: Relaying,
    /// `ports=FIRST-LAST`: the UDP ports of relayed media.
    pub ports: PortRange,
    /// `keys=passed`, `converted`, `offered` or `required`: the SRTP keys of relayed calls.
    pub keys: MediaKeys,
    /// `timeout=SECONDS`: a relayed call that should have packets ends after this time without one.
    pub timeout: Duration,
    /// `tftp=A.B.C.D`: the TFTP server with the file of users, in place of DHCP's.
    pub tftp: Option<Ipv4Addr>,
    /// `file=NAME`: the name of that file in place of DHCP's.
    pub file: Option<String>,
    /// `refresh=SECONDS`: the interval at which it is fetched again; 0 means never.
    pub refresh: Duration,
    /// `expires=SECONDS`: the maximum expiry of a registration.
    pub expires: Duration,
    /// `sntp=A.B.C.D`: the time server in place of DHCP's; `sntp=off`: no time server.
    pub sntp: Sntp,
    /// `syslog=A.B.C.D`: the syslog server, which gets each line of the log (RFC 5424, by UDP).
    pub syslog: Option<Ipv4Addr>,
    /// `screen=log`, `state`, `users` or `calls`: the first page on the screen.
    pub screen: Page,
    /// `query=A.B.C.D:PORT`: the host that may query the timings of the steps, and the port for its
    /// queries.
    pub query: Option<SocketAddrV4>,
    /// `secret=HEX`: 64 digits, constant over restarts, so that established calls keep working.
    pub secret: Option<[u8; 32]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            machine: Machine::default(),
            mode: Mode::Proxy,
            auth: true,
            state: State::Stateful,
            domain: Vec::new(),
            trusted: Vec::new(),
            relay: Relaying::Needed,
            ports: PortRange::default(),
            keys: MediaKeys::Converted,
            timeout: Duration::from_secs(60),
            tftp: None,
            file: None,
            refresh: Duration::ZERO,
            expires: Duration::from_secs(300),
            sntp: Sntp::ByDhcp,
            syslog: None,
            screen: Page::Log,
            query: None,
            advertised: None,
            secret: None,
        }
    }
}

/// The time server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sntp {
    /// The server that DHCP names, if any.
    ByDhcp,
    /// This server.
    Server(Ipv4Addr),
    /// No server.
    Off,
}

/// The pages of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The log.
    Log,
    /// The configuration and the counters of the server.
    State,
    /// The registered users.
    Users,
    /// The relayed calls.
    Calls,
}

/// The allowed ports for queries and media: the machine uses others itself.
const PORTS: RangeInclusive<u16> = 1_024..=49_151;

const NAMES: &str = "mode, auth, state, domain, as, trusted, relay, ports, keys, timeout, tftp, file, refresh, expires, sntp, syslog, screen, query, secret,";

impl Options {
    /// Parses `text`. The later of two words for the same option counts.
    ///
    /// # Errors
    /// If a word is not a valid option.
    pub fn read(&mut self, text: &str) -> Result<(), Mistake> {
        Word::all(text).try_for_each(|word| self.set(word))?;
        match self.query {
            Some(host) if self.ports.ports().contains(&host.port()) => Err(Mistake::Value {
                name: "query".into(),
                value: host.to_string(),
                expected: "a port that is not one of ports",
            }),
            _ => Ok(()),
        }
    }

    fn set(&mut self, word: Word<'_>) -> Result<(), Mistake> {
        if self.machine.set(word)? {
            return Ok(());
        }
        match word.name {
            "mode" => {
                let meanings = [
                    ("proxy", Mode::Proxy),
                    ("redirect", Mode::Redirect),
                    ("registrar", Mode::Registrar),
                ];
                self.mode = word.one_of(&meanings, "proxy, redirect or registrar")?;
            }
            "state" => {
                let meanings = [("stateful", State::Stateful), ("stateless", State::Stateless)];
                self.state = word.one_of(&meanings, "stateful or stateless")?;
            }
            "auth" => self.auth = word.switch()?,
            "domain" => {
                let names = word.value.split(',').map(str::to_ascii_lowercase);
                self.domain = names.collect();
                if self.domain.iter().any(String::is_empty) {
                    return Err(word.mistake("a name, or several with commas between"));
                }
            }
            "trusted" => self.trusted = word.parse_all("networks such as 192.0.2.0/24")?,
            "relay" => {
                let meanings =
                    [("needed", Relaying::Needed), ("all", Relaying::All), ("off", Relaying::Off)];
                self.relay = word.one_of(&meanings, "needed, all or off")?;
            }
            "ports" => {
                let example = "a range of 1024 to 49151 without 5060, such as 20000-29999";
                let range: PortRange = word.parse(example)?;
                let ports = range.ports();
                if ports.contains(&5_060) || !PORTS.contains(ports.end()) {
                    return Err(word.mistake(example));
                }
                self.ports = range;
            }
            "keys" => {
                let meanings = [
                    ("passed", MediaKeys::Passed),
                    ("converted", MediaKeys::Converted),
                    ("offered", MediaKeys::Offered),
                    ("required", MediaKeys::Required),
                ];
                self.keys = word.one_of(&meanings, "passed, converted, offered or required")?;
            }
            "timeout" => self.timeout = word.seconds_from(1, "seconds, 1 at least")?,
            "tftp" => self.tftp = Some(word.address()?),
            "file" => self.file = Some(word.value.into()),
            "refresh" => self.refresh = word.seconds()?,
            "expires" => self.expires = word.seconds_from(60, "seconds, 60 at least")?,
            "sntp" if word.value == "off" => self.sntp = Sntp::Off,
            "sntp" => self.sntp = Sntp::Server(word.address()?),
            "syslog" => self.syslog = Some(word.address()?),
            "screen" => {
                let meanings = [
                    ("log", Page::Log),
                    ("state", Page::State),
                    ("users", Page::Users),
                    ("calls", Page::Calls),
                ];
                self.screen = word.one_of(&meanings, "log, state, users or calls")?;
            }
            "as" => {
                let example = "an address and a port, such as 203.0.113.5:5060";
                let outside: SocketAddrV4 = word.parse(example)?;
                if outside.port() == 0 || outside.ip().is_unspecified() {
                    return Err(word.mistake(example));
                }
                self.advertised = Some(outside);
            }
            "query" => {
                let example =
                    "an address and a port of 1024 to 49151 but 5060, such as 192.0.2.9:5099";
                let host: SocketAddrV4 = word.parse(example)?;
                if host.port() == 5_060 || !PORTS.contains(&host.port()) {
                    return Err(word.mistake(example));
                }
                self.query = Some(host);
            }
            "secret" => {
                self.secret = Some(hex(word.value).ok_or(word.mistake("64 hexadecimal digits"))?);
            }
            _ => return Err(word.unknown(NAMES)),
        }
        Ok(())
    }
}

fn hex(value: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if value.len() != 2 * bytes.len() || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(value.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, Mistake> {
        let mut options = Options::default();
        options.read(text).map(|()| options)
    }

    #[test]
    fn words_become_options() {
        let options = read(
            "barebell mode=redirect auth=off state=stateless domain=Example.org,sip.example.org \
             trusted=192.0.2.0/28,192.0.2.9/32 address=192.0.2.7/24 gateway=192.0.2.1 dns=192.0.2.2,192.0.2.3 tftp=192.0.2.4 \
             file=users refresh=600 expires=120 checksums=off sntp=off syslog=192.0.2.5 \
             relay=all ports=30000-30999 keys=offered timeout=20 screen=users query=192.0.2.9:5099 as=203.0.113.5:15060 reboot=0",
        );
        let machine = Machine {
            address: Some("192.0.2.7/24".parse().expect("an address")),
            gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
            dns: alloc::vec![Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 3)],
            checksums: false,
            reboot: Duration::ZERO,
        };
        let expected = Options {
            machine,
            mode: Mode::Redirect,
            auth: false,
            state: State::Stateless,
            domain: alloc::vec!["example.org".into(), "sip.example.org".into()],
            trusted: ["192.0.2.0/28", "192.0.2.9/32"]
                .map(|network| network.parse().expect("a network"))
                .into(),
            relay: Relaying::All,
            ports: "30000-30999".parse().expect("a range"),
            keys: MediaKeys::Offered,
            timeout: Duration::from_secs(20),
            tftp: Some(Ipv4Addr::new(192, 0, 2, 4)),
            file: Some("users".into()),
            refresh: Duration::from_secs(600),
            expires: Duration::from_secs(120),
            sntp: Sntp::Off,
            syslog: Some(Ipv4Addr::new(192, 0, 2, 5)),
            screen: Page::Users,
            query: Some(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 9), 5_099)),
            advertised: Some(SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 5), 15_060)),
            secret: None,
        };
        assert_eq!(options, Ok(expected));
        let secret = read(&alloc::format!("secret={}", "0f".repeat(32)));
        assert_eq!(secret.map(|options| options.secret), Ok(Some([15; 32])));
    }

    #[test]
    fn a_mistake_is_reported_with_the_expected_form() {
        let said = |line| read(line).map(|_| ()).map_err(|mistake| mistake.to_string());
        let mistake = "option auth=yes: expected on or off";
        assert_eq!(said("mode=proxy auth=yes"), Err(mistake.into()));
        assert!(said("modus=proxy").is_err_and(|text| text.contains("no option \"modus\"")));
        for line in [
            "address=1.2.3.4",
            "dns=1.2.3.4,",
            "trusted=1.2.3.4",
            "secret=00",
            &alloc::format!("secret={}", "+f".repeat(32)),
            "expires=59",
            "domain=a,,b",
            "screen=x",
            "query=192.0.2.9",
            "as=203.0.113.5",
            "as=0.0.0.0:5060",
            "query=192.0.2.9:53",
            "query=192.0.2.9:5060",
            "query=192.0.2.9:20001",
            "relay=on",
            "ports=5000-5999",
            "ports=20000-50001",
            "ports=20000",
            "keys=yes",
            "timeout=0",
        ] {
            assert!(said(line).is_err(), "{line}");
        }
    }
}
