//! Twinkle's settings, and the sound server that it needs: it has no audio from files.

use super::running::Running;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The program of the sound server.
pub(super) const SOUND: &str = "pulseaudio";
/// The longest time until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running sound server for all Twinkles: its microphone is a tone. Dropping it ends it.
pub(super) struct Sound {
    _server: Running,
}

/// Returns the path of the server's socket, beside the folders of the phones.
fn socket(folder: &Path) -> PathBuf {
    folder.join("pulse.sock")
}

impl Sound {
    /// Starts it with its files in `folder`, and a tone of `hertz`.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(folder: &Path, hertz: u16) -> io::Result<Self> {
        let socket = socket(folder);
        let own = folder.join("sound");
        fs::create_dir_all(&own)?;
        let mut command = Command::new(SOUND);
        command.args(["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1"]);
        for module in [
            format!("module-native-protocol-unix socket={} auth-anonymous=1", socket.display()),
            "module-null-sink sink_name=speaker rate=8000 channels=1 format=s16le".to_owned(),
            "module-null-sink sink_name=whistle rate=8000 channels=1 format=s16le".to_owned(),
            format!("module-sine sink=whistle frequency={hertz}"),
        ] {
            command.args(["-L", &module]);
        }
        command.env("HOME", &own).env("XDG_RUNTIME_DIR", &own).env("XDG_CONFIG_HOME", &own);
        command.env_remove("PULSE_SERVER").env_remove("DISPLAY");
        let server = Running::start(command, &own, "")?;
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self { _server: server })
    }
}

/// Writes the settings of a phone in `folder`, which uses the sound server beside it: its SIP
/// address and first RTP port, its user, and the URI that it calls. Returns its arguments, and the
/// commands on its standard input.
///
/// # Errors
/// A file cannot be written.
pub(super) fn prepare(
    folder: &Path,
    (address, rtp): (SocketAddr, u16),
    user: &str,
    calls: Option<&str>,
) -> io::Result<(Vec<String>, String)> {
    let socket = socket(folder.parent().unwrap_or(folder));
    let device = |name: &str, device: &str| {
        let socket = socket.display();
        format!(
            "pcm.barebell_{name} {{\n type pulse\n server \"unix:{socket}\"\n device \"{device}\"\n}}\n"
        )
    };
    let devices = device("speaker", "speaker") + &device("microphone", "whistle.monitor");
    // Voice activity detection would treat a tone as noise and silence it.
    let profile = format!(
        "user_name={user}\nuser_domain={}\nuser_display={user}\nregister_at_startup=no\n\
         pres_publish_startup=no\nsip_transport=udp\ncodecs=g711u\nspeex_dsp_vad=no\n\
         speex_dsp_agc=no\nspeex_dsp_aec=no\nspeex_dsp_nrd=no\nzrtp_enabled=no\n",
        address.ip()
    );
    let system = format!(
        "dev_ringtone=alsa:null\ndev_speaker=alsa:barebell_speaker\n\
         dev_mic=alsa:barebell_microphone\nvalidate_audio_dev=no\nplay_ringtone=no\n\
         play_ringback=no\nsip_port={}\nrtp_port={rtp}\nstart_user_profile=phone\n",
        address.port()
    );
    let settings = folder.join(".twinkle");
    fs::create_dir_all(&settings)?;
    fs::write(folder.join(".asoundrc"), devices)?;
    fs::write(settings.join("phone.cfg"), profile)?;
    fs::write(settings.join("twinkle.sys"), system)?;
    let lines = match calls {
        Some(uri) => format!("call {uri}\n"),
        None => "auto_answer -a on\n".to_owned(),
    };
    Ok((vec!["phone.cfg".to_owned()], lines))
}
