//! A scripted call by barebell-phone and sipx-cli: start, size, CPU time and memory.

use crate::setting;
use crate::table::{Table, figure, median, write};
use peers::folder::Folder;
use peers::process::{Process, Program, built, cost, wait_until};
use peers::tone::write_tone;
use peers::transport::Transport;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::ports::free_ports;

const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };
const SIPX: Program = Program { name: "sipx", packages: "(none: cargo install sipx-cli)" };
/// The numbers of starts and of calls of each program.
const STARTS: usize = 41;
const CALLS: u64 = 11;

/// A program that calls from the command line.
struct Caller {
    name: &'static str,
    program: Program,
    binary: PathBuf,
    /// The arguments of a start without a call.
    start: &'static str,
    call: Vec<String>,
}

/// Measures, and writes `script.md`. The variable `SIPX` names the program sipx.
pub(crate) fn measure(folder: &Path) {
    let own = Folder::new("script");
    let port = free_ports(1);
    let uri = format!("sip:me@127.0.0.1:{port}");
    let sound = own.join("tone.wav");
    write_tone(&sound, 440, 10);
    let binary = built(PHONE.name, "BAREBELL_PHONE_BIN");
    let mut command = Command::new(&binary);
    command.args(["answer", "--auto", "--play", "tone:1000", "--codecs", "PCMU"]);
    command.args(["--srtp", "off", "--listen", &format!("127.0.0.1:{port}")]);
    let answers = Process::start(PHONE, command, &own.join("answer.log"));
    wait_until("the phone to listen", || {
        Transport::Udp.is_listening(Ipv4Addr::LOCALHOST, port).then_some(())
    });
    let words = |text: &str| -> Vec<String> {
        let text = text.replace("SOUND", &sound.display().to_string()).replace("URI", &uri);
        text.split_whitespace().map(str::to_owned).collect()
    };
    let mut callers = vec![Caller {
        name: "ours",
        program: PHONE,
        binary,
        start: "--version",
        call: words(
            "call URI --json --codecs PCMU --srtp off --play SOUND --record heard.wav --duration 3s",
        ),
    }];
    match std::env::var_os("SIPX") {
        Some(binary) => callers.push(Caller {
            name: "sipx-cli",
            program: SIPX,
            binary: binary.into(),
            start: "version",
            call: words(
                "--json dial URI --local 127.0.0.1:0 --codec pcmu --media-security plain \
                 --play SOUND --record heard.wav --duration 3",
            ),
        }),
        None => eprintln!("SIPX is not set: the row of sipx is omitted"),
    }
    let mut starts = vec![Vec::new(); callers.len()];
    let mut calls = vec![Vec::new(); callers.len()];
    for _ in 0..STARTS {
        for (caller, starts) in callers.iter().zip(&mut starts) {
            let mut command = Command::new(&caller.binary);
            command.arg(caller.start);
            starts.push(cost(caller.program, command));
        }
    }
    for _ in 0..setting("CALLS", CALLS) {
        for (caller, calls) in callers.iter().zip(&mut calls) {
            let mut command = Command::new(&caller.binary);
            command.args(&caller.call).current_dir(own.path());
            // sipx-cli does not overwrite a file.
            let _ = std::fs::remove_file(own.join("heard.wav"));
            calls.push(cost(caller.program, command));
        }
    }
    drop(answers);
    let mut table = Table::new(&[
        "program",
        "#size, MB",
        "#start, ms",
        "#CPU of a start, ms",
        "#CPU of a call of 3 s, ms",
        "#memory, MB",
    ]);
    let size = |path: &Path| path.metadata().map(|file| file.len() as f64 / 1e6).ok();
    for ((caller, starts), calls) in callers.iter().zip(&starts).zip(&calls) {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        table.row([
            caller.name.to_owned(),
            figure(size(&caller.binary), 1),
            figure(median(starts.iter().map(|start| ms(start.elapsed)).collect()), 1),
            figure(median(starts.iter().map(|start| ms(start.cpu)).collect()), 1),
            figure(median(calls.iter().map(|call| ms(call.cpu)).collect()), 1),
            figure(median(calls.iter().map(|call| call.memory as f64 / 1e6).collect()), 1),
        ]);
    }
    write(folder, "script.md", table.text());
}
