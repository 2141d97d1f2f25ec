//! Driver of linphonec through its standard input, with files instead of a sound card.

use crate::folder::Folder;
use crate::phone::{Account, Action, Driver, Event, Srtp};
use crate::process::{Process, Program};
use crate::tone::{Recording, WRITTEN_LOUDNESS, write_tone};
use crate::transport::Transport;
use std::path::PathBuf;
use test_support::ports::free_ports;

const LINPHONE: Program = Program { name: "linphonec", packages: "linphone-cli" };
/// The duration of its tone in seconds: longer than any call of a test.
const TONE_SECONDS: u32 = 240;
/// The size of the header of its recordings, which is zero until the end of the call.
const WAV_HEADER: usize = 44;
/// The sample rate of its recordings with the codecs common to the other phones.
const RATE: u32 = 8000;

/// Its codecs: name, sample rate, and 1 if enabled.
const CODECS: [(&str, u32, u8); 9] = [
    ("PCMU", 8000, 1),
    ("PCMA", 8000, 1),
    ("opus", 48_000, 0),
    ("speex", 8000, 0),
    ("speex", 16_000, 0),
    ("speex", 32_000, 0),
    ("GSM", 8000, 0),
    ("G722", 8000, 0),
    ("G729", 8000, 0),
];

/// A running linphonec.
#[derive(Debug)]
pub(crate) struct Linphone {
    process: Process,
    port: u16,
    folder: Folder,
}

impl Linphone {
    pub(crate) fn start(account: &Account) -> Self {
        let folder = Folder::new("linphone");
        let port = free_ports(1);
        folder.write("linphonerc", &settings(account, port));
        // linphonec fails if the folder of its databases does not exist.
        folder.write(".local/share/linphone/.keep", "");
        folder.write(".config/linphone/.keep", "");
        write_tone(&folder.join("tone.wav"), account.tone, TONE_SECONDS);
        let mut command = match &account.machine {
            Some(machine) => machine.command(LINPHONE.name),
            None => LINPHONE.command(),
        };
        command.args(["-c", "linphonerc", "-d", "6", "-l", "linphone.log"]);
        command.current_dir(folder.path()).env("HOME", folder.path());
        // linphonec probes sound cards anyway, and must not use those of the user.
        command.env("PULSE_SERVER", "unix:/nonexistent").env_remove("DISPLAY");
        let mut process = Process::start(LINPHONE, command, &folder.join("console.log"));
        process.say("soundcard use files");
        process.say(&format!("record {}", folder.join("heard.wav").display()));
        process.say(&format!("play {}", folder.join("tone.wav").display()));
        Self { process, port, folder }
    }
}

fn settings(account: &Account, port: u16) -> String {
    let Account { user, password, server, transport, expires, srtp, suites, .. } = account;
    let encryption = match srtp {
        Srtp::Off => "none",
        Srtp::Optional | Srtp::Required => "srtp",
        Srtp::Zrtp => "zrtp",
        Srtp::Dtls => "dtls",
    };
    let is_mandatory = i32::from(matches!(srtp, Srtp::Required | Srtp::Zrtp | Srtp::Dtls));
    let suites = match suites.is_empty() {
        true => String::new(),
        false => format!("srtp_crypto_suites={suites}\n"),
    };
    let proxy = match account.has_server {
        true => format!(
            "[proxy_0]\n\
             reg_proxy=<sip:{called};transport={transport}>\n\
             reg_route=<sip:{called};transport={transport}>\n\
             reg_identity=sip:{user}@{server}\n\
             reg_expires={expires}\n\
             reg_sendregister=0\n\
             publish=0\n",
            transport = transport.name(),
            // linphonec compares only host names in certificates, not addresses.
            called = match transport {
                Transport::Tls => format!("localhost:{}", server.port()),
                _ => server.to_string(),
            },
        ),
        false => String::new(),
    };
    // Opus is disabled: the recordings do not declare their sample rate.
    let codecs: String = (0..)
        .zip(CODECS)
        .map(|(number, (name, rate, is_enabled))| {
            format!("[audio_codec_{number}]\nmime={name}\nrate={rate}\nenabled={is_enabled}\n")
        })
        .collect();
    let default_proxy = if account.has_server { 0 } else { -1 };
    // 0 disables a transport, -2 uses it without listening.
    let port = if account.listens { i32::from(port) } else { -2 };
    let (udp, tcp, tls) = match transport {
        Transport::Udp => (port, 0, 0),
        Transport::Tcp => (0, port, 0),
        // linphonec has no certificate to listen with.
        Transport::Tls | Transport::Wss => (0, 0, -2),
    };
    let issuers = account.issuers.as_ref().map_or_else(String::new, |file| {
        format!("root_ca={}\nverify_server_certs=1\nverify_server_cn=1\n", file.display())
    });
    format!(
        "[sip]\n\
         sip_port={udp}\n\
         sip_tcp_port={tcp}\n\
         sip_tls_port={tls}\n\
         {issuers}\
         default_proxy={default_proxy}\n\
         guess_hostname=0\n\
         contact=<sip:{user}@{address}>\n\
         media_encryption={encryption}\n\
         media_encryption_mandatory={is_mandatory}\n\
         {suites}\
         use_ipv6=0\n\
         register_only_when_network_is_up=0\n\
         auto_net_state_mon=0\n\
         [misc]\n\
         version_check_url_root=\n\
         file_transfer_server_url=\n\
         [net]\n\
         firewall_policy=0\n\
         [rtp]\n\
         audio_rtp_port={rtp}\n\
         [sound]\n\
         echocancellation=0\n\
         [video]\n\
         enabled=0\n\
         capture=0\n\
         display=0\n\
         [auth_info_0]\n\
         username={user}\n\
         userid={user}\n\
         passwd={password}\n\
         {codecs}\
         {proxy}",
        address = account.address(),
        // Two ports per call.
        rtp = free_ports(8),
    )
}

impl Driver for Linphone {
    fn act(&mut self, action: &Action) {
        match action {
            Action::Register => self.process.say("register"),
            Action::Unregister => self.process.say("unregister"),
            Action::Dial(uri) => self.process.say(&format!("call {uri}")),
            Action::Answer => self.process.say("answer"),
            Action::Reject | Action::HangUp => self.process.say("terminate"),
            Action::AutoAnswer(true) => self.process.say("autoanswer enable"),
            Action::AutoAnswer(false) => self.process.say("autoanswer disable"),
            Action::Press(key) => self.process.say(&key.to_string()),
            Action::Hold => self.process.say("pause"),
            Action::Resume => self.process.say("resume"),
            Action::Transfer(uri) => self.process.say(&format!("transfer {uri}")),
            Action::Consult(uri) => {
                self.process.say("pause");
                self.process.say(&format!("call {uri}"));
            }
            // linphonec numbers its calls from 1.
            Action::TransferToConsulted => self.process.say("transfer 1 --to-call 2"),
        }
    }

    fn event(&self, line: &str) -> Option<Event> {
        if let Some((_, key)) = line.split_once("Receiving dtmf ") {
            return key.chars().next().map(Event::Key);
        }
        let (_, state) = line.split_once(" moving from state ")?.1.split_once(" to ")?;
        let state = state.trim_start_matches('[').split(']').next()?.trim_end();
        match state.strip_prefix("Linphone")? {
            "RegistrationOk" => Some(Event::Registered),
            "RegistrationFailed" => Some(Event::RegistrationFailed),
            "RegistrationCleared" => Some(Event::Unregistered),
            "CallIncomingReceived" => Some(Event::Incoming),
            "CallOutgoingRinging" => Some(Event::Ringback),
            "CallConnected" => Some(Event::Established),
            "CallEnd" | "CallError" => Some(Event::Ended),
            _ => None,
        }
    }

    fn recording(&self) -> Option<Recording> {
        let bytes = std::fs::read(self.folder.join("heard.wav")).ok()?;
        let (header, samples) = bytes.split_at_checked(WAV_HEADER)?;
        if header.iter().any(|&byte| byte != 0) {
            Recording::from_wav(&bytes)
        } else {
            Recording::from_raw(samples, 1, RATE)
        }
    }

    fn loudness(&self) -> Option<f64> {
        Some(WRITTEN_LOUDNESS)
    }

    fn sas(&self, line: &str) -> Option<String> {
        let (_, text) = line.split_once("Authentication token is ")?;
        text.split_once('(').map(|(sas, _)| sas.to_owned())
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn event_log(&self) -> PathBuf {
        self.folder.join("linphone.log")
    }

    fn sip_log(&self) -> PathBuf {
        self.event_log()
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
