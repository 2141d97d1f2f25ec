//! Registrations by SIPp: they survive crashes and require the password.

use std::collections::BTreeSet;

use peers::process::wait_until;
use peers::server::{DOMAIN, ServerProcess};
use peers::sipp::users::{ONLY_MD5, USERS, domain, password, row, start_server, user};
use peers::sipp::{Running, Sipp};

/// Waits until SIPp's log has this number of lines.
fn wait_for_log(running: &Running, lines: usize) {
    wait_until(&format!("{lines} replies"), || (running.log().len() >= lines).then_some(()));
}

/// The users with a binding.
fn registered(server: &ServerProcess) -> BTreeSet<String> {
    let suffix = format!("@{DOMAIN}");
    let user = |address: String| {
        let user = address.strip_suffix(&suffix);
        user.unwrap_or_else(|| panic!("not a local address-of-record: {address}")).to_owned()
    };
    server.registrations().into_iter().map(|found| user(found.address_of_record)).collect()
}

/// Kills the server with SIGKILL three times while the phones of `running` register. Calls `check`
/// each time with the users that have received a 200.
fn crash_under(
    mut server: ServerProcess,
    running: Running,
    check: impl Fn(&BTreeSet<String>, &BTreeSet<String>),
) -> ServerProcess {
    for share in 1..=3 {
        wait_for_log(&running, USERS * share / 4);
        server.crash();
        let answered: BTreeSet<String> = running.log().into_iter().collect();
        assert!(answered.len() < USERS, "the phones finished before the crash");
        server.restart();
        check(&answered, &registered(&server));
    }
    // Lost messages are retransmitted, so no registration fails.
    running.finish_with_repeats();
    server
}

#[test]
fn acknowledged_registrations_survive_a_crash() {
    let server = start_server(&["--auth", "off"], "");
    let running = Sipp::register(5060).users(&server, 1..=USERS).rate(1000).start(&server);
    let all_users: BTreeSet<String> = (1..=USERS).map(user).collect();
    let server = crash_under(server, running, |answered, found| {
        let lost: Vec<_> = answered.difference(found).collect();
        assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), answered.len());
    });
    assert!(registered(&server) == all_users, "a user is not registered at the end");

    let running = Sipp::new("logout")
        .set("contact_port", 5060)
        .first_cseq(11)
        .users(&server, 1..=USERS)
        .rate(1000)
        .start(&server);
    let server = crash_under(server, running, |answered, found| {
        let back: Vec<_> = answered.intersection(found).collect();
        assert!(back.is_empty(), "{} of {} came back: {back:?}", back.len(), answered.len());
    });
    assert_eq!(registered(&server), BTreeSet::new());
}

#[test]
fn unstored_registrations_are_lost_with_the_server() {
    let memory_only = "[storage]\nregistrations = false\n";
    let mut server = start_server(&["--auth", "off"], memory_only);
    Sipp::register(5060).users(&server, 1..=10).run(&server);
    assert_eq!(registered(&server).len(), 10);
    server.crash();
    server.restart();
    assert_eq!(registered(&server), BTreeSet::new());
    Sipp::register(5060).users(&server, 1..=10).run(&server);
    assert_eq!(registered(&server).len(), 10);
}

#[test]
fn wrong_credentials_are_rejected() {
    let server = start_server(&["--auth", "on"], ONLY_MD5);
    let wrong_password =
        (1..=20).map(|n| row(&user(n), &user(n), "wrong", "", &domain(&server, n)));
    let phones = |scenario, rows| {
        Sipp::new(scenario).set("contact_port", 5060).set("expires", 3600).rows(rows)
    };
    phones("register_refused", wrong_password.collect()).run(&server);

    let unknown = (1..=20).map(|n| {
        let name = format!("nobody{n}");
        row(&name, &name, &password(n), "", &domain(&server, n))
    });
    phones("register_refused", unknown.collect()).run(&server);

    let anothers = (1..=20)
        .map(|n| row(&user(n), &user(n + 100), &password(n + 100), "", &domain(&server, n)));
    phones("register_forbidden", anothers.collect()).run(&server);
    assert_eq!(registered(&server), BTreeSet::new());

    let callers = (1..=20).map(|n| {
        row(&user(n), &user(n + 100), &password(n + 100), &user(500), &domain(&server, n))
    });
    Sipp::new("invite_failed")
        .authenticated(true)
        .set("status", 403)
        .rows(callers.collect())
        .run(&server);
}

#[test]
fn the_configured_algorithms_are_offered_in_order() {
    let all = "[authentication]\nalgorithms = [\"SHA-512-256\", \"SHA-256\", \"MD5\"]\n";
    let server = start_server(&["--auth", "on"], all);
    Sipp::new("register_challenged").set("expires", 3600).users(&server, 1..=100).run(&server);
}
