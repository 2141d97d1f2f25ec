//! Barebell and Kamailio, started by their profiles, do what each operation of the benchmark expects of
//! them, in each mode, with credentials and without.

use super::client::{Dialog, Message, Phone};
use super::*;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the test that has a system running: several take more than a small machine has.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The barebell that this workspace has built, release first: tests run from `target/PROFILE/deps`.
fn barebell() -> Profile {
    let profile = Profile::load("barebell").expect("a profile");
    if env::var_os("BAREBELL_BIN").is_some() {
        return profile;
    }
    let test = env::current_exe().expect("the path of the test");
    let target = test.ancestors().nth(3).expect("a target folder");
    let built = ["release", "debug"].map(|kind| target.join(kind).join("barebell"));
    let found = built.iter().find(|path| path.is_file());
    profile.with_program(
        found.expect("no barebell: build it with `cargo build --release -p barebell`"),
    )
}

fn kamailio() -> Profile {
    Profile::load("kamailio").expect("a profile")
}

fn wanted(users: &Users, mode: Mode, authentication: bool) -> Wanted<'_> {
    let address = "127.0.0.1".parse().expect("an address");
    Wanted {
        mode,
        authentication,
        users,
        address,
        transport: Transport::Udp,
        workers: Some(2),
        timings: false,
    }
}

fn users() -> Users {
    Users::from_pattern(Users::DEFAULT_PATTERN, 20).expect("users")
}

/// Registers, refreshes and removes a binding; leaves one of `callee`.
fn registrations(running: &Running, callee: &mut Phone) {
    let registrar = format!("sip:{}", running.domain);
    let mut dialog = callee.dialog(&registrar, &callee.user);
    let contact = callee.contact();
    let mut register = |callee: &mut Phone, expires: &str| -> Message {
        let more = format!("Expires: {expires}\r\n");
        let (_, answer) = callee.ask(&mut dialog, "REGISTER", &more);
        assert_eq!(answer.status(), Some(200), "{}", answer.0);
        answer
    };
    for _ in 0..2 {
        let answer = register(callee, "3600");
        assert!(answer.only("Contact").contains(&contact), "{}", answer.0);
    }
    let answer = register(callee, "0");
    assert!(answer.all("Contact").is_empty(), "{}", answer.0);
    register(callee, "3600");
}

/// Calls `callee` and hangs up; the INVITE is sent twice.
fn call(running: &Running, mode: Mode, caller: &mut Phone, callee: &Phone) {
    let mut dialog =
        caller.dialog(&format!("sip:{}@{}", callee.user, running.domain), &callee.user);
    let mut text = caller.request(&mut dialog, "INVITE", "");
    caller.send(&text);
    if caller.challenges > 0 {
        let challenge = caller.receive();
        text = caller.authorize(&mut dialog, ("INVITE", ""), &text, &challenge);
    }
    let invite = callee.receive();
    assert_eq!(invite.expect("INVITE"), callee.contact());
    assert_eq!(invite.all("Via").len(), 2, "{}", invite.0);
    assert_eq!(invite.only("Max-Forwards"), "69");
    let leads_there =
        |route: &str| route.contains(&running.target.to_string()) && route.contains(";lr");
    let route = invite.only("Record-Route");
    assert!(leads_there(route), "{route}");
    caller.send(&text);
    if mode == Mode::Stateless {
        let again = callee.receive_also_again();
        assert_eq!(again.expect("INVITE"), callee.contact());
    } else {
        let answer = caller.receive();
        assert_eq!(answer.status(), Some(100), "{}", answer.0);
    }
    callee.answer(&invite, "180 Ringing");
    while caller.receive().status() != Some(180) {}
    callee.answer(&invite, "200 OK");
    let answer = caller.final_response();
    assert_eq!(answer.status(), Some(200), "{}", answer.0);
    assert_eq!(answer.all("Via").len(), 1, "{}", answer.0);
    // A proxy may write another one for the caller (RFC 3261 section 16.7 step 8).
    let route = answer.only("Record-Route").to_owned();
    assert!(leads_there(&route), "{route}");
    dialog.uri = answer.only("Contact").trim_matches(['<', '>']).to_owned();
    dialog.to = answer.only("To").to_owned();
    dialog.routes = format!("Route: {route}\r\n");
    let ack = caller.request(&mut dialog, "ACK", "");
    caller.send(&ack);
    let ack = callee.receive();
    assert_eq!(ack.expect("ACK"), callee.contact());
    assert!(ack.all("Route").is_empty(), "{}", ack.0);
    let bye = caller.request(&mut dialog, "BYE", "");
    caller.send(&bye);
    let bye = callee.receive();
    assert_eq!(bye.expect("BYE"), callee.contact());
    callee.answer(&bye, "200 OK");
    let answer = caller.final_response();
    assert_eq!((answer.status(), answer.only("CSeq").ends_with("BYE")), (Some(200), true));
}

/// Calls and gives the final response, which is no success and is acknowledged.
fn refused(caller: &mut Phone, mut dialog: Dialog) -> Message {
    let (text, mut answer) = caller.ask(&mut dialog, "INVITE", "");
    if answer.status() < Some(200) {
        answer = caller.final_response();
    }
    caller.acknowledge(&text, &answer);
    answer
}

/// Every operation of the benchmark.
fn operations(profile: &Profile, mode: Mode, authentication: bool) {
    let _turn = turn();
    let users = users();
    let wanted = wanted(&users, mode, authentication);
    let mut running = start_profile(profile, &wanted).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(running.system.name, profile.name);
    let version = running.system.version.clone().expect("a version");
    assert!(version.contains(&profile.name) && version.contains('.'), "{version}");
    let phone = |running: &Running, index| {
        let (name, password) = users.get(index);
        Phone::new(running.target, &running.domain, &name, &password)
    };
    let (mut caller, mut callee) = (phone(&running, 1), phone(&running, 2));
    registrations(&running, &mut callee);
    registrations(&running, &mut caller);
    assert_eq!(callee.challenges, if authentication { 4 } else { 0 });

    let to_callee = caller.dialog(&format!("sip:{}@{}", callee.user, running.domain), &callee.user);
    if mode == Mode::Redirect {
        let answer = refused(&mut caller, to_callee);
        assert_eq!(answer.status(), Some(302), "{}", answer.0);
        assert!(answer.only("Contact").contains(&callee.contact()), "{}", answer.0);
    } else {
        call(&running, mode, &mut caller, &callee);
    }
    let nobody = caller.dialog(&format!("sip:nobody@{}", running.domain), "nobody");
    let answer = refused(&mut caller, nobody);
    assert_eq!(answer.status(), Some(404), "{}", answer.0);
    assert_eq!(caller.challenges, if authentication { 6 } else { 0 });

    let mut stranger = Phone::new(running.target, &running.domain, &users.get(3).0, "guessed");
    let mut dialog = stranger.dialog(&format!("sip:{}", running.domain), &stranger.user);
    let (_, answer) = stranger.ask(&mut dialog, "REGISTER", "Expires: 60\r\n");
    assert_eq!(answer.status() == Some(200), !authentication, "{}", answer.0);
    assert_eq!(running.has_ended(), None);

    let Some(Subject::Local(pids)) = &running.watch else { panic!("nothing to watch") };
    let process = format!("/proc/{}", pids[0]);
    assert!(Path::new(&process).exists());
    drop(running);
    assert!(!Path::new(&process).exists());
}

macro_rules! every_operation {
    ($($test:ident: $profile:ident, $mode:ident, $authentication:expr;)*) => {
        $(#[test]
        fn $test() {
            operations(&$profile(), Mode::$mode, $authentication);
        })*
    };
}

every_operation! {
    barebell_stateful: barebell, Stateful, false;
    barebell_stateful_authenticated: barebell, Stateful, true;
    barebell_stateless: barebell, Stateless, false;
    barebell_stateless_authenticated: barebell, Stateless, true;
    barebell_redirect: barebell, Redirect, false;
    barebell_redirect_authenticated: barebell, Redirect, true;
    kamailio_stateful: kamailio, Stateful, false;
    kamailio_stateful_authenticated: kamailio, Stateful, true;
    kamailio_stateless: kamailio, Stateless, false;
    kamailio_stateless_authenticated: kamailio, Stateless, true;
    kamailio_redirect: kamailio, Redirect, false;
    kamailio_redirect_authenticated: kamailio, Redirect, true;
}

#[test]
fn both_listen_on_tcp_if_wanted() {
    let _turn = turn();
    let users = users();
    let wanted = Wanted { transport: Transport::Tcp, ..wanted(&users, Mode::Stateful, false) };
    for profile in [barebell(), kamailio()] {
        let running = start_profile(&profile, &wanted).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(running.transport, Transport::Tcp);
        assert_eq!(running.system.target, format!("tcp:{}", running.target));
        let mut stream = TcpStream::connect(running.target).expect("a connection");
        let here = stream.local_addr().expect("an address");
        let there = running.target;
        let options = format!(
            "OPTIONS sip:{there} SIP/2.0\r\nVia: SIP/2.0/TCP {here};branch=z9hG4bK1\r\n\
             Max-Forwards: 70\r\nFrom: <sip:a@{here}>;tag=1\r\nTo: <sip:{there}>\r\nCall-ID: 1\r\n\
             CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(options.as_bytes()).expect("sent");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let mut begin = [0; 11];
        stream.read_exact(&mut begin).expect("an answer");
        assert_eq!(&begin, b"SIP/2.0 200");
    }
}

#[test]
fn a_system_that_does_not_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    let users = users();
    let error = |command: &str, more: &str| {
        let arguments = "[arguments]\nstateful = []\nno_authentication = []\n";
        let text = format!("name = \"own\"\ncommand = {command}\n{more}\n{arguments}");
        fs::write(&path, text).expect("a file");
        let started = start(&path.display().to_string(), &wanted(&users, Mode::Stateful, false));
        started.map(|_| ()).expect_err("an error").to_string()
    };
    let said = error("[\"sh\", \"-c\", \"echo no such thing; exit 7\"]", "");
    assert!(said.contains("own has ended (exit status: 7); it printed: no such thing"), "{said}");
    let said = error("[\"sh\"]", "prepare = [[\"sh\", \"-c\", \"echo bad >&2; exit 1\"]]");
    assert!(said.ends_with("failed: bad"), "{said}");
    let said = start("udp:no-such-host.invalid:5060", &wanted(&users, Mode::Stateful, false));
    assert!(matches!(said, Err(SutError::Host(..))), "{said:?}");
}

/// What is left of a process; one that has ended but was not waited for counts as nothing.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_system_of_ones_own_is_stopped_with_its_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    let children = folder.path().join("children").display().to_string();
    let script =
        format!("trap : TERM; sleep 1000 & echo $! > {children}; echo ready; wait; sleep 1000");
    let profile = format!(
        "name = \"own\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\nready_text = \"ready\"\nstop = \"KILL\"\n\
         [arguments]\nstateful = []\nno_authentication = []\n"
    );
    fs::write(&path, profile).expect("a file");
    let users = users();
    let spec = format!("mine={}", path.display());
    let running = start(&spec, &wanted(&users, Mode::Stateful, false)).expect("a system");
    assert_eq!(running.system.name, "mine");
    let child = fs::read_to_string(&children).expect("the child's number");
    assert!(is_alive(child.trim()));
    drop(running);
    while is_alive(child.trim()) {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_system_ends_with_the_program_that_started_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = ["sleep", "1000"].map(str::to_owned);
    let kept = tempfile::tempdir_in(folder.path()).expect("a folder");
    let server_folder = kept.path().to_owned();
    let mut server =
        Server::start(&command, nix::sys::signal::Signal::SIGTERM, kept).expect("a server");
    // What the guard sees when the program ends, in whatever way.
    server.forget_guard_input();
    while server.ended().is_none() || server_folder.exists() {
        thread::sleep(Duration::from_millis(10));
    }
}
