//! Phones call the media server: the echo, voicemail, conference rooms, announcements; and the
//! attacks on them.

use peers::phone::Event::{Ended, Established};
use peers::phone::Kind::{Barebell, Baresip};
use peers::phone::{Action, Kind, Phone};
use peers::process::wait_until;
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use peers::tone::{Recording, write_tone};
use peers::transport::Transport::{Tcp, Tls, Udp};
use serde_json::Value;
use std::ops::Range;
use test_support::agent::Agent;

/// The ports of media.
const PORTS: Range<u16> = 32_800..33_000;

/// A server with a media server, and the further lines `keys` of `[media_server]`.
fn server(keys: &str) -> TestServer {
    let ports = format!("ports = \"{}-{}\"\n", PORTS.start, PORTS.end - 1);
    let section = format!("[media_server]\nenabled = true\nmailboxes = [\"*\"]\n{keys}");
    TestServer::with(&format!("{TRUSTS_NOBODY}[media]\n{ports}{section}"), &[])
}

/// The URI of a service. baresip finds no server by a domain.
fn service(exchange: &TestServer, name: &str) -> String {
    exchange.server.uri(name)
}

/// The messages of `user`, as the command lists them.
fn messages(exchange: &TestServer) -> Vec<Value> {
    exchange.server.rows(&["voicemail", "list", "--json"])
}

/// `phone` calls `uri`, which answers.
fn call(phone: &mut Phone, uri: &str) {
    phone.act(&Action::Dial(uri.to_owned()));
    phone.wait_for(Established);
}

fn hang_up(phone: &mut Phone) {
    phone.act(&Action::HangUp);
    phone.wait_for(Ended);
}

fn echoes(kind: Kind, transport: peers::transport::Transport) {
    let exchange = server("");
    let mut phone = exchange.phone(kind, "alice", transport);
    call(&mut phone, &service(&exchange, "echo"));
    phone.wait_until_it_hears(440);
    hang_up(&mut phone);
    exchange.wait_for_ports(&PORTS, 0);
    assert_eq!(exchange.server.counter("media-server-calls"), 1);
}

#[test]
fn phones_hear_themselves_in_the_echo() {
    echoes(Barebell, Tcp);
    echoes(Baresip, Udp);
}

#[test]
fn an_encrypted_phone_hears_itself_in_the_echo() {
    let exchange = server("");
    let mut account = exchange.account("alice", Tls);
    account.srtp = peers::phone::Srtp::Required;
    let mut phone = Phone::registered(Barebell, account);
    call(&mut phone, &service(&exchange, "echo"));
    phone.wait_until_it_hears(440);
    assert!(phone.suite().is_some());
    hang_up(&mut phone);
}

#[test]
fn a_message_for_a_user_without_a_phone_is_heard_and_deleted_by_the_user() {
    let exchange = server("");
    let mut alice = exchange.phone(Baresip, "alice", Udp);
    call(&mut alice, &service(&exchange, "bob"));
    // The beep.
    alice.wait_until_it_hears_part(1000, 200);
    std::thread::sleep(std::time::Duration::from_secs(4));
    hang_up(&mut alice);
    exchange.server.wait_for_line("mailbox bob@barebell.test has a new message");
    let rows = messages(&exchange);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["caller"], "alice@barebell.test");
    assert_eq!((&rows[0]["proved"], &rows[0]["heard"]), (&true.into(), &false.into()));
    let id = rows[0]["id"].to_string();
    let file = exchange.server.data().join("exported.wav");
    let exported = file.display().to_string();
    let wrote = exchange.server.run(&["voicemail", "export", "bob", &id, &exported]);
    assert!(wrote.contains("wrote message"), "{wrote}");
    let recording = Recording::read(&file).expect("the command has written a WAV file");
    assert!(recording.tone_ms(440) >= 2000, "{} ms", recording.tone_ms(440));

    let mut bob = exchange.phone(Barebell, "bob", Tcp);
    call(&mut bob, &service(&exchange, "*97"));
    bob.wait_until_it_hears(440);
    bob.act(&Action::Press('3'));
    bob.wait_for(Ended);
    assert_eq!(messages(&exchange).len(), 0);
    exchange.wait_for_ports(&PORTS, 0);
}

#[test]
fn a_stored_message_survives_a_crash_and_the_command_deletes_it() {
    let mut exchange = server("");
    let mut alice = exchange.phone(Barebell, "alice", Tcp);
    call(&mut alice, &service(&exchange, "voicemail-bob"));
    std::thread::sleep(std::time::Duration::from_secs(4));
    alice.act(&Action::Press('#'));
    alice.wait_for(Ended);
    assert_eq!(messages(&exchange).len(), 1);
    exchange.server.crash();
    exchange.server.restart();
    assert_eq!(messages(&exchange).len(), 1);
    let deleted = exchange.server.run(&["voicemail", "delete", "bob", "--all"]);
    assert!(deleted.contains("deleted 1 of bob@barebell.test"), "{deleted}");
    assert_eq!(messages(&exchange).len(), 0);
}

#[test]
fn each_of_three_members_of_a_conference_hears_the_two_others() {
    let exchange = server("");
    let mut members = [("alice", Barebell, Tcp), ("bob", Barebell, Tcp), ("carol", Baresip, Udp)]
        .map(|(user, kind, transport)| exchange.phone(kind, user, transport));
    for member in &mut members {
        call(member, &service(&exchange, "conference-sales"));
    }
    let tones = members.each_ref().map(|member| member.account.tone);
    for (at, member) in members.iter_mut().enumerate() {
        let others = [tones[(at + 1) % 3], tones[(at + 2) % 3]];
        member.wait_until_it_hears_all(&others);
    }
    for member in &mut members {
        hang_up(member);
    }
    exchange.wait_for_ports(&PORTS, 0);
}

#[test]
fn an_announcement_and_a_command_for_new_messages_are_those_of_the_operator() {
    let folder = tempfile::tempdir().expect("a folder");
    let sounds = folder.path().join("sounds");
    std::fs::create_dir(&sounds).expect("a folder");
    write_tone(&sounds.join("hours.wav"), 700, 3);
    let (program, out) = (folder.path().join("notify"), folder.path().join("out"));
    let text = format!("#!/bin/sh\necho $BAREBELL_MAILBOX $BAREBELL_CALLER > {}\n", out.display());
    std::fs::write(&program, text).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("a file");
    let keys = format!("sounds = \"{}\"\ncommand = \"{}\"\n", sounds.display(), program.display());
    let exchange = server(&keys);
    let mut alice = exchange.phone(Barebell, "alice", Tcp);
    call(&mut alice, &service(&exchange, "announcement-hours"));
    alice.wait_until_it_hears(700);
    alice.wait_for(Ended);
    call(&mut alice, &service(&exchange, "voicemail-bob"));
    std::thread::sleep(std::time::Duration::from_secs(4));
    hang_up(&mut alice);
    let line = wait_until("the command has run", || {
        std::fs::read_to_string(&out).ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(line, "bob@barebell.test alice@barebell.test\n");
}

/// The offer of an agent.
fn offer(agent: &Agent) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {} RTP/AVP 0\r\n",
        agent.address().port()
    )
}

/// The status of the final response to a call of `agent` to `name`, with further `fields`.
fn status(agent: &mut Agent, name: &str, fields: &str) -> Option<u16> {
    let (mut dialog, body) = (agent.dialog(&format!("sip:{name}@{DOMAIN}")), offer(agent));
    agent.ask(&mut dialog, "INVITE", fields, &body);
    let answer = agent.final_response("INVITE");
    let status = answer.status();
    if status == Some(200) {
        agent.acknowledge(&answer.dialog(), &answer);
    }
    status
}

#[test]
fn strangers_get_neither_the_messages_nor_the_rooms_of_users() {
    let exchange = server("");
    let mut stranger = Agent::stranger("mallory", "example.org", exchange.server.address());
    for name in ["echo", "voicemail", "*97", "conference-sales"] {
        assert_eq!(status(&mut stranger, name, ""), Some(403), "{name}");
    }
    for name in ["voicemail-nobody", "announcement-x", "conference-"] {
        assert_eq!(status(&mut stranger, name, ""), Some(404), "{name}");
    }
    // The line of the proxy, written by another party.
    let forged = "Route: <sip:retrieval@media-server.invalid;lr;name=bob%40barebell.test>\r\n";
    let status_of_forged = status(&mut stranger, "bob", forged);
    assert!(status_of_forged.is_some_and(|status| status >= 400), "{status_of_forged:?}");
    let mut alice = exchange.agent_by("alice", exchange.server.address());
    let two = format!("Route: <sip:{DOMAIN};lr>\r\n{forged}");
    let status_of_two = status(&mut alice, "bob", &two);
    assert!(status_of_two.is_some_and(|status| status >= 400), "{status_of_two:?}");
    assert_eq!(exchange.server.counter("media-server-calls"), 0);
    // The name of another user needs its password.
    let mut as_bob = Agent::new("bob", "wrong", DOMAIN, exchange.server.address());
    assert_eq!(status(&mut as_bob, "voicemail", ""), Some(407));
}

#[test]
fn a_storm_of_calls_leaves_room_for_other_sources_and_ends() {
    let exchange = server("max_calls_per_source = 3\n");
    let mut agents: Vec<Agent> =
        (0..6).map(|_| exchange.agent_by("alice", exchange.server.address())).collect();
    let statuses: Vec<_> = agents.iter_mut().map(|agent| status(agent, "echo", "")).collect();
    assert_eq!(statuses.iter().filter(|status| **status == Some(200)).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == Some(486)).count(), 3, "{statuses:?}");
    assert_eq!(exchange.server.counter("media-server-share"), 3);
}

#[test]
fn a_recording_has_an_end_and_a_full_mailbox_refuses_calls() {
    let exchange =
        server("message_length = \"3s\"\nmailbox_size = \"1MiB\"\nmailboxes_size = \"1MiB\"\n");
    let mut alice = exchange.phone(Barebell, "alice", Tcp);
    call(&mut alice, &service(&exchange, "bob"));
    // The call ends although the tone goes on.
    alice.wait_for(Ended);
    let rows = messages(&exchange);
    assert_eq!(rows[0]["samples"], 24_000, "{rows:?}");
    let full = server("message_length = \"2m\"\nmailbox_size = \"1MiB\"\n");
    let mut alice = full.agent_by("alice", full.server.address());
    assert_eq!(status(&mut alice, "bob", ""), Some(480));
    assert_eq!(full.server.counter("voicemail-full"), 1);
}
