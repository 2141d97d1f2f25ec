//! Our phone with the sound devices of a machine: a PulseAudio of its own, whose microphone is a
//! tone.

use peers::folder::Folder;
use peers::process::{Process, Program, built, wait_until};
use peers::pulse::Pulse;
use peers::tone::{Recording, write_swelling_noise};
use std::path::Path;
use std::process::{Command, Stdio};

const PHONE: Program = Program { name: "barebell-phone", packages: "" };

/// How loud the tone of `hertz` is in the loudest tenth of a second of a recording.
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

/// A phone that answers with `arguments`, and where it does.
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
        .expect("the phone runs");
    assert!(output.status.success(), "{output:?}");
}

/// Needs a phone that was built with `--features audio`, as ./test does it.
#[test]
fn what_is_said_is_heard_there_and_what_comes_is_heard_here() {
    let folder = Folder::new("phone-devices");
    let pulse = Pulse::start(&folder, 600);
    folder.write(".asoundrc", &pulse.asoundrc());
    let devices = ["--microphone", "barebell_microphone", "--speaker", "barebell_speaker"];
    let (_phone, address) = answers(&folder, &devices);
    let there = folder.join("there.wav");
    call(&address, &there, &["--expect", "tone:600"]);
    let heard = wait_until("the speaker's recording", || pulse.recording());
    // What was sent had 16,000 at its peak.
    let loudness = level(&heard, 1000.0);
    assert!((13_000.0..18_000.0).contains(&loudness), "{loudness}");
}

#[test]
fn a_device_that_is_missing_is_told_and_the_call_goes_on() {
    let folder = Folder::new("phone-no-devices");
    let (_phone, address) = answers(&folder, &["--microphone", "nowhere", "--play", "tone:440"]);
    call(&address, &folder.join("there.wav"), &["--expect", "tone:440"]);
    let text = std::fs::read_to_string(folder.join("events.log")).expect("events");
    assert!(text.contains("\"event\":\"device\"") && text.contains("nowhere"), "{text}");
}

/// Who calls somebody whose microphone hears the speaker hears itself, unless the echo is taken
/// out.
#[test]
fn an_echo_is_taken_out() {
    let folder = Folder::new("phone-echo");
    let pulse = Pulse::start(&folder, 600);
    let play = folder.join("play.wav");
    write_swelling_noise(&play, 20);
    let play = ["--play", play.to_str().expect("text")];
    let devices = ["--microphone", "barebell_loop", "--speaker", "barebell_speaker"];
    let levels = [&[][..], &["--echo-cancel"]].map(|more| {
        let home = Folder::new("phone-echo-answers");
        home.write(".asoundrc", &pulse.asoundrc());
        let (_phone, address) = answers(&home, &[&devices[..], more].concat());
        let there = home.join("there.wav");
        call_for(15, &address, &there, &play);
        let heard = Recording::read(&there).expect("a recording");
        // By the fifth second it has got used to the room. On a busy machine the sound of the room
        // tears often, and it has to begin anew: of four seconds one counts.
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
    assert!(levels[0] > 50.0, "there is an echo to take out: {levels:?} dB");
    assert!(levels[0] - levels[1] > 20.0, "{levels:?} dB");
}
