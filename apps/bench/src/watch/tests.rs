//! The watching of real processes, on this machine and through a real `ssh`.

use super::*;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program that is killed with its children at the end of the test.
struct Program(Child);

impl Program {
    fn shell(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        command.process_group(0);
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("a shell"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a process number")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Repeats `work` until `done` is true for the use since the start.
fn until(watcher: &Watcher, what: &str, mut done: impl FnMut(&Usage) -> bool) -> Usage {
    let first = watcher.mark().expect("a reading");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let now = watcher.mark().expect("a reading");
        let used = difference(&now.total, &first.total);
        if done(&used) {
            return used;
        }
        assert!(Instant::now() < end, "waited in vain for {what}: {used:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn this_machine_is_known() {
    let machine = machine();
    assert!(!machine.host.is_empty());
    assert!(machine.cores > 0);
    assert!(machine.memory > 1 << 20);
    assert!(machine.system.contains("Linux "), "{}", machine.system);
}

#[test]
fn subjects_are_read_and_written() {
    for (text, written) in [
        ("7", "pid 7"),
        ("7,8", "pid 7,8"),
        ("ssh:host:7", "ssh:host pid 7"),
        ("ssh:me@host:kamailio", "ssh:me@host kamailio"),
        ("ssh:[::1]:a-very-long-name-of-a-program", "ssh:::1 a-very-long-nam"),
    ] {
        assert_eq!(text.parse::<Subject>().map(|s| s.to_string()), Ok(written.to_owned()));
    }
    for text in
        ["", "0", "-1", "x", "ssh:", "ssh:host", "ssh::7", "ssh:-oX:7", "ssh:h:a'b", "ssh:h:"]
    {
        assert!(matches!(text.parse::<Subject>(), Err(WatchError::Subject(_))), "{text}");
    }
}

#[test]
fn children_are_watched_also_those_that_have_ended() {
    // The shell itself waits; its child is busy, and starts others that end.
    let busy = "n=0; while [ \\$n -lt 20000 ]; do n=\\$((n+1)); done";
    let shell =
        Program::shell(&format!("sh -c 'while :; do sh -c \"{busy}\"; done' & read end; kill $!"));
    let watcher = Watcher::start(&Subject::Local(vec![shell.pid()]), &Arc::default())
        .expect("a shell to watch");
    let used = until(&watcher, "half a second of work", |used| used.cpu_user_us > 500_000);
    assert!(used.context_switches > 0, "{used:?}");
    let before = watcher.mark().expect("a reading");
    let watched = watcher.finish();
    assert_eq!(watched.source, format!("pid {}", shell.pid()));
    assert!(watched.cores > 0);
    assert_eq!(watched.trouble, None);
    assert!(before.memory > 100_000, "{before:?}");
}

#[test]
fn drops_and_bytes_are_seen() {
    let pid = i32::try_from(std::process::id()).expect("a process number");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    let watcher = Watcher::start(&Subject::Local(vec![pid]), &Arc::default()).expect("ourselves");
    let used = until(&watcher, "a dropped datagram", |used| {
        for _ in 0..1000 {
            sender.send_to(&[0; 1000], address).expect("sent");
        }
        used.udp_drops > 0
    });
    assert!(used.received_bytes > 100_000 && used.sent_bytes > 100_000, "{used:?}");
}

#[test]
fn a_process_that_ends_is_reported() {
    let mut shell = Program::shell("read end");
    let pid = shell.pid();
    let watcher =
        Watcher::start(&Subject::Local(vec![pid]), &Arc::default()).expect("a shell to watch");
    let _ = shell.0.kill();
    let _ = shell.0.wait();
    assert_eq!(watcher.mark().map(|_| ()), Err(WatchError::Gone(pid)));
    while watcher.sampler.as_ref().is_some_and(|sampler| !sampler.is_finished()) {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(watcher.finish().trouble, Some(WatchError::Gone(pid)));
    let again = Watcher::start(&Subject::Local(vec![pid]), &Arc::default());
    assert_eq!(again.map(|_| ()).err(), Some(WatchError::Gone(pid)));
}

#[test]
fn measured_times_are_added_up() {
    let start = Instant::now() + Duration::from_secs(100);
    let reading = |seconds: u64, used: u64| Reading {
        at: start + Duration::from_secs(seconds),
        total: Usage { cpu_user_us: used, ..Usage::default() },
        memory: used * 10,
        others_us: seconds * 500_000,
    };
    let watched = Watched {
        source: "pid 7".to_owned(),
        cores: 2,
        samples: vec![
            (start, 1.0, Usage::default(), 5),
            (start + Duration::from_secs(15), 1.0, Usage::default(), 5000),
        ],
        last: None,
        trouble: None,
    };
    let measured = [(reading(10, 100), reading(20, 150)), (reading(30, 200), reading(40, 203))];
    let watch = assemble(&watched, &reading(5, 50), &measured, &[]);
    assert_eq!(watch.total.cpu_user_us, 53);
    assert_eq!(watch.others, Some(0.25), "10 s of 20 s on two processors");
    assert_eq!((watch.memory_before, watch.memory, watch.memory_max), (500, 2030, 5000));
    let at: Vec<f64> = watch.samples.iter().map(|sample| sample.at).collect();
    assert_eq!(at, [-10.0, 5.0]);
}

#[test]
fn samples_have_the_time_axis_of_the_measurement() {
    let start = Instant::now() + Duration::from_secs(100);
    let at = |millis: u64| start + Duration::from_millis(millis);
    let sample = |millis| (at(millis), 1.0, Usage::default(), millis);
    let mark = Reading { at: start, total: Usage::default(), memory: 0, others_us: 0 };
    let times = [500, 8_500, 9_000, 17_900, 19_000, 22_400, 30_000];
    let watched = Watched {
        source: "pid 7".to_owned(),
        cores: 2,
        samples: times.into_iter().map(sample).collect(),
        last: None,
        trouble: None,
    };
    let axis = |windows: &[Window]| -> Vec<f64> {
        let watch = assemble(&watched, &mark, &[(mark, mark)], windows);
        watch.samples.iter().map(|sample| sample.at).collect()
    };
    // A load that begins at once, with eight seconds before the measured time.
    let whole = [Window { start: at(8_000), at: 0.0, length: 10.0 }];
    assert_eq!(axis(&whole), [-7.5, 0.5, 1.0, 9.9, 11.0, 14.4, 22.0]);
    // Two passes of ten and five seconds, with a preparation of four seconds in between.
    let passes = [
        Window { start: at(8_000), at: 0.0, length: 10.0 },
        Window { start: at(22_000), at: 10.0, length: 5.0 },
    ];
    assert_eq!(axis(&passes), [-7.5, 0.5, 1.0, 9.9, 18.0]);
}

/// Returns an `ssh` command that reaches this machine through its own `sshd`, without a port.
fn ssh_to_ourselves(folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    for key in ["host", "user"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
        let status = command.status();
        let made = status.expect("ssh-keygen is missing: sudo apt-get install openssh-client");
        assert!(made.success());
    }
    let daemon = Path::new("/usr/sbin/sshd");
    assert!(daemon.exists(), "sshd is missing; install it: sudo apt-get install openssh-server");
    let settings = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n",
        path("host"),
        path("user.pub")
    );
    fs::write(folder.join("sshd_config"), settings).expect("a file");
    // As root, sshd needs a folder that only its service creates, so it gets a /run of its own.
    let start = format!(
        "exec=\"exec {} -i -f {}\"\n[ -d /run/sshd ] || [ $(id -u) -ne 0 ] || \\\n\
         exec unshare -m sh -c \"mount -t tmpfs none /run && mkdir /run/sshd && $exec\"\n$exec\n",
        daemon.display(),
        path("sshd_config")
    );
    fs::write(folder.join("start"), start).expect("a file");
    let settings = format!(
        "Host *\nIdentityFile {}\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nLogLevel ERROR\nProxyCommand sh {}\n",
        path("user"),
        path("start")
    );
    fs::write(folder.join("ssh_config"), settings).expect("a file");
    ["ssh".to_owned(), "-F".to_owned(), path("ssh_config")].to_vec()
}

#[test]
fn another_machine_is_watched_over_ssh() {
    let folder = tempfile::tempdir().expect("a folder");
    let ssh = ssh_to_ourselves(folder.path());
    let busy = Program::shell("while :; do n=$((n+1)); done");
    let subject = |what| Subject::Ssh { host: "there".to_owned(), what };
    let by_number = subject(Remotely::Pid(busy.pid()));
    let watcher = Watcher::start_by(&ssh, &by_number, &Arc::default()).expect("a shell to watch");
    let local =
        Watcher::start(&Subject::Local(vec![busy.pid()]), &Arc::default()).expect("the same shell");
    until(&watcher, "half a second of work", |used| {
        used.cpu_user_us + used.cpu_system_us > 500_000
    });
    // Both watchers read the same process, in turn.
    let use_of = |watcher: &Watcher| {
        let total = watcher.mark().expect("a reading").total;
        total.cpu_user_us + total.cpu_system_us
    };
    let (first, remote, last) = (use_of(&local), use_of(&watcher), use_of(&local));
    // The kernel updates the time of a running thread with each tick.
    assert!(first <= remote + 20_000 && remote <= last + 20_000, "{first} {remote} {last}");
    let memory = [&local, &watcher].map(|watcher| watcher.mark().expect("a reading").memory);
    assert!(memory[0].abs_diff(memory[1]) < 1 << 20, "{memory:?}");
    let watched = watcher.finish();
    assert_eq!(watched.source, format!("ssh:there pid {}", busy.pid()));
    assert_eq!(watched.cores, local.finish().cores);

    // The name of a process is that of its executable file.
    let name = folder.path().join("watched-program");
    std::os::unix::fs::symlink("/bin/sh", &name).expect("a link");
    let mut command = Command::new(&name);
    command.args(["-c", "read end"]);
    let named = Program::start(command);
    let by_name = subject(Remotely::Name("watched-program".to_owned()));
    let watcher = Watcher::start_by(&ssh, &by_name, &Arc::default()).expect("a shell to watch");
    assert_eq!(watcher.eye.lock().expect("an eye").roots, [named.pid()]);

    let nobody = subject(Remotely::Name("no-such-process".to_owned()));
    let error = Watcher::start_by(&ssh, &nobody, &Arc::default()).map(|_| ()).err();
    assert_eq!(
        error,
        Some(WatchError::NoProcess("there".to_owned(), "no-such-process".to_owned()))
    );
}

#[test]
fn a_host_that_is_not_reached_says_why() {
    let ssh = ["sh", "-c", "echo no way >&2; exit 255"].map(str::to_owned);
    let subject = Subject::Ssh { host: "there".to_owned(), what: Remotely::Pid(1) };
    let error = Watcher::start_by(&ssh, &subject, &Arc::default()).map(|_| ()).err();
    assert_eq!(error, Some(WatchError::Ssh("there".to_owned(), "no way".to_owned())));
    let missing =
        Watcher::start_by(&["no-such-ssh".to_owned()], &subject, &Arc::default()).map(|_| ()).err();
    let said = missing.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("sudo apt-get install openssh-client"), "{said}");
}
