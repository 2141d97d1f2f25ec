//! The commands of a page, run one after the other.

use crate::page::{Block, Command, Page};
use crate::stage::play;
use std::fmt::Write;

/// How a command runs.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// It ends, and has to succeed.
    Ends,
    /// It stays until the end of its block.
    Stays,
    /// It is a screen, which needs a terminal, and stays until the end of its block.
    Screen,
    /// It is the server, and stays until the end of the page.
    Serves,
}

/// Runs all commands of `page` that no comment excludes.
pub(crate) fn run_page(page: &str) {
    let page = Page::read(page);
    let script = script(&page);
    if script.is_empty() {
        return;
    }
    let output = play(&script);
    assert!(
        output.status.success(),
        "{}: {}\n{}\n{}",
        page.path.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn script(page: &Page) -> String {
    let mut script = String::new();
    for block in page.blocks() {
        let commands = if block.not_run.is_some() { Vec::new() } else { block.commands() };
        if commands.is_empty() {
            continue;
        }
        write_block(&mut script, page, &block, &commands).expect("a string takes all");
    }
    script
}

fn write_block(
    script: &mut String,
    page: &Page,
    block: &Block<'_>,
    commands: &[Command],
) -> std::fmt::Result {
    let (path, line) = (page.path.display(), block.line);
    let text = block.lines.join("\n");
    let calls_an_example = text.contains("@192.0.2.7") || text.contains("@example.org");
    if calls_an_example && !commands.iter().any(|command| kind(&command.text) == Kind::Stays) {
        let echo = "barebell-phone answer --auto --echo --listen 192.0.2.7:5060";
        writeln!(script, "place='{path}:{line}: the called phone'")?;
        write_start(script, echo, Kind::Stays)?;
    }
    for Command { line, text } in commands {
        writeln!(script, "place='{path}:{line}'\necho \"$place\"")?;
        match kind(text) {
            Kind::Ends => writeln!(script, "{text}")?,
            kind => write_start(script, text, kind)?,
        }
    }
    writeln!(script, "end_block")
}

/// Starts a command that stays.
fn write_start(script: &mut String, text: &str, kind: Kind) -> std::fmt::Result {
    let command = uncommented(text);
    let command = match kind {
        Kind::Screen => format!("script --quiet --return --command '{command}' /dev/null"),
        _ => command.to_owned(),
    };
    writeln!(script, "log=$(mktemp)\n{{ {command}\n}} > \"$log\" 2>&1 < <(sleep 300) &")?;
    if kind != Kind::Serves {
        writeln!(script, "started=\"$started $!\"")?;
    }
    writeln!(script, "settle $! \"$log\"")
}

fn kind(command: &str) -> Kind {
    let words: Vec<&str> = uncommented(command)
        .split_whitespace()
        .skip_while(|word| word.contains('=') && !word.starts_with('-'))
        .collect();
    match words[..] {
        ["cargo", "run", ..] => Kind::Serves,
        ["./phone" | "barebell-phone", "answer", ..] | ["baresip" | "linphonec", ..] => Kind::Stays,
        ["./phone" | "barebell-phone"] => Kind::Screen,
        ["./phone" | "barebell-phone", flag, ..] if flag.starts_with("--") => Kind::Screen,
        _ => Kind::Ends,
    }
}

/// The command without the comment behind it.
fn uncommented(command: &str) -> &str {
    command.split_once("  #").map_or(command, |(command, _)| command).trim()
}

#[test]
fn kinds_of_commands_are_told_apart() {
    for (command, expected) in [
        ("cargo run --release     # starts", Kind::Serves),
        ("A=b ./phone answer --auto", Kind::Stays),
        ("HOME=~/x linphonec -c y", Kind::Stays),
        ("./phone      # the screen", Kind::Screen),
        ("barebell-phone --play tone:1000", Kind::Screen),
        ("barebell-phone call sip:a@b", Kind::Ends),
        ("sudo apt install x", Kind::Ends),
    ] {
        assert_eq!(kind(command), expected, "{command}");
    }
}
