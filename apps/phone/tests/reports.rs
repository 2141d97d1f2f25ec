//! RTCP reports between the ends of a call, and the times of the SRTP steps.

mod processes;

use processes::{Running, event, said, told};

#[test]
fn both_ends_report_and_the_steps_of_srtp_are_measured() {
    let callee = Running::answer(&["--play", "tone:440"]);
    let output = callee.call(&["--srtp", "required", "--timings", "--duration", "8s"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = told(&output.stdout);
    let totals = &event(&told, "ended")["totals"];
    assert!(totals["round_trip_ms"].as_f64().is_some_and(|time| time < 1000.0), "{totals}");
    assert!(totals["far_loss_percent"].as_f64().is_some(), "{totals}");
    assert_eq!(totals["flow"], "both_ways");
    let timings = event(&told, "timings");
    let steps = timings["steps"].as_array().expect("steps");
    let of = |name: &str| steps.iter().find(|step| step["step"] == name).expect("it is there");
    for step in ["encryption", "decryption", "authentication", "replay", "header"] {
        assert!(of(step)["count"].as_u64().is_some_and(|count| count > 100), "{timings}");
    }
    assert_eq!(of("derivation")["count"], 2);
}

#[test]
fn the_delay_is_measured_against_an_echo() {
    for codec in ["opus", "PCMU"] {
        let callee = Running::answer(&["--echo", "--codecs", codec]);
        let output = callee.call(&["--play", "marks", "--duration", "5s"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output.stdout);
        let delay = event(&told, "ended")["totals"]["mouth_to_ear_ms"].as_f64();
        assert!(delay.is_some_and(|delay| delay > 0.0 && delay < 1000.0), "{codec}: {delay:?}");
    }
}

#[test]
fn the_delay_is_reported_only_if_audio_comes_back() {
    for (answers, is_measured) in [("--echo", true), ("--early", false)] {
        let callee = Running::answer(&[answers]);
        let args = ["call", &callee.uri(), "--listen", "127.0.0.1:0"];
        let output =
            processes::phone(&[&args[..], &["--play", "marks", "--duration", "5s"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = said(&output);
        assert_eq!(said.contains(", mouth to ear "), is_measured, "{said}");
    }
}
