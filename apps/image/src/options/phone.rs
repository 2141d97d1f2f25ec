//! The options of the phone.

use super::{Machine, Mistake, Word};
use alloc::string::String;
use alloc::vec::Vec;
use media::Security;
use sip::locate::Host;
use srtp::plus::{Placement, Scheme, SrtpPlus};

/// The options of the phone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The options of the machine.
    pub machine: Machine,
    /// `account=sip:alice@example.org`: the account to log in at the start; without it, the login
    /// screen asks.
    pub account: Option<String>,
    /// `password=TEXT`: the password of the account.
    pub password: Option<String>,
    /// `server=HOST[:PORT]`: the server of the account in place of its domain.
    pub server: Option<String>,
    /// `direct=on` or `off`: acceptance of calls that do not come through the account's server.
    pub direct: bool,
    /// `call=sip:bob@example.org`: a call to place at the start.
    pub call: Option<String>,
    /// `dial=sip:bob@example.org`, up to nine times: quick dial.
    pub dials: Vec<String>,
    /// `answer=on` or `off`: automatic answering.
    pub answers: bool,
    /// `srtp=off`, `optional` or `required`.
    pub srtp: Security,
    /// `plus=sequence`, `hash`, `chain` or `header`, optionally with `:trailer`: the SRTP+ scheme
    /// offered.
    pub plus: Option<SrtpPlus>,
    /// `timings=on` or `off`: the times of the steps of SRTP at the end of a call.
    pub timings: bool,
    /// `stun=HOST[:PORT]`: the STUN server, which reports the public address of our ports.
    pub stun: Option<(Host, u16)>,
    /// `sound=device`, `echo`, `silence`, or `tone:HERTZ`: the sound sent. With a device or a tone
    /// the received sound is played.
    pub sound: Sounds,
}

/// The sound sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sounds {
    /// The microphone, if there is one.
    #[default]
    Device,
    /// The received sound.
    Echo,
    /// A tone of this frequency in hertz.
    Tone(u16),
    /// Silence.
    Silence,
}

/// Number of quick-dial entries: the keys from 1 to 9.
const MOST_DIALS: usize = 9;

const NAMES: &str =
    "account, password, server, direct, call, dial, answer, srtp, plus, timings, stun, sound,";

impl Options {
    /// Parses `text`. The later of two words for the same option counts.
    ///
    /// # Errors
    /// If a word is not a valid option.
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
            "timings" => self.timings = word.switch()?,
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

/// The default port of STUN servers.
const STUN: u16 = 3478;

/// Parses a host with an optional port.
fn stun(value: &str) -> Option<(Host, u16)> {
    let (host, port) = match value.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (value, STUN),
    };
    Some((Host::parse(host.as_bytes()).ok()?, port))
}

/// The id of the header extension element that carries SRTP+ (RFC 8285).
const PLUS_ELEMENT: u8 = 5;

/// Parses an SRTP+ scheme with its placement, as the phone for Linux does.
fn plus(value: &str) -> Option<SrtpPlus> {
    let schemes = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header];
    let (name, placement) = match value.strip_suffix(":trailer") {
        Some(name) => (name, Placement::Trailer),
        None => (value, Placement::Extension(PLUS_ELEMENT)),
    };
    let scheme = schemes.into_iter().find(|scheme| scheme.name() == name)?;
    Some(SrtpPlus { scheme, placement })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_options() {
        let mut options = Options::default();
        let read = options.read(
            "address=192.0.2.7/24 account=sip:alice@example.org password=se=cret server=192.0.2.1 \
             answer=on srtp=required plus=chain timings=on stun=192.0.2.3 sound=tone:440 call=sip:bob@192.0.2.9",
        );
        assert_eq!(read, Ok(()));
        assert_eq!(options.password.as_deref(), Some("se=cret"));
        assert_eq!((options.sound, options.srtp), (Sounds::Tone(440), Security::Required));
        assert!(
            options.timings
                && options.answers
                && options.plus.is_some()
                && options.machine.address.is_some()
        );
        for word in
            ["sound=tone:4", "srtp=on", "stun=a:b", "plus=4", "mode=proxy", "address=x", "sntp=off"]
        {
            assert!(Options::default().read(word).is_err(), "{word}");
        }
    }
}
