//! The twelve operations of row A2 of docs/sources.md, by SIPp: register, register update, register
//! logout, invite, invite not found, invite redirect; each without and with digest authentication;
//! with 10,000 users, and checks on every message.

use std::ops::RangeInclusive;

use peers::server::{DOMAIN, Registration};
use peers::sipp::Sipp;
use peers::sipp::users::{ONLY_MD5, USERS, domain, password, row, start_server, user};

/// Checks that exactly the users in `numbers` are registered, each with the one contact that has
/// this port, and with seconds left within `left`.
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

fn register_call_and_log_out(authenticated: bool) {
    let authentication = if authenticated { "on" } else { "off" };
    let server = start_server(&["--mode", "proxy", "--auth", authentication], ONLY_MD5);

    let callee = Sipp::new("callee").calls(1000);
    let port = callee.port();
    Sipp::register(port)
        .authenticated(authenticated)
        .users(&server, 1..=USERS)
        .rate(2000)
        .run(&server);
    check_registered(&server.registrations(), 1..USERS + 1, port, 3000..=3600);

    Sipp::register(port)
        .authenticated(authenticated)
        .set("expires", 1800)
        .set("granted", "1800|17[0-9][0-9]")
        .first_cseq(11)
        .users(&server, 1..=2000)
        .rate(1000)
        .run(&server);
    let now = server.registrations();
    check_registered(&now[..2000], 1..2001, port, 1..=1800);
    check_registered(&now[2000..], 2001..USERS + 1, port, 3000..=3600);

    let caller = Sipp::new("invite").authenticated(authenticated).users(&server, 2001..=3000);
    let caller = caller.peer(&callee);
    let callee = callee.peer(&caller).start(&server);
    caller.rate(250).run(&server);
    callee.finish();

    let strangers = (1..=1000)
        .map(|n| row(&user(n), &user(n), &password(n), &format!("nobody{n}"), &domain(&server, n)));
    Sipp::new("invite_failed")
        .authenticated(authenticated)
        .set("status", 404)
        .rows(strangers.collect())
        .run(&server);

    Sipp::new("logout")
        .authenticated(authenticated)
        .set("contact_port", port)
        .first_cseq(21)
        .users(&server, 1..=2000)
        .rate(1000)
        .run(&server);
    check_registered(&server.registrations(), 2001..USERS + 1, port, 3000..=3600);

    // RFC 3261 section 21.4.18: the callee exists, but is not logged in.
    Sipp::new("invite_failed")
        .authenticated(authenticated)
        .set("status", 480)
        .users(&server, 1..=100)
        .run(&server);
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
    let authentication = if authenticated { "on" } else { "off" };
    let server = start_server(&["--mode", "redirect", "--auth", authentication], ONLY_MD5);
    // Where the contacts point, nobody listens: a redirect server sends nothing there.
    let nobody = Sipp::new("callee");
    Sipp::register(nobody.port())
        .authenticated(authenticated)
        .users(&server, 1..=1001)
        .rate(1000)
        .run(&server);
    Sipp::new("invite_redirect")
        .authenticated(authenticated)
        .peer(&nobody)
        .users(&server, 1..=1000)
        .run(&server);
    Sipp::new("invite_failed")
        .authenticated(authenticated)
        .set("status", 480)
        .users(&server, 2001..=2100)
        .run(&server);
}

#[test]
fn invite_redirect_without_authentication() {
    redirect(false);
}

#[test]
fn invite_redirect_with_authentication() {
    redirect(true);
}
