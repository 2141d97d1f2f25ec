//! What the operator decides, in words on the boot command line: `name=value`, in any order.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;
use sip::Duration;
use sip_server::config::{Mode, State};
use smoltcp::wire::Ipv4Cidr;

/// The options of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `mode=proxy`, `redirect` or `registrar`.
    pub mode: Mode,
    /// `auth=on` or `off`: whether users have to log in.
    pub auth: bool,
    /// `state=stateful` or `stateless`.
    pub state: State,
    /// `domain=NAME,ALIAS,...`: what the server is responsible for, beside its address, which is
    /// all if there is no name.
    pub domain: Vec<String>,
    /// `trusted=A.B.C.D/BITS,...`: networks whose word counts.
    pub trusted: Vec<Ipv4Cidr>,
    /// `address=A.B.C.D/BITS`, or `dhcp`: `None`.
    pub address: Option<Ipv4Cidr>,
    /// `gateway=A.B.C.D`: in place of DHCP's.
    pub gateway: Option<Ipv4Addr>,
    /// `dns=A.B.C.D,...`: in place of DHCP's.
    pub dns: Vec<Ipv4Addr>,
    /// `tftp=A.B.C.D`: who has the file of users, in place of whom DHCP names.
    pub tftp: Option<Ipv4Addr>,
    /// `file=NAME`: what it is called, in place of what DHCP says.
    pub file: Option<String>,
    /// `refresh=SECONDS`: how often it is fetched again; 0, never.
    pub refresh: Duration,
    /// `expires=SECONDS`: how long a registration lasts at most.
    pub expires: Duration,
    /// `checksums=on` or `off`: whether those of UDP are looked at.
    pub checksums: bool,
    /// `sntp=A.B.C.D`: who knows the time, in place of whom DHCP names; `sntp=off`: nobody is asked.
    pub sntp: Sntp,
    /// `syslog=A.B.C.D`: to whom each line of the log goes (RFC 5424, by UDP).
    pub syslog: Option<Ipv4Addr>,
    /// `secret=HEX`: 64 digits, kept over restarts, so that calls that stand keep their way.
    pub secret: Option<[u8; 32]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Proxy,
            auth: true,
            state: State::Stateful,
            domain: Vec::new(),
            trusted: Vec::new(),
            address: None,
            gateway: None,
            dns: Vec::new(),
            tftp: None,
            file: None,
            refresh: Duration::ZERO,
            expires: Duration::from_secs(300),
            checksums: true,
            sntp: Sntp::ByDhcp,
            syslog: None,
            secret: None,
        }
    }
}

/// Who is asked for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sntp {
    /// Whom DHCP names, if it does.
    ByDhcp,
    /// This one.
    Server(Ipv4Addr),
    /// Nobody.
    Off,
}

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// There is no such option.
    Name(String),
    /// Its value is none: what it says, and what it might be.
    Value {
        /// The option.
        name: String,
        /// What it says.
        value: String,
        /// What it might say.
        expected: &'static str,
    },
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(word) => write!(f, "there is no option {word:?}; options are {NAMES}"),
            Self::Value { name, value, expected } => {
                write!(f, "option {name}={value}: expected {expected}")
            }
        }
    }
}

const NAMES: &str = "mode, auth, state, domain, trusted, address, gateway, dns, tftp, file, \
    refresh, expires, checksums, sntp, syslog and secret, as name=value";

impl Options {
    /// Reads `text`. A word without `=` is what a boot loader put there, and means nothing. Of two
    /// that say different things the later one counts.
    ///
    /// # Errors
    /// Where a word is no option.
    pub fn read(&mut self, text: &str) -> Result<(), Mistake> {
        for word in text.split_ascii_whitespace() {
            if let Some((name, value)) = word.split_once('=') {
                self.set(name, value)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Mistake> {
        let expected =
            |expected| Mistake::Value { name: name.into(), value: value.into(), expected };
        match name {
            "mode" => {
                self.mode = match value {
                    "proxy" => Mode::Proxy,
                    "redirect" => Mode::Redirect,
                    "registrar" => Mode::Registrar,
                    _ => return Err(expected("proxy, redirect or registrar")),
                }
            }
            "state" => {
                self.state = match value {
                    "stateful" => State::Stateful,
                    "stateless" => State::Stateless,
                    _ => return Err(expected("stateful or stateless")),
                }
            }
            "auth" => self.auth = switch(value).ok_or(expected(ON_OR_OFF))?,
            "checksums" => self.checksums = switch(value).ok_or(expected(ON_OR_OFF))?,
            "domain" => {
                let names = value.split(',').map(str::to_ascii_lowercase);
                self.domain = names.collect();
                if self.domain.iter().any(String::is_empty) {
                    return Err(expected("a name, or several with commas between"));
                }
            }
            "trusted" => {
                let all = value.split(',').map(parse).collect::<Option<_>>();
                self.trusted = all.ok_or(expected("networks such as 192.0.2.0/24"))?;
            }
            "address" => {
                self.address = match value {
                    "dhcp" => None,
                    _ => Some(value.parse().ok().ok_or(expected("dhcp, or such as 192.0.2.7/24"))?),
                }
            }
            "gateway" => self.gateway = Some(parse(value).ok_or(expected(ADDRESS))?),
            "dns" => {
                let all = value.split(',').map(parse).collect::<Option<_>>();
                self.dns = all.ok_or(expected("addresses with commas between"))?;
            }
            "tftp" => self.tftp = Some(parse(value).ok_or(expected(ADDRESS))?),
            "file" => self.file = Some(value.into()),
            "refresh" => self.refresh = seconds(value).ok_or(expected(SECONDS))?,
            "expires" => {
                let time = seconds(value).filter(|time| *time >= Duration::from_secs(60));
                self.expires = time.ok_or(expected("seconds, 60 at least"))?;
            }
            "sntp" => {
                self.sntp = match value {
                    "off" => Sntp::Off,
                    _ => Sntp::Server(parse(value).ok_or(expected("off, or an address"))?),
                }
            }
            "syslog" => self.syslog = Some(parse(value).ok_or(expected(ADDRESS))?),
            "secret" => self.secret = Some(hex(value).ok_or(expected("64 hexadecimal digits"))?),
            _ => return Err(Mistake::Name(name.into())),
        }
        Ok(())
    }
}

const ON_OR_OFF: &str = "on or off";
const ADDRESS: &str = "an address such as 192.0.2.1";
const SECONDS: &str = "a number of seconds";

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn parse<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn seconds(value: &str) -> Option<Duration> {
    let seconds: u32 = value.parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

fn hex(value: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if value.len() != 2 * bytes.len() || !value.is_ascii() {
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
    use alloc::string::ToString;

    fn parse(text: &str) -> Result<Options, Mistake> {
        let mut options = Options::default();
        options.read(text).map(|()| options)
    }

    #[test]
    fn words_become_options() {
        let options = parse(
            "barebell mode=redirect auth=off state=stateless domain=Example.org,sip.example.org \
             trusted=192.0.2.0/28,192.0.2.9/32 address=192.0.2.7/24 gateway=192.0.2.1 dns=192.0.2.2,192.0.2.3 tftp=192.0.2.4 \
             file=users refresh=600 expires=120 checksums=off sntp=off syslog=192.0.2.5",
        );
        let expected = Options {
            mode: Mode::Redirect,
            auth: false,
            state: State::Stateless,
            domain: alloc::vec!["example.org".into(), "sip.example.org".into()],
            trusted: ["192.0.2.0/28", "192.0.2.9/32"]
                .map(|network| network.parse().expect("a network"))
                .into(),
            address: Some("192.0.2.7/24".parse().expect("an address")),
            gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
            dns: alloc::vec![Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 3)],
            tftp: Some(Ipv4Addr::new(192, 0, 2, 4)),
            file: Some("users".into()),
            refresh: Duration::from_secs(600),
            expires: Duration::from_secs(120),
            checksums: false,
            sntp: Sntp::Off,
            syslog: Some(Ipv4Addr::new(192, 0, 2, 5)),
            secret: None,
        };
        assert_eq!(options, Ok(expected));
        let secret = parse(&alloc::format!("secret={}", "0f".repeat(32)));
        assert_eq!(secret.map(|options| options.secret), Ok(Some([15; 32])));
    }

    #[test]
    fn a_mistake_is_told_with_what_was_expected() {
        let said = |line| parse(line).map(|_| ()).map_err(|mistake| mistake.to_string());
        let mistake = "option auth=yes: expected on or off";
        assert_eq!(said("mode=proxy auth=yes"), Err(mistake.into()));
        assert!(said("modus=proxy").is_err_and(|text| text.contains("no option \"modus\"")));
        for line in [
            "address=1.2.3.4",
            "dns=1.2.3.4,",
            "trusted=1.2.3.4",
            "secret=00",
            "expires=59",
            "domain=a,,b",
        ] {
            assert!(said(line).is_err(), "{line}");
        }
    }
}
