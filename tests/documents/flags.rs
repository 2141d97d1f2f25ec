//! Every flag and subcommand of ours in the documents is in `--help`.

use crate::page::Page;
use crate::stage::PROGRAMS;
use peers::process::built;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Flags of other programs (`./image`, Valgrind) that pages name beside their commands.
const FOREIGN: [&str; 5] = ["--port", "--tool", "--table", "--num-threads", "--delete-delay"];

/// The flags of a program, by subcommand, such as `user add`; the program's own by the empty name.
type Help = BTreeMap<String, BTreeSet<String>>;

fn help(program: &str, variable: &str) -> Help {
    let binary = built(program, variable);
    let mut help = Help::new();
    let mut left = vec![String::new()];
    while let Some(path) = left.pop() {
        let output =
            Command::new(&binary).args(path.split_whitespace()).arg("--help").output().unwrap();
        assert!(output.status.success(), "{program} {path} --help");
        let text = String::from_utf8(output.stdout).unwrap();
        help.insert(path.clone(), flags(&text).map(str::to_owned).collect());
        let commands = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = commands
            .take_while(|line| line.starts_with("  "))
            .filter(|line| !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help");
        left.extend(names.map(|name| format!("{path} {name}").trim().to_owned()));
    }
    help
}

/// The words of `text` that are flags.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| {
        word.strip_prefix("--").is_some_and(|name| {
            name.len() > 1 && name.starts_with(|c: char| c.is_ascii_lowercase())
        })
    })
}

/// The subcommand that `words` begin with, and what follows it; `None` where they begin with a
/// word that is no subcommand.
fn subcommand<'w>(help: &Help, words: &'w [&'w str]) -> Option<(String, &'w [&'w str])> {
    let mut path = String::new();
    let mut left = words;
    while let [word, rest @ ..] = left {
        let longer = format!("{path} {word}").trim().to_owned();
        if !help.contains_key(&longer) {
            break;
        }
        (path, left) = (longer, rest);
    }
    let has_more = help.keys().any(|key| key.starts_with(&format!("{path} ")) || path.is_empty());
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let is_unknown =
        has_more && left.first().is_some_and(|word| is_word(word) && !word.starts_with('-'));
    (!is_unknown || path.is_empty() && words.is_empty()).then_some((path, left))
}

/// What is wrong with a command line of ours, from the program on.
fn fault(helps: &BTreeMap<&str, Help>, line: &str) -> Option<String> {
    let line = line.split_once("sudo -u barebell ").map_or(line, |(_, line)| line);
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.contains(&"cargo") {
        return None;
    }
    let at = words.iter().position(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        helps.contains_key(name) || *word == "./phone"
    })?;
    let name = words[at].rsplit('/').next().filter(|name| helps.contains_key(name));
    let help = &helps[name.unwrap_or("barebell-phone")];
    // A pipe ends it, and so does a comment.
    let own: Vec<&str> = words[at + 1..]
        .iter()
        .copied()
        .take_while(|word| !matches!(*word, "|" | "#" | "&&"))
        .collect();
    let Some((path, rest)) = subcommand(help, &own) else {
        return Some(format!("there is no such subcommand: {line}"));
    };
    let known = &help[&path];
    let unknown = rest.iter().flat_map(|word| flags(word)).find(|flag| !known.contains(*flag));
    unknown.map(|flag| format!("{flag} is no flag of `{} {path}`", words[at]))
}

#[test]
fn flags_and_subcommands_exist() {
    let helps: BTreeMap<&str, Help> =
        PROGRAMS.into_iter().map(|(name, variable)| (name, help(name, variable))).collect();
    let all: BTreeSet<&String> = helps.values().flat_map(BTreeMap::values).flatten().collect();
    assert!(all.len() > 50, "{all:?}");
    let mut faults = Vec::new();
    for page in Page::all() {
        if page.path.starts_with("docs/dev") || page.path.starts_with("CONTRIBUTING.md") {
            continue;
        }
        let mut note = |line: usize, text: String| {
            faults.push(format!("{}:{line}: {text}", page.path.display()));
        };
        for block in page.blocks() {
            for command in block.commands() {
                let text = command.text.replace("\\\n", " ");
                let is_of_ours = !text.contains("podman") && !text.contains("<<'");
                if let Some(fault) = fault(&helps, &text).filter(|_| is_of_ours) {
                    note(command.line, fault);
                }
            }
        }
        for (line, span) in page.spans() {
            if helps.keys().any(|name| span.starts_with(&format!("{name} "))) {
                if let Some(fault) = fault(&helps, span) {
                    note(line, fault);
                }
            } else if span.starts_with("--")
                && let Some(flag) = flags(span).find(|flag| !all.iter().any(|known| known == flag))
                && !FOREIGN.contains(&flag)
            {
                note(line, format!("{flag} is no flag of ours"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
