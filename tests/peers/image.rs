//! The bare-machine images in QEMU.

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

/// Locked by the running machine, which keeps a processor busy.
static TURN: Mutex<()> = Mutex::new(());

/// A boot medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The ELF file, loaded by QEMU.
    Elf,
    /// The ISO in a CD drive.
    Cd,
    /// The ISO on a USB stick.
    Stick,
    /// A qcow2 file as a virtual disk.
    Disk(PathBuf),
    /// The file named by DHCP, loaded by the network card's boot program or by UEFI.
    Network,
}

/// The firmware of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// SeaBIOS.
    Bios,
    /// OVMF.
    Uefi,
}

/// A machine to be started.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// The image: `server` or `phone`.
    pub image: &'a str,
    /// The boot medium.
    pub medium: Medium,
    /// The firmware.
    pub firmware: Firmware,
    /// The board: `pc` or `q35`.
    pub board: &'a str,
    /// A processor model of QEMU.
    pub processor: &'a str,
    /// The memory in MiB.
    pub memory: u32,
    /// The network card with its properties.
    pub card: &'a str,
    /// Additional arguments of QEMU, separated by spaces.
    pub others: &'a str,
    /// Boot options, if the image boots from the ELF file.
    pub options: &'a str,
    /// The home folder of QEMU, for the settings of ALSA, if not the default one.
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

/// A machine that runs on the network of this thread. It is stopped on drop.
#[derive(Debug)]
pub struct Running {
    pub(crate) process: Process,
    /// The input of the serial line.
    terminal: ChildStdin,
    monitor: Monitor,
    folder: Folder,
    /// The number of console bytes consumed by [`Running::wait_for`].
    seen: usize,
    _turn: MutexGuard<'static, ()>,
}

/// The file `name` that `./image build` has built: the ELF file of an image, or a file with its
/// name and an extension.
///
/// # Panics
/// The file does not exist.
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
    /// Starts the machine, after the machines of other tests have stopped.
    ///
    /// # Panics
    /// QEMU cannot be started.
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

    /// Starts the machine, and waits until the server is ready and answers.
    ///
    /// # Panics
    /// The server does not answer.
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
        // Benchmarks use other accelerators and cards.
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
            copied.expect("OVMF is installed; otherwise: sudo apt-get install ovmf");
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

/// Boots from `file`, attached read-only.
fn disk(command: &mut Command, file: &Path, format: &str, device: &str) {
    let drive = format!("if=none,id=disk,format={format},readonly=on,file={}", file.display());
    command.args(["-drive", &drive, "-device", &format!("{device},drive=disk,bootindex=0")]);
}

impl Running {
    /// The log file of the serial line.
    pub(crate) fn console_log(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// All output on the serial line.
    #[must_use]
    pub fn console(&self) -> String {
        let bytes = std::fs::read(self.console_log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for `text` on the serial line after the last match, and returns the output up to it.
    ///
    /// # Panics
    /// The text does not appear, or QEMU ends.
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

    /// Waits until the server is ready and answers.
    ///
    /// # Panics
    /// The server does not answer.
    pub fn wait_until_it_serves(&mut self) {
        self.wait_for(&format!("ready: SIP by UDP and TCP at {SERVER}"));
        self.wait_until_it_answers();
    }

    /// Waits until the server answers.
    ///
    /// # Panics
    /// The server does not answer.
    pub fn wait_until_it_answers(&mut self) {
        wait_until_answered(SERVER, &mut self.process);
    }

    /// Types keys at the terminal of the serial line.
    ///
    /// # Panics
    /// QEMU does not accept them.
    pub fn type_keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("QEMU accepts keys");
    }

    /// Starts the first entry of the boot menu without waiting for its timeout.
    pub fn start_from_menu(&mut self) {
        self.wait_for("Start the ");
        self.type_keys("\r");
    }

    /// The contents of the serial line's terminal.
    #[must_use]
    pub fn terminal(&self) -> vt100::Parser {
        let mut terminal = vt100::Parser::new(24, 80, 0);
        terminal.process(self.console().as_bytes());
        terminal
    }

    /// Plugs or unplugs the network cable.
    pub fn set_link(&mut self, is_up: bool) {
        self.ask("set_link", &json!({ "name": "card", "up": is_up }));
    }

    /// Presses a key on the keyboard, with its QEMU name.
    pub fn press(&mut self, key: &str) {
        let key = json!({ "type": "qcode", "data": key });
        self.ask("send-key", &json!({ "keys": [key] }));
    }

    /// Runs a command of the QEMU monitor.
    pub fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        self.process.assert_running();
        self.monitor.ask(command, arguments)
    }

    /// Replaces the code at the instruction pointer and continues with it.
    ///
    /// # Panics
    /// QEMU rejects it.
    pub fn go_on_with(&mut self, code: &[u8]) {
        let socket = self.folder.join("debugger");
        let command = format!("gdbserver unix:{},server=on,wait=off", socket.display());
        self.ask("human-monitor-command", &json!({ "command-line": command }));
        let stream = UnixStream::connect(&socket).expect("QEMU listens on the debugger socket");
        Debugger::new(stream).go_on_with(code);
    }

    /// Allows the machine to reboot instead of exiting.
    pub fn may_boot_again(&mut self) {
        self.ask("set-action", &json!({ "reboot": "reset", "watchdog": "reset" }));
    }

    /// A screenshot.
    ///
    /// # Panics
    /// QEMU takes no screenshot.
    #[must_use]
    pub fn picture(&mut self) -> Picture {
        let file = self.folder.join("picture");
        self.ask("screendump", &json!({ "filename": file }));
        Picture::read(&std::fs::read(&file).expect("the screenshot can be read"))
            .expect("the screenshot is a PPM file")
    }

    /// Copies the boot medium to a qcow2 file.
    ///
    /// # Panics
    /// QEMU rejects it.
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

    /// Resumes a machine that was started with `-S`.
    pub fn go_on(&mut self) {
        self.ask("cont", &json!({}));
    }
}
