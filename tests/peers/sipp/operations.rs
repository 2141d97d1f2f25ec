//! The operations of row A2 of docs/sources.md, with checks on every message.

use super::Sipp;
use super::users::{domain, password, row, user};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Who does them, and where.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    /// The server.
    pub server: SocketAddr,
    /// Whether it asks for credentials, which each user has.
    pub authenticated: bool,
    /// New registrations a second. There are half as many refreshes and removals, a quarter as many
    /// refused calls, and an eighth as many calls.
    pub rate: usize,
}

impl Operations {
    fn users(&self, sipp: Sipp, numbers: RangeInclusive<usize>) -> Sipp {
        sipp.authenticated(self.authenticated).users(self.server, numbers)
    }

    /// Users register for an hour, each a contact at `port`.
    pub fn register(&self, numbers: RangeInclusive<usize>, port: u16) {
        self.users(Sipp::register(port), numbers).rate(self.rate).run(self.server);
    }

    /// They register again, for half an hour.
    pub fn update(&self, numbers: RangeInclusive<usize>, port: u16) {
        let again = Sipp::register(port).set("expires", 1800).set("granted", "1800|17[0-9][0-9]");
        self.users(again.first_cseq(11), numbers).rate(self.rate / 2).run(self.server);
    }

    /// They remove their contacts.
    pub fn log_out(&self, numbers: RangeInclusive<usize>, port: u16) {
        let logout = Sipp::new("logout").set("contact_port", port).first_cseq(21);
        self.users(logout, numbers).rate(self.rate / 2).run(self.server);
    }

    /// Each calls the next one, at whose contact is `callee`.
    pub fn call(&self, numbers: RangeInclusive<usize>, callee: Sipp) {
        let callee = callee.calls(numbers.clone().count());
        let caller = self.users(Sipp::new("invite"), numbers).peer(&callee);
        let callee = callee.peer(&caller).start(self.server);
        caller.rate(self.rate / 8).run(self.server);
        callee.finish();
    }

    /// Each calls somebody whom there is not.
    pub fn call_nobody(&self, numbers: RangeInclusive<usize>) {
        let strangers = numbers.map(|number| {
            let (caller, callee) = (user(number), format!("nobody{number}"));
            row(&caller, &caller, &password(number), &callee, &domain(self.server, number))
        });
        self.refused(404).rows(strangers.collect()).run(self.server);
    }

    /// Each calls the next one, who is not registered (RFC 3261 section 21.4.18).
    pub fn call_absent(&self, numbers: RangeInclusive<usize>) {
        self.users(self.refused(480), numbers).run(self.server);
    }

    fn refused(&self, status: u16) -> Sipp {
        let sipp = Sipp::new("invite_failed").set("status", status).rate(self.rate / 4);
        sipp.authenticated(self.authenticated)
    }

    /// Each calls the next one, and is told to call the contact, where `callee` is.
    pub fn be_redirected(&self, numbers: RangeInclusive<usize>, callee: &Sipp) {
        let sipp = Sipp::new("invite_redirect").peer(callee).rate(self.rate / 4);
        self.users(sipp, numbers).run(self.server);
    }
}
