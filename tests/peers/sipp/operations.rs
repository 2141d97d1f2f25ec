//! The operations of the call load, with checks on every message (docs/sources.md lists them).

use super::Sipp;
use super::users::{domain, password, row, user};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// The server and rate of the operations.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    /// The server.
    pub server: SocketAddr,
    /// True if the server requires authentication. Every user has credentials.
    pub authenticated: bool,
    /// New registrations per second. Refreshes and removals have half this rate, rejected calls a
    /// quarter, and calls an eighth.
    pub rate: usize,
}

impl Operations {
    fn users(&self, sipp: Sipp, numbers: RangeInclusive<usize>) -> Sipp {
        sipp.authenticated(self.authenticated).users(self.server, numbers)
    }

    /// Registers users for an hour, each with a contact at `port`.
    pub fn register(&self, numbers: RangeInclusive<usize>, port: u16) {
        self.users(Sipp::register(port), numbers).rate(self.rate).run(self.server);
    }

    /// Refreshes the registrations for half an hour.
    pub fn update(&self, numbers: RangeInclusive<usize>, port: u16) {
        let again = Sipp::register(port).set("expires", 1800).set("granted", "1800|17[0-9][0-9]");
        self.users(again.first_cseq(11), numbers).rate(self.rate / 2).run(self.server);
    }

    /// Removes the contacts.
    pub fn log_out(&self, numbers: RangeInclusive<usize>, port: u16) {
        let logout = Sipp::new("logout").set("contact_port", port).first_cseq(21);
        self.users(logout, numbers).rate(self.rate / 2).run(self.server);
    }

    /// Each user calls the next one, at the contact of `callee`.
    pub fn call(&self, numbers: RangeInclusive<usize>, callee: Sipp) {
        let callee = callee.calls(numbers.clone().count());
        let caller = self.users(Sipp::new("invite"), numbers).peer(&callee);
        let callee = callee.peer(&caller).start(self.server);
        caller.rate(self.rate / 8).run(self.server);
        callee.finish();
    }

    /// Each user calls a user that does not exist.
    pub fn call_nobody(&self, numbers: RangeInclusive<usize>) {
        let strangers = numbers.map(|number| {
            let (caller, callee) = (user(number), format!("nobody{number}"));
            row(&caller, &caller, &password(number), &callee, &domain(self.server, number))
        });
        self.refused(404).rows(strangers.collect()).run(self.server);
    }

    /// Each user calls the next one, which is not registered (RFC 3261 section 21.4.18).
    pub fn call_absent(&self, numbers: RangeInclusive<usize>) {
        self.users(self.refused(480), numbers).run(self.server);
    }

    fn refused(&self, status: u16) -> Sipp {
        let sipp = Sipp::new("invite_failed").set("status", status).rate(self.rate / 4);
        sipp.authenticated(self.authenticated)
    }

    /// Each user calls the next one and is redirected to its contact at `callee`.
    pub fn be_redirected(&self, numbers: RangeInclusive<usize>, callee: &Sipp) {
        let sipp = Sipp::new("invite_redirect").peer(callee).rate(self.rate / 4);
        self.users(sipp, numbers).run(self.server);
    }
}
