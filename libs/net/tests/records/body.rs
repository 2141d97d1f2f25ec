//! TLS between two peers, with bytes that arrive in pieces of any length, some of them modified.

use net::tls::{Client, ClientCertificates, Identity, Server, ServerName, Session, Trust};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The two configurations, created once because certificates take time.
fn ends() -> &'static (Client, Server) {
    static ENDS: OnceLock<(Client, Server)> = OnceLock::new();
    ENDS.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("barebell-records-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [chain, key]: [PathBuf; 2] = ["chain.pem", "key.pem"].map(|name| folder.join(name));
        net::tls::make_self_signed(&["example.org".to_owned()], &chain, &key).expect("a pair");
        let identity = Identity::read(&chain, &key).expect("the pair");
        let trust = Trust::Pinned(identity.fingerprint());
        std::fs::remove_dir_all(&folder).expect("the folder");
        let client = Client::new(&trust, None, false).expect("a client");
        let server = Server::new(vec![identity], &ClientCertificates::Off, None);
        (client, server.expect("a server"))
    })
}

/// One peer: the bytes that it has sent and received, and those in transit to it.
struct End {
    session: Session,
    said: Vec<u8>,
    heard: Vec<u8>,
    coming: Vec<u8>,
    /// True if a byte in transit to it was modified.
    is_attacked: bool,
    has_failed: bool,
}

impl End {
    fn new(session: Session) -> Self {
        let empty = Vec::new;
        let (said, heard, coming) = (empty(), empty(), empty());
        Self { session, said, heard, coming, is_attacked: false, has_failed: false }
    }

    fn say(&mut self, length: usize) {
        // Data sent early waits for the end of the handshake. It is bounded, as in the programs.
        if self.said.len() < 1 << 18 {
            let bytes: Vec<u8> = (0..length).map(|at| (at + self.said.len()) as u8).collect();
            self.session.send(&bytes);
            self.said.extend_from_slice(&bytes);
        }
    }

    /// Receives up to `length` of the bytes in transit.
    fn take(&mut self, length: usize) {
        let piece: Vec<u8> = self.coming.drain(..length.min(self.coming.len())).collect();
        self.has_failed |= self.session.receive(&piece, &mut self.heard).is_err();
    }
}

/// Puts the output of one peer in transit to the other.
fn pass(from: &mut End, to: &mut End) {
    from.session.take(&mut to.coming);
}

/// Runs two peers by pairs of `bytes`: each pair sends data, modifies a byte in transit, or
/// receives a piece.
///
/// # Panics
/// If a peer receives data that the other has not sent or, without modification, does not receive
/// everything.
pub(crate) fn records(bytes: &[u8]) {
    let (client, server) = ends();
    let name = ServerName::try_from("example.org").expect("a name");
    let caller = client.connect(name.to_owned()).expect("a session");
    let mut ends = [End::new(caller), End::new(server.accept().expect("a session"))];
    for &[what, how_much] in bytes.as_chunks::<2>().0 {
        let [caller, called] = &mut ends;
        pass(caller, called);
        pass(called, caller);
        let end = &mut ends[usize::from(what & 1)];
        match (what >> 1) & 3 {
            0 => end.say(usize::from(how_much) << (what >> 5)),
            1 if !end.coming.is_empty() => {
                let at = usize::from(how_much) % end.coming.len();
                end.coming[at] ^= (what >> 3) | 1;
                end.is_attacked = true;
            }
            _ => end.take(usize::from(how_much) + 1),
        }
    }
    // Everything in transit arrives.
    for _ in 0..8 {
        let [caller, called] = &mut ends;
        pass(caller, called);
        called.take(usize::MAX);
        pass(called, caller);
        caller.take(usize::MAX);
    }
    let [caller, called] = &ends;
    let is_attacked = caller.is_attacked || called.is_attacked;
    for (from, to) in [(caller, called), (called, caller)] {
        assert!(from.said.starts_with(&to.heard), "what was not said is not heard");
        assert!(is_attacked || (from.said == to.heard && !to.has_failed), "all is heard");
    }
}
