//! A private PulseAudio server for phones without another audio interface. The microphone is a
//! tone, and the output of the speaker is recorded.

use crate::folder::Folder;
use crate::process::{Process, Program, wait_until};
use crate::tone::Recording;
use std::path::{Path, PathBuf};
use std::process::Command;

const PULSEAUDIO: Program = Program { name: "pulseaudio", packages: "pulseaudio" };
const PAREC: Program = Program { name: "parec", packages: "pulseaudio-utils" };
/// The sample rate of speaker and microphone: that of telephony.
const RATE: u32 = 8000;

/// A running sound server with one speaker and one microphone.
#[derive(Debug)]
pub struct Pulse {
    _server: Process,
    _recorders: [Process; 2],
    hertz: u32,
    recording: PathBuf,
    /// The recording of the microphone.
    sent: PathBuf,
    socket: PathBuf,
}

impl Pulse {
    /// Starts a server with its files in `folder` and a tone of `hertz` at the microphone.
    pub fn start(folder: &Folder, hertz: u32) -> Self {
        let (socket, recording) = (folder.join("pulse.sock"), folder.join("heard.wav"));
        let mut command = private(PULSEAUDIO.command(), folder.path());
        command.args(["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1"]);
        // PulseAudio aborts at times when a client that shares memory with it disconnects.
        command.arg("--disable-shm=yes");
        for module in [
            format!("module-native-protocol-unix socket={} auth-anonymous=1", socket.display()),
            format!("module-null-sink sink_name=speaker rate={RATE} channels=1 format=s16le"),
            format!("module-null-sink sink_name=whistle rate={RATE} channels=1 format=s16le"),
            format!("module-sine sink=whistle frequency={hertz}"),
        ] {
            command.args(["-L", &module]);
        }
        let mut server = Process::start(PULSEAUDIO, command, &folder.join("pulse.log"));
        wait_until("the socket of PulseAudio", || {
            server.assert_running();
            socket.exists().then_some(())
        });
        let record = |source: &str, path: &Path| {
            let mut command = private(PAREC.command(), folder.path());
            command.arg(format!("--server=unix:{}", socket.display()));
            command.arg(format!("--device={source}.monitor"));
            command.args(["--channels=1", "--format=s16le", "--file-format=wav"]);
            command.arg(format!("--rate={RATE}")).arg(path);
            Process::start(PAREC, command, &folder.join(&format!("parec-{source}.log")))
        };
        let sent = folder.join("sent.wav");
        let recorders = [record("speaker", &recording), record("whistle", &sent)];
        Self { _server: server, _recorders: recorders, hertz, recording, sent, socket }
    }

    /// The address of this server, as in the environment variable PULSE_SERVER.
    #[must_use]
    pub fn server(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// ALSA devices for this server: `barebell_speaker`, `barebell_microphone`, and
    /// `barebell_loop`, a microphone connected to the speaker.
    #[must_use]
    pub fn asoundrc(&self) -> String {
        let device = |name: &str, device: &str| {
            format!(
                "pcm.barebell_{name} {{\n type pulse\n server \"unix:{}\"\n device \"{device}\"\n}}\n",
                self.socket.display()
            )
        };
        device("speaker", "speaker")
            + &device("microphone", "whistle.monitor")
            + &device("loop", "speaker.monitor")
    }

    /// ALSA's default device for this server.
    #[must_use]
    pub fn default_device(&self) -> String {
        "pcm.!default {\n type asym\n playback.pcm barebell_speaker\n \
         capture.pcm barebell_microphone\n}\n"
            .to_owned()
    }

    /// The amplitude of the tone at the microphone.
    pub fn loudness(&self) -> Option<f64> {
        Recording::read(&self.sent)?.loudness_of(self.hertz)
    }

    /// The output of the speaker so far.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        Recording::read(&self.recording)
    }
}

/// Isolates `command` from the user's sound server and settings.
fn private(mut command: Command, home: &Path) -> Command {
    command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("XDG_CONFIG_HOME", home);
    command.env_remove("PULSE_SERVER").env_remove("DISPLAY");
    command
}
