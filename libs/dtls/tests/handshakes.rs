//! Handshakes between two ends.

use dtls::{Association, AssociationError, Event, Identity, SrtpKeys};
use srtp::{Policy, Receiver, Sender};
use std::time::{Duration, Instant};

/// Two ends, the first of which is the client, and their keys.
struct Pair {
    ends: [Association; 2],
    keys: [Option<SrtpKeys>; 2],
    now: Instant,
}

impl Pair {
    fn new(identities: &[Identity; 2]) -> Self {
        let now = Instant::now();
        let end = |at: usize| Association::new(&identities[at], at == 0, now).unwrap();
        Self { ends: [end(0), end(1)], keys: [None, None], now }
    }

    /// Passes datagrams until both ends wait. Every `lost`th is lost, if not zero.
    fn run(&mut self, lost: usize) -> Result<(), AssociationError> {
        let mut sent = 0;
        for _ in 0..200 {
            let mut is_silent = true;
            for at in [0, 1] {
                let mut datagrams = Vec::new();
                loop {
                    match self.ends[at].poll()? {
                        Event::Send(datagram) => datagrams.push(datagram.to_vec()),
                        Event::Keys(keys) => self.keys[at] = Some(keys),
                        Event::Wait(_) => break,
                    }
                }
                for datagram in datagrams {
                    is_silent = false;
                    sent += 1;
                    if lost == 0 || sent % lost != 0 {
                        self.ends[1 - at].receive(self.now, &datagram)?;
                    }
                }
            }
            if is_silent {
                if self.keys.iter().all(Option::is_some) || lost == 0 {
                    return Ok(());
                }
                self.now += Duration::from_secs(1);
                self.ends[0].on_timeout(self.now)?;
                self.ends[1].on_timeout(self.now)?;
            }
        }
        panic!("the ends never wait");
    }
}

fn identities() -> [Identity; 2] {
    [Identity::generate().unwrap(), Identity::generate().unwrap()]
}

/// Sends a packet from the end with the first keys to that with the second.
fn pass(from: &SrtpKeys, to: &SrtpKeys) {
    let policy = Policy::new(from.suite);
    let mut sender = Sender::new(&policy, vec![from.local.clone()]).unwrap();
    let mut receiver = Receiver::new(&policy, vec![to.remote.clone()]).unwrap();
    let plain = [&[0x80, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 7][..], &[0x55; 160]].concat();
    let mut packet = plain.clone();
    packet.resize(plain.len() + 64, 0);
    let length = sender.protect(&mut packet, plain.len()).unwrap();
    assert_ne!(packet[12..plain.len()], plain[12..]);
    assert_eq!(receiver.unprotect(&mut packet[..length]).unwrap(), plain);
}

#[test]
fn both_ends_get_the_same_keys() {
    let identities = identities();
    for lost in [0, 3] {
        let mut pair = Pair::new(&identities);
        pair.ends[0].expect([identities[1].fingerprint()]);
        pair.ends[1].expect([identities[0].fingerprint()]);
        pair.run(lost).unwrap();
        let [Some(client), Some(server)] = &pair.keys else { panic!("no keys") };
        assert_eq!(client.suite, server.suite);
        pass(client, server);
        pass(server, client);
    }
}

#[test]
fn there_are_no_keys_before_the_description() {
    let identities = identities();
    for late in [0, 1] {
        let mut pair = Pair::new(&identities);
        pair.ends[1 - late].expect([identities[late].fingerprint()]);
        pair.run(0).unwrap();
        assert!(pair.keys[late].is_none() && pair.keys[1 - late].is_some());
        // Timers run meanwhile.
        for _ in 0..50 {
            pair.now += Duration::from_millis(20);
            pair.ends[late].on_timeout(pair.now).unwrap();
            pair.run(0).unwrap();
        }
        pair.ends[late].expect([identities[1 - late].fingerprint()]);
        pair.run(0).unwrap();
        assert!(pair.keys[late].is_some(), "{late}");
    }
}

#[test]
fn another_certificate_than_that_of_the_description_is_refused() {
    let (identities, stranger) = (identities(), Identity::generate().unwrap());
    for place in [0, 1] {
        let mut pair = Pair::new(&identities);
        pair.ends[0].expect([identities[1].fingerprint()]);
        pair.ends[1].expect([identities[0].fingerprint()]);
        pair.ends[place].expect([stranger.fingerprint()]);
        assert_eq!(pair.run(0), Err(AssociationError::Fingerprint));
        assert!(pair.keys[place].is_none());
    }
}

#[test]
fn malformed_datagrams_do_not_end_a_handshake() {
    let identities = identities();
    let mut pair = Pair::new(&identities);
    for datagram in
        [&[][..], &[22], &[22; 13], &[0xff; 100], b"\x16\xfe\xfd\0\0\0\0\0\0\0\0\0\x01a"]
    {
        pair.ends[1].receive(pair.now, datagram).unwrap();
    }
    pair.ends[0].expect([identities[1].fingerprint()]);
    pair.ends[1].expect([identities[0].fingerprint()]);
    pair.run(0).unwrap();
    assert!(pair.keys.iter().all(Option::is_some));
}
