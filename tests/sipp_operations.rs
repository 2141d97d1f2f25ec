//! The twelve basic operations by SIPp: register, register update, register logout, invite, invite
//! not found, invite redirect; each without and with digest authentication; with 10,000 users, and
//! checks on every message.

use std::ops::RangeInclusive;

use parking_lot::{Mutex, MutexGuard};
use peers::server::{DOMAIN, Registration, ServerProcess};
use peers::sipp::Sipp;
use peers::sipp::operations::Operations;
use peers::sipp::users::{ONLY_MD5, USERS, start_server, user};

/// Locked by a test, because 2,000 messages a second need most of a small machine.
static TURN: Mutex<()> = Mutex::new(());

/// Asserts that exactly the users in `numbers` are registered, each with a single contact at this
/// port and a remaining time within `left`.
fn check_registered(
    shown: &[Registration],
    numbers: impl ExactSizeIterator<Item = usize>,
    port: u16,
    left: RangeInclusive<u64>,
) {
    assert_eq!(shown.len(), numbers.len(), "bindings shown");
    for (shown, number) in shown.iter().zip(numbers) {
        let user = user(number);
        assert_eq!(shown.address_of_record, format!("{user}@{DOMAIN}"));
        assert_eq!(shown.contact, format!("sip:{user}@127.0.0.1:{port}"));
        assert!(left.contains(&shown.expires_in), "{shown:?}, expected {left:?}");
    }
}

fn start(mode: &str, authenticated: bool) -> (MutexGuard<'static, ()>, ServerProcess, Operations) {
    let turn = TURN.lock();
    let authentication = if authenticated { "on" } else { "off" };
    let server = start_server(&["--mode", mode, "--auth", authentication], ONLY_MD5);
    let operations = Operations { server: server.address(), authenticated, rate: 2000 };
    (turn, server, operations)
}

fn register_call_and_log_out(authenticated: bool) {
    let (_turn, server, operations) = start("proxy", authenticated);
    let callee = Sipp::new("callee");
    let port = callee.port();
    operations.register(1..=USERS, port);
    check_registered(&server.registrations(), 1..USERS + 1, port, 3000..=3600);

    operations.update(1..=2000, port);
    let now = server.registrations();
    check_registered(&now[..2000], 1..2001, port, 1..=1800);
    check_registered(&now[2000..], 2001..USERS + 1, port, 3000..=3600);

    operations.call(2001..=3000, callee);
    operations.call_nobody(1..=1000);

    operations.log_out(1..=2000, port);
    check_registered(&server.registrations(), 2001..USERS + 1, port, 3000..=3600);
    operations.call_absent(1..=100);
}

#[test]
fn register_update_logout_invite_and_not_found_without_authentication() {
    register_call_and_log_out(false);
}

#[test]
fn register_update_logout_invite_and_not_found_with_authentication() {
    register_call_and_log_out(true);
}

fn redirect(authenticated: bool) {
    let (_turn, _server, operations) = start("redirect", authenticated);
    // A redirect server sends nothing to the contacts, so their port is unused.
    let unused = Sipp::new("callee");
    operations.register(1..=1001, unused.port());
    operations.be_redirected(1..=1000, &unused);
    operations.call_absent(2001..=2100);
}

#[test]
fn invite_redirect_without_authentication() {
    redirect(false);
}

#[test]
fn invite_redirect_with_authentication() {
    redirect(true);
}
