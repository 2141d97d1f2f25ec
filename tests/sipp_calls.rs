//! Calls through the proxy by SIPp, beyond the basic operations: cancelled, busy, unanswered,
//! forked, over TCP, changed and ended by the callee, and through a stateless proxy.

use std::net::{Ipv4Addr, UdpSocket};

use peers::server::ServerProcess;
use peers::sipp::Sipp;
use peers::sipp::users::{ONLY_MD5, start_server};
use peers::transport::Transport;

const CALLS: usize = 100;

/// A server that allows calls without authentication.
fn open_server() -> ServerProcess {
    start_server(&["--mode", "proxy", "--auth", "off"], "")
}

/// Registers each called user at the callee's port.
fn register(server: &ServerProcess, callee: &Sipp) {
    Sipp::register(callee.port()).users(server, 2..=CALLS + 1).run(server);
}

/// Plays the calls between two scenarios, which check the messages.
fn call(server: &ServerProcess, caller: Sipp, callee: Sipp) {
    let callee = callee.calls(CALLS);
    let caller = caller.users(server, 1..=CALLS).rate(100).peer(&callee);
    let callee = callee.peer(&caller).start(server);
    caller.run(server);
    callee.finish();
}

#[test]
fn stateless_proxy_without_authentication() {
    let server = start_server(&["--state", "stateless", "--auth", "off"], "");
    let callee = Sipp::new("callee");
    register(&server, &callee);
    call(&server, Sipp::new("invite").set("stateful", false), callee);
}

#[test]
fn stateless_proxy_with_authentication() {
    let server = start_server(&["--state", "stateless", "--auth", "on"], ONLY_MD5);
    let callee = Sipp::new("callee");
    Sipp::register(callee.port()).authenticated(true).users(&server, 2..=CALLS + 1).run(&server);
    let caller = Sipp::new("invite").set("stateful", false).authenticated(true);
    call(&server, caller, callee);
}

#[test]
fn caller_cancels_while_the_callee_rings() {
    let server = open_server();
    let callee = Sipp::new("callee_cancelled");
    register(&server, &callee);
    call(&server, Sipp::new("invite_cancelled"), callee);
}

#[test]
fn callee_is_busy() {
    let server = open_server();
    let callee = Sipp::new("callee_busy");
    register(&server, &callee);
    let caller = Sipp::new("invite_unanswered").set("status", 486).set("origin", "relayed_reply");
    call(&server, caller, callee);
}

#[test]
fn a_silent_callee_causes_408() {
    // Timer B is 64 times T1 (RFC 3261 section 17.1.1.2).
    let server = start_server(&["--auth", "off"], "[timers]\nt1 = \"50ms\"\n");
    let callee = Sipp::new("callee");
    let _silent =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, callee.port())).expect("the port can be bound");
    register(&server, &callee);
    Sipp::new("invite_unanswered")
        .set("status", 408)
        .set("origin", "reply")
        .users(&server, 1..=CALLS)
        .start(&server)
        .finish_with_repeats();
}

#[test]
fn two_contacts_ring_and_one_answers() {
    let server = open_server();
    let answering = Sipp::new("callee_late");
    let ringing = Sipp::new("callee_cancelled").calls(CALLS);
    Sipp::register_two((answering.port(), "0.7"), (ringing.port(), "0.7"))
        .users(&server, 2..=CALLS + 1)
        .run(&server);
    let caller = Sipp::new("invite").ringing_at(&ringing);
    let ringing = ringing.peer(&caller).start(&server);
    call(&server, caller, answering);
    ringing.finish();
}

#[test]
fn second_contact_is_tried_when_the_preferred_one_is_busy() {
    let server = open_server();
    let busy = Sipp::new("callee_busy").calls(CALLS);
    let answering = Sipp::new("callee");
    Sipp::register_two((answering.port(), "0.5"), (busy.port(), "0.9"))
        .users(&server, 2..=CALLS + 1)
        .run(&server);
    let caller = Sipp::new("invite");
    let busy = busy.peer(&caller).start(&server);
    call(&server, caller, answering);
    busy.finish();
}

fn bridge(from: Transport, to: Transport) {
    let server = open_server();
    let callee = Sipp::new("callee").transport(to);
    let parameters = if to == Transport::Tcp { ";transport=tcp" } else { "" };
    Sipp::register(callee.port())
        .set("contact_parameters", parameters)
        .users(&server, 2..=CALLS + 1)
        .run(&server);
    call(&server, Sipp::new("invite").transport(from), callee);
}

#[test]
fn tcp_caller_reaches_udp_callee() {
    bridge(Transport::Tcp, Transport::Udp);
}

#[test]
fn udp_caller_reaches_tcp_callee() {
    bridge(Transport::Udp, Transport::Tcp);
}

#[test]
fn tcp_caller_reaches_tcp_callee() {
    bridge(Transport::Tcp, Transport::Tcp);
}

#[test]
fn callee_changes_and_ends_the_call() {
    let server = open_server();
    let callee = Sipp::new("callee_reinvites");
    register(&server, &callee);
    call(&server, Sipp::new("invite_reinvited"), callee);
}
