//! The media of one dialog: its offers and answers, and the session that they result in.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use media::{Clock, Negotiator, Random, Refusal, ReportSeed, Seed, Session, SessionError, Stream};

/// The media of one dialog.
pub(crate) struct DialogMedia {
    pub(crate) negotiator: Negotiator,
    pub(crate) session: Option<Session>,
}

/// The properties of new sessions.
#[derive(Clone, Copy)]
pub(crate) struct SessionSetup {
    pub(crate) suppresses_silence: bool,
    pub(crate) stopwatch: Option<Clock>,
    /// The host that a loopback address of the other end means.
    pub(crate) host: Option<IpAddr>,
}

impl DialogMedia {
    pub(crate) const fn new(negotiator: Negotiator) -> Self {
        Self { negotiator, session: None }
    }

    /// Answers `offer`, and starts or renews the session.
    pub(crate) fn answer(
        &mut self,
        setup: SessionSetup,
        now: Duration,
        offer: &[u8],
        random: Random<'_>,
    ) -> Result<alloc::vec::Vec<u8>, Refusal> {
        let (answer, stream) = self.negotiator.answer(offer, random)?;
        self.carry(setup, now, stream, random)?;
        Ok(answer)
    }

    /// Processes the answer to the local offer, and starts or renews the session.
    pub(crate) fn accept(
        &mut self,
        setup: SessionSetup,
        now: Duration,
        answer: &[u8],
        random: Random<'_>,
    ) -> Result<(), Refusal> {
        let stream = self.negotiator.accept(answer)?;
        Ok(self.carry(setup, now, stream, random)?)
    }

    fn carry(
        &mut self,
        setup: SessionSetup,
        now: Duration,
        mut stream: Stream,
        random: Random<'_>,
    ) -> Result<(), SessionError> {
        if let Some(host) = setup.host {
            for remote in [&mut stream.remote, &mut stream.remote_rtcp].into_iter().flatten() {
                *remote = seen_from(host, *remote);
            }
        }
        if let Some(session) = &mut self.session {
            return session.renew(stream);
        }
        let mut bytes = [0; 8];
        random(&mut bytes);
        let number = u64::from_le_bytes(bytes);
        let seed = Seed {
            ssrc: number as u32,
            // The rollover counter is easier to synchronize from the lower half (RFC 3711 section
            // 3.3.1).
            sequence_number: (number >> 32) as u16 >> 1,
            timestamp: (number >> 16) as u32,
        };
        let mut session = Session::measured(stream, seed, setup.stopwatch)?;
        let mut bytes = [0; 24];
        random(&mut bytes);
        // The clock of the engines counts from the Unix epoch.
        let time_of_day = Duration::ZERO;
        session.start_reports(now, ReportSeed { random: bytes, time_of_day, extended: false });
        if setup.suppresses_silence {
            session.suppress_silence();
        }
        self.session = Some(session);
        Ok(())
    }
}

/// Returns the address of the other end's media, which its description gives as `remote`. A
/// loopback address means `host`.
fn seen_from(host: IpAddr, remote: SocketAddr) -> SocketAddr {
    let ip = if remote.ip().is_loopback() { host } else { remote.ip() };
    SocketAddr::new(ip, remote.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_means_the_host_of_the_signalling() {
        let host = IpAddr::from([10, 0, 2, 2]);
        for (named, meant) in [
            ("127.0.0.1:4000", "10.0.2.2:4000"),
            ("127.1.2.3:4001", "10.0.2.2:4001"),
            ("192.0.2.9:4000", "192.0.2.9:4000"),
        ] {
            let [named, meant] = [named, meant].map(|place| place.parse().expect("an address"));
            assert_eq!(seen_from(host, named), meant);
        }
    }
}
