//! The images in QEMU.

use super::lab::TAPS;
use crate::seeds::softphone::{HEARD, OUTPUT, Running};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// A machine to boot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine<'a> {
    pub(super) qemu: &'a Path,
    pub(super) image: &'a Path,
    /// The network namespace, if it is another one.
    pub(super) namespace: Option<&'a str>,
    /// Its place among the machines of a LAN: its interface.
    pub(super) number: usize,
    pub(super) address: Ipv4Addr,
    pub(super) gateway: Ipv4Addr,
    /// The options on its command line, beside its addresses.
    pub(super) options: &'a str,
    /// True with a sound device. Its output is recorded.
    pub(super) has_sound: bool,
    pub(super) folder: &'a Path,
}

impl Machine<'_> {
    /// Returns the command: KVM where it works, TCG otherwise.
    pub(super) fn command(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(name) = self.namespace {
            words.extend(["ip", "netns", "exec", name].map(str::to_owned));
        }
        words.push(self.qemu.display().to_string());
        // QEMU transmits the packets of the card e1000 at once, so that RTP leaves evenly.
        let card = if self.has_sound { "e1000" } else { "virtio-net-pci" };
        let line = format!(
            "-accel kvm -accel tcg -cpu max,-arch-capabilities -machine pc -m 64 -nodefaults -no-user-config \
             -no-reboot -display none -serial stdio \
             -netdev tap,id=net,ifname={},script=no,downscript=no \
             -device {card},netdev=net,romfile=,mac=52:54:00:78:00:{:02x}",
            TAPS[self.number], self.number
        );
        words.extend(line.split_whitespace().map(str::to_owned));
        if self.has_sound {
            let line = format!(
                "-device intel-hda -device hda-duplex,audiodev=sound -audiodev \
                 wav,id=sound,path={},out.frequency=8000,out.channels=1",
                self.folder.join(HEARD).display()
            );
            words.extend(line.split_whitespace().map(str::to_owned));
        }
        let addresses = format!("address={}/24 gateway={}", self.address, self.gateway);
        words.extend(["-kernel".to_owned(), self.image.display().to_string()]);
        words.extend(["-append".to_owned(), format!("{addresses} {}", self.options)]);
        words
    }

    /// Boots it, with the serial line in the file of output.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn start(&self) -> io::Result<Running> {
        fs::create_dir_all(self.folder)?;
        let words = self.command();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Running::start(command, self.folder, "")
    }
}

/// Returns the text on the serial line so far.
pub(super) fn console(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join(OUTPUT)).unwrap_or_default()).into_owned()
}

/// Returns true if this user can use KVM.
pub(super) fn has_kvm() -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Returns the path of the image `name`: in the named folder, beside this program, or where
/// `./image build` puts it.
pub(crate) fn find_image(name: &str, named: Option<&Path>) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent);
    let mut folders: Vec<PathBuf> = Vec::new();
    match (named, beside) {
        (Some(named), _) => folders.push(named.to_owned()),
        (None, beside) => {
            folders.extend(beside.map(Path::to_owned));
            folders.extend(beside.map(|folder| folder.join("../image")));
            folders.push(PathBuf::from("target/image"));
        }
    }
    folders.into_iter().map(|folder| folder.join(name)).find(|path| is_elf(path))
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    path.is_file() && read.is_ok() && start == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_in_the_named_folder_only_and_if_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("server"), b"\x7fELF...").unwrap();
        fs::write(folder.path().join("phone"), "#!/bin/sh\n").unwrap();
        let find = |name| find_image(name, Some(folder.path()));
        assert_eq!(find("server"), Some(folder.path().join("server")));
        assert_eq!(find("phone"), None);
    }
}
