//! Calls between phones on loopback, captured: the regularity of their packets.

use super::softphone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use super::softphone::{Installed, Keys, RTP_PORTS, Running, Softphone};
use super::twinkle::{SOUND, Sound};
use crate::capture::keys::KeyExchange;
use crate::capture::{Analysis, CaptureError, Reading, listen};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The SIP port of phones at an address of their own, and the first one of linphone and Twinkle,
/// which listen at all addresses.
const PORT: u16 = 5060;
const FIRST_PORT: u16 = 5100;
/// The SIP port of baresip with keys by DTLS, as the caller; that of the callee is the second after
/// it.
const BARESIP_PORT: u16 = 5200;
/// The first RTP port of all phones.
const RTP: u16 = 30_000;
/// The longest time until a phone listens.
const START: Duration = Duration::from_secs(10);
/// The time until callees know their accounts: baresip listens before, and answers with 404.
const SETTLE: Duration = Duration::from_secs(2);
/// The time of a call before and after its audio.
const MARGIN: Duration = Duration::from_secs(3);
/// The interval of checks.
const LOOK: Duration = Duration::from_millis(50);
/// The frequency of the audio in hertz.
const TONE: u16 = 440;

const AES_128_32: &str = "AES_CM_128_HMAC_SHA1_32";
const AES_128_80: &str = "AES_CM_128_HMAC_SHA1_80";

/// The calls: caller, callee, and the suite of SRTP. baresip offers one suite, and Twinkle of
/// Debian none.
const CALLS: [(Kind, Kind, Option<&str>); 15] = [
    (Barebell, Barebell, None),
    (Barebell, Barebell, Some(AES_128_32)),
    (Barebell, Barebell, Some("AES_192_CM_HMAC_SHA1_32")),
    (Barebell, Barebell, Some("AES_256_CM_HMAC_SHA1_32")),
    (Barebell, Barebell, Some(AES_128_80)),
    (Baresip, Baresip, None),
    (Baresip, Baresip, Some(AES_128_80)),
    (Barebell, Baresip, None),
    (Barebell, Baresip, Some(AES_128_32)),
    (Linphone, Linphone, None),
    (Linphone, Linphone, Some(AES_128_80)),
    (Barebell, Linphone, None),
    (Barebell, Linphone, Some(AES_128_80)),
    (Twinkle, Twinkle, None),
    (Barebell, Twinkle, None),
];

/// The calls with keys by a protocol on the path of media.
const KEYED: [(Kind, Keys); 5] = [
    (Barebell, Keys::Dtls),
    (Barebell, Keys::Zrtp),
    (Baresip, Keys::Dtls),
    (Linphone, Keys::Dtls),
    (Linphone, Keys::Zrtp),
];

/// A call to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    caller: Kind,
    callee: Kind,
    keys: Option<Keys>,
    suite: Option<&'static str>,
}

/// Returns all calls, in the order of their numbers.
fn planned() -> impl Iterator<Item = Planned> {
    let by_suite = CALLS.iter().map(|&(caller, callee, suite)| {
        let keys = suite.map(|_| Keys::Sdes);
        Planned { caller, callee, keys, suite }
    });
    by_suite.chain(KEYED.iter().map(|&(kind, keys)| Planned {
        caller: kind,
        callee: kind,
        keys: Some(keys),
        suite: None,
    }))
}

/// A captured call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) caller: String,
    pub(crate) callee: String,
    /// The suite of SRTP; absent without it, and if the exchange of keys decides on it.
    pub(crate) suite: Option<String>,
    /// The protocol for the keys of SRTP; absent without it.
    #[serde(default)]
    pub(crate) keys: Option<String>,
    /// The exchange of keys on the path of media.
    #[serde(default)]
    pub(crate) exchange: Exchange,
    /// The streams of the caller and of the callee.
    pub(crate) streams: [Stream; 2],
}

/// The figures of an exchange of keys on the path of media: zero of keys in session descriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// The packets of both directions, and their octets with IP headers.
    pub(crate) packets: u64,
    pub(crate) octets: u64,
    /// The time from the first to the last, in milliseconds.
    pub(crate) ms: f64,
}

/// The figures of a stream; times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) packets: u64,
    pub(crate) mean_delta: f64,
    pub(crate) max_delta: f64,
    pub(crate) mean_jitter: f64,
    pub(crate) max_jitter: f64,
    /// With IP headers.
    pub(crate) kbit_per_s: f64,
}

/// An error of the measurement.
#[derive(Debug)]
pub(crate) enum PhonesError {
    Capture(CaptureError),
    /// There is no folder for the files of the phones.
    Folder(io::Error),
    /// A phone cannot be started: its name.
    Start(&'static str, io::Error),
    /// A phone does not listen.
    Deaf(&'static str, SocketAddr),
    /// A call has no stream in one direction.
    Silent(Planned),
}

impl fmt::Display for PhonesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Folder(error) => write!(f, "no folder for the phones: {error}"),
            Self::Start(phone, error) => write!(f, "{phone} does not start: {error}"),
            Self::Deaf(phone, address) => {
                write!(f, "{phone} does not listen at {address} after {} s", START.as_secs())
            }
            Self::Silent(Planned { caller, callee, keys, suite }) => {
                let keys = suite.or(keys.map(Keys::name)).unwrap_or("no SRTP");
                let (caller, callee) = (caller.name(), callee.name());
                write!(f, "the call of {caller} to {callee} with {keys} has no packets")
            }
        }
    }
}

impl std::error::Error for PhonesError {}

/// Runs all calls at the same time for `seconds`, and captures them. Returns those with audio in
/// both directions, and an error for each of the others.
///
/// # Errors
/// [`PhonesError`] if the loopback interface cannot be captured (that needs root), a phone does not
/// start.
pub(crate) fn measure(
    phones: &Installed,
    seconds: u64,
    ending: &AtomicBool,
) -> Result<(Vec<Call>, Vec<PhonesError>), PhonesError> {
    let is_there = |call: &Planned| {
        [call.caller, call.callee].iter().all(|kind| phones.program(*kind).is_some())
    };
    let calls: Vec<(usize, Planned)> =
        planned().enumerate().filter(|(_, call)| is_there(call)).collect();
    let folder = tempfile::tempdir().map_err(PhonesError::Folder)?;
    let is_over = AtomicBool::new(false);
    let (talked, analysis) = thread::scope(|scope| {
        let capture = scope.spawn(|| listen("lo", None, &is_over, Reading::new(&[]), || {}));
        let mut running = Vec::new();
        let mut sound = None;
        let mut talk = || {
            if phones.program(Twinkle).is_some() {
                let started = Sound::start(folder.path(), TONE);
                sound = Some(started.map_err(|error| PhonesError::Start(SOUND, error))?);
            }
            let mut start = |is_caller: bool| {
                for (number, call) in &calls {
                    let folder = folder.path();
                    let end = End { phones, folder, number: *number, call: *call, is_caller };
                    running.push(end.start(seconds)?);
                }
                Ok(())
            };
            start(false)?;
            thread::sleep(SETTLE);
            start(true)?;
            let end = Instant::now() + Duration::from_secs(seconds) + MARGIN;
            while Instant::now() < end && !ending.load(Ordering::SeqCst) {
                thread::sleep(LOOK);
            }
            Ok(())
        };
        let talked = talk();
        drop((running, sound));
        is_over.store(true, Ordering::SeqCst);
        (talked, capture.join())
    });
    talked?;
    let analysis = analysis.expect("the capture does not panic").map_err(PhonesError::Capture)?;
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for (number, call) in calls {
        let to = |is_caller| stream_to(&analysis, number, is_caller);
        match to(false).zip(to(true)) {
            Some((first, second)) => found.push(Call {
                caller: call.caller.name().to_owned(),
                callee: call.callee.name().to_owned(),
                suite: call.suite.map(str::to_owned),
                keys: call.keys.map(|keys| keys.name().to_owned()),
                exchange: exchange_of(&analysis, number),
                streams: [first, second],
            }),
            None => silent.push(PhonesError::Silent(call)),
        }
    }
    Ok((found, silent))
}

/// Returns the address of a phone of a call; other processes of this program have others.
fn place(number: usize, is_caller: bool) -> IpAddr {
    let process = 64 + (std::process::id() % 128) as u8;
    Ipv4Addr::new(127, process, number as u8, if is_caller { 1 } else { 2 }).into()
}

/// Returns the SIP address of a phone of a call.
fn sip(call: Planned, number: usize, is_caller: bool) -> SocketAddr {
    let kind = if is_caller { call.caller } else { call.callee };
    let port = FIRST_PORT + 2 * number as u16 + u16::from(is_caller);
    match (kind, call.keys) {
        // It sends media from 127.0.0.1 wherever it listens, and takes DTLS from the address of the
        // description alone. It has TLS at the next port.
        (Baresip, Some(Keys::Dtls)) => {
            (Ipv4Addr::LOCALHOST, BARESIP_PORT + 2 * u16::from(is_caller)).into()
        }
        (Linphone | Twinkle, _) => (place(number, is_caller), port).into(),
        _ => (place(number, is_caller), PORT).into(),
    }
}

/// Returns the first RTP port of a phone of a call; Barebell's phone has ephemeral ports.
fn rtp(number: usize, is_caller: bool) -> u16 {
    RTP + RTP_PORTS * (2 * number as u16 + u16::from(is_caller))
}

/// Returns the figures of the longest stream to a phone of a call. Other phones than Barebell's
/// have RTP at all addresses, and name any of them, so that their ports tell the call.
fn stream_to(analysis: &Analysis, number: usize, is_caller: bool) -> Option<Stream> {
    let streams = analysis.rtp.streams.iter();
    let stream = streams
        .filter(|stream| is_at(&stream.destination, number, is_caller))
        .max_by_key(|stream| stream.packets)?;
    Some(Stream {
        packets: stream.packets,
        mean_delta: stream.mean_delta_ms?,
        max_delta: stream.max_delta_ms?,
        mean_jitter: stream.mean_jitter_ms?,
        max_jitter: stream.max_jitter_ms?,
        kbit_per_s: stream.kbit_per_s?,
    })
}

/// Returns true if an address is one for media of a phone of a call.
fn is_at(address: &SocketAddr, number: usize, is_caller: bool) -> bool {
    let first = rtp(number, is_caller);
    address.ip() == place(number, is_caller) || (first..first + RTP_PORTS).contains(&address.port())
}

/// Returns the exchange of keys of a call: one for each stream of packets, as for RTP and RTCP
/// apart.
fn exchange_of(analysis: &Analysis, number: usize) -> Exchange {
    let is_its = |one: &&KeyExchange| {
        [true, false].iter().any(|is_caller| {
            is_at(&one.source, number, *is_caller) || is_at(&one.destination, number, *is_caller)
        })
    };
    let all: Vec<&KeyExchange> = analysis.keys.list.iter().filter(is_its).collect();
    let started = all.iter().map(|one| one.started_us).min().unwrap_or_default();
    let ended = all.iter().map(|one| one.ended_us).max().unwrap_or_default();
    Exchange {
        packets: all.iter().map(|one| one.packets).sum(),
        octets: all.iter().map(|one| one.octets).sum(),
        ms: (ended - started) as f64 / 1e3,
    }
}

/// An end of a call.
struct End<'a> {
    phones: &'a Installed,
    folder: &'a Path,
    number: usize,
    call: Planned,
    is_caller: bool,
}

impl End<'_> {
    /// Starts its phone, and waits until it listens.
    fn start(&self, seconds: u64) -> Result<Running, PhonesError> {
        let Planned { caller, callee, keys, suite } = self.call;
        let kind = if self.is_caller { caller } else { callee };
        let address = sip(self.call, self.number, self.is_caller);
        let callee = format!("sip:callee@{}", sip(self.call, self.number, false));
        let softphone = Softphone {
            kind,
            program: self.phones.program(kind).unwrap_or(Path::new(kind.programs().0[0])),
            namespace: None,
            address,
            rtp: rtp(self.number, self.is_caller),
            folder: &self.folder.join(format!("{}-{}", self.number, self.is_caller)),
            user: if self.is_caller { "caller" } else { "callee" },
            account: None,
            calls: self.is_caller.then_some(&*callee),
            seconds,
            tone: TONE,
            keys,
            suite,
            records: false,
        };
        let running = softphone.start().map_err(|error| PhonesError::Start(kind.name(), error))?;
        let begun = Instant::now();
        while UdpSocket::bind(address).is_ok() {
            if begun.elapsed() > START {
                return Err(PhonesError::Deaf(kind.name(), address));
            }
            thread::sleep(LOOK);
        }
        Ok(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phone_of_all_calls_has_an_address_of_its_own() {
        let count = planned().count();
        let ends = (0..count).flat_map(|call| [place(call, true), place(call, false)]);
        let mut all: Vec<IpAddr> = ends.collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 * count);
        assert!(all.iter().all(IpAddr::is_loopback), "{all:?}");
    }
}
