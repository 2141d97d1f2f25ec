//! Raw samples on standard input and output, and WAV files of several formats.

mod processes;

use media::tone::{Tone, amplitude_of};
use processes::{PHONE, Running, event, loudest, phone, recorded, said, told};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

fn tone(hertz: f64, rate: u32, seconds: u32) -> Vec<u8> {
    let mut samples = Vec::new();
    Tone::new(hertz, rate, 16_000).fill((rate * seconds) as usize, &mut samples);
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

fn samples(bytes: &[u8]) -> Vec<i16> {
    bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

#[test]
fn raw_samples_go_in_and_out() {
    for rate in [8000_u32, 16_000, 48_000] {
        let callee = Running::answer(&["--play", "tone:440", "--expect", "tone:1000"]);
        let hertz = rate.to_string();
        let args = ["--play", "-", "--record", "-", "--duration", "2s", "--pcm-rate", &hertz];
        let mut child = Command::new(PHONE)
            .args(["call", &callee.uri(), "--listen", "127.0.0.1:0", "--json"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let mut input = child.stdin.take().expect("its input");
        // More than the phone reads: the rest stays unread.
        let writer = std::thread::spawn(move || drop(input.write_all(&tone(1000.0, rate, 5))));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it has written");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let heard = samples(&output.stdout);
        let second = rate as usize;
        assert!(heard.len() > second * 3 / 2, "{}", heard.len());
        let level = amplitude_of(440.0, rate, &heard[second / 2..][..second]);
        assert!(level > 11_000.0, "{rate}: {level}");
        let told = told(&output.stderr);
        assert_eq!(event(&told, "answered")["pcm_rate"], rate);
        assert_eq!(event(&told, "ended")["pcm"]["dropped"], 0);
        assert_eq!(callee.end().0, Some(0));
    }
}

#[test]
fn an_input_that_ends_is_silence_and_one_that_is_late_is_counted() {
    let callee = Running::answer(&["--expect", "tone:1000"]);
    let mut child = Command::new(PHONE)
        .args(["call", &callee.uri(), "--listen", "127.0.0.1:0", "--json", "--play", "-"])
        .args(["--duration", "2s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the phone starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(&tone(1000.0, 8000, 1)[..8000]).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    assert_eq!(output.status.code(), Some(0));
    let told = told(&output.stdout);
    let missing = event(&told, "ended")["pcm"]["missing"].as_u64().expect("a count");
    // Half a second of samples came for two seconds.
    assert!((9000..13_000).contains(&missing), "{missing}");
    assert_eq!(callee.end().0, Some(0));
}

#[test]
fn a_reader_that_goes_ends_the_recording_and_not_the_call() {
    let callee = Running::answer(&["--play", "tone:440"]);
    let mut child = Command::new(PHONE)
        .args(["call", &callee.uri(), "--listen", "127.0.0.1:0", "--record", "-"])
        .args(["--duration", "1500ms", "--expect", "tone:440"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the phone starts");
    let mut first = [0; 640];
    child.stdout.take().expect("its output").read_exact(&mut first).expect("sound");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output).contains("its reader has closed it"), "{output:?}");
}

#[test]
fn a_stalled_reader_loses_samples_and_delays_no_call() {
    let callee = Running::answer(&["--play", "tone:440"]);
    let mut child = Command::new(PHONE)
        .args(["call", &callee.uri(), "--listen", "127.0.0.1:0", "--record", "-", "--json"])
        .args(["--duration", "4s", "--expect", "tone:440", "--pcm-rate", "48000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the phone starts");
    // Open, but never read.
    let _output = child.stdout.take().expect("its output");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = said(&output);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('{')).collect();
    let told = told(lines.join("\n").as_bytes());
    assert!(event(&told, "ended")["pcm"]["dropped"].as_u64() > Some(0), "{told:?}");
    assert!(said.contains("the recording is not complete"), "{said}");
}

#[test]
fn the_standard_input_is_for_one_thing() {
    for args in [&["control", "--play", "-"][..], &["answer", "--play", "-"]] {
        let output = phone(args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains("--play -"), "{output:?}");
    }
}

#[test]
fn a_file_of_another_rate_is_played() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.wav");
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 44_100,
        bits_per_sample: 24,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&path, spec).expect("a file");
    let mut tone = Vec::new();
    Tone::new(700.0, 44_100, 16_000).fill(44_100, &mut tone);
    for sample in tone {
        (0..2).for_each(|_| writer.write_sample(i32::from(sample) << 8).expect("written"));
    }
    writer.finalize().expect("written");
    let callee = Running::answer(&["--expect", "tone:700"]);
    let output = callee.call(&["--play", path.to_str().expect("text"), "--duration", "1500ms"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(callee.end().0, Some(0));
}

/// A tone that only a wideband codec carries, from the generator and from a file: the remote
/// recording has it with a wideband codec, and no alias of it with another.
#[test]
fn wideband_audio_is_played_and_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let [play, heard] = ["a.wav", "b.wav"].map(|name| folder.path().join(name));
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&play, spec).expect("a file");
    let mut tone = Vec::new();
    Tone::new(5000.0, 48_000, 16_000).fill(2 * 48_000, &mut tone);
    tone.iter().for_each(|sample| writer.write_sample(*sample).expect("written"));
    writer.finalize().expect("written");
    let [play, record] = [&play, &heard].map(|path| path.to_str().expect("text"));
    for (codec, rate) in [("G722", 16_000), ("opus", 16_000), ("PCMU", 8000)] {
        let is_wide = rate > 8000;
        for what in ["tone:5000", play] {
            let args = ["--codecs", codec, "--record", record, "--expect", "tone:5000"];
            let callee = Running::answer(&args);
            let output = callee.call(&["--play", what, "--duration", "2s"]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let (status, said) = callee.end();
            assert_eq!(status, Some(if is_wide { 0 } else { 21 }), "{codec} {what}: {said}");
            let (own, samples) = recorded(&heard);
            assert_eq!(own, rate, "{codec}");
            // The alias of 5000 Hz at 8000 samples a second.
            let level = loudest(if is_wide { 5000.0 } else { 3000.0 }, rate, &samples);
            let is_heard = level > 8000.0;
            assert_eq!(is_heard, is_wide, "{codec} {what}: {level}");
            // A file begins abruptly, which has energy at all frequencies.
            assert!(is_heard || level < 500.0, "{codec} {what}: {level}");
        }
    }
}

/// Half a second of a tone, then silence: hardly a packet is sent, and no loss is counted.
#[test]
fn silence_is_not_sent_where_it_is_not_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let play = folder.path().join("a.wav");
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 8000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&play, spec).expect("a file");
    let mut tone = Vec::new();
    Tone::new(700.0, 8000, 16_000).fill(4000, &mut tone);
    tone.iter().for_each(|sample| writer.write_sample(*sample).expect("written"));
    writer.finalize().expect("written");
    let args = ["--play", play.to_str().expect("text"), "--codecs", "PCMU", "--duration", "4s"];
    for (more, is_quiet) in [(&[][..], false), (&["--vad"], true)] {
        let callee = Running::answer(&["--expect", "tone:700", "--max-loss", "0%"]);
        let output = callee.call(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output.stdout);
        let sent = event(&told, "ended")["totals"]["sent"].as_u64().expect("a count");
        // Of 200 in four seconds.
        assert_eq!(sent < 90, is_quiet, "{sent}");
        assert_eq!(callee.end().0, Some(0));
    }
}
