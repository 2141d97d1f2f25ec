//! A DTLS handshake at its boundary.

use dtls::{Association, Event, Identity};
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The datagrams that one datagram causes at most: a flight, and its repetition.
const MAX_SENT: usize = 40;

/// The server, the client that it expects, and another client.
fn identities() -> &'static [Identity; 3] {
    static IDENTITIES: OnceLock<[Identity; 3]> = OnceLock::new();
    IDENTITIES.get_or_init(|| [(); 3].map(|()| Identity::generate().expect("a certificate")))
}

/// Makes a handshake with a server, in part with an unexpected certificate. Each step has a byte
/// that chooses it, and a byte for the length of its bytes: a datagram of a stranger, the next
/// datagram of the client, perhaps changed, or the time.
///
/// # Panics
/// An unexpected certificate yields keys, or the datagrams that one datagram causes are not
/// bounded.
pub fn dtls(bytes: &[u8]) {
    let [first, rest @ ..] = bytes else { return };
    let mut rest = rest;
    let [ours, expected, other] = identities();
    let is_expected = first & 1 == 0;
    let begin = Instant::now();
    let mut now = begin;
    let new = |identity, is_client| Association::new(identity, is_client, begin);
    let mut server = new(ours, false).expect("an association begins");
    let mut client = new(if is_expected { expected } else { other }, true).expect("a client");
    server.expect([expected.fingerprint()]);
    client.expect([ours.fingerprint()]);
    let [mut to_server, mut to_client] = [VecDeque::<Vec<u8>>::new(), VecDeque::new()];
    let mut has_client = true;
    while let [choice, length, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min((*length).into()));
        rest = after;
        if has_client {
            has_client = poll(&mut client, &mut to_server).is_some();
        }
        let datagram = match choice & 3 {
            0 => bytes.to_vec(),
            1 => {
                now += Duration::from_millis(100 * u64::from(choice >> 2));
                has_client = has_client && client.on_timeout(now).is_ok();
                Vec::new()
            }
            _ => {
                let mut datagram = to_server.pop_front().unwrap_or_default();
                for change in bytes.chunks_exact(2).filter(|_| choice & 3 == 3) {
                    let at = usize::from(change[0]) * datagram.len() / 256;
                    datagram.get_mut(at).into_iter().for_each(|byte| *byte ^= change[1]);
                }
                datagram
            }
        };
        if server.receive(now, &datagram).is_err() {
            return;
        }
        let before = to_client.len();
        let Some(has_keys) = poll(&mut server, &mut to_client) else { return };
        assert!(is_expected || !has_keys, "an unexpected certificate yields keys");
        assert!(to_client.len() - before <= MAX_SENT, "{} datagrams", to_client.len() - before);
        while let Some(datagram) = to_client.pop_front() {
            has_client = has_client && client.receive(now, &datagram).is_ok();
        }
    }
}

/// Takes the datagrams of an association, and returns true if it has yielded keys. `None` after its
/// end.
fn poll(association: &mut Association, sent: &mut VecDeque<Vec<u8>>) -> Option<bool> {
    let mut has_keys = false;
    loop {
        match association.poll().ok()? {
            Event::Send(datagram) => sent.push_back(datagram.to_vec()),
            Event::Keys(_) => has_keys = true,
            Event::Wait(_) => return Some(has_keys),
        }
    }
}
