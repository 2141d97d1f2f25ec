//! The images that boot without an operating system, in QEMU.

mod debugger;
pub mod lan;
mod monitor;
pub mod picture;
pub mod wire;

use crate::folder::Folder;
use crate::process::{Process, Program, built_by, create, wait_until};
use crate::server::wait_until_answered;
use debugger::Debugger;
use lan::{SERVER, TAP};
use monitor::Monitor;
use parking_lot::{Mutex, MutexGuard};
use picture::Picture;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};

const QEMU: Program = Program { name: "qemu-system-x86_64", packages: "qemu-system-x86" };
const FIRMWARE: &str = "/usr/share/OVMF";

/// Held by the machine that runs: it keeps a processor busy, whatever it does.
static TURN: Mutex<()> = Mutex::new(());

/// What a machine boots from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The ELF, which QEMU itself puts into memory.
    Elf,
    /// The ISO, in a CD drive.
    Cd,
    /// The ISO, on a USB stick.
    Stick,
    /// A file of the format qcow2, as a virtual machine's disk.
    Disk(PathBuf),
    /// What DHCP names, by the card's own program or by that of UEFI.
    Network,
}

/// What is between the machine and its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// SeaBIOS.
    Bios,
    /// OVMF.
    Uefi,
}

/// A machine, before it is switched on.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// What boots: `server` or `phone`.
    pub image: &'a str,
    /// What it boots from.
    pub medium: Medium,
    /// What is between.
    pub firmware: Firmware,
    /// `pc` or `q35`.
    pub board: &'a str,
    /// A processor that QEMU knows.
    pub processor: &'a str,
    /// MiB of memory.
    pub memory: u32,
    /// The network card, with its properties.
    pub card: &'a str,
    /// Further arguments of QEMU, with spaces between.
    pub others: &'a str,
    /// Options of what boots, where it boots from the ELF.
    pub options: &'a str,
    /// The home folder of QEMU, where it has to be another than ours: for the settings of ALSA.
    pub home: Option<&'a Path>,
}

impl Default for Machine<'_> {
    fn default() -> Self {
        Self {
            image: "server",
            medium: Medium::Elf,
            firmware: Firmware::Bios,
            board: "pc",
            processor: "max",
            memory: 32,
            card: "virtio-net-pci",
            others: "",
            options: "domain=barebell.test",
            home: None,
        }
    }
}

/// A machine that runs on the network of this thread. It is switched off when dropped.
#[derive(Debug)]
pub struct Running {
    pub(crate) process: Process,
    /// What is typed at the serial line.
    terminal: ChildStdin,
    monitor: Monitor,
    folder: Folder,
    /// Bytes of the console that [`Running::wait_for`] has gone by.
    seen: usize,
    _turn: MutexGuard<'static, ()>,
}

/// The file `name` that `./image build` has made of an image: its ELF, or what has that one's name
/// with an ending.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let (image, variable) = match name.starts_with("phone") {
        true => ("phone", "BAREBELL_PHONE_IMAGE"),
        false => ("server", "BAREBELL_IMAGE"),
    };
    let how = format!("./image build {image}");
    let file = built_by(&how, image, variable, &["image"]).with_file_name(name);
    assert!(file.is_file(), "there is no {}: build it with `{how}`", file.display());
    file
}

impl Machine<'_> {
    /// Switches it on. It waits until the machines of other tests are off.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start(&self) -> Running {
        let turn = TURN.lock();
        let folder = Folder::new("machine");
        let console = folder.join("console.log");
        create(&console);
        let mut process = Process::start(QEMU, self.command(&folder), &console);
        let stream = wait_until("the monitor of QEMU", || {
            process.assert_running();
            UnixStream::connect(folder.join("monitor")).ok()
        });
        let (monitor, terminal) = (Monitor::new(stream), process.take_input());
        Running { process, terminal, monitor, folder, seen: 0, _turn: turn }
    }

    /// Switches it on, and waits until it says that it serves, and answers.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn serve(&self) -> Running {
        let mut running = self.start();
        if matches!(self.medium, Medium::Cd | Medium::Stick | Medium::Disk(_)) {
            running.start_from_menu();
        }
        running.wait_until_it_serves();
        running
    }

    fn command(&self, folder: &Folder) -> Command {
        let mut command = QEMU.command();
        if let Some(home) = self.home {
            command.env("HOME", home);
        }
        // Figures are taken by other accelerators and cards, too.
        let of_setting = |name, usual: &str| std::env::var(name).unwrap_or(usual.to_owned());
        command.args(["-accel", &of_setting("ACCEL", "tcg")]);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-machine", self.board, "-cpu", &of_setting("CPU", self.processor)]);
        command.args(["-m", &self.memory.to_string(), "-display", "none", "-vga", "std"]);
        command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        let monitor = folder.join("monitor");
        command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", monitor.display()));
        command.arg("-netdev");
        command.arg(format!("tap,id=net,ifname={TAP},script=no,downscript=no"));
        let boot = match (&self.medium, self.firmware) {
            (Medium::Network, Firmware::Bios) => ",bootindex=0",
            (Medium::Network, Firmware::Uefi) => ",bootindex=0,romfile=",
            _ => ",romfile=",
        };
        command.args(self.others.split_whitespace());
        let card = of_setting("CARD", self.card);
        command.arg("-device").arg(format!("{card},id=card,netdev=net{boot}"));
        match &self.medium {
            Medium::Elf => {
                command.arg("-kernel").arg(built(self.image)).args(["-append", self.options]);
            }
            Medium::Cd => disk(&mut command, &self.iso(), "raw", "ide-cd"),
            Medium::Stick => {
                command.args(["-device", "qemu-xhci"]);
                disk(&mut command, &self.iso(), "raw", "usb-storage");
            }
            Medium::Disk(file) => disk(&mut command, file, "qcow2", "virtio-blk-pci"),
            Medium::Network => (),
        }
        if self.firmware == Firmware::Uefi {
            let variables = folder.join("variables");
            let copied = std::fs::copy(format!("{FIRMWARE}/OVMF_VARS_4M.fd"), &variables);
            copied.expect("OVMF; install it: sudo apt-get install ovmf");
            command.arg("-drive").arg(format!(
                "if=pflash,format=raw,unit=0,readonly=on,file={FIRMWARE}/OVMF_CODE_4M.fd"
            ));
            command
                .arg("-drive")
                .arg(format!("if=pflash,format=raw,unit=1,file={}", variables.display()));
        }
        command
    }

    fn iso(&self) -> PathBuf {
        built(&format!("{}.iso", self.image))
    }
}

/// Has it boot from `file`, which nobody writes to.
fn disk(command: &mut Command, file: &Path, format: &str, device: &str) {
    let drive = format!("if=none,id=disk,format={format},readonly=on,file={}", file.display());
    command.args(["-drive", &drive, "-device", &format!("{device},drive=disk,bootindex=0")]);
}

impl Running {
    /// The file of what was said on the serial line.
    pub(crate) fn console_log(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// All that was said on the serial line.
    #[must_use]
    pub fn console(&self) -> String {
        let bytes = std::fs::read(self.console_log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until this is said on the serial line, behind what was waited for before, and gives
    /// what was said until then.
    ///
    /// # Panics
    /// When it is not said, or QEMU ends.
    pub fn wait_for(&mut self, text: &str) -> String {
        wait_until(&format!("{text:?} on the serial line"), || {
            self.process.assert_running();
            let console = self.console();
            let new = console.get(self.seen..)?;
            let end = new.find(text)? + text.len();
            self.seen += end;
            Some(new[..end].to_owned())
        })
    }

    /// Waits until it says that it serves, and answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_it_serves(&mut self) {
        self.wait_for(&format!("ready: SIP by UDP and TCP at {SERVER}"));
        self.wait_until_it_answers();
    }

    /// Waits until it answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_it_answers(&mut self) {
        wait_until_answered(SERVER, &mut self.process);
    }

    /// Types this at the terminal of the serial line.
    ///
    /// # Panics
    /// When QEMU does not take it.
    pub fn type_keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("QEMU takes what is typed");
    }

    /// Has the boot loader start what is first in its menu, without waiting for the end of its
    /// patience.
    pub fn start_from_menu(&mut self) {
        self.wait_for("Start the ");
        self.type_keys("\r");
    }

    /// What the terminal of the serial line shows.
    #[must_use]
    pub fn terminal(&self) -> vt100::Parser {
        let mut terminal = vt100::Parser::new(24, 80, 0);
        terminal.process(self.console().as_bytes());
        terminal
    }

    /// Plugs the cable in, or out.
    pub fn set_link(&mut self, is_up: bool) {
        self.ask("set_link", &json!({ "name": "card", "up": is_up }));
    }

    /// Presses a key, as QEMU calls it, on the keyboard.
    pub fn press(&mut self, key: &str) {
        let key = json!({ "type": "qcode", "data": key });
        self.ask("send-key", &json!({ "keys": [key] }));
    }

    /// Has QEMU do what it calls `command`.
    pub fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        self.process.assert_running();
        self.monitor.ask(command, arguments)
    }

    /// Puts these bytes where the program is now, so that it does what they say.
    ///
    /// # Panics
    /// When QEMU does not.
    pub fn go_on_with(&mut self, code: &[u8]) {
        let socket = self.folder.join("debugger");
        let command = format!("gdbserver unix:{},server=on,wait=off", socket.display());
        self.ask("human-monitor-command", &json!({ "command-line": command }));
        let stream = UnixStream::connect(&socket).expect("QEMU's place for a debugger");
        Debugger::new(stream).go_on_with(code);
    }

    /// Lets it boot again where it would end.
    pub fn may_boot_again(&mut self) {
        self.ask("set-action", &json!({ "reboot": "reset", "watchdog": "reset" }));
    }

    /// What is on the screen now, as QEMU takes a picture of it.
    ///
    /// # Panics
    /// When it takes none.
    #[must_use]
    pub fn picture(&mut self) -> Picture {
        let file = self.folder.join("picture");
        self.ask("screendump", &json!({ "filename": file }));
        Picture::read(&std::fs::read(&file).expect("a picture")).expect("a PPM file")
    }

    /// Makes a file of the format qcow2 of what it has booted from.
    ///
    /// # Panics
    /// When QEMU does not.
    pub fn copy_disk(&mut self, target: &Path) {
        let arguments = json!({
            "device": "disk", "job-id": "copy", "sync": "full", "format": "qcow2", "target": target
        });
        self.ask("drive-backup", &arguments);
        wait_until("QEMU to copy the disk", || {
            let jobs = self.ask("query-block-jobs", &json!({}));
            jobs.as_array()?.is_empty().then_some(())
        });
    }

    /// Goes on where it was started with `-S`.
    pub fn go_on(&mut self) {
        self.ask("cont", &json!({}));
    }
}
