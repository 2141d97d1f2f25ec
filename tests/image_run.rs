//! The commands of docs/bare-machine.md that try server and phone in QEMU's user network, word for
//! word.

use peers::bare_phone::{LOOK, MENU};
use peers::folder::Folder;
use peers::image::lan::Lan;
use peers::process::{DEADLINE, Process, Program, built, wait_until};
use peers::pulse::Pulse;
use peers::tone::Recording;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../docs/bare-machine.md");
const IMAGE: Program = Program { name: "image", packages: "(none: it is a script)" };
const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };
/// The tone at the microphone of the phone in QEMU, in hertz.
const TONE: u32 = 600;
/// The time limit of a build by the script, if the images are not built yet.
const BUILD: Duration = Duration::from_secs(900);
/// Returns from pages to the log.
const TO_LOG: &str = "\x18";

/// A program with its output in a file.
struct Running {
    process: Process,
    folder: Folder,
}

impl Running {
    fn start(program: Program, mut command: Command, folder: Folder) -> Self {
        command.current_dir(folder.path()).env("BAREBELL_PHONE_PASSWORD", "secret");
        // Temporary folders of the script remain if it is killed.
        command.env("TMPDIR", folder.path());
        let process = Process::start(program, command, &folder.join("output.log"));
        Self { process, folder }
    }

    fn text(&self) -> String {
        let bytes = std::fs::read(self.folder.join("output.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the script has built the image and started QEMU, which writes `text` first.
    fn wait_for_boot(&mut self, text: &str) {
        let end = Instant::now() + BUILD;
        while !self.text().contains(text) {
            self.process.assert_running();
            assert!(Instant::now() < end, "not built and booted: {}", self.text());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn wait_for(&mut self, text: &str) {
        self.wait_for_times(text, 1);
    }

    fn wait_for_times(&mut self, text: &str, count: usize) {
        wait_until(&format!("{text:?} in the output, {count} times"), || {
            self.process.assert_running();
            (self.text().matches(text).count() >= count).then_some(())
        });
    }
}

/// The line of the page that starts with `start`, as a command with `program` in place of its first
/// word.
fn documented(start: &str, program: &Path) -> Command {
    let mut lines = PAGE.lines().filter(|line| line.starts_with(start));
    let line = lines.next().unwrap_or_else(|| panic!("the page has no command {start}"));
    let mut command = Command::new(program);
    command.args(line.split_whitespace().skip(1));
    command
}

/// A command of the page that runs the script `image`. `home` contains the settings of ALSA.
fn image(line: &str, home: &Folder) -> Command {
    assert!(PAGE.lines().any(|other| other == line), "the page has the command {line}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder");
    let mut command = documented(line, &root.join("image"));
    // The script builds the image.
    if let Some(old) = std::env::var_os("HOME") {
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(name).is_none() {
                command.env(name, Path::new(&old).join(folder));
            }
        }
    }
    command.env("HOME", home.path()).env_remove("PULSE_SERVER").env_remove("XDG_RUNTIME_DIR");
    command
}

fn phone(start: &str, folder: &str) -> Running {
    let program = built(PHONE.name, "BAREBELL_PHONE");
    Running::start(PHONE, documented(start, &program), Folder::new(folder))
}

/// A call from bob to alice, until alice hangs up.
fn call_from_bob() -> Running {
    let mut command = Command::new(built(PHONE.name, "BAREBELL_PHONE"));
    command.args(["call", "sip:alice@127.0.0.1", "--account", "bob@127.0.0.1"]);
    command.args(["--listen", "127.0.0.1:5090"]);
    Running::start(PHONE, command, Folder::new("bob-calls"))
}

#[test]
fn the_documented_commands_work_and_sound_goes_both_ways() {
    let _lan = Lan::open();
    let home = Folder::new("image-home");
    let pulse = Pulse::start(&home, TONE);
    home.write(".asoundrc", &(pulse.asoundrc() + &pulse.default_device()));

    let server = image("./image run", &home);
    let mut server = Running::start(IMAGE, server, Folder::new("image-server"));
    server.wait_for_boot("without an operating system");
    server.wait_for("ready: SIP");
    let mut bob = phone("./phone answer", "bob");
    wait_until("the registration of bob", || {
        bob.process.assert_running();
        bob.text().contains("registered").then_some(())
    });

    // The tone of alice comes back from bob.
    let mut alice = phone("./phone call", "alice");
    let status = alice.process.wait(DEADLINE).expect("the call ends");
    assert!(status.success(), "{status}: {}", alice.text());
    let heard = Recording::read(&alice.folder.join("heard.wav")).expect("the call was recorded");
    assert!(heard.tone_ms(1000) > 2000, "{} ms of the tone came back", heard.tone_ms(1000));

    // The tone at the microphone of the phone in QEMU comes back from bob to its loudspeaker.
    let command = image("./image run phone", &home);
    let mut bare = Running::start(IMAGE, command, Folder::new("image-phone"));
    let mut keys = bare.process.take_input();
    let mut press = |keys_to_press: &str| {
        for byte in keys_to_press.bytes() {
            keys.write_all(&[byte]).expect("QEMU accepts keys");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    bare.wait_for_boot("without an operating system");
    bare.wait_for("address 10.0.2.15/24");
    press(&format!("{LOOK}{MENU}aalice@127.0.0.1\tsecret\t10.0.2.2\r{TO_LOG}"));
    bare.wait_for("registered for");
    press(&format!("{LOOK}{MENU}cbob@127.0.0.1\r{TO_LOG}"));
    bare.wait_for("the call is established");
    wait_until("the tone at the loudspeaker", || {
        bare.process.assert_running();
        pulse.recording().filter(|recording| recording.tone_ms(TONE) > 1000)
    });
    press(&format!("{LOOK}{MENU}th{TO_LOG}"));
    bare.wait_for("the call has ended: hung up here");

    // A call reaches it at once after it has hung up, and so does another one.
    // Its screen repeats lines of the log, so the calling phone tells the progress.
    for _ in 0..2 {
        let mut caller = call_from_bob();
        caller.wait_for("it rings");
        press(&format!("{LOOK}\r{TO_LOG}"));
        caller.wait_for("in a call with");
        press(&format!("{LOOK}{MENU}th{TO_LOG}"));
        let status = caller.process.wait(DEADLINE).expect("the call ends");
        assert!(status.success(), "{status}: {}", caller.text());
    }
}
