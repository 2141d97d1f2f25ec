//! Driver of the phone without an operating system: keys on the serial line of its virtual machine,
//! with PulseAudio as its microphone and loudspeaker.

use crate::folder::Folder;
use crate::image::lan::SERVER;
use crate::image::{Machine, Running};
use crate::phone::{Account, Action, Driver, Event};
use crate::process::{Process, wait_until};
use crate::pulse::Pulse;
use crate::tone::Recording;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Page Down: opens the menu from any page; has no effect in a call.
pub const MENU: &str = "\x1b[6~";
/// Shows pages on the serial line. No effect in a call.
pub const LOOK: &str = "\x0c";
/// Returns from pages to the log.
const TO_LOG: &str = "\x18";
/// The sound device. Debian's QEMU only supports ALSA. Its `poll` mode blocks forever with the
/// PulseAudio plugin.
const SOUND: &str = "-device intel-hda -device hda-duplex,audiodev=sound -audiodev \
    alsa,id=sound,in.dev=barebell_microphone,in.try-poll=off,out.dev=barebell_speaker,\
out.try-poll=off";

/// A virtual machine that runs the phone.
#[derive(Debug)]
pub(crate) struct BarePhone {
    machine: Running,
    account: Account,
    pulse: Pulse,
    _folder: Folder,
}

impl BarePhone {
    pub(crate) fn start(account: &Account) -> Self {
        let folder = Folder::new("bare-phone");
        let pulse = Pulse::start(&folder, account.tone);
        folder.write(".asoundrc", &pulse.asoundrc());
        let mut options = format!("srtp={} {}", account.srtp.name(), account.options);
        for server in &account.stun {
            options += &format!(" stun={server}");
        }
        let machine = Machine {
            image: "phone",
            options: &options,
            others: SOUND,
            home: Some(folder.path()),
            ..Machine::default()
        };
        let mut machine = machine.start();
        machine.wait_for(&format!("address {}/24", SERVER.ip()));
        Self { machine, account: account.clone(), pulse, _folder: folder }
    }
}

/// The text of a log line, after its time of day.
fn without_time(line: &str) -> &str {
    let is_time = |time: &str| time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    line.split_once(' ').filter(|(time, _)| is_time(time)).map_or(line, |(_, text)| text)
}

/// A URI as typed: the prefix `sip:` is preset.
fn typed(uri: &str) -> &str {
    uri.strip_prefix("sip:").unwrap_or(uri)
}

impl Driver for BarePhone {
    fn act(&mut self, action: &Action) {
        let in_call = |key: &str| format!("{MENU}t{key}");
        let keys = match action {
            Action::Register => {
                let Account { user, password, server, proxy, .. } = &self.account;
                let proxy = proxy.map(|proxy| proxy.to_string()).unwrap_or_default();
                format!("{MENU}a{user}@{server}\r{password}\r{proxy}\r")
            }
            Action::Dial(uri) => format!("{MENU}c{}\r", typed(uri)),
            Action::Answer => in_call("\r"),
            Action::Reject | Action::HangUp => in_call("h"),
            Action::Transfer(uri) => in_call(&format!("x{}\r", typed(uri))),
            Action::Press(key) => in_call(&key.to_string()),
            _ => panic!("the bare phone has no key for {action:?}"),
        };
        self.machine.type_keys(&format!("{keys}{TO_LOG}"));
    }

    fn event(&self, line: &str) -> Option<Event> {
        // The line may start with previous drawing, up to the sequence that shows the cursor.
        let text_line =
            line.rsplit_once("\x1b[?25h").map_or(line, |(_, text_line)| text_line).trim_end();
        let text_line = without_time(text_line);
        let begins = |with: &str| text_line.starts_with(with);
        if let Some(key) = text_line.strip_prefix("the other end has pressed ") {
            return key.chars().next().map(Event::Key);
        }
        match () {
            () if begins("registered for ") => Some(Event::Registered),
            () if begins("not registered: ") => Some(Event::RegistrationFailed),
            () if begins("it rings there ") => Some(Event::Ringback),
            () if begins("the call is established") => Some(Event::Established),
            () if begins("the call has ended: ") => Some(Event::Ended),
            () if text_line.ends_with(" calls") => Some(Event::Incoming),
            () => None,
        }
    }

    fn recording(&self) -> Option<Recording> {
        self.pulse.recording()
    }

    fn loudness(&self) -> Option<f64> {
        self.pulse.loudness()
    }

    fn turn_to(&mut self, keys: &str, text: &str) {
        self.machine.type_keys(keys);
        wait_until(&format!("{text:?} on the screen"), || {
            self.machine.process.assert_running();
            self.machine.terminal().screen().contents().contains(text).then_some(())
        });
        self.machine.type_keys(TO_LOG);
    }

    fn address(&self) -> Option<Ipv4Addr> {
        match SERVER.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }

    fn port(&self) -> u16 {
        SERVER.port()
    }

    fn event_log(&self) -> PathBuf {
        self.machine.console_log()
    }

    /// The event log, which contains no SIP messages.
    fn sip_log(&self) -> PathBuf {
        self.event_log()
    }

    fn process(&mut self) -> &mut Process {
        &mut self.machine.process
    }
}
