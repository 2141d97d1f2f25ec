//! The place where commands of the documents run: a folder that looks like the repository with
//! everything built, in namespaces of its own, with a home, a data directory and a DNS.

use crate::page::root;
use peers::process::built;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The programs of ours, each with the variable that names another file.
pub(crate) const PROGRAMS: [(&str, &str); 3] = [
    ("barebell", "BAREBELL_BIN"),
    ("barebell-phone", "BAREBELL_PHONE_BIN"),
    ("barebell-bench", "BAREBELL_BENCH"),
];

/// Stand-ins: for what builds, since everything is built, and for what installs.
const STAND_INS: [(&str, &str); 6] = [
    ("phone", "exec target/release/barebell-phone \"$@\""),
    ("test", "exit 0"),
    ("bin/sudo", "[ \"$1\" != -u ] || shift 2\nexec \"$@\""),
    ("bin/tshark", "[ \"$1\" = -r ] && test -s \"$2\""),
    ("bin/apt", "[ \"$1\" = install ]"),
    (
        "bin/cargo",
        "case \"$*\" in\n'run --release') exec target/release/barebell ;;\n'build --release '*) ;;\n*) exit 2 ;;\nesac",
    ),
];

/// What is done before the commands: addresses of examples are this machine's, `example.org` leads
/// there, and data of root's is in memory.
const SETTING: &str = r#"set -euo pipefail
set -m
ip link set lo up
for address in 192.0.2.5 192.0.2.7; do ip address add $address/32 dev lo; done
mount -t tmpfs tmpfs /var/lib
echo 'nameserver 127.0.0.1' > "$STAGE/resolv.conf"
mount --bind "$STAGE/resolv.conf" /etc/resolv.conf
dnsmasq --no-resolv --no-hosts --bind-interfaces --listen-address=127.0.0.1 --address=/example.org/192.0.2.7 --pid-file=
cd "$STAGE/repository"
export HOME="$STAGE/home" PATH="$STAGE/repository/bin:$STAGE/repository/target/release:$PATH"
place=
started=
trap 'echo "FAILED: $place" >&2' ERR

# Waits until the program $1 that writes to $2 has said something and no more for a while.
settle() {
    before=-1
    for _ in $(seq 40); do
        sleep 0.5
        kill -0 "$1" 2>/dev/null || { cat "$2" >&2; echo "FAILED: $place: it has ended" >&2; exit 1; }
        now=$(stat --format=%s "$2")
        [ "$now" != "$before" ] || [ "$now" = 0 ] || return 0
        before=$now
    done
}

# Ends what this block has started: each has a process group of its own (set -m).
end_block() {
    for pid in $started; do kill -- "-$pid" 2>/dev/null || true; done
    for pid in $started; do wait "$pid" 2>/dev/null || true; done
    started=
}
"#;

/// Runs `script` after the [`SETTING`], for at most five minutes.
pub(crate) fn play(script: &str) -> Output {
    let stage = tempfile::tempdir().expect("a folder");
    let repository = stage.path().join("repository");
    build(&repository);
    std::fs::create_dir(stage.path().join("home")).expect("a home");
    let file = stage.path().join("script");
    std::fs::write(&file, format!("{SETTING}{script}")).expect("a script");
    let mut command = Command::new("timeout");
    command.args(["300", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]);
    command.arg("--mount-proc");
    // SAFETY: it has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("bash").arg(&file).env("STAGE", stage.path());
    command.stdin(Stdio::null()).output().expect("unshare and timeout")
}

/// Makes the folder that looks like the repository.
fn build(repository: &Path) {
    let release = repository.join("target/release");
    std::fs::create_dir_all(&release).expect("a folder");
    std::fs::create_dir(repository.join("bin")).expect("a folder");
    let stand_ins: Vec<PathBuf> = STAND_INS.iter().map(|(name, _)| repository.join(name)).collect();
    for entry in root().read_dir().expect("the repository") {
        let entry = entry.expect("an entry");
        let link = repository.join(entry.file_name());
        if !stand_ins.contains(&link) && !link.exists() {
            symlink(entry.path(), link).expect("a link");
        }
    }
    for (program, variable) in PROGRAMS {
        symlink(built(program, variable), release.join(program)).expect("a link");
    }
    for (path, (_, text)) in stand_ins.iter().zip(STAND_INS) {
        std::fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}
