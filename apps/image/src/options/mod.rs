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
    fn set(&mut self, word: Word<'_>) -> Result<bool, Mistake> {
        match word.name {
            "address" => {
                self.address = match word.value {
                    "dhcp" => None,
                    _ => Some(word.parse("dhcp, or such as 192.0.2.7/24")?),
                }
            }
            "gateway" => self.gateway = Some(word.address()?),
            "dns" => self.dns = word.parse_all("addresses with commas between")?,
            "checksums" => self.checksums = word.switch()?,
            "sntp" => {
                self.sntp = match word.value {
                    "off" => Sntp::Off,
                    _ => Sntp::Server(word.parse("off, or an address")?),
                }
            }
            "syslog" => self.syslog = Some(word.address()?),
            "reboot" => self.reboot = word.seconds()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// An option as it stands: `name=value`.
#[derive(Clone, Copy)]
struct Word<'a> {
    name: &'a str,
    value: &'a str,
}

impl<'a> Word<'a> {
    /// The options in `text`. A word without `=` is what a boot loader put there, and means
    /// nothing.
    fn all(text: &'a str) -> impl Iterator<Item = Self> {
        let words = text.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        words.map(|(name, value)| Self { name, value })
    }

    /// What is wrong where this was `expected`.
    fn mistake(self, expected: &'static str) -> Mistake {
        Mistake::Value { name: self.name.into(), value: self.value.into(), expected }
    }

    /// What is wrong where there is no such option beside those of the machine and `names`.
    fn unknown(self, names: &'static str) -> Mistake {
        Mistake::Name(self.name.into(), names)
    }

    fn parse<T: FromStr>(self, expected: &'static str) -> Result<T, Mistake> {
        self.value.parse().map_err(|_| self.mistake(expected))
    }

    /// Values with commas between.
    fn parse_all<T: FromStr>(self, expected: &'static str) -> Result<Vec<T>, Mistake> {
        let values = self.value.split(',').map(str::parse);
        values.collect::<Result<_, _>>().map_err(|_| self.mistake(expected))
    }

    fn address(self) -> Result<Ipv4Addr, Mistake> {
        self.parse("an address such as 192.0.2.1")
    }

    fn switch(self) -> Result<bool, Mistake> {
        self.one_of(&[("on", true), ("off", false)], "on or off")
    }

    fn seconds(self) -> Result<Duration, Mistake> {
        let seconds: u32 = self.parse("a number of seconds")?;
        Ok(Duration::from_secs(seconds.into()))
    }

    /// What the value stands for in `meanings`.
    fn one_of<T: Copy>(self, meanings: &[(&str, T)], expected: &'static str) -> Result<T, Mistake> {
        let found = meanings.iter().find(|(text, _)| *text == self.value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| self.mistake(expected))
    }
}
