//! The options on the boot command line: `name=value`, in any order.

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

/// The default time from a failure to the reboot.
pub const REBOOT: Duration = Duration::from_secs(10);

/// The machine options, which all images have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `address=A.B.C.D/BITS`; `None` for `address=dhcp`.
    pub address: Option<Ipv4Cidr>,
    /// `gateway=A.B.C.D`: the default gateway in place of DHCP's.
    pub gateway: Option<Ipv4Addr>,
    /// `dns=A.B.C.D,...`: the DNS servers in place of DHCP's.
    pub dns: Vec<Ipv4Addr>,
    /// `checksums=on` or `off`: verification of UDP checksums.
    pub checksums: bool,
    /// `reboot=SECONDS`: the time from a failure of the program to the reboot; 0 means no reboot.
    pub reboot: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Self { address: None, gateway: None, dns: Vec::new(), checksums: true, reboot: REBOOT }
    }
}

/// A mistake in an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// An unknown option: its name, and the names of the image's options beside the machine's.
    Name(String, &'static str),
    /// An invalid value.
    Value {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// The expected values.
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

const NAMES: &str = "address, gateway, dns, checksums and reboot";

impl Machine {
    /// The static address, if there is one.
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

    /// The DNS servers, given our address.
    #[must_use]
    pub fn dns<'a>(&'a self, address: &'a Address) -> &'a [Ipv4Addr] {
        if self.dns.is_empty() { &address.dns } else { &self.dns }
    }

    /// Sets an option. Returns `Ok(false)` if it is not a machine option.
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
            "reboot" => self.reboot = word.seconds()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// An option as written: `name=value`.
#[derive(Clone, Copy)]
struct Word<'a> {
    name: &'a str,
    value: &'a str,
}

impl<'a> Word<'a> {
    /// The options in `text`. Words without `=` come from boot loaders and are ignored.
    fn all(text: &'a str) -> impl Iterator<Item = Self> {
        let words = text.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        words.map(|(name, value)| Self { name, value })
    }

    /// The mistake of a value when `expected` was required.
    fn mistake(self, expected: &'static str) -> Mistake {
        Mistake::Value { name: self.name.into(), value: self.value.into(), expected }
    }

    /// The mistake of an unknown option; `names` are the image's options.
    fn unknown(self, names: &'static str) -> Mistake {
        Mistake::Name(self.name.into(), names)
    }

    fn parse<T: FromStr>(self, expected: &'static str) -> Result<T, Mistake> {
        self.value.parse().map_err(|_| self.mistake(expected))
    }

    /// Parses comma-separated values.
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

    /// A time of `least` seconds or more.
    fn seconds_from(self, least: u64, expected: &'static str) -> Result<Duration, Mistake> {
        let time = self.seconds().ok().filter(|time| *time >= Duration::from_secs(least));
        time.ok_or_else(|| self.mistake(expected))
    }

    /// The meaning of the value in `meanings`.
    fn one_of<T: Copy>(self, meanings: &[(&str, T)], expected: &'static str) -> Result<T, Mistake> {
        let found = meanings.iter().find(|(text, _)| *text == self.value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| self.mistake(expected))
    }
}
