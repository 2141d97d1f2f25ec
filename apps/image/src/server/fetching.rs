//! The transfers of the file of users: when they begin, and what follows their results.

use super::accounts::Trouble;
use super::{Phase, Server, config};
use alloc::string::String;
use core::net::Ipv4Addr;
use sip::{Duration, Instant};

/// Time to the next attempt after a rejected file of users, while users are served.
const AGAIN: Duration = Duration::from_secs(60);
/// Interval of the attempts to fetch a missing file.
const REMINDER: Duration = Duration::from_secs(10);

impl Server {
    /// The server and the name of the file of users. The options precede DHCP.
    fn source(&self) -> Option<(Ipv4Addr, String)> {
        let address = self.network.address()?;
        let host = self.options.tftp.or(address.tftp)?;
        Some((host, self.options.file.clone().or_else(|| address.file.clone())?))
    }

    pub(super) fn fetch(&mut self, now: Instant) {
        self.next_fetch = None;
        let Some((server, file)) = self.source() else {
            self.log.say(format_args!(
                "no file of users: neither DHCP nor the options tftp and file say where it is"
            ));
            self.next_fetch = Some(now + REMINDER);
            return;
        };
        self.log.say(format_args!("fetching the users: {file} from {server}"));
        // A random port of the dynamic range (RFC 6335), which cannot be guessed.
        let port = 49_152 + self.random.below(16_384) as u16;
        self.network.listen(port);
        let realm = config::domain(&self.options, self.ours()).name;
        self.accounts.fetch(now, server, &file, &realm, port, (self.memory)());
    }

    pub(super) fn go_on_with_accounts(&mut self, now: Instant) {
        if let Some(port) = self.accounts.port() {
            let result = match self.accounts.transmit(now) {
                Ok(Some((remote, bytes))) => {
                    self.network.send(now, port, remote, bytes);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(trouble) => Err(trouble),
            };
            self.on_fetch(result, now);
        }
        if self.accounts.has_come() {
            self.end_fetch();
        }
        if self.accounts.take_in(now, &self.engine, &mut self.out) {
            let count = self.accounts.len();
            self.log.say(format_args!("{count} users"));
            if self.options.refresh > Duration::ZERO {
                self.next_fetch = Some(now + self.options.refresh);
            }
            self.configure();
            if self.phase == Phase::Users {
                self.begin_to_serve(now);
            }
        }
        self.act(now);
    }

    pub(super) fn on_fetch(&mut self, result: Result<(), Trouble>, now: Instant) {
        let Err(trouble) = result else { return };
        let source = self.accounts.source();
        let (file, server) = source.unwrap_or(("", Ipv4Addr::UNSPECIFIED));
        self.log.say(format_args!(
            "the file of users was not taken: {trouble} (file {file} of {server})"
        ));
        self.end_fetch();
        let is_serving = self.phase == Phase::Ready;
        if is_serving {
            self.tell_age(now);
        }
        let is_often = self.options.refresh > Duration::ZERO && self.options.refresh < AGAIN;
        let pause = if is_serving && !is_often { AGAIN } else { REMINDER };
        self.next_fetch = Some(now + pause);
    }

    /// Logs the age of the users that are served.
    pub(super) fn tell_age(&mut self, now: Instant) {
        let realm = config::domain(&self.options, self.ours()).name;
        let Some(since) = self.accounts.since(&realm) else { return };
        let (count, age) = (self.accounts.len(), now.since(since).as_secs());
        self.log.say(format_args!("serving {count} users as they were read {age} s ago"));
    }

    pub(super) fn end_fetch(&mut self) {
        if let Some(port) = self.accounts.port() {
            self.network.close(port);
        }
        self.accounts.end_fetch();
    }
}
