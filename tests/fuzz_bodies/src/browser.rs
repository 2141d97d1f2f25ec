//! The leg of a browser: descriptions, checks of ICE, handshakes and media.

use ice::stun::{BINDING, Class, TransactionId, Writer, attribute_type as at};
use ice::{CheckOutcome, Credentials, LiteAgent};
use parking_lot::{Mutex, RawMutex};
use relay::{
    Calls, Channel, End, Host, Keying, Limits, NoPort, Passage, Ports, Relay, Role, Side, Stream,
    Way,
};
use sdp::dtls::{Fingerprint, HashFunction};
use srtp::{MasterKey, Suite};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const SUITE: Suite = Suite::AeadAes128Gcm;
const PHONE: ([u8; 4], u16) = ([203, 0, 113, 1], 6000);
/// The description of the phone.
const ANSWER: &str = "v=0\r\nc=IN IP4 203.0.113.1\r\nm=audio 6000 RTP/AVP 0\r\n";

/// A host that keeps its first stream.
struct OneStream {
    stream: Mutex<Option<Arc<Stream<RawMutex>>>>,
    random: AtomicU8,
    fingerprint: Fingerprint,
}

struct Pair;

impl Ports for Pair {
    fn rtp(&self) -> [u16; 2] {
        [20000, 20002]
    }
}

impl Host<RawMutex> for OneStream {
    type Ports = Pair;

    fn open(&self, stream: &Arc<Stream<RawMutex>>, _: [IpAddr; 2]) -> Result<Pair, NoPort> {
        self.stream.lock().get_or_insert_with(|| Arc::clone(stream));
        Ok(Pair)
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        Some(&self.fingerprint)
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.random.fetch_add(37, Ordering::Relaxed));
    }
}

/// A check with these credentials. The bytes are the number and the value of one attribute.
fn check(ufrag: &str, theirs: &str, password: &str, bytes: &[u8], nominates: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(Class::Request, BINDING, TransactionId([9; 12]), &mut out);
    let name = format!("{ufrag}:{theirs}").into_bytes();
    let mut fields: Vec<(u16, &[u8])> = vec![(at::USERNAME, &name), (at::PRIORITY, &[0, 0, 0, 9])];
    if nominates {
        fields.push((at::USE_CANDIDATE, &[]));
    }
    if let [high, low, value @ ..] = bytes {
        fields.push((u16::from_be_bytes([*high, *low]), value));
    }
    // An attribute that does not fit is left out.
    for (number, value) in fields {
        let _ = writer.attribute(number, value);
    }
    let _ = writer.integrity(password.as_bytes());
    let _ = writer.fingerprint();
    out
}

/// Passes datagrams to an agent of ICE lite. Each has a byte that chooses its form and its source,
/// and a byte for its length.
///
/// # Panics
/// A check without the password is taken, or its response is longer than it.
pub fn ice(bytes: &[u8]) {
    let mut agent = LiteAgent::new(Credentials::new(&[5; 32]));
    agent.set_remote("peer");
    let (mut rest, mut out, mut now) = (bytes, Vec::new(), Duration::ZERO);
    while let [choice, length, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min((*length).into()));
        rest = after;
        now += Duration::from_secs(1);
        let Credentials { ufrag, password } = agent.local().clone();
        let (datagram, is_ours) = match choice & 3 {
            0 => (bytes.to_vec(), false),
            1 => (check(&ufrag, "peer", "another password", bytes, choice & 4 != 0), false),
            _ => (check(&ufrag, "peer", &password, bytes, choice & 4 != 0), true),
        };
        let from = SocketAddr::from(([198, 51, 100, 7], u16::from(choice >> 3)));
        let before = (agent.selected(), agent.consent_end());
        let _ = ::ice::called_ufrag(&datagram);
        match agent.receive(now, from, &datagram, &mut out) {
            CheckOutcome::Success { is_new_selection } => {
                assert!(is_ours, "a check without the password is taken");
                assert!(agent.is_checked(from));
                assert_eq!(before.0 != agent.selected(), is_new_selection);
            }
            other => {
                assert_eq!(before, (agent.selected(), agent.consent_end()));
                assert!(other == CheckOutcome::Ignored || out.len() <= datagram.len());
            }
        }
    }
}

/// Passes descriptions and datagrams to a relay. Each has a byte that chooses its form and its
/// source, and a byte for its length.
///
/// # Panics
/// A stranger is answered with more bytes than it sent, or makes a handshake; media pass before
/// the keys, or go to an address without an authentic check.
pub fn browser(bytes: &[u8]) {
    let fingerprint = Fingerprint { hash: HashFunction::Sha256, bytes: vec![7; 32] };
    let host = OneStream { stream: Mutex::default(), random: AtomicU8::new(1), fingerprint };
    let relay: Relay<RawMutex, _> = Relay::new(host, Limits::default());
    let permits = |_: SocketAddr| true;
    let end = |host: [u8; 4]| End::new((host, 5060).into(), [192, 0, 2, 1].into(), &permits);
    let (page, mut phone) = (end([198, 51, 100, 1]), end(PHONE.0));
    phone.keying = Keying::Clear;
    let passage = |is_first: bool, by, role| {
        let ([from_tag, to_tag], [from, to]) = match by {
            Side::Caller if is_first => ([&b"caller"[..], b""], [page, phone]),
            Side::Caller => ([&b"caller"[..], b"callee"], [page, phone]),
            Side::Callee => ([&b"callee"[..], b"caller"], [phone, page]),
        };
        Passage {
            call_id: b"c",
            branch: is_first.then_some(b"b"),
            from_tag,
            to_tag,
            from,
            to,
            role,
            side: by,
            begins: is_first && by == Side::Caller,
            parties: [b"", b""],
            owner: 0,
            now: Duration::ZERO,
        }
    };
    let mut exchange = 0;
    // The page offers, and the phone answers: the description that the page gets.
    let mut describe = |offer: &[u8]| {
        let is_first = exchange == 0;
        exchange += 1;
        let role = Role::Offer { exchange };
        relay.describe(&passage(is_first, Side::Caller, role), offer).ok()?;
        let role = Role::Response { exchange, is_final: true };
        let answer = passage(is_first, Side::Callee, role);
        let answered = relay.describe(&answer, ANSWER.as_bytes()).ok().flatten();
        if is_first {
            relay.confirm(b"c", b"b", b"callee", Duration::ZERO);
        }
        answered
    };
    let own = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=rtcp-mux\r\n\
         a=ice-ufrag:page\r\na=ice-pwd:abcdefghijklmnopqrstuv\r\n\
         a=fingerprint:sha-256{}\r\na=setup:actpass\r\na=mid:0\r\n",
        " 07".to_owned() + &":07".repeat(31)
    );
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().to_owned()
    };
    let answer = describe(own.as_bytes()).expect("the call is relayed");
    let stream = relay.host().stream.lock().clone().expect("the call has a stream");
    let mut ours = [value(&answer, "a=ice-ufrag:"), value(&answer, "a=ice-pwd:")];
    let (mut checked, mut has_keys, mut now) = (Vec::new(), false, Duration::ZERO);
    let mut buffer = [0; 2048];
    let mut rest = bytes;
    while let [choice, length, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min((*length).into()));
        rest = after;
        now += Duration::from_millis(20);
        let from = SocketAddr::from(([198, 51, 100, 7], 1 + u16::from(choice >> 5)));
        let (side, from, datagram, is_ours) = match choice & 7 {
            0 | 1 => (Side::Caller, from, bytes.to_vec(), false),
            2 => (Side::Caller, from, check(&ours[0], "page", &ours[1], bytes, true), true),
            3 => (Side::Caller, from, check(&ours[0], "page", "wrong", bytes, true), false),
            4 => (Side::Callee, PHONE.into(), bytes.to_vec(), false),
            5 => {
                let mut packet = vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
                packet.extend(bytes);
                (Side::Callee, PHONE.into(), packet, false)
            }
            6 => {
                // A line in the place of another one, so that the rest of the description stays.
                let mut lines: Vec<&[u8]> = own.lines().map(str::as_bytes).collect();
                let at = usize::from(choice >> 3) % lines.len();
                lines[at] = bytes;
                if let Some(answer) = describe(&[&lines.join(&b"\r\n"[..])[..], b"\r\n"].concat()) {
                    ours = [value(&answer, "a=ice-ufrag:"), value(&answer, "a=ice-pwd:")];
                }
                continue;
            }
            _ => {
                let key = MasterKey::new(SUITE, &[choice | 1; 28]).expect("a key of the suite");
                has_keys |= stream.set_keys(Side::Caller, SUITE, key.clone(), key).is_ok();
                continue;
            }
        };
        buffer[..datagram.len()].copy_from_slice(&datagram);
        let channel = if choice & 0x18 == 0x18 { Channel::Rtcp } else { Channel::Rtp };
        let relayed = stream.relay(side, channel, from, &mut buffer, datagram.len(), now);
        let Ok(relayed) = relayed else { continue };
        match relayed.way {
            Way::Back => {
                assert_eq!((side, relayed.to), (Side::Caller, from));
                assert!(is_ours || relayed.length <= datagram.len());
                if is_ours {
                    checked.push(from);
                }
            }
            Way::Handshake => assert!(checked.contains(&from), "a handshake of a stranger"),
            _ => {
                assert!(has_keys, "media pass before the keys");
                assert!(side == Side::Caller || checked.contains(&relayed.to));
            }
        }
    }
}
