//! Machines for a test: network namespaces on a bridge, optionally with an `sshd` of their own.

use nix::sched::{CloneFlags, setns};
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The timeout of waits.
const PATIENCE: Duration = Duration::from_secs(60);
const SSH_PORT: u16 = 17822;

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Waits until `look` returns a value.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "no {what} in {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A program that is killed with its process group at the end of the test.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let group = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.expect("ip is missing; install it: sudo apt-get install iproute2");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}; this test has to run as root");
}

/// A network of machines with the addresses 10.99.0.1, 10.99.0.2 and so on.
pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
    names: Vec<String>,
    daemons: Vec<Program>,
}

impl Lab {
    /// Returns a lab of `machines` machines. The bridge between them is in the first.
    pub(crate) fn new(machines: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut lab = Self { folder, names: Vec::new(), daemons: Vec::new() };
        for index in 0..machines {
            let name = format!("barebell-{}-{number}-{index}", std::process::id());
            ip(&format!("netns add {name}"));
            lab.names.push(name);
            let name = &lab.names[index];
            let first = &lab.names[0];
            ip(&format!("-n {name} link set lo up"));
            let own = if index == 0 {
                ip(&format!("-n {first} link add bridge type bridge forward_delay 0"));
                "bridge"
            } else {
                ip(&format!(
                    "link add veth{index} netns {first} type veth peer name eth0 netns {name}"
                ));
                ip(&format!("-n {first} link set veth{index} master bridge up"));
                "eth0"
            };
            ip(&format!("-n {name} address add {}/24 dev {own}", Self::address(index)));
            ip(&format!("-n {name} link set {own} up"));
        }
        lab
    }

    /// Returns the address of machine `index`.
    pub(crate) fn address(index: usize) -> String {
        format!("10.99.0.{}", index + 1)
    }

    /// Returns the command of `program` on machine `index`.
    pub(crate) fn command(&self, index: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[index], program]);
        command
    }

    /// Starts a thread on machine `index`.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        index: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let namespace = File::open(Path::new("/run/netns").join(&self.names[index]));
        let namespace = namespace.expect("the namespace");
        thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("the right to enter it");
            work()
        })
    }

    /// Returns the ids of the agent processes on machine `index`.
    pub(crate) fn agents(&self, index: usize) -> Vec<i32> {
        let output = Command::new("ip").args(["netns", "pids", &self.names[index]]).output();
        let output = String::from_utf8(output.expect("ip").stdout).expect("numbers");
        let is_agent = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
            words.get(1) == Some(&&b"agent"[..])
        };
        output.lines().filter_map(|line| line.parse().ok()).filter(is_agent).collect()
    }

    /// Returns the folder for temporary files on the machines with an `sshd`.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    /// Starts an `sshd` on each of `machines`, and returns the `ssh` command that reaches them from
    /// all others.
    pub(crate) fn reach(&mut self, machines: &[usize]) -> String {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
            let status = command.status();
            let made = status.expect("ssh-keygen is missing: sudo apt-get install openssh-client");
            assert!(made.success());
        }
        let daemon = Path::new("/usr/sbin/sshd");
        assert!(daemon.exists(), "sshd is missing: sudo apt-get install openssh-server");
        fs::create_dir(self.temporary()).expect("a folder");
        let settings = format!(
            "Port {SSH_PORT}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PidFile none\nSetEnv TMPDIR={}\n",
            path("host"),
            path("user.pub"),
            self.temporary().display()
        );
        fs::write(path("sshd_config"), settings).expect("a file");
        let settings = format!(
            "Host *\nPort {SSH_PORT}\nIdentityFile {}\nIdentitiesOnly yes\n\
             StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
            path("user")
        );
        fs::write(path("ssh_config"), settings).expect("a file");
        // sshd needs a folder that only its service creates, so it gets a /run of its own.
        let start = format!(
            "mount -t tmpfs none /run && mkdir /run/sshd && exec {} -D -f {}",
            daemon.display(),
            path("sshd_config")
        );
        for &index in machines {
            let mut command = self.command(index, "sh");
            command.args(["-c", &start]).stdin(Stdio::null());
            let daemon = Program::start(&mut command);
            self.daemons.push(daemon);
            let address = format!("{}:{SSH_PORT}", Self::address(index));
            self.spawn(0, move || until("sshd", || TcpStream::connect(&address).ok()))
                .join()
                .expect("an sshd that listens");
        }
        format!("ssh -F {}", path("ssh_config"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.daemons.clear();
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}
