//! Expectations for a call, and the exit status.

mod processes;

use media::tone::amplitude_of;
use processes::{Running, event, junit, phone, recorded, said, told};

#[test]
fn expectations_hold_at_both_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let [here, there] = ["a.xml", "b.xml"].map(|name| folder.path().join(name));
    let file = there.to_str().expect("text");
    let expects = ["--play", "tone:440", "--expect", "tone:1000", "--junit", file];
    let callee = Running::answer(&expects);
    let file = here.to_str().expect("text");
    let expects = ["--expect", "tone:440", "--expect", "audio", "--min-mos", "4.0"];
    let more = ["--max-loss", "1%", "--duration", "1500ms", "--play", "tone:1000", "--junit", file];
    let output = callee.call(&[&expects[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(callee.end().0, Some(0));
    let told = told(&output.stdout);
    let heard = &event(&told, "ended")["heard"];
    assert_eq!(heard["tones"][0]["hertz"], 440.0);
    // Within 1 dB of the sent level.
    let level = heard["tones"][0]["loudest_dbfs"].as_f64().expect("a level");
    assert!((-7.3..-5.2).contains(&level), "{level}");
    assert!(told.iter().filter(|told| told["event"] == "expected").all(|told| told["met"] == true));
    let cases = junit(&here);
    assert_eq!(cases.len(), 5, "{cases:?}");
    assert!(cases.iter().all(|(_, failure)| failure.is_none()), "{cases:?}");
    assert_eq!(junit(&there)[1].0, "call 1: a tone of 1000 Hz for 200ms");
}

#[test]
fn unmet_expectations_have_a_status_and_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    for (play, expect, words) in [
        ("tone:440", "tone:1000", "expected a tone of 1000 Hz for 200ms; heard -"),
        ("tone:440", "silence", "expected nothing above -50 dBFS; heard -"),
        ("silence", "audio", "expected anything above -50 dBFS; heard "),
        ("silence", "dtmf:123", "expected the keys 123; heard no keys"),
    ] {
        let file = folder.path().join("a.xml");
        let callee = Running::answer(&["--play", play]);
        let name = file.to_str().expect("text");
        let output = callee.call(&["--expect", expect, "--duration", "1s", "--junit", name]);
        assert_eq!(output.status.code(), Some(21), "{output:?}");
        assert!(said(&output).contains(words), "{output:?}");
        let expected = told(&output.stdout);
        assert_eq!(event(&expected, "expected")["met"], false);
        assert_eq!(event(&expected, "ended")["status"], 0);
        let cases = junit(&file);
        assert_eq!(cases[0], ("call 1".to_owned(), None));
        assert!(cases[1].1.as_ref().is_some_and(|text| text.contains(words)), "{cases:?}");
    }
}

#[test]
fn keys_of_the_caller_are_expected() {
    let callee = Running::answer(&["--expect", "dtmf:1#"]);
    let mut caller = Running::start(&["control"]);
    caller.types(&format!("{{\"command\":\"call\",\"uri\":\"{}\"}}\n", callee.uri()));
    caller.expect("answered");
    caller.types("{\"command\":\"press\",\"call\":1,\"keys\":\"1#\"}\n");
    caller.types("{\"command\":\"play\",\"call\":1,\"what\":\"tone:700\"}\n");
    // The second key event follows the first, and the call goes on.
    let mut callee = callee;
    assert_eq!(callee.expect("dtmf")["digit"], "1");
    assert_eq!(callee.expect("dtmf")["digit"], "#");
    caller.types("{\"command\":\"hang_up\",\"call\":1}\n");
    assert_eq!(callee.end().0, Some(0));
}

#[test]
fn a_failed_call_keeps_its_status_and_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.xml");
    let name = file.to_str().expect("text");
    let args = ["--listen", "127.0.0.1:0", "--expect", "audio", "--junit", name];
    let output = phone(&[&["call", "sip:bob@nowhere.invalid"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(15), "{output:?}");
    let cases = junit(&file);
    assert!(cases[0].1.as_ref().is_some_and(|text| text.contains("DNS")), "{cases:?}");
    assert_eq!(cases[1].1.as_deref(), Some("skipped"));
    // An unwritable file is reported before the call.
    let callee = Running::answer(&[]);
    let output = callee.call(&["--duration", "500ms", "--junit", "/no/such/folder/a.xml"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output).contains("/no/such/folder/a.xml"), "{output:?}");
}

#[test]
fn contradictory_expectations_are_refused() {
    for (args, text) in [
        (["--expect", "music"], "tone:1000"),
        (["--min-mos", "9"], "from 1 to 5"),
        (["--max-loss", "1"], "such as 1%"),
    ] {
        let output = phone(&[&["call", "sip:a@b"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains(text), "{output:?}");
    }
}

/// The recordings of the caller and of an answerer that rings with early media for a while: before
/// and after the answer.
fn heard_around_the_answer(callee_early: &[&str], caller_early: &[&str]) -> [(u32, Vec<i16>); 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let [here, there] = ["a.wav", "b.wav"].map(|name| folder.path().join(name));
    let [here_name, there_name] = [&here, &there].map(|path| path.to_str().expect("text"));
    let args = ["answer", "--calls", "1", "--play", "tone:440", "--record", there_name];
    let mut callee = Running::start(&[&args[..], callee_early].concat());
    let uri = callee.uri();
    let args = ["call", &uri, "--play", "tone:1000", "--record", here_name, "--duration", "1500ms"];
    let mut caller = Running::start_caller(&[&args[..], caller_early].concat());
    callee.expect("incoming");
    caller.expect("ringing");
    std::thread::sleep(std::time::Duration::from_secs(1));
    callee.types("\n");
    assert_eq!(caller.end().0, Some(0));
    assert_eq!(callee.end().0, Some(0));
    [recorded(&here), recorded(&there)]
}

/// The number of tenths of a second with this tone.
fn tenths_with(hertz: f64, (rate, samples): &(u32, Vec<i16>)) -> usize {
    let tenths = samples.chunks_exact(*rate as usize / 10);
    tenths.filter(|tenth| amplitude_of(hertz, *rate, tenth) > 8000.0).count()
}

#[test]
fn only_early_media_is_played_before_the_answer() {
    let [here, there] = heard_around_the_answer(&["--early"], &["--early"]);
    // One second before the answer, and one and a half after it.
    assert!(tenths_with(440.0, &here) >= 20, "{}", tenths_with(440.0, &here));
    assert!(tenths_with(1000.0, &there) >= 20, "{}", tenths_with(1000.0, &there));
    let [here, there] = heard_around_the_answer(&["--early"], &[]);
    assert!(tenths_with(440.0, &here) >= 20);
    let after = tenths_with(1000.0, &there);
    assert!((10..=16).contains(&after), "{after}");
    let [here, there] = heard_around_the_answer(&[], &[]);
    for (heard, hertz) in [(here, 440.0), (there, 1000.0)] {
        let after = tenths_with(hertz, &heard);
        assert!((10..=16).contains(&after), "{hertz}: {after}");
    }
}

#[test]
fn a_file_begins_with_its_first_sample_at_the_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("play.wav");
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 8000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&path, spec).expect("a file");
    let mut tone = Vec::new();
    media::tone::Tone::new(500.0, 8000, 16_000).fill(2400, &mut tone);
    tone.iter().for_each(|sample| writer.write_sample(*sample).expect("written"));
    writer.finalize().expect("written");
    let heard = folder.path().join("heard.wav");
    let args = ["answer", "--calls", "1", "--early", "--record", heard.to_str().expect("text")];
    let mut callee = Running::start(&args);
    let uri = callee.uri();
    let play = path.to_str().expect("text");
    let mut caller = Running::start_caller(&["call", &uri, "--play", play, "--duration", "1s"]);
    caller.expect("ringing");
    std::thread::sleep(std::time::Duration::from_millis(600));
    callee.types("\n");
    assert_eq!(caller.end().0, Some(0));
    assert_eq!(callee.end().0, Some(0));
    // The whole file was heard, although ringing lasted longer than the file.
    let energy = |rate: u32, samples: &[i16]| {
        samples.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / f64::from(rate)
    };
    let (rate, heard) = recorded(&heard);
    let share = energy(rate, &heard) / energy(8000, &tone);
    assert!((0.95..1.05).contains(&share), "{share}");
}
