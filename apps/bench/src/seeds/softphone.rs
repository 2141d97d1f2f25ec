//! Softphones as programs that call and answer by themselves: their command lines and settings.

use super::twinkle;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use super::running::{OUTPUT, Running};

/// The file of the received audio, in the folder of a phone that records; baresip has another.
pub(crate) const HEARD: &str = "heard.wav";
const LINPHONE_LOG: &str = "linphone.log";
/// The number of RTP ports of a phone.
pub(crate) const RTP_PORTS: u16 = 10;
/// The length of linphone's tone in seconds: longer than a call.
const TONE_SECONDS: usize = 240;
/// The sample rate of files for linphone, and of its recordings.
const RATE: u32 = 8000;
/// The amplitude of linphone's tone.
const LOUDNESS: i16 = 12_000;

/// A phone for Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Barebell,
    Baresip,
    Linphone,
    /// Without an account only.
    Twinkle,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Barebell, Self::Baresip, Self::Linphone, Self::Twinkle];

    /// The name in records and figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Barebell => "barebell-phone",
            Self::Baresip => "baresip",
            Self::Linphone => "linphone",
            Self::Twinkle => "Twinkle",
        }
    }

    /// The names of the needed programs, its own first, and the Debian packages of others.
    pub(crate) const fn programs(self) -> (&'static [&'static str], Option<&'static str>) {
        match self {
            Self::Barebell => (&["barebell-phone"], None),
            Self::Baresip => (&["baresip"], Some("baresip-core")),
            Self::Linphone => (&["linphonec"], Some("linphone-cli")),
            Self::Twinkle => (
                &["twinkle-console", twinkle::SOUND],
                Some("twinkle-console pulseaudio libasound2-plugins"),
            ),
        }
    }

    /// The output after the registration.
    pub(crate) const fn registered(self) -> &'static str {
        match self {
            Self::Barebell => " is registered for ",
            Self::Baresip => "200 OK",
            Self::Linphone => "LinphoneRegistrationOk",
            Self::Twinkle => ": registration succeeded",
        }
    }

    /// The text that the softphone prints once a call is established. Twinkle prints it as the
    /// callee only.
    pub(crate) const fn established(self) -> &'static str {
        match self {
            Self::Barebell => "in a call with ",
            Self::Baresip => "Call established: ",
            Self::Linphone => "LinphoneCallConnected",
            Self::Twinkle => "call established",
        }
    }

    /// Returns the path of the file with its events.
    pub(crate) fn log(self, folder: &Path) -> PathBuf {
        folder.join(if self == Self::Linphone { LINPHONE_LOG } else { OUTPUT })
    }

    /// Returns the path of the received audio.
    pub(crate) fn recording(self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::Barebell | Self::Linphone => Some(folder.join(HEARD)),
            Self::Baresip => {
                let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
                files.filter(|path| path.to_string_lossy().ends_with("-dec.wav")).max()
            }
            Self::Twinkle => None,
        }
    }
}

/// A protocol for the keys of SRTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// In session descriptions (RFC 4568).
    Sdes,
    /// By a DTLS handshake on the path of media (RFC 5764).
    Dtls,
    /// By ZRTP on the path of media (RFC 6189); not of baresip.
    Zrtp,
}

impl Keys {
    pub(crate) const ALL: [Self; 3] = [Self::Sdes, Self::Dtls, Self::Zrtp];

    /// The name in records and figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sdes => "SDES",
            Self::Dtls => "DTLS-SRTP",
            Self::Zrtp => "ZRTP",
        }
    }
}

/// The installed phones with their programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed(pub(crate) Vec<(Kind, PathBuf)>);

impl Installed {
    /// Returns the program of a phone, if it is installed.
    pub(crate) fn program(&self, kind: Kind) -> Option<&Path> {
        self.0.iter().find(|(known, _)| *known == kind).map(|(_, path)| &**path)
    }
}

/// An account at a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) server: SocketAddr,
}

/// A phone to start. It sends a tone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softphone<'a> {
    pub(crate) kind: Kind,
    pub(crate) program: &'a Path,
    /// The network namespace, if it is another one.
    pub(crate) namespace: Option<&'a str>,
    /// Its SIP address, and the first of its [`RTP_PORTS`].
    pub(crate) address: SocketAddr,
    pub(crate) rtp: u16,
    /// The folder for its files.
    pub(crate) folder: &'a Path,
    /// The user name without an account, and the account.
    pub(crate) user: &'a str,
    pub(crate) account: Option<Account<'a>>,
    /// The URI to call; without one it answers. linphone with an account is told by
    /// [`linphone_call`], when it is registered.
    pub(crate) calls: Option<&'a str>,
    /// The length of a call that Barebell's phone begins, in seconds.
    pub(crate) seconds: u64,
    /// The frequency of the tone in hertz.
    pub(crate) tone: u16,
    /// The protocol for the keys of SRTP, which is then required, and the suite of SRTP with keys
    /// by SDES; baresip offers one suite, and accepts others.
    pub(crate) keys: Option<Keys>,
    pub(crate) suite: Option<&'a str>,
    /// True if it records the received audio.
    pub(crate) records: bool,
}

impl Softphone<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// Its files cannot be written, or it cannot be started.
    pub(crate) fn start(&self) -> io::Result<Running> {
        fs::create_dir_all(self.folder)?;
        let (words, lines) = match self.kind {
            Kind::Barebell => (self.barebell(), String::new()),
            Kind::Baresip => (self.baresip()?, String::new()),
            Kind::Linphone => self.linphone()?,
            Kind::Twinkle => {
                twinkle::prepare(self.folder, (self.address, self.rtp), self.user, self.calls)?
            }
        };
        let mut command = match self.namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        command.args(words).current_dir(self.folder).env("HOME", self.folder);
        // The sound server and the screen of the user are not for the measurement.
        command.env("PULSE_SERVER", "unix:/nonexistent").env_remove("DISPLAY");
        // Of Twinkle, which names another sound server in its settings.
        command.env("PULSE_LATENCY_MSEC", "100");
        if let Some(account) = &self.account {
            command.env("BAREBELL_PHONE_PASSWORD", account.password);
        }
        Running::start(command, self.folder, &lines)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> io::Result<()> {
        fs::write(self.folder.join(name), text)
    }

    fn barebell(&self) -> Vec<String> {
        let mut line = match self.calls {
            Some(uri) => format!("call {uri} --duration {}s", self.seconds),
            None => "answer --auto".to_owned(),
        };
        line += &format!(
            " --listen {} --codecs PCMU --play tone:{} --srtp {}",
            self.address,
            self.tone,
            if self.keys.is_some() { "required" } else { "off" }
        );
        match self.keys {
            Some(Keys::Dtls) => line += " --keys dtls",
            Some(Keys::Zrtp) => line += " --keys zrtp",
            Some(Keys::Sdes) | None => {}
        }
        if let Some(suite) = self.suite {
            line += &format!(" --suites {suite}");
        }
        if let Some(Account { user, domain, server, .. }) = self.account {
            line += &format!(" --account {user}@{domain} --proxy {server} --transport udp");
        }
        if self.records {
            line += &format!(" --record {HEARD}");
        }
        line.split(' ').map(str::to_owned).collect()
    }

    fn baresip(&self) -> io::Result<Vec<String>> {
        let (address, last) = (self.address, self.rtp + RTP_PORTS - 1);
        let recorder = if self.records { "module sndfile.so\n" } else { "" };
        let dtls = if self.keys == Some(Keys::Dtls) { "module dtls_srtp.so\n" } else { "" };
        let config = format!(
            "poll_method epoll\nsip_listen {address}\n\
             audio_player aubridge,nil\naudio_source ausine,{}\naudio_alert aubridge,nil2\n\
             ausrc_srate 48000\nausrc_channels 2\naudio_buffer 20-160\n\
             rtp_ports {}-{last}\nsnd_path {}\nmodule_path /usr/lib/baresip/modules\n\
             module g711.so\nmodule srtp.so\nmodule ausine.so\nmodule aubridge.so\n{dtls}{recorder}\
             module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\n",
            self.tone,
            self.rtp,
            self.folder.display()
        );
        let keys = match self.keys {
            Some(Keys::Sdes) => ";mediaenc=srtp-mand",
            Some(Keys::Dtls) => ";mediaenc=dtls_srtp",
            Some(Keys::Zrtp) | None => "",
        };
        let account = match self.account {
            Some(Account { user, password, domain, server }) => format!(
                "<sip:{user}@{domain}>;auth_user={user};auth_pass={password};regint=600;\
                 outbound=\"sip:{server};lr\""
            ),
            None => format!("<sip:{}@{address}>;regint=0", self.user),
        };
        self.write("config", config)?;
        self.write("accounts", format!("{account};answermode=auto{keys}\n"))?;
        // Without a file of contacts it would make an example and use it.
        self.write("contacts", "")?;
        let mut words = vec!["-4".to_owned(), "-n".to_owned(), address.ip().to_string()];
        words.extend(["-f".to_owned(), self.folder.display().to_string()]);
        if let Some(uri) = self.calls {
            words.extend(["-e".to_owned(), format!("/dial {uri}")]);
        }
        Ok(words)
    }

    /// Returns the arguments, and the commands on the standard input.
    fn linphone(&self) -> io::Result<(Vec<String>, String)> {
        let (ip, port) = (self.address.ip(), self.address.port());
        let encryption = match self.keys {
            None => "none",
            Some(Keys::Sdes) => "srtp",
            Some(Keys::Dtls) => "dtls",
            Some(Keys::Zrtp) => "zrtp",
        };
        let is_mandatory = u8::from(self.keys.is_some());
        let suites =
            self.suite.map_or_else(String::new, |suite| format!("srtp_crypto_suites={suite}\n"));
        let user = self.account.map_or(self.user, |account| account.user);
        let mut settings = format!(
            "[sip]\nsip_port={port}\nsip_tcp_port=0\nsip_tls_port=0\nguess_hostname=0\n\
             contact=<sip:{user}@{ip}>\nmedia_encryption={encryption}\n\
             media_encryption_mandatory={is_mandatory}\n{suites}use_ipv6=0\n\
             register_only_when_network_is_up=0\nauto_net_state_mon=0\ndefault_proxy={}\n\
             [misc]\nversion_check_url_root=\nfile_transfer_server_url=\n\
             [net]\nfirewall_policy=0\n[rtp]\naudio_rtp_port={}-{}\n\
             [sound]\nechocancellation=0\n[video]\nenabled=0\ncapture=0\ndisplay=0\n\
             [audio_codec_0]\nmime=PCMU\nrate=8000\nenabled=1\n",
            if self.account.is_some() { 0 } else { -1 },
            self.rtp,
            self.rtp + RTP_PORTS - 1
        );
        // All codecs that it has are on if they are not named.
        for (number, name) in (1..).zip([
            "PCMA 8000",
            "opus 48000",
            "speex 8000",
            "speex 16000",
            "speex 32000",
            "GSM 8000",
            "G722 8000",
            "G729 8000",
        ]) {
            let (name, rate) = name.split_once(' ').unwrap_or_default();
            settings += &format!("[audio_codec_{number}]\nmime={name}\nrate={rate}\nenabled=0\n");
        }
        if let Some(Account { user, password, domain, server }) = self.account {
            settings += &format!(
                "[auth_info_0]\nusername={user}\nuserid={user}\npasswd={password}\n\
                 [proxy_0]\nreg_proxy=<sip:{server}>\nreg_route=<sip:{server};lr>\n\
                 reg_identity=sip:{user}@{domain}\nreg_expires=600\nreg_sendregister=1\npublish=0\n"
            );
        }
        self.write("linphonerc", settings)?;
        self.write("tone.wav", tone_file(self.tone))?;
        // linphonec fails if the folders of its databases do not exist.
        for folder in [".local/share/linphone", ".config/linphone"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        let mut lines =
            format!("soundcard use files\nplay {}\n", self.folder.join("tone.wav").display());
        if self.records {
            lines += &format!("record {}\n", self.folder.join(HEARD).display());
        }
        match self.calls {
            Some(uri) if self.account.is_none() => lines += &linphone_call(uri),
            Some(_) => {}
            None => lines += "autoanswer enable\n",
        }
        let words = format!("-c linphonerc -d 6 -l {LINPHONE_LOG}");
        Ok((words.split(' ').map(str::to_owned).collect(), lines))
    }
}

/// Returns the command of linphone that calls a URI.
pub(crate) fn linphone_call(uri: &str) -> String {
    format!("call {uri}\n")
}

/// Returns a WAV file with a tone.
pub(crate) fn tone_file(hertz: u16) -> Vec<u8> {
    let mut samples = Vec::new();
    media::tone::Tone::new(f64::from(hertz), RATE, LOUDNESS)
        .fill(TONE_SECONDS * RATE as usize, &mut samples);
    let size = 2 * samples.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((size + 36).to_le_bytes());
    // PCM, one channel, and the bytes of a second and of a sample.
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(RATE.to_le_bytes());
    file.extend((2 * RATE).to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend(size.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}
