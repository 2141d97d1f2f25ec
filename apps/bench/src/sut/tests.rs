//! Barebell and Kamailio, started by their profiles, support each operation of the benchmark in
//! each mode, with and without authentication.

use super::*;
use crate::users::Users;
use sip::StartLine;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use test_support::agent::{Agent, Received, SESSION};

/// Held by the test with a running system: several at a time overload a small machine.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server binary of this workspace, the release build first: tests run from
/// `target/PROFILE/deps`.
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
        namespace: None,
        timings: false,
        retransmits: true,
    }
}

fn users() -> Users {
    Users::from_pattern(Users::DEFAULT_PATTERN, 20).expect("users")
}

/// Returns a phone of the user at `index`, with the password if `authentication` is set.
fn phone(running: &Running, users: &Users, index: usize, authentication: bool) -> Agent {
    let (name, password) = users.get(index);
    match authentication {
        true => Agent::new(&name, &password, &running.domain, running.target),
        false => Agent::stranger(&name, &running.domain, running.target),
    }
}

fn elements(message: &Received, name: HeaderName) -> Vec<String> {
    let message = message.message();
    message.elements(name).map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

/// Registers, refreshes and removes a binding; leaves one.
fn registrations(phone: &mut Agent) {
    let contact = phone.contact();
    for (seconds, is_there) in [(3600, true), (3600, true), (0, false), (3600, true)] {
        let answer = phone.register_for(seconds);
        assert_eq!(answer.status(), Some(200), "{answer}");
        match &elements(&answer, HeaderName::Contact)[..] {
            [found] if is_there => assert!(found.contains(&contact), "{answer}"),
            found => assert!(!is_there && found.is_empty(), "{answer}"),
        }
    }
}

/// Calls `callee` and hangs up; the INVITE is sent twice.
fn call(running: &Running, mode: Mode, caller: &mut Agent, callee: &mut Agent) {
    let mut dialog = caller.dialog(&callee.address_of_record());
    caller.ask(&mut dialog, "INVITE", "", SESSION);
    let is_for_callee = |callee: &Agent, request: &Received| {
        let StartLine::Request { uri, .. } = request.message().start_line() else { return false };
        uri == callee.contact().as_bytes()
    };
    let invite = callee.request("INVITE");
    assert!(is_for_callee(callee, &invite), "{invite}");
    assert_eq!(elements(&invite, HeaderName::Via).len(), 2, "{invite}");
    assert_eq!(invite.value(HeaderName::MaxForwards), "69");
    let leads_there = |message: &Received| match &elements(message, HeaderName::RecordRoute)[..] {
        [route] => route.contains(&running.target.to_string()) && route.contains(";lr"),
        _ => false,
    };
    assert!(leads_there(&invite), "{invite}");
    caller.send_invite_again();
    if mode == Mode::Stateless {
        callee.repeated_request("INVITE");
    } else {
        caller.response("INVITE", 100);
    }
    let called = callee.dialog_with(&invite);
    callee.answer(&invite, &called, 180, "", "");
    caller.response("INVITE", 180);
    callee.answer(&invite, &called, 200, "", SESSION);
    let answer = caller.response("INVITE", 200);
    assert_eq!(elements(&answer, HeaderName::Via).len(), 1, "{answer}");
    // A proxy may write another one for the caller (RFC 3261 section 16.7 step 8).
    assert!(leads_there(&answer), "{answer}");
    let mut dialog = answer.dialog();
    caller.acknowledge(&dialog, &answer);
    let ack = callee.request("ACK");
    assert!(is_for_callee(callee, &ack), "{ack}");
    assert_eq!(elements(&ack, HeaderName::Route), [""; 0], "{ack}");
    caller.send(&mut dialog, "BYE", "", "");
    let bye = callee.request("BYE");
    assert!(is_for_callee(callee, &bye), "{bye}");
    callee.answer(&bye, &called, 200, "", "");
    caller.response("BYE", 200);
}

/// Calls `uri` and returns the final response, which has this status and is acknowledged.
fn refused(caller: &mut Agent, uri: &str, status: u16) -> Received {
    let mut dialog = caller.dialog(uri);
    caller.ask(&mut dialog, "INVITE", "", SESSION);
    caller.response("INVITE", status)
}

/// Runs every operation of the benchmark.
fn operations(profile: &Profile, mode: Mode, authentication: bool) {
    let _turn = turn();
    let users = users();
    let wanted = wanted(&users, mode, authentication);
    let mut running = start_profile(profile, &wanted).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(running.system.name, profile.name);
    let version = running.system.version.clone().expect("a version");
    assert!(version.contains(&profile.name) && version.contains('.'), "{version}");
    let [mut caller, mut callee] =
        [1, 2].map(|index| phone(&running, &users, index, authentication));
    registrations(&mut callee);
    registrations(&mut caller);

    if mode == Mode::Redirect {
        let answer = refused(&mut caller, &callee.address_of_record(), 302);
        assert!(answer.value(HeaderName::Contact).contains(&callee.contact()), "{answer}");
    } else {
        call(&running, mode, &mut caller, &mut callee);
    }
    refused(&mut caller, &format!("sip:nobody@{}", running.domain), 404);

    if authentication {
        let (name, _) = users.get(3);
        let mut guesser = Agent::new(&name, "guessed", &running.domain, running.target);
        let answer = guesser.register_for(60);
        assert_ne!(answer.status(), Some(200), "{answer}");
    }
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
        stream.write_all(&options("TCP", here, &running.target.to_string())).expect("sent");
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

/// Returns true if the process is alive; a zombie counts as ended.
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
    let mut server = Server::new(nix::sys::signal::Signal::SIGTERM, kept);
    server.start(&command).expect("a program");
    server.start(&command).expect("another program");
    // The guard sees the end of the program in this way.
    server.forget_guard_input();
    while server.ended().is_none() || server_folder.exists() {
        thread::sleep(Duration::from_millis(10));
    }
}
