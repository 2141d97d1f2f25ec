//! Scripts: each kind of step, passing and failing.

mod processes;

use processes::{Running, event, junit, phone, said, told};
use std::path::PathBuf;

/// A script in a temporary folder.
struct Script {
    _folder: tempfile::TempDir,
    path: PathBuf,
    junit: PathBuf,
}

impl Script {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, junit] = ["script.toml", "a.xml"].map(|name| folder.path().join(name));
        std::fs::write(&path, text).expect("a script");
        Self { _folder: folder, path, junit }
    }

    fn args(&self) -> Vec<&str> {
        let [path, junit] = [&self.path, &self.junit].map(|path| path.to_str().expect("text"));
        vec!["run", path, "--junit", junit]
    }

    fn run(&self) -> std::process::Output {
        phone(&[&self.args()[..], &["--listen", "127.0.0.1:0", "--json"]].concat())
    }
}

/// A script with the steps `text`, written in an array.
fn steps(text: &str) -> Script {
    Script::new(&format!("timeout = \"5s\"\nsteps = [\n{text}\n]\n"))
}

#[test]
fn the_example_in_the_documentation_runs() {
    let docs = include_str!("../../../docs/phone.md");
    let section = docs.split("## Scripts").nth(1).expect("the section");
    let example = section.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.expect("the example");
    let callee =
        Running::answer(&["--play", "tone:440", "--expect", "dtmf:12#", "--expect", "tone:1000"]);
    assert!(example.contains("192.0.2.7:5070"));
    let script = Script::new(&example.replace("192.0.2.7:5070", &callee.address));
    let output = script.run();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = told(&output.stdout);
    let passed = told.iter().filter(|told| told["event"] == "step" && told["state"] == "passed");
    assert_eq!(passed.count(), 9);
    let first = event(&told, "step");
    assert_eq!(
        (&first["step"], &first["line"], &first["state"]),
        (&1.into(), &5.into(), &"begun".into())
    );
    let cases = junit(&script.junit);
    assert!(cases.len() == 9 && cases.iter().all(|(_, failure)| failure.is_none()), "{cases:?}");
    assert_eq!(callee.end().0, Some(0));
}

#[test]
fn two_scripts_talk_to_each_other() {
    let callee = steps(
        "{ expect_call = \"sip:anonymous@*\", call = \"c\" }, { answer = true }, { expect_keys = \"12#\" },
         { expect_tone = 1000 }, { expect_silence = true }, { play = \"tone:440\" },
         { expect_message = \"*bye*\" }, { expect_end = \"peer\", call = \"c\" }",
    );
    let mut there = Running::start(&callee.args());
    let uri = there.uri();
    let caller = steps(&format!(
        "{{ dial = \"{uri}\" }}, {{ press = \"12#\" }}, {{ play = \"tone:1000\" }}, {{ wait = \"1s\" }},
         {{ play = \"silence\" }}, {{ expect_audio = true }}, {{ expect_tone = 440 }},
         {{ message = \"{uri}\", text = \"good bye now\" }}, {{ hang_up = true }}"
    ));
    let output = caller.run();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    there.expect("ended");
    let (code, said) = there.end();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn steps_that_fail_say_which_and_why() {
    for (step, words) in [
        ("{ expect_tone = 1000, within = \"1s\" }", "not within 1s: heard -"),
        ("{ expect_silence = true, within = \"1500ms\" }", "not within 1s 500ms: heard -"),
        ("{ expect_keys = \"1\", within = \"500ms\" }", "no key was pressed"),
        ("{ expect_end = \"peer\", within = \"500ms\" }", "the call goes on"),
        ("{ expect_message = \"x\", within = \"500ms\" }", "no message has come"),
        ("{ expect_call = \"*\", within = \"500ms\" }", "no call has come"),
        ("{ message = \"sip:\", text = \"x\" }", "sip:"),
        ("{ answer = true }", "does not ring here"),
        ("{ decline = 486 }", "ringing"),
        ("{ register = true }", "no account"),
        ("{ transfer = \"sip:c@127.0.0.1:9\" }", "answers 603"),
    ] {
        let callee = Running::answer(&["--play", "tone:440"]);
        let script =
            steps(&format!("{{ dial = \"{}\" }},\n{step},\n{{ wait = \"1s\" }}", callee.uri()));
        let output = script.run();
        assert_eq!(output.status.code(), Some(21), "{step}: {output:?}");
        let said = said(&output);
        assert!(said.contains("step 2 (line 4, ") && said.contains(words), "{step}: {said}");
        let told = told(&output.stdout);
        let failed = told
            .iter()
            .find(|told| told["event"] == "step" && told["state"] == "failed")
            .expect("a failed step");
        assert_eq!(failed["step"], 2);
        let cases = junit(&script.junit);
        assert!(cases[1].1.as_ref().is_some_and(|text| text.contains(words)), "{cases:?}");
        assert_eq!(cases[2].1.as_deref(), Some("skipped"));
    }
}

#[test]
fn silence_is_told_from_audio() {
    let callee = Running::answer(&[]);
    let uri = callee.uri();
    let output =
        steps(&format!("{{ dial = \"{uri}\" }}, {{ expect_audio = true, within = \"1s\" }}")).run();
    assert_eq!(output.status.code(), Some(21), "{output:?}");
    assert!(said(&output).contains("not within 1s: heard "), "{output:?}");
}

#[test]
fn a_call_that_is_not_taken_has_the_status_of_its_cause() {
    let callee = || {
        let script = steps("{ expect_call = \"*\" }, { decline = 486 }, { expect_end = \"any\" }");
        let running = Running::start(&script.args());
        (script, running)
    };
    let (_script, there) = callee();
    let output = steps(&format!("{{ dial = \"{}\" }}", there.uri())).run();
    assert_eq!(output.status.code(), Some(10), "{output:?}");
    assert!(said(&output).contains("step 1 (line 3, dial "), "{output:?}");
    assert_eq!(there.end().0, Some(0));
    // A rejection is no failure if it was expected.
    for (ending, code) in [("486", 0), ("603", 21), ("\"peer\"", 21), ("\"any\"", 0)] {
        let (_script, there) = callee();
        let steps = steps(&format!(
            "{{ dial = \"{}\", until = \"placed\" }}, {{ expect_end = {ending} }}",
            there.uri()
        ));
        let output = steps.run();
        assert_eq!(output.status.code(), Some(code), "{ending}: {output:?}");
        assert_eq!(there.end().0, Some(0));
    }
    let output = steps("{ dial = \"sip:bob@nowhere.invalid\" }").run();
    assert_eq!(output.status.code(), Some(15), "{output:?}");
}

#[test]
fn a_redirected_caller_reaches_the_named_phone() {
    let other = Running::answer(&["--play", "tone:1000"]);
    let steps_there =
        format!("{{ expect_call = \"*\" }}, {{ decline = 302, to = \"{}\" }}", other.uri());
    let there_script = steps(&steps_there);
    let there = Running::start(&there_script.args());
    let caller = format!("{{ dial = \"{}\" }}, {{ expect_tone = 1000 }}", there.uri());
    let output = steps(&caller).run();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(there.end().0, Some(0));
    assert_eq!(other.end().0, Some(0));
}

#[test]
fn wrong_keys_and_other_callers_fail_a_step() {
    let callee = steps("{ expect_call = \"*\" }, { answer = true }, { expect_keys = \"12\" }");
    let there = Running::start(&callee.args());
    let uri = there.uri();
    let caller = steps(&format!(
        "{{ dial = \"{uri}\" }}, {{ press = \"19\" }}, {{ expect_end = \"peer\" }}"
    ));
    caller.run();
    let (code, said) = there.end();
    assert_eq!(code, Some(21));
    assert!(said.contains("the keys 19 were pressed"), "{said}");

    let callee = steps("{ expect_call = \"sip:carol@*\", within = \"2s\" }");
    let there = Running::start(&callee.args());
    let uri = there.uri();
    let caller =
        steps(&format!("{{ dial = \"{uri}\", until = \"ringing\" }}, {{ expect_end = 480 }}"));
    caller.run();
    let (code, said) = there.end();
    assert_eq!(code, Some(21));
    assert!(said.contains("called: sip:anonymous@"), "{said}");
}

#[test]
fn calls_are_transferred_blindly_and_to_one_another() {
    // The caller follows: the party in the middle connects it to the third.
    let third = Running::answer(&["--play", "tone:700"]);
    let to = third.uri();
    let blind =
        format!("{{ expect_call = \"*\" }}, {{ answer = true }}, {{ transfer = \"{to}\" }}");
    let attended = |to: &str| {
        format!(
            "{{ expect_call = \"*\", call = \"first\" }}, {{ answer = true }}, {{ hold = true }},
             {{ dial = \"{to}\", call = \"second\" }}, {{ wait = \"200ms\" }},
             {{ transfer_to = \"second\", call = \"first\" }}"
        )
    };
    let run = |middle: String| {
        let middle = steps(&middle);
        let there = Running::start(&middle.args());
        let caller = steps(&format!(
            "{{ dial = \"{}\" }}, {{ expect_tone = 700 }}, {{ hang_up = true }}",
            there.uri()
        ));
        let output = caller.run();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let (code, said) = there.end();
        assert_eq!(code, Some(0), "{said}");
    };
    run(blind);
    assert_eq!(third.end().0, Some(0));
    let third = Running::start(&["answer", "--auto", "--calls", "2", "--play", "tone:700"]);
    run(attended(&third.uri()));
}

#[test]
fn an_invalid_script_is_refused_before_its_first_step() {
    let script = Script::new("steps = [\n  { dial = \"sip:a@b\" },\n  { hang_up = 1 },\n]\n");
    let output = script.run();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output).contains("script.toml:3:15: "), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let output = phone(&["run", "/no/such.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("/no/such.toml"), "{output:?}");
}
