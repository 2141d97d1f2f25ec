//! The options of the phone.

use super::{Machine, Mistake, Word};
use alloc::string::String;
use alloc::vec::Vec;
use media::Security;
use sip::locate::Host;
use srtp::plus::{Placement, Plus, Scheme};

/// The options of the phone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Those of the machine.
    pub machine: Machine,
    /// `account=sip:alice@example.org`: who logs in at the start; without it, who is asked for.
    pub account: Option<String>,
    /// `password=TEXT`: what the account proves itself with.
    pub password: Option<String>,
    /// `server=HOST[:PORT]`: by way of which the account is reached, in place of its own domain.
    pub server: Option<String>,
    /// `direct=on` or `off`: whether an account is called past its server, too.
    pub direct: bool,
    /// `call=sip:bob@example.org`: who is called at the start.
    pub call: Option<String>,
    /// `dial=sip:bob@example.org`, up to nine times: quick dial.
    pub dials: Vec<String>,
    /// `answer=on` or `off`: whether calls are taken by themselves.
    pub answers: bool,
    /// `srtp=off`, `optional` or `required`.
    pub srtp: Security,
    /// `plus=sequence`, `hash`, `chain` or `header`, with `:trailer` or without: the SRTP+ that is
    /// offered.
    pub plus: Option<Plus>,
    /// `stun=HOST[:PORT]`: who tells what our ports look like from outside.
    pub stun: Option<(Host, u16)>,
    /// `sound=device`, `echo`, `silence`, or `tone:HERTZ`: what the other end hears.
    pub sound: Sounds,
}

/// What the other end hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sounds {
    /// The microphone, if there is one.
    #[default]
    Device,
    /// What comes from there.
    Echo,
    /// A tone of so many hertz.
    Tone(u16),
    /// Nothing.
    Silence,
}

/// Places for quick dial: the keys from 1 to 9.
const MOST_DIALS: usize = 9;

const NAMES: &str =
    "account, password, server, direct, call, dial, answer, srtp, plus, stun, sound,";

impl Options {
    /// Reads `text`. Of two words that say different things the later one counts.
    ///
    /// # Errors
    /// Where a word is no option.
    pub fn read(&mut self, text: &str) -> Result<(), Mistake> {
        Word::all(text).try_for_each(|word| self.set(word))
    }

    fn set(&mut self, word: Word<'_>) -> Result<(), Mistake> {
        if self.machine.set(word)? {
            return Ok(());
        }
        let text = || (!word.value.is_empty()).then(|| String::from(word.value));
        match word.name {
            "account" => self.account = text(),
            "password" => self.password = text(),
            "server" => self.server = text(),
            "call" => self.call = text(),
            "stun" => {
                let found = stun(word.value);
                self.stun = Some(found.ok_or(word.mistake("a host, or such as host:3478"))?);
            }
            "dial" if self.dials.len() < MOST_DIALS => self.dials.extend(text()),
            "dial" => return Err(word.mistake("nine of them at most")),
            "direct" => self.direct = word.switch()?,
            "answer" => self.answers = word.switch()?,
            "srtp" => {
                let meanings = [
                    ("off", Security::Off),
                    ("optional", Security::Optional),
                    ("required", Security::Required),
                ];
                self.srtp = word.one_of(&meanings, "off, optional or required")?;
            }
            "plus" => {
                let schemes = "sequence, hash, chain or header, with :trailer or without";
                self.plus = Some(plus(word.value).ok_or(word.mistake(schemes))?);
            }
            "sound" => {
                self.sound = match word.value {
                    "device" => Sounds::Device,
                    "echo" => Sounds::Echo,
                    "silence" => Sounds::Silence,
                    value => {
                        let hertz =
                            value.strip_prefix("tone:").and_then(|hertz| hertz.parse().ok());
                        let hertz = hertz.filter(|hertz| (50..=3400).contains(hertz));
                        Sounds::Tone(hertz.ok_or(
                            word.mistake("device, echo, silence, or tone:HERTZ with 50 to 3400"),
                        )?)
                    }
                }
            }
            _ => return Err(word.unknown(NAMES)),
        }
        Ok(())
    }
}

/// The port of STUN servers.
const STUN: u16 = 3478;

/// A host, with or without a port.
fn stun(value: &str) -> Option<(Host, u16)> {
    let (host, port) = match value.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (value, STUN),
    };
    Some((Host::parse(host.as_bytes())?, port))
}

/// The element of the header extension that SRTP+ stands in.
const PLUS_ELEMENT: u8 = 5;

/// SRTP+ by the name of its scheme, with its place, as the phone on Linux has them.
fn plus(value: &str) -> Option<Plus> {
    let schemes = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header];
    let (name, placement) = match value.strip_suffix(":trailer") {
        Some(name) => (name, Placement::Trailer),
        None => (value, Placement::Extension(PLUS_ELEMENT)),
    };
    let scheme = schemes.into_iter().find(|scheme| scheme.name() == name)?;
    Some(Plus { scheme, placement })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_options() {
        let mut options = Options::default();
        let read = options.read(
            "address=192.0.2.7/24 account=sip:alice@example.org password=se=cret server=192.0.2.1 \
             answer=on srtp=required plus=chain stun=192.0.2.3 sound=tone:440 call=sip:bob@192.0.2.9",
        );
        assert_eq!(read, Ok(()));
        assert_eq!(options.password.as_deref(), Some("se=cret"));
        assert_eq!((options.sound, options.srtp), (Sounds::Tone(440), Security::Required));
        assert!(options.answers && options.plus.is_some() && options.machine.address.is_some());
        for word in ["sound=tone:4", "srtp=on", "stun=a:b", "plus=4", "mode=proxy", "address=x"] {
            assert!(Options::default().read(word).is_err(), "{word}");
        }
    }
}
