//! The documents tell the truth: their commands run; their flags, subcommands, keys and sources
//! exist; their links lead somewhere.

mod commands;
mod counters;
mod flags;
mod keys;
mod links;
mod page;
mod paths;
mod stage;

use commands::run_page;

#[test]
fn the_commands_of_the_readme_run() {
    run_page("README.md");
}

#[test]
fn the_first_call_runs() {
    run_page("docs/first-call.md");
}

#[test]
fn the_commands_for_the_phone_run() {
    run_page("docs/phone.md");
}

#[test]
fn the_commands_for_operators_run() {
    for page in ["docs/running.md", "docs/configuration.md", "docs/security.md"] {
        run_page(page);
    }
}

#[test]
fn the_commands_for_measurements_and_bare_machines_run() {
    for page in ["docs/benchmark.md", "docs/report.md", "docs/bare-machine.md"] {
        run_page(page);
    }
}
