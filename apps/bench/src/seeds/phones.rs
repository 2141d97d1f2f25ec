//! Calls between phones on loopback, captured: the regularity of their packets.

use crate::capture::{Analysis, CaptureError, Reading, listen};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The phones, by the names of their programs.
pub(crate) const OURS: &str = "barebell-phone";
pub(crate) const OTHER: &str = "baresip";

/// The SIP port of each phone, at an address of its own.
const PORT: u16 = 5060;
/// The longest time until a phone listens.
const START: Duration = Duration::from_secs(10);
/// The time until callees know their accounts: baresip listens before, and answers with 404.
const SETTLE: Duration = Duration::from_secs(2);
/// The time of a call before and after its audio.
const MARGIN: Duration = Duration::from_secs(3);
/// The interval of checks.
const LOOK: Duration = Duration::from_millis(50);

const AES_128_32: &str = "AES_CM_128_HMAC_SHA1_32";
const AES_128_80: &str = "AES_CM_128_HMAC_SHA1_80";

/// The calls: caller, callee, and the suite of SRTP. baresip offers one suite.
const CALLS: [(&str, &str, Option<&str>); 8] = [
    (OURS, OURS, None),
    (OURS, OURS, Some(AES_128_32)),
    (OURS, OURS, Some("AES_192_CM_HMAC_SHA1_32")),
    (OURS, OURS, Some("AES_256_CM_HMAC_SHA1_32")),
    (OTHER, OTHER, None),
    (OTHER, OTHER, Some(AES_128_80)),
    (OURS, OTHER, None),
    (OURS, OTHER, Some(AES_128_32)),
];

/// A captured call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) caller: String,
    pub(crate) callee: String,
    /// The suite of SRTP; absent without it.
    pub(crate) suite: Option<String>,
    /// The streams of the caller and of the callee.
    pub(crate) streams: [Stream; 2],
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
    /// A phone cannot be started: its name.
    Start(&'static str, io::Error),
    /// A phone does not listen.
    Deaf(&'static str, SocketAddr),
    /// A call has no stream in one direction.
    Silent(&'static str, &'static str, Option<&'static str>),
}

impl fmt::Display for PhonesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Start(phone, error) => write!(f, "{phone} does not start: {error}"),
            Self::Deaf(phone, address) => {
                write!(f, "{phone} does not listen at {address} after {} s", START.as_secs())
            }
            Self::Silent(caller, callee, suite) => {
                let suite = suite.unwrap_or("no SRTP");
                write!(f, "the call of {caller} to {callee} with {suite} has no packets")
            }
        }
    }
}

impl std::error::Error for PhonesError {}

/// The programs of the phones; baresip may be absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phones {
    pub(crate) ours: PathBuf,
    pub(crate) other: Option<PathBuf>,
}

/// Runs all calls at the same time for `seconds`, and captures them. Returns those with audio in
/// both directions, and an error for each of the others.
///
/// # Errors
/// [`PhonesError`] if the loopback interface cannot be captured (that needs root), a phone does not
/// start.
pub(crate) fn measure(
    phones: &Phones,
    seconds: u64,
    ending: &AtomicBool,
) -> Result<(Vec<Call>, Vec<PhonesError>), PhonesError> {
    let calls = CALLS.iter().enumerate();
    let calls: Vec<_> = calls
        .filter(|(_, (caller, callee, _))| {
            phones.other.is_some() || (*caller != OTHER && *callee != OTHER)
        })
        .collect();
    let folder = tempfile::tempdir().map_err(|error| PhonesError::Start(OURS, error))?;
    let is_over = AtomicBool::new(false);
    let (talked, analysis) = thread::scope(|scope| {
        let capture = scope.spawn(|| listen("lo", None, &is_over, Reading::new(&[]), || {}));
        let mut running = Running(Vec::new());
        let mut talk = || {
            for (number, (_, callee, suite)) in &calls {
                let end = End { phones, folder: folder.path(), number: *number, is_caller: false };
                running.0.push(end.start(callee, *suite, seconds)?);
            }
            thread::sleep(SETTLE);
            for (number, (caller, _, suite)) in &calls {
                let end = End { phones, folder: folder.path(), number: *number, is_caller: true };
                running.0.push(end.start(caller, *suite, seconds)?);
            }
            let end = Instant::now() + Duration::from_secs(seconds) + MARGIN;
            while Instant::now() < end && !ending.load(Ordering::SeqCst) {
                thread::sleep(LOOK);
            }
            Ok(())
        };
        let talked = talk();
        drop(running);
        is_over.store(true, Ordering::SeqCst);
        (talked, capture.join())
    });
    talked?;
    let analysis = analysis.expect("the capture does not panic").map_err(PhonesError::Capture)?;
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for (number, &(caller, callee, suite)) in calls {
        let to = |is_caller| stream_to(&analysis, address(number, is_caller));
        match to(false).zip(to(true)) {
            Some((first, second)) => found.push(Call {
                caller: caller.to_owned(),
                callee: callee.to_owned(),
                suite: suite.map(str::to_owned),
                streams: [first, second],
            }),
            None => silent.push(PhonesError::Silent(caller, callee, suite)),
        }
    }
    Ok((found, silent))
}

/// Returns the address of a phone of a call; other processes of this program have others.
fn address(number: usize, is_caller: bool) -> IpAddr {
    let process = 64 + (std::process::id() % 128) as u8;
    Ipv4Addr::new(127, process, number as u8, if is_caller { 1 } else { 2 }).into()
}

/// Returns the figures of the longest stream to an address.
fn stream_to(analysis: &Analysis, address: IpAddr) -> Option<Stream> {
    let streams = analysis.rtp.streams.iter();
    let stream = streams
        .filter(|stream| stream.destination.ip() == address)
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

/// The running phones. Dropping them ends them.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An end of a call.
struct End<'a> {
    phones: &'a Phones,
    folder: &'a Path,
    number: usize,
    is_caller: bool,
}

impl End<'_> {
    /// Starts its phone, and waits until it listens.
    fn start(
        &self,
        phone: &'static str,
        suite: Option<&str>,
        seconds: u64,
    ) -> Result<Child, PhonesError> {
        let address = SocketAddr::new(address(self.number, self.is_caller), PORT);
        let failed = |error| PhonesError::Start(phone, error);
        let mut command = match (&self.phones.other, phone) {
            (Some(program), OTHER) => self.other(program, address.ip(), suite).map_err(failed)?,
            _ => self.ours(address, suite, seconds),
        };
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().map_err(failed)?;
        let begun = Instant::now();
        while UdpSocket::bind(address).is_ok() {
            if begun.elapsed() > START {
                // Its process ends with its handle.
                drop(Running(vec![child]));
                return Err(PhonesError::Deaf(phone, address));
            }
            thread::sleep(LOOK);
        }
        Ok(child)
    }

    fn callee(&self) -> String {
        format!("sip:callee@{}:{PORT}", address(self.number, false))
    }

    fn ours(&self, address: SocketAddr, suite: Option<&str>, seconds: u64) -> Command {
        let mut command = Command::new(&self.phones.ours);
        match self.is_caller {
            true => command.args(["call", &self.callee(), "--duration", &format!("{seconds}s")]),
            false => command.args(["answer", "--auto"]),
        };
        command.args(["--listen", &address.to_string(), "--codecs", "PCMU", "--play", "tone:440"]);
        match suite {
            Some(suite) => command.args(["--srtp", "required", "--suites", suite]),
            None => command.args(["--srtp", "off"]),
        };
        command.arg("--quiet");
        command
    }

    fn other(&self, program: &Path, address: IpAddr, suite: Option<&str>) -> io::Result<Command> {
        let folder = self.folder.join(format!("{}-{}", self.number, self.is_caller));
        fs::create_dir_all(&folder)?;
        let port = 30_000 + 20 * self.number;
        let config = format!(
            "poll_method epoll\nsip_listen {address}:{PORT}\n\
             audio_player aubridge,nil\naudio_source ausine,440\naudio_alert aubridge,nil2\n\
             ausrc_srate 48000\nausrc_channels 2\naudio_buffer 20-160\n\
             rtp_ports {port}-{}\nmodule_path /usr/lib/baresip/modules\n\
             module g711.so\nmodule srtp.so\nmodule ausine.so\nmodule aubridge.so\n\
             module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\n",
            port + 9
        );
        let keys = if suite.is_some() { ";mediaenc=srtp-mand" } else { "" };
        let user = if self.is_caller { "caller" } else { "callee" };
        let account = format!("<sip:{user}@{address}:{PORT}>;regint=0;answermode=auto{keys}\n");
        // Without a file of contacts it would make an example and use it.
        for (name, text) in [("config", &config[..]), ("accounts", &account), ("contacts", "")] {
            fs::write(folder.join(name), text)?;
        }
        let mut command = Command::new(program);
        command.args(["-4", "-n", &address.to_string(), "-f"]).arg(&folder).current_dir(&folder);
        if self.is_caller {
            command.args(["-e", &format!("/dial {}", self.callee())]);
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phone_of_all_calls_has_an_address_of_its_own() {
        let ends = (0..CALLS.len()).flat_map(|call| [address(call, true), address(call, false)]);
        let mut all: Vec<IpAddr> = ends.collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 * CALLS.len());
        assert!(all.iter().all(IpAddr::is_loopback), "{all:?}");
    }
}
