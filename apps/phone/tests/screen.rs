//! The full-screen interface in a terminal: keys in, screen out.

#[path = "screen/svg.rs"]
mod svg;

use nix::fcntl::OFlag;
use nix::pty::{Winsize, grantpt, openpty, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PHONE: &str = env!("CARGO_BIN_EXE_barebell-phone");
const UP: &str = "\x1b[A";
const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";

/// A phone in a terminal. It is killed if it does not end.
struct Screen {
    child: Child,
    keys: File,
    seen: Arc<Mutex<vt100::Parser>>,
    /// The phone's end of the terminal.
    terminal: OwnedFd,
    /// Its home folder.
    home: TempDir,
}

impl Screen {
    fn start(args: &[&str]) -> Self {
        Self::start_with((80, 24), args, &[])
    }

    fn start_with((columns, rows): (u16, u16), args: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let home = tempfile::tempdir().expect("a folder");
        let end = || Stdio::from(pty.slave.try_clone().expect("the terminal"));
        let child = Command::new(PHONE)
            .args(["--listen", "127.0.0.1:0"])
            .args(args)
            .env("HOME", home.path())
            .env("TERM", "xterm-256color")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("the phone starts");
        let keys = File::from(pty.master);
        let mut output = keys.try_clone().expect("the terminal");
        let seen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let sees = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                sees.lock().expect("the screen").process(&chunk[..length]);
            }
        });
        Self { child, keys, seen, terminal: pty.slave, home }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the phone reads");
    }

    fn text(&self) -> String {
        self.seen.lock().expect("the screen").screen().contents()
    }

    /// The screen text once it contains all of `texts`.
    fn expect(&self, texts: &[&str]) -> String {
        self.expect_times(1, texts)
    }

    /// The screen text once it contains each of `texts` at least `times` times.
    fn expect_times(&self, times: usize, texts: &[&str]) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let text = self.text();
            let missing = texts.iter().find(|wanted| text.matches(**wanted).count() < times);
            let Some(missing) = missing else { return text };
            assert!(Instant::now() < end, "no {missing:?} in\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns true if the terminal is in line mode, as a shell needs it.
    fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_flags;
        let is_whole = self.seen.lock().expect("the screen").screen().alternate_screen();
        modes.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG) && !is_whole
    }

    /// Waits for the end.
    fn ended(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("it ends");
        let end = Instant::now() + Duration::from_secs(30);
        while !self.is_as_before() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        status
    }

    /// Calls `uri` from the login view.
    fn call_peer(&mut self, uri: &str) {
        self.expect(&["Log in to a server", "Or call a peer directly", "Enter  Log in"]);
        self.press(UP);
        self.expect(&["> Peer", "Enter  Call"]);
        self.press(uri);
        self.press(ENTER);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A phone that answers one call automatically.
struct Callee {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Callee {
    fn start(more: &[&str]) -> Self {
        let mut child = Command::new(PHONE)
            .args(["answer", "--auto", "--calls", "1", "--listen", "127.0.0.1:0", "--json"])
            .args(["--play", "tone:440"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut callee = Self { child, lines, address: String::new() };
        let told = callee.expect("listening");
        let address = told["address"].as_str().expect("an address");
        callee.address = address.strip_prefix("udp:").expect("UDP").to_owned();
        callee
    }

    /// The next event with this name.
    fn expect(&mut self, event: &str) -> serde_json::Value {
        let lines = self.lines.by_ref().map(|line| line.expect("text"));
        let mut told = lines.map(|line| serde_json::from_str(&line).expect("JSON"));
        told.find(|told: &serde_json::Value| told["event"] == event).expect("it is told")
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_call_to_a_peer_is_seen_from_its_beginning_to_its_end() {
    let mut callee = Callee::start(&[]);
    let mut screen = Screen::start(&["--play", "tone:1000"]);
    screen.call_peer(&format!("sip:bob@{}", callee.address));
    screen.expect(&[
        "talking 00:0",
        "secure: SRTP AES_CM_128_HMAC_SHA1_80",
        "keys came over signalling in clear",
        "lost 0",
        "MOS ",
    ]);
    callee.expect("answered");
    if let Some(path) = std::env::var_os("BAREBELL_PICTURE") {
        screen.expect(&["talking 00:07"]);
        let picture = svg::picture(screen.seen.lock().expect("the screen").screen());
        std::fs::write(path, picture).expect("the picture is written");
    }
    screen.press("5");
    screen.expect(&["key 5 is sent"]);
    assert_eq!(callee.expect("dtmf")["digit"], "5");
    screen.press("h");
    screen.expect(&["held here", "h  Resume"]);
    assert_eq!(callee.expect("held")["held"], true);
    screen.press("h");
    screen.expect(&["h  Hold"]);
    assert_eq!(callee.expect("held")["held"], false);
    screen.press("m");
    screen.expect(&["muted", "m  Unmute"]);
    screen.press(ESCAPE);
    screen.expect(&["Main menu", "1 call", "c  Calls"]);
    screen.press("n");
    screen.expect(&["Network", "127.0.0.1:", ", call 1", "lo 127.0.0.1/8"]);
    screen.press("c");
    screen.expect(&["x  Hang up"]);
    screen.press("x");
    screen.expect(&["Main menu", "hung up here", &format!("to sip:bob@{}", callee.address)]);
    callee.expect("ended");
    screen.press("s");
    screen.expect(&["SIP trace", "to   udp:127.0.0.1", "INVITE sip:bob@", "from udp:"]);
    screen.press("\x1b[H");
    screen.expect(&["> "]);
    screen.press(ENTER);
    screen.expect(&["SIP message", "CSeq: 1 INVITE"]);
    screen.press("\x1b[6~\x1b[6~");
    let text = screen.expect(&["a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:..."]);
    assert!(
        text.lines()
            .filter(|line| line.contains("inline:"))
            .all(|line| line.contains("inline:..."))
    );
    screen.press(ESCAPE);
    screen.expect(&["SIP trace"]);
    screen.press(ESCAPE);
    screen.expect(&["q  Quit"]);
    screen.press("q");
    assert_eq!(screen.ended().code(), Some(0));
    assert!(screen.is_as_before());
}

#[test]
fn a_call_in_clear_is_said_to_be_not_secure() {
    let callee = Callee::start(&["--srtp", "off"]);
    let mut screen = Screen::start_with((40, 12), &[], &[("NO_COLOR", "1")]);
    screen.call_peer(&format!("sip:bob@{}", callee.address));
    screen.expect(&["NOT SECURE: in clear", "x  Hang up", "MOS"]);
    // No colours, in a terminal that supports them.
    let seen = screen.seen.lock().expect("the screen");
    let cells = (0..12).flat_map(|row| (0..40).map(move |column| (row, column)));
    let mut cells = cells.filter_map(|(row, column)| seen.screen().cell(row, column));
    assert!(cells.all(|cell| cell.fgcolor() == vt100::Color::Default));
}

#[test]
fn a_failed_call_shows_its_reason() {
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut screen = Screen::start(&[]);
    screen.call_peer(&format!("sip:bob@{nobody}"));
    let text = screen.expect(&["Main menu", "no answer", "nothing listens there"]);
    assert!(text.contains(&format!("to sip:bob@{nobody}")), "{text}");
    // The history calls again, and Ctrl-C ends the program too.
    screen.press(ENTER);
    screen.expect_times(2, &["  to sip:bob@"]);
    screen.press("\x03");
    assert_eq!(screen.ended().code(), Some(0));
    assert!(screen.is_as_before());
}

#[test]
fn a_call_that_comes_is_taken() {
    let mut screen = Screen::start(&[]);
    screen.expect(&["Log in to a server"]);
    screen.press(ESCAPE);
    screen.expect(&["Main menu"]);
    screen.press("n");
    let text = screen.expect(&[" UDP"]);
    let line = text.lines().find(|line| line.starts_with("SIP ")).expect("a line");
    let address = line.split_whitespace().nth(1).expect("an address").to_owned();
    let mut caller = Command::new(PHONE)
        .args(["call", &format!("sip:me@{address}"), "--listen", "127.0.0.1:0"])
        .stderr(Stdio::null())
        .spawn()
        .expect("the phone starts");
    let text = screen.expect(&["ringing here", "a  Answer", "d  Decline"]);
    assert!(text.contains("sip:anonymous@"), "{text}");
    screen.press("a");
    screen.expect(&["talking", "comes from there", "x  Hang up"]);
    screen.press("x");
    screen.expect(&["Main menu", "from sip:anonymous@"]);
    // Only silence was received, which is media too.
    assert_eq!(caller.wait().expect("it ends").code(), Some(0));
    let pid = Pid::from_raw(screen.child.id().try_into().expect("a process"));
    kill(pid, Signal::SIGTERM).expect("a signal");
    assert_eq!(screen.ended().code(), Some(0));
    assert!(screen.is_as_before());
}

/// A registrar that asks `alice` for a password and accepts any.
fn registrar() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut datagram = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let request = String::from_utf8_lossy(&datagram[..length]);
            let names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Contact:", "Expires:"];
            let copied =
                request.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
            let copied: String = copied.map(|line| format!("{line}\r\n")).collect();
            let (status, more) = match request.contains("Authorization:") {
                _ if request.contains("<sip:mallory@") => ("403 Forbidden", ""),
                true => ("200 OK", ""),
                false => (
                    "401 Unauthorized",
                    "WWW-Authenticate: Digest realm=\"test\", nonce=\"1\", qop=\"auth\"\r\n",
                ),
            };
            let answer = format!("SIP/2.0 {status}\r\n{copied}{more}Content-Length: 0\r\n\r\n");
            let _ = socket.send_to(answer.as_bytes(), from);
        }
    });
    address
}

/// The configuration file at the default path.
fn configuration(home: &Path) -> std::path::PathBuf {
    home.join(".config/barebell/phone.toml")
}

#[test]
fn a_login_registers_and_is_saved_on_request() {
    let server = registrar();
    let mut screen = Screen::start(&[]);
    screen.expect(&["Log in to a server"]);
    screen.press(&format!("{server}\tmallory\t\t"));
    screen.press(ENTER);
    screen.expect(&["not registered: ", "403 Forbidden", "; again at "]);
    screen.press("l");
    screen.expect(&["> Transport"]);
    screen.press(&format!("{UP}{UP}\x15alice\tsecret\t\t "));
    let text = screen.expect(&["******", "(x) yes, in "]);
    assert!(!text.contains("secret"), "{text}");
    screen.press(ENTER);
    screen.expect(&["registered until ", "saved in", "(x) sip:alice@"]);
    let path = configuration(screen.home.path());
    let text = std::fs::read_to_string(&path).expect("it is saved");
    assert!(text.contains(&format!("sip:alice@{server}")) && text.contains("secret"), "{text}");
    assert!(!text.contains("mallory"), "{text}");
    assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    // The trace contains no secret.
    screen.press("s");
    screen.expect(&["SIP trace", "REGISTER"]);
    screen.press(UP);
    screen.press(ENTER);
    screen.expect(&["Authorization: Digest", "response=\"...\""]);
    screen.press("\x03");
    assert_eq!(screen.ended().code(), Some(0));
    // The next start reads it.
    let config = path.to_str().expect("text");
    let screen = Screen::start(&["--config", config]);
    screen.expect(&["Main menu", "registered until"]);
}

#[test]
fn a_failed_login_shows_its_reason_and_is_not_saved() {
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut screen = Screen::start(&[]);
    screen.expect(&["Log in to a server"]);
    screen.press(ENTER);
    screen.expect(&["enter server and user"]);
    screen.press(&format!("{nobody}\talice\t\t\t {ENTER}"));
    screen.expect(&["Main menu", "not registered: ", "nothing listens there", "; again at "]);
    assert!(!configuration(screen.home.path()).exists());
}

#[test]
fn quick_dial_is_one_key() {
    let mut callee = Callee::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("phone.toml");
    let uri = format!("sip:bob@{}", callee.address);
    let text = format!("[[dial]]\nname = \"Bób 日本\"\nuri = \"{uri}\"\n");
    std::fs::write(&path, text).expect("a file");
    let mut screen = Screen::start(&["--config", path.to_str().expect("text")]);
    screen.expect(&["Main menu", "1 Bób 日本", "1  Quick dial"]);
    screen.press("1");
    screen.expect(&["talking"]);
    callee.expect("answered");
}

#[test]
fn of_two_calls_one_talks_and_the_other_is_held() {
    let (mut first, mut second) = (Callee::start(&[]), Callee::start(&[]));
    let mut screen = Screen::start(&[]);
    screen.call_peer(&format!("sip:first@{}", first.address));
    screen.expect(&["talking"]);
    screen.press("n");
    screen.expect(&["Call: ", "Enter  Call"]);
    screen.press(&format!("sip:second@{}{ENTER}", second.address));
    screen.expect(&["> sip:second@", "2 calls", "held here", "s  Swap", "x  Hang up"]);
    assert_eq!(first.expect("held")["held"], true);
    second.expect("answered");
    screen.press("s");
    screen.expect(&["> sip:first@", "held here"]);
    assert_eq!(second.expect("held")["held"], true);
    assert_eq!(first.expect("held")["held"], false);
    screen.press("x");
    screen.expect(&["1 call ", "With      sip:second@", "h  Resume"]);
    first.expect("ended");
    screen.press("\x03");
    assert_eq!(screen.ended().code(), Some(0));
    // The end of the phone hangs up.
    assert_eq!(second.expect("ended")["by_peer"], true);
}

#[test]
fn a_terminal_may_change_its_size() {
    let screen = Screen::start(&[]);
    screen.expect(&["Log in to a server"]);
    let terminal = screen.terminal.try_clone().expect("the terminal");
    let changed = Command::new("stty").args(["rows", "12", "cols", "40"]).stdin(terminal).status();
    assert!(changed.expect("stty runs").success());
    screen.seen.lock().expect("the screen").screen_mut().set_size(12, 40);
    let pid = Pid::from_raw(screen.child.id().try_into().expect("a process"));
    kill(pid, Signal::SIGWINCH).expect("a signal");
    let text = screen.expect(&["Or call a peer directly", "Enter  Log in", "Ctrl-C  Quit"]);
    assert!(text.lines().count() <= 12, "{text}");
}

#[test]
fn a_phone_whose_terminal_is_closed_ends() {
    // Only this process has this end: closing it closes the terminal.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let mut terminal = posix_openpt(flags).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a terminal");
    let name = ptsname_r(&terminal).expect("a name");
    let end = || File::options().read(true).write(true).open(&name).expect("the other end");
    let mut phone = Command::new(PHONE);
    phone.args(["--listen", "127.0.0.1:0"]).stdin(end()).stdout(end()).stderr(Stdio::piped());
    let child = phone.spawn().expect("the phone starts");
    drop(phone);
    // The phone has taken the screen.
    assert!(terminal.read(&mut [0; 64]).expect("it writes") > 0);
    drop(terminal);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the terminal: "), "{said}");
}

#[test]
fn without_a_terminal_it_says_so() {
    let output = Command::new(PHONE).stdin(Stdio::null()).output().expect("the phone runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("needs a terminal") && output.stdout.is_empty(), "{said}");
}
