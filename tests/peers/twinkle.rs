//! Driver of twinkle-console through its standard input, with a private PulseAudio.
//!
//! Twinkle supports both kinds of transfer, but hangs when it receives an INVITE with Replaces.

use crate::folder::Folder;
use crate::phone::{Account, Action, Driver, Event};
use crate::process::{Process, Program};
use crate::pulse::Pulse;
use crate::tone::Recording;
use std::path::PathBuf;
use test_support::ports::free_ports;

const TWINKLE: Program =
    Program { name: "twinkle-console", packages: "twinkle-console libasound2-plugins" };
/// The messages at the end of a call.
const ENDINGS: [&str; 5] =
    ["far end ended call", "far end cancelled call", "call ended", "call failed", "call rejected"];
/// The log of SIP messages.
const SIP_LOG: &str = ".twinkle/twinkle.log";

/// A running twinkle-console.
#[derive(Debug)]
pub(crate) struct Twinkle {
    process: Process,
    sound: Pulse,
    port: u16,
    folder: Folder,
}

impl Twinkle {
    pub(crate) fn start(account: &Account) -> Self {
        let folder = Folder::new("twinkle");
        let port = free_ports(1);
        let sound = Pulse::start(&folder, account.tone);
        folder.write(".asoundrc", &sound.asoundrc());
        folder.write(".twinkle/phone.cfg", &profile(account));
        folder.write(".twinkle/twinkle.sys", &system(port));
        let mut command = TWINKLE.command();
        command.arg("phone.cfg").current_dir(folder.path()).env("HOME", folder.path());
        command.env("PULSE_LATENCY_MSEC", "100");
        // Linked next to the other logs, to be printed with them.
        std::os::unix::fs::symlink(folder.join(SIP_LOG), folder.join("sip.log"))
            .unwrap_or_else(|error| panic!("cannot link the log of Twinkle: {error}"));
        let process = Process::start(TWINKLE, command, &folder.join("console.log"));
        Self { process, sound, port, folder }
    }
}

fn profile(account: &Account) -> String {
    let Account { user, password, server, transport, expires, .. } = account;
    let (domain, server) = match account.has_server {
        true => (
            server.to_string(),
            format!(
                "auth_name={user}\nauth_pass={password}\nregistrar={server}\noutbound_proxy={server}\n"
            ),
        ),
        false => (account.address().to_string(), String::new()),
    };
    // Voice activity detection would treat a tone as noise and silence it.
    format!(
        "user_name={user}\n\
         user_domain={domain}\n\
         user_display={user}\n\
         {server}\
         registration_time={expires}\n\
         register_at_startup=no\n\
         pres_publish_startup=no\n\
         sip_transport={transport}\n\
         codecs=g711a,g711u\n\
         ask_user_to_refer=no\n\
         speex_dsp_vad=no\n\
         speex_dsp_agc=no\n\
         speex_dsp_aec=no\n\
         speex_dsp_nrd=no\n\
         zrtp_enabled=no\n",
        transport = transport.name(),
    )
}

fn system(sip: u16) -> String {
    format!(
        "dev_ringtone=alsa:null\n\
         dev_speaker=alsa:barebell_speaker\n\
         dev_mic=alsa:barebell_microphone\n\
         validate_audio_dev=no\n\
         play_ringtone=no\n\
         play_ringback=no\n\
         sip_port={sip}\n\
         rtp_port={rtp}\n\
         start_user_profile=phone\n\
         log_show_sip=yes\n\
         log_max_size=50\n",
        // Two ports per line.
        rtp = free_ports(8),
    )
}

impl Driver for Twinkle {
    fn act(&mut self, action: &Action) {
        match action {
            Action::Register => self.process.say("register"),
            Action::Unregister => self.process.say("deregister"),
            Action::Dial(uri) => self.process.say(&format!("call {uri}")),
            Action::Answer => self.process.say("answer"),
            Action::Reject => self.process.say("reject"),
            Action::HangUp => self.process.say("bye"),
            Action::AutoAnswer(true) => self.process.say("auto_answer -a on"),
            Action::AutoAnswer(false) => self.process.say("auto_answer -a off"),
            Action::Press(key) => self.process.say(&format!("dtmf {key}")),
            Action::Hold => self.process.say("hold"),
            Action::Resume => self.process.say("retrieve"),
            Action::Transfer(uri) => self.process.say(&format!("transfer {uri}")),
            Action::Consult(uri) => self.process.say(&format!("transfer -c {uri}")),
            Action::TransferToConsulted => self.process.say("transfer -c"),
        }
    }

    fn event(&self, line: &str) -> Option<Event> {
        let has = |words: &str| line.contains(words);
        if let Some((_, key)) = line.split_once("DTMF detected: ") {
            return key.trim().chars().next().map(Event::Key);
        }
        if has("de-registration succeeded") {
            Some(Event::Unregistered)
        } else if has(": registration succeeded") {
            Some(Event::Registered)
        } else if has("registration failed") {
            Some(Event::RegistrationFailed)
        } else if has(": incoming call") {
            Some(Event::Incoming)
        } else if has("received 180") {
            Some(Event::Ringback)
        } else if has("far end answered call") || has("call established") {
            Some(Event::Established)
        } else if ENDINGS.into_iter().any(has) {
            Some(Event::Ended)
        } else {
            None
        }
    }

    fn recording(&self) -> Option<Recording> {
        self.sound.recording()
    }

    fn loudness(&self) -> Option<f64> {
        self.sound.loudness()
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn event_log(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    fn sip_log(&self) -> PathBuf {
        self.folder.join(SIP_LOG)
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
