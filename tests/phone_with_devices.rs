//! barebell-phone with sound devices: a private PulseAudio with a tone as its microphone.

use peers::folder::Folder;
use peers::process::{Process, Program, built, wait_until};
use peers::pulse::Pulse;
use peers::tone::{Recording, write_swelling_noise};
use std::path::Path;
use std::process::{Command, Stdio};

const PHONE: Program = Program { name: "barebell-phone", packages: "" };

/// The level of a tone of `hertz` in the loudest tenth of a second of a recording.
fn level(recording: &Recording, hertz: f64) -> f64 {
    let rate = f64::from(recording.rate);
    let levels = recording.samples.chunks_exact(recording.rate as usize / 10).map(|window| {
        let (mut sine, mut cosine) = (0.0, 0.0);
        for (place, &sample) in window.iter().enumerate() {
            let angle = std::f64::consts::TAU * hertz * place as f64 / rate;
            sine += f64::from(sample) * angle.sin();
            cosine += f64::from(sample) * angle.cos();
        }
        2.0 * sine.hypot(cosine) / window.len() as f64
    });
    levels.fold(0.0, f64::max)
}

/// Starts an answering phone with `arguments`. Returns it and its address.
fn answers(folder: &Folder, arguments: &[&str]) -> (Process, String) {
    let log = folder.join("events.log");
    let mut command = Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"));
    command.args(["answer", "--auto", "--calls", "1", "--listen", "127.0.0.1:0", "--json"]);
    command.args(arguments).env("HOME", folder.path()).stdin(Stdio::null());
    let process = Process::start(PHONE, command, &log);
    let address = wait_until("the phone to listen", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let (_, rest) = text.split_once("\"udp:")?;
        rest.split_once('"').map(|(address, _)| address.to_owned())
    });
    (process, address)
}

fn call(address: &str, recording: &Path, more: &[&str]) {
    call_for(5, address, recording, &[&["--play", "tone:1000"], more].concat());
}

fn call_for(seconds: u32, address: &str, recording: &Path, more: &[&str]) {
    let output = Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"))
        .args(["call", &format!("sip:a@{address}"), "--listen", "127.0.0.1:0"])
        .args(["--duration", &format!("{seconds}s"), "--record"])
        .arg(recording)
        .args(more)
        .output()
        .expect("the phone can be started");
    assert!(output.status.success(), "{output:?}");
}

/// Requires a phone built with `--features audio`, as ./test does.
#[test]
fn audio_passes_in_both_directions() {
    let folder = Folder::new("phone-devices");
    let pulse = Pulse::start(&folder, 600);
    folder.write(".asoundrc", &pulse.asoundrc());
    let devices = ["--microphone", "barebell_microphone", "--speaker", "barebell_speaker"];
    let (_phone, address) = answers(&folder, &devices);
    let there = folder.join("there.wav");
    call(&address, &there, &["--expect", "tone:600"]);
    let heard = wait_until("the speaker's recording", || pulse.recording());
    // The sent tone has an amplitude of 16,000.
    let loudness = level(&heard, 1000.0);
    assert!((13_000.0..18_000.0).contains(&loudness), "{loudness}");
}

#[test]
fn a_missing_device_is_reported_and_the_call_continues() {
    let folder = Folder::new("phone-no-devices");
    let (_phone, address) = answers(&folder, &["--microphone", "nowhere", "--play", "tone:440"]);
    call(&address, &folder.join("there.wav"), &["--expect", "tone:440"]);
    let text = std::fs::read_to_string(folder.join("events.log")).expect("the log can be read");
    assert!(text.contains("\"event\":\"device\"") && text.contains("nowhere"), "{text}");
}

/// If the microphone of the callee hears its speaker, the caller hears an echo without echo
/// cancellation.
#[test]
fn an_echo_is_cancelled() {
    let folder = Folder::new("phone-echo");
    let pulse = Pulse::start(&folder, 600);
    let play = folder.join("play.wav");
    write_swelling_noise(&play, 20);
    let play = ["--play", play.to_str().expect("the path is UTF-8")];
    let devices = ["--microphone", "barebell_loop", "--speaker", "barebell_speaker"];
    let levels = [&[][..], &["--echo-cancel"]].map(|more| {
        let home = Folder::new("phone-echo-answers");
        home.write(".asoundrc", &pulse.asoundrc());
        let (_phone, address) = answers(&home, &[&devices[..], more].concat());
        let there = home.join("there.wav");
        call_for(15, &address, &there, &play);
        let heard = Recording::read(&there).expect("the recording has samples");
        // The canceller has adapted by the fifth second. On a busy machine audio is often
        // interrupted and the canceller restarts, so only the best of four seconds counts.
        let mut levels: Vec<f64> = heard
            .samples
            .chunks_exact(heard.rate as usize)
            .skip(5)
            .map(|second| {
                let power: f64 = second.iter().map(|&sample| f64::from(sample).powi(2)).sum();
                10.0 * (power / second.len() as f64).max(1.0).log10()
            })
            .collect();
        levels.sort_by(f64::total_cmp);
        levels[levels.len() / 4]
    });
    assert!(levels[0] > 50.0, "the room produces an echo: {levels:?} dB");
    assert!(levels[0] - levels[1] > 20.0, "{levels:?} dB");
}
