//! What the operator decides, in words on the boot command line: `name=value`, in any order.

pub mod phone;
pub mod server;

use crate::net::Address;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;
use sip::Duration;
use smoltcp::wire::Ipv4Cidr;

/// How long the machine stands still after a failure, if nothing else is said.
pub const REBOOT: Duration = Duration::from_secs(10);

/// The options of the machine, which all images have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `address=A.B.C.D/BITS`, or `dhcp`: `None`.
    pub address: Option<Ipv4Cidr>,
    /// `gateway=A.B.C.D`: in place of DHCP's.
    pub gateway: Option<Ipv4Addr>,
    /// `dns=A.B.C.D,...`: in place of DHCP's.
    pub dns: Vec<Ipv4Addr>,
    /// `checksums=on` or `off`: whether those of UDP are looked at.
    pub checksums: bool,
    /// `sntp=A.B.C.D`: who knows the time, in place of whom DHCP names; `sntp=off`: nobody is
    /// asked.
    pub sntp: Sntp,
    /// `syslog=A.B.C.D`: to whom each line of the log goes (RFC 5424, by UDP).
    pub syslog: Option<Ipv4Addr>,
    /// `reboot=SECONDS`: how long the machine stands still after a failure of the program, before
    /// it boots again; 0, for ever.
    pub reboot: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            address: None,
            gateway: None,
            dns: Vec::new(),
            checksums: true,
            sntp: Sntp::ByDhcp,
            syslog: None,
            reboot: REBOOT,
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
    /// There is no such option; its name, and those that the image has beside the machine's.
    Name(String, &'static str),
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
            Self::Name(word, names) => {
                write!(f, "there is no option {word:?}; options are {names} {NAMES}, as name=value")
            }
            Self::Value { name, value, expected } => {
                write!(f, "option {name}={value}: expected {expected}")
            }
        }
    }
}

const NAMES: &str = "address, gateway, dns, checksums, sntp, syslog and reboot";

impl Machine {
    /// The address that is fixed, if one is.
    #[must_use]
    pub fn fixed(&self) -> Option<Address> {
        Some(Address {
            ours: self.address?,
            gateway: self.gateway,
            dns: self.dns.clone(),
            tftp: None,
            file: None,
            ntp: None,
        })
    }

    /// Who is asked for names where our address is this one.
    #[must_use]
    pub fn dns<'a>(&'a self, address: &'a Address) -> &'a [Ipv4Addr] {
        if self.dns.is_empty() { &address.dns } else { &self.dns }
    }

    /// Takes in an option; `Ok(false)` where that is none of the machine's.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, Mistake> {
        let expected =
            |expected| Mistake::Value { name: name.into(), value: value.into(), expected };
        match name {
            "address" => {
                self.address = match value {
                    "dhcp" => None,
                    _ => Some(parse(value).ok_or(expected("dhcp, or such as 192.0.2.7/24"))?),
                }
            }
            "gateway" => self.gateway = Some(parse(value).ok_or(expected(ADDRESS))?),
            "dns" => {
                let all = value.split(',').map(parse).collect::<Option<_>>();
                self.dns = all.ok_or(expected("addresses with commas between"))?;
            }
            "checksums" => self.checksums = switch(value).ok_or(expected(ON_OR_OFF))?,
            "sntp" => {
                self.sntp = match value {
                    "off" => Sntp::Off,
                    _ => Sntp::Server(parse(value).ok_or(expected("off, or an address"))?),
                }
            }
            "syslog" => self.syslog = Some(parse(value).ok_or(expected(ADDRESS))?),
            "reboot" => self.reboot = seconds(value).ok_or(expected(SECONDS))?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Shows each option in `text` to `set`. A word without `=` is what a boot loader put there, and
/// means nothing.
fn read(text: &str, mut set: impl FnMut(&str, &str) -> Result<(), Mistake>) -> Result<(), Mistake> {
    let words = text.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    words.into_iter().try_for_each(|(name, value)| set(name, value))
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
