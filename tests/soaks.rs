//! Short forms of the long runs in `soak`: random relayed calls, random calls through the B2BUA,
//! and calls with a refresh every 90 seconds.

use peers::process::built;
use std::process::Command;

fn run(program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    // Its file is not where those of tests are, from which it would find these.
    for (name, variable) in [("barebell", "BAREBELL_BIN"), ("barebell-phone", "BAREBELL_PHONE_BIN")]
    {
        command.env(variable, built(name, variable));
    }
    let status = command.args(arguments).status();
    assert!(status.expect("the program starts").success(), "see its output");
}

#[test]
fn nothing_is_left_of_random_relayed_calls() {
    // Longer than the time after which the memory of the server is compared.
    run(env!("CARGO_BIN_EXE_relay-soak"), &["1000", "120"]);
}

#[test]
fn nothing_is_left_of_random_calls_through_the_b2bua() {
    run(env!("CARGO_BIN_EXE_call-soak"), &["60"]);
}

#[test]
fn sessions_of_ninety_seconds_are_refreshed_on_both_legs() {
    run(env!("CARGO_BIN_EXE_refresh-soak"), &["100"]);
}
