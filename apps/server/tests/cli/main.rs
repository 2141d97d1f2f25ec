//! The commands of the built program, as used at a terminal.

mod backup;
mod bounds;
mod browser;
mod calls;
mod connections;
mod damage;
mod doctor;
mod history;
mod media;
mod ng;
mod phone;
mod proxies;
mod remote;
mod route;
mod services;
mod site;
mod tls;
mod trace;
mod turn;
mod why;

use site::{Site, show, stderr, stdout, with_input};
use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

#[test]
fn users_are_added_changed_listed_and_removed_on_a_stopped_server() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "domains = [\"a.com\", \"b.com\"]"));
    let one = show(&site.file("one.toml", "domains = [\"a.com\"]"));
    assert_eq!(
        site.good(&format!("user add alice --password x --config {one}")),
        "added sip:alice@a.com\n"
    );
    assert_eq!(
        site.good(&format!("user add alice@A.com --password y --config {config}")),
        "changed the password of sip:alice@a.com\n"
    );
    assert_eq!(
        site.good(&format!("user add bob --domain b.com --password y --config {config}")),
        "added sip:bob@b.com\n"
    );
    assert_eq!(site.good("user list"), "alice@a.com\nbob@b.com\n");
    assert_eq!(site.good("user list --domain b.com"), "bob@b.com\n");
    assert_eq!(
        site.good("user list --domain b.com --json"),
        "{\"name\":\"bob\",\"domain\":\"b.com\"}\n"
    );
    let error = site.bad(&format!("user add carol --password z --config {config}"));
    assert!(error.contains("a.com, b.com") && error.contains("carol@DOMAIN"), "{error}");
    assert_eq!(site.good("user remove alice@a.com"), "removed sip:alice@a.com\n");
    let error = site.bad("user remove alice@a.com");
    assert!(error.starts_with("error: there is no user sip:alice@a.com"), "{error}");
    assert_eq!(site.good("user list"), "bob@b.com\n");
}

#[test]
fn a_new_directory_takes_the_domain_that_is_said() {
    for (index, command) in ["user add alice --password x", "user import -"].iter().enumerate() {
        for domain in ["localhost", "127.0.0.1", "d.example"] {
            let site = Site::new();
            let output =
                with_input(site.command(&format!("{command} --domain {domain}")), "alice:x\n");
            let said =
                [format!("added sip:alice@{domain}\n"), format!("imported 1 users into {domain}")];
            assert!(stdout(&output).starts_with(&said[index]), "{}", stdout(&output));
            let note = format!("note: {domain} is not among the domains that the server serves");
            assert!(stderr(&output).starts_with(&note), "{}", stderr(&output));
            assert_eq!(site.good("user list"), format!("alice@{domain}\n"));
            let _server = site.serve(&format!("--domain {domain}"));
            let output = with_input(site.command("user add bob --password-stdin"), "y");
            assert_eq!(stderr(&output), "");
            assert_eq!(site.good("user list"), format!("alice@{domain}\nbob@{domain}\n"));
        }
    }
}

#[test]
fn an_authentication_name_is_given_shown_and_kept() {
    let site = Site::new();
    site.good("user add alice@a.com --password x --auth-name 4711");
    site.good("user add alice@a.com --password y");
    let server = site.serve("--domain a.com");
    let error = site.bad("user add bob --password x --auth-name 4711");
    assert!(error.contains("sip:alice@a.com logs in as 4711"), "{error}");
    let output = with_input(site.command("user import -"), "bob<4712>:z\n");
    assert!(stdout(&output).starts_with("imported 1 users"), "{}", stderr(&output));
    let shown = "alice@a.com (logs in as 4711, too)\nbob@a.com (logs in as 4712, too)\n";
    assert_eq!(site.good("user list"), shown);
    // Authentication names are exchanged in one import, and back.
    for lines in ["alice<4712>:z\nbob<4711>:z\n", "bob<4712>:z\nalice<4711>:z\n"] {
        let output = with_input(site.command("user import -"), lines);
        assert!(stdout(&output).starts_with("imported 2 users"), "{}", stderr(&output));
    }
    assert_eq!(site.good("user list"), shown);
    drop(server);
    assert_eq!(site.good("user list"), shown);
    let row = "{\"name\":\"bob\",\"domain\":\"a.com\",\"auth_name\":\"4712\"}";
    assert!(site.good("user list --json").ends_with(&format!("{row}\n")));
}

#[test]
fn a_password_is_read_from_the_first_line() {
    let site = Site::new();
    let output =
        with_input(site.command("user add al@a.com --password-stdin"), "se cret\r\nmore\n");
    assert_eq!(stdout(&output), "added sip:al@a.com\n");
    let output = with_input(site.command("user add al@a.com --password-stdin"), "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the password is empty"), "{}", stderr(&output));
    // No file contains the password itself.
    for file in fs::read_dir(site.data()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"se cret"));
    }
}

/// Runs a command at a terminal, and types a line after each prompt. Returns the exit status, the
/// standard output, the standard error and what the terminal shows.
fn at_terminal(
    mut command: Command,
    lines: &[(&str, &str)],
) -> (Option<i32>, String, String, String) {
    let terminal = nix::pty::openpty(None, None).unwrap();
    command.stdin(terminal.slave.try_clone().unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut keyboard = fs::File::from(terminal.master);
    let mut said = Vec::new();
    let mut stderr = child.stderr.take().unwrap();
    for (prompt, line) in lines {
        while !said.ends_with(prompt.as_bytes()) {
            let mut byte = [0];
            stderr.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        writeln!(keyboard, "{line}").unwrap();
    }
    stderr.read_to_end(&mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    // Ends the output of the terminal, which may be empty.
    let mut end = fs::File::from(terminal.slave);
    end.write_all(b"end").unwrap();
    let mut shown = String::new();
    while !shown.ends_with("end") {
        let mut bytes = [0; 100];
        let length = keyboard.read(&mut bytes).unwrap();
        shown.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    (output.status.code(), stdout(&output), String::from_utf8(said).unwrap(), shown)
}

#[test]
fn a_terminal_is_asked_twice_for_a_password_that_it_does_not_show() {
    let site = Site::new();
    let add = || site.command("user add al@a.com --password-stdin");
    let [first, second] = ["password: ", "the same password again: "];
    let (status, added, _, shown) = at_terminal(add(), &[(first, "sesame"), (second, "sesame")]);
    assert_eq!((status, added.as_str()), (Some(0), "added sip:al@a.com\n"));
    assert!(!shown.contains("sesame"), "{shown}");
    let (status, _, said, _) = at_terminal(add(), &[(first, "sesame"), (second, "seasme")]);
    assert_eq!(status, Some(1));
    assert!(said.contains("error: the two passwords differ: nothing is changed"), "{said}");
    let same = site.good("user add al@a.com --password sesame");
    assert!(same.contains("has this password already"), "{same}");
}

#[test]
fn a_wrong_name_is_refused_with_the_reason() {
    let site = Site::new();
    let error = site.bad("user add a:b --password x");
    assert!(error.contains("`a:b` contains ':'"), "{error}");
    let error = site.bad("user add a@b@c --password x");
    assert!(error.contains("contains '@'"), "{error}");
    let error = site.bad("user add a@c.com --domain d.com --password x");
    assert!(error.contains("c.com") && error.contains("d.com"), "{error}");
}

#[test]
fn a_file_of_users_is_imported_whole_or_not_at_all() {
    let site = Site::new();
    let good: String = (0..10_000).map(|i| format!("u{i}:p{i}\n")).collect();
    let good = show(&site.file("good", &good));
    let bad = show(&site.file("bad", "# users\nalice:1\nbob\n c:2\n"));
    let trial = site.bad(&format!("user import {bad} --domain a.com --dry-run"));
    let error = site.bad(&format!("user import {bad} --domain a.com"));
    assert_eq!(trial, error);
    assert!(error.contains("nothing was imported, 2 lines"), "{error}");
    assert!(error.contains("line 3, column 4: expected name:password"), "{error}");
    assert!(error.contains("line 4, column 1: the user name ` c` contains ' '"), "{error}");
    assert_eq!(
        site.good(&format!("user import {good} --domain a.com --dry-run")),
        "dry run: would import 10000 users into a.com: 10000 new, 0 with a new password\n"
    );
    assert_eq!(site.good("user list"), "");
    assert_eq!(
        site.good(&format!("user import {good} --domain a.com")),
        "imported 10000 users into a.com: 10000 new, 0 with a new password\n"
    );
    let output = with_input(site.command("user import - --domain a.com"), "u1:q\nnew:q");
    assert_eq!(stdout(&output), "imported 2 users into a.com: 1 new, 1 with a new password\n");
    assert_eq!(site.good("user list").lines().count(), 10_001);
    let error = site.bad("user import /does/not/exist --domain a.com");
    assert!(error.contains("cannot read /does/not/exist"), "{error}");
}

#[test]
fn a_running_server_is_asked_and_a_stopped_one_s_data_read() {
    let site = Site::new();
    let stopped: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    assert_eq!((&stopped["running"], &stopped["users"]), (&false.into(), &0.into()));
    assert!(!site.data().exists(), "looking is not to make a directory");
    let server = site.serve("--domain a.com --domain b.com");
    assert_eq!(site.good("user add alice@a.com --password x"), "added sip:alice@a.com\n");
    assert_eq!(
        site.good("user add alice@a.com --password y"),
        "changed the password of sip:alice@a.com\n"
    );
    let file = show(&site.file("users", "bob:1\ncarol:2\n"));
    assert_eq!(
        site.good(&format!("user import {file} --domain b.com")),
        "imported 2 users into b.com: 2 new, 0 with a new password\n"
    );
    assert_eq!(site.good("user list"), "alice@a.com\nbob@b.com\ncarol@b.com\n");
    assert_eq!(site.good("user remove carol --domain b.com"), "removed sip:carol@b.com\n");
    assert!(site.bad("user remove carol@b.com").contains("there is no user"));
    assert!(site.bad("user add dave --password x").contains("a.com, b.com"));
    let status: serde_json::Value = serde_json::from_str(&site.good("status --json")).unwrap();
    assert_eq!((&status["running"], &status["users"]), (&true.into(), &2.into()));
    let totals: serde_json::Value =
        serde_json::from_str(&site.good("status --json --totals")).unwrap();
    assert_eq!(
        (&totals["counters"].is_object(), &totals["rates"]),
        (&true, &serde_json::json!({}))
    );
    assert_eq!(site.good("registrations"), "no user is registered\n");
    let error = site.bad("serve --listen udp:127.0.0.1:0");
    assert!(error.contains("a server runs already with the data in"), "{error}");
    server.terminate();
    assert_eq!(site.good("user list"), "alice@a.com\nbob@b.com\n");
    // The domains of the last server are known without its flags.
    assert!(site.bad("user add dave --password x").contains("a.com, b.com"));
    let output = site.command("status").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "no server runs");
    let status = stdout(&output);
    assert!(status.starts_with("no server runs with the data in"), "{status}");
    assert!(status.contains("users         2"), "{status}");
}

#[test]
fn late_requests_are_left_for_their_retransmissions() {
    let site = Site::new();
    let server = site.serve("--domain example.com");
    let pid = server.0.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    let status = || serde_json::from_str::<serde_json::Value>(&site.status()).unwrap();
    let address = status()["listens"][0].as_str().unwrap().replace("udp:", "");
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = phone.local_addr().unwrap();
    let message = |number: u32| {
        format!(
            "MESSAGE sip:nobody@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:a@example.org>;tag=1\r\nTo: <sip:nobody@example.com>\r\n\
             Call-ID: {number}\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
        )
    };
    signal("-STOP");
    // The threads stop one after the other, with a delay.
    let stopped = |task: fs::DirEntry| {
        let state = fs::read_to_string(task.path().join("stat")).unwrap();
        state.rsplit(") ").next().unwrap().starts_with('T')
    };
    let tasks = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(Result::unwrap);
    while !tasks().all(stopped) {
        thread::yield_now();
    }
    phone.send_to(message(1).as_bytes(), &address).unwrap();
    thread::sleep(Duration::from_secs(1));
    signal("-CONT");
    phone.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut answer = [0; 2000];
    let length = (0..60).find_map(|_| {
        phone.send_to(message(2).as_bytes(), &address).unwrap();
        phone.recv(&mut answer).ok()
    });
    let length = length.expect("an answer within a minute");
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("SIP/2.0 404 ") && answer.contains("Call-ID: 2\r\n"), "{answer}");
    assert!(status()["counters"]["overload-dropped"].as_u64() >= Some(1));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let site = Site::new();
    let users: String = (0..20_000).map(|i| format!("u{i}:p\n")).collect();
    let users = show(&site.file("users", &users));
    site.good(&format!("user import {users} --domain a.com"));
    let mut child =
        site.command("user list").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn watching_shows_a_block_each_second() {
    let site = Site::new();
    let mut child = site.command("status --watch --json").stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for line in lines.take(2) {
        assert!(line.unwrap().starts_with("{\"running\":false"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_configuration_is_checked() {
    let site = Site::new();
    let good =
        show(&site.file("good.toml", "domains = [\"a.com\"]\nlisten = [\"udp:127.0.0.1:0\"]"));
    let said = site.good(&format!("check --config {good}"));
    assert!(said.contains("serves a.com (also: "), "{said}");
    assert!(said.contains("listens on udp:127.0.0.1:0"), "{said}");
    assert!(said.ends_with("the configuration has no mistakes\n"), "{said}");
    let bad = show(&site.file("bad.toml", "mode = \"x\"\n\n[limits]\nsource_rat = 1\n"));
    let output = site.command(&format!("check --config {bad}")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with(&format!("{bad}:1:8: mode: `x` is unknown")), "{said}");
    assert!(
        lines[1].starts_with(&format!("{bad}:4:1: unknown key `source_rat`"))
            && lines[1].contains("did you mean `source_rate`?"),
        "{said}"
    );
    let error = site.bad(&format!("serve --config {bad}"));
    assert!(
        error.starts_with(&format!("error: the configuration cannot be used:\n{bad}:1:8:")),
        "{error}"
    );
    let error = site.bad("check --config /does/not/exist");
    assert!(error.contains("cannot read the configuration /does/not/exist"), "{error}");
}

#[test]
fn a_missing_file_is_reported_with_the_place_that_names_it() {
    let site = Site::new();
    let text = "listen = [\"tls:127.0.0.1:0\"]\n[tls]\n\
                certificates = [{ chain = \"/does/not/chain.pem\", key = \"/does/not/key.pem\" }]\n\
                client_issuers = \"/does/not/issuers.pem\"\n";
    let config = show(&site.file("c.toml", text));
    let output = site.command(&format!("check --config {config}")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    for (place, key, file) in [
        ("3:27", "tls.certificates.chain", "chain.pem"),
        ("3:56", "tls.certificates.key", "key.pem"),
        ("4:18", "tls.client_issuers", "issuers.pem"),
    ] {
        let expected = format!("{config}:{place}: {key}: cannot read /does/not/{file}: ");
        assert!(said.contains(&expected), "{expected} is not in {said}");
    }
    // A file that is not a certificate.
    let chain = show(&site.file("chain.pem", "nonsense"));
    let text = text.replace("/does/not/chain.pem", &chain).replace("/does/not/key.pem", &chain);
    let config = show(&site.file("c.toml", &text.replace("/does/not/issuers.pem", &chain)));
    let output = site.command(&format!("check --config {config}")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(&format!("{config}:3:27: tls.")), "{}", stdout(&output));
}

#[test]
fn users_of_a_domain_that_is_not_served_are_named_and_moved() {
    let site = Site::new();
    let told = "1 user is in the domain pbx, which is not served";
    let remedy = "`barebell user move pbx example.com` moves that user";
    let config =
        show(&site.file("c.toml", "domains = [\"example.com\"]\nlisten = [\"udp:127.0.0.1:0\"]"));
    let server = site.serve("--domain pbx");
    site.good("user add alice --password x");
    assert!(!site.status().contains("unserved"));
    server.terminate();
    let said = site.good(&format!("check --config {config}"));
    assert!(said.contains(told) && said.contains(remedy), "{said}");
    let server = site.serve(&format!("--config {config}"));
    assert!(site.log_with(told).contains(remedy), "{}", site.log());
    let said = site.good("status");
    assert!(said.contains(told) && said.contains(remedy), "{said}");
    assert_eq!(site.good("user move pbx example.com"), "moved 1 users from pbx to example.com\n");
    assert!(!site.status().contains("unserved"));
    assert_eq!(site.good("user list"), "alice@example.com\n");
    assert!(!site.good(&format!("check --config {config}")).contains("not served"));
    // Further users get the same realm, and it is kept after a restart.
    site.good("user add bob --password y");
    server.terminate();
    let _server = site.serve(&format!("--config {config}"));
    let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    let address = status["listens"][0].as_str().unwrap().replace("udp:", "");
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=1\r\nTo: <sip:alice@example.com>\r\nCall-ID: 1\r\n\
         CSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n",
        phone.local_addr().unwrap()
    );
    phone.send_to(register.as_bytes(), &address).unwrap();
    let mut answer = [0; 2000];
    let length = phone.recv(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.contains("realm=\"pbx\""), "{answer}");
    let error = site.bad("user move nowhere example.com");
    assert!(error.contains("domains with users: example.com"), "{error}");
}

#[test]
fn a_port_in_use_is_only_a_warning() {
    let site = Site::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("tcp:{}", taken.local_addr().unwrap());
    let config = show(&site.file("c.toml", &format!("listen = [\"{listen}\"]")));
    let said = site.good(&format!("check --config {config}"));
    assert!(said.contains(&format!("warning: {listen} cannot be used now")), "{said}");
}

#[test]
fn check_does_not_warn_of_the_ports_of_the_server_with_the_same_data() {
    let site = Site::new();
    let _server = site.serve("--listen tcp:127.0.0.1:0");
    let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    let config = show(&site.file("c.toml", &format!("listen = {}", status["listens"])));
    let said = site.good(&format!("check --config {config}"));
    assert!(!said.contains("cannot be used now"), "{said}");
    // For the check with other data, the server is another program.
    let said = Site::new().good(&format!("check --config {config}"));
    assert_eq!(said.matches("cannot be used now").count(), 2, "{said}");
}

#[test]
fn a_wrong_command_line_has_an_exit_status_of_its_own() {
    for words in ["nonsense", "serve --mode x", "serve --listen udp:*:5060", "user add alice"] {
        let output = Site::new().command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}");
    }
}

#[test]
fn a_server_without_authentication_warns() {
    let said = |text: &str| {
        let site = Site::new();
        let config = show(&site.file("c.toml", text));
        let _server = site.serve(&format!("--config {config}"));
        site.log_with("this command adds one")
    };
    assert!(!said("").contains("AUTHENTICATION IS OFF"));
    let open = Site::new();
    let config = show(&open.file("c.toml", "[authentication]\nrequired = false\n"));
    let _server = open.serve(&format!("--config {config}"));
    open.log_with("AUTHENTICATION IS OFF");
}
