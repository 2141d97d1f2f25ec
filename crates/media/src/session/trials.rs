//! The trial of further ports if no packet arrives from the port that the other end has named: its
//! NAT may have assigned one of the next ports.

use crate::negotiation::Stream;
use core::net::SocketAddr;
use core::time::Duration;

/// The duration without a packet after which the trials start.
const SILENCE: Duration = Duration::from_secs(2);
/// The number of ports to try after the named one.
const PORTS: u16 = 5;
/// The interval of the trial packets.
const INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of packets to each port: few in clear, since the named address may be that of
/// a third party.
const IN_CLEAR: u32 = 5;
const PROVEN: u32 = 25;

/// The trials of one named address.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    /// The time of the first packet to the named address.
    begun: Option<Duration>,
    next: Duration,
    sent: u32,
    /// The port from which audio arrived in clear.
    pub(super) found: Option<SocketAddr>,
}

/// Returns the ports to try: those after the `named` one, without the port of the other end's RTCP.
fn ports_behind(stream: &Stream, named: SocketAddr) -> impl Iterator<Item = u16> + use<> {
    let rtcp = stream.remote_rtcp.filter(|_| !stream.multiplexes_rtcp);
    let rtcp = rtcp.map(|rtcp| rtcp.port());
    let behind = (named.port()..=u16::MAX).skip(1);
    behind.filter(move |port| Some(*port) != rtcp).take(usize::from(PORTS))
}

impl Trials {
    /// Returns a further destination of a packet until a packet arrives: see
    /// [`Session::also`](crate::Session::also). `is_proven` is true if received packets are
    /// authenticated.
    pub(super) fn next(
        &mut self,
        now: Duration,
        stream: &Stream,
        is_proven: bool,
    ) -> Option<SocketAddr> {
        let named = stream.remote.filter(|_| stream.sends && stream.receives)?;
        let begun = *self.begun.get_or_insert(now);
        let each = if is_proven { PROVEN } else { IN_CLEAR };
        let is_over = self.sent >= each * u32::from(PORTS);
        if is_over || now < begun + SILENCE || now < self.next {
            return None;
        }
        let place = (self.sent % u32::from(PORTS)) as usize;
        self.sent += 1;
        self.next = now + INTERVAL;
        Some(SocketAddr::new(named.ip(), ports_behind(stream, named).nth(place)?))
    }

    /// Records the first audio packet, from `from`. A tried port replaces the named address.
    pub(super) fn note_first(&mut self, stream: &Stream, from: SocketAddr) {
        let Some(named) = stream.remote else { return };
        let was_tried = self.sent > 0 && from.ip() == named.ip();
        let tried = (self.sent as usize).min(usize::from(PORTS));
        if was_tried && ports_behind(stream, named).take(tried).any(|port| port == from.port()) {
            self.found = Some(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Session;
    use super::super::tests::{address, at, sessions};
    use super::*;
    use crate::negotiation::Security;
    use alloc::vec::Vec;

    /// Sends this range of frames without an answer. Returns the further ports with the number of
    /// packets to each.
    fn silent(session: &mut Session, frames: core::ops::Range<u32>) -> Vec<(u16, usize)> {
        let mut ports = Vec::new();
        for frame in frames {
            let mut out = Vec::new();
            assert!(session.send(&[0; 160], &mut out).unwrap().is_some());
            let also = session.also(at(frame));
            assert!(also.is_none_or(|to| to.ip() == address(1).ip()));
            ports.extend(also.map(|to| to.port()));
        }
        let mut counted: Vec<(u16, usize)> = Vec::new();
        for port in ports {
            match counted.iter_mut().find(|counted| counted.0 == port) {
                Some(counted) => counted.1 += 1,
                None => counted.push((port, 1)),
            }
        }
        counted
    }

    /// Passes a packet of the other end, from `port`, to `session`.
    fn hear(session: &mut Session, other: &mut Session, frame: u32, port: u16) {
        let mut packet = Vec::new();
        assert!(other.send(&[0; 160], &mut packet).unwrap().is_some());
        session.receive(at(frame), SocketAddr::new(address(1).ip(), port), &mut packet);
    }

    #[test]
    fn the_next_ports_are_tried_and_no_more_than_a_few_times() {
        for (security, each) in [(Security::Off, 5), (Security::Required, 25)] {
            let [mut session, _] = sessions(security);
            assert_eq!(silent(&mut session, 0..99), [], "two seconds are waited");
            let expected: Vec<_> = (5001..5006).map(|port| (port, each)).collect();
            assert_eq!(silent(&mut session, 99..3000), expected);
        }
    }

    #[test]
    fn the_first_port_from_which_sound_comes_is_kept() {
        for security in [Security::Off, Security::Required] {
            let [mut session, mut other] = sessions(security);
            silent(&mut session, 0..115);
            hear(&mut session, &mut other, 115, 5002);
            let mut out = Vec::new();
            let there = SocketAddr::new(address(1).ip(), 5002);
            assert_eq!(session.send(&[0; 160], &mut out).unwrap(), Some(there), "{security:?}");
            assert_eq!(session.also(at(116)), None);
            if security == Security::Off {
                hear(&mut session, &mut other, 117, 5003);
                assert_eq!(
                    session.send(&[0; 160], &mut out).unwrap(),
                    Some(there),
                    "another is a stranger"
                );
                hear(&mut session, &mut other, 118, 5000);
                assert_eq!(
                    session.send(&[0; 160], &mut out).unwrap(),
                    Some(address(1)),
                    "the named one"
                );
            }
        }
    }

    #[test]
    fn a_port_that_was_not_tried_is_not_followed_in_clear() {
        for port in [4999, 5001, 5006] {
            let [mut session, mut other] = sessions(Security::Off);
            // No port was tried yet.
            hear(&mut session, &mut other, 0, port);
            let mut out = Vec::new();
            assert_eq!(session.send(&[0; 160], &mut out).unwrap(), Some(address(1)), "{port}");
            assert_eq!(silent(&mut session, 1..500), [], "something has come");
        }
        let [mut session, mut other] = sessions(Security::Off);
        silent(&mut session, 0..500);
        hear(&mut session, &mut other, 500, 5006);
        assert_eq!(session.send(&[0; 160], &mut Vec::new()).unwrap(), Some(address(1)));
    }

    #[test]
    fn nobody_is_tried_where_nothing_is_to_come_and_never_rtcp() {
        let [mut session, _] = sessions(Security::Off);
        session.stream.receives = false;
        assert_eq!(silent(&mut session, 0..500), []);
        let [mut session, _] = sessions(Security::Off);
        session.stream.multiplexes_rtcp = false;
        let ports: Vec<_> = silent(&mut session, 0..500).iter().map(|tried| tried.0).collect();
        assert_eq!(ports, [5002, 5003, 5004, 5005, 5006]);
        let [mut session, _] = sessions(Security::Off);
        session.stream.remote = Some(SocketAddr::new(address(1).ip(), u16::MAX - 1));
        assert_eq!(silent(&mut session, 0..500), [(u16::MAX, 5)], "there are no more");
    }
}
