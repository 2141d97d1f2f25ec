//! Softphones and our SRTP understand each other, also where our packets carry tags of SRTP+, which
//! phones know nothing of.

use peers::exchange::Exchange;
use peers::phone::{Account, Action, Event, Kind, Phone, Srtp};
use peers::tone::Recording;
use peers::transport::Transport::Udp;
use rtp::Packet;
use rtp::packet::Fields;
use sdp::negotiation::{Agreement, accept, offered};
use sdp::{Crypto, Session};
use sip::HeaderName;
use sip::dialog::Dialog;
use sip::header::NameAddr;
use srtp::plus::{Placement, Plus, Scheme};
use srtp::{Policy, Receiver, Sender, Suite};
use std::f64::consts::TAU;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use test_support::agent::Agent;

/// The tone that we send, in Hz.
const TONE: u32 = 440;
/// Samples a second of G.711.
const RATE: u32 = 8000;
/// Samples in a packet.
const FRAME: u32 = 160;

/// A caller with SRTP of ours.
struct Caller {
    agent: Agent,
    media: UdpSocket,
    dialog: Dialog,
}

impl Caller {
    /// Calls the phone at a contact directly.
    fn new(contact: &str) -> Self {
        let contact = NameAddr::parse(HeaderName::Contact, contact.as_bytes()).expect("a contact");
        let uri = contact.uri().expect("a URI");
        let address = uri.as_sip().and_then(|uri| Some((uri.host.ip()?, uri.port?)));
        let phone = address.unwrap_or_else(|| panic!("no address and port in {uri:?}"));
        let media = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket");
        media.set_read_timeout(Some(Duration::from_millis(5))).expect("a time limit");
        let mut agent = Agent::stranger("caller", "127.0.0.1", phone.into());
        let dialog = agent.dialog(&String::from_utf8_lossy(contact.uri_bytes));
        Self { agent, media, dialog }
    }

    /// Calls with an offer of these attributes; gives the answer's session description.
    fn invite(&mut self, crypto: &[Crypto], phone: &mut Phone) -> String {
        let port = self.media.local_addr().expect("an address").port();
        let attributes: String =
            crypto.iter().map(|crypto| format!("a=crypto:{crypto}\r\n")).collect();
        let offer = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
             m=audio {port} RTP/SAVP 0\r\na=rtpmap:0 PCMU/8000\r\n{attributes}a=sendrecv\r\n"
        );
        self.agent.send(&mut self.dialog, "INVITE", "", &offer);
        phone.wait_for(Event::Incoming);
        phone.act(&Action::Answer);
        let answer = self.agent.response("INVITE", 200);
        self.dialog = answer.dialog();
        self.agent.acknowledge(&self.dialog, &answer);
        String::from_utf8_lossy(answer.message().body()).into_owned()
    }

    fn hang_up(&mut self) {
        self.agent.send(&mut self.dialog, "BYE", "", "");
    }

    /// Sends our tone and hears the phone's, until both have been heard for a second.
    fn talk(&self, answer: &str, agreement: &Agreement, phone: &mut Phone) {
        let session = Session::parse(answer.as_bytes()).expect("a session description");
        let media = &session.media[0];
        let address = session.address(media).expect("an address").parse().expect("an address");
        let target = SocketAddr::new(address, media.port);
        let send = &agreement.send;
        let mut sender = Sender::new(&send.policy, send.master_keys().unwrap()).unwrap();
        let receive = &agreement.receive;
        let mut receiver = Receiver::new(&receive.policy, receive.master_keys().unwrap()).unwrap();
        let mut heard = Recording { rate: RATE, samples: Vec::new() };

        let start = Instant::now();
        let mut sent = 0_u32;
        let mut buffer = [0; 2000];
        while heard.tone_ms(phone.account.tone) < 1000 || start.elapsed() < Duration::from_secs(3) {
            assert!(start.elapsed() < Duration::from_secs(60), "the phone is not heard");
            while start.elapsed() >= Duration::from_millis(20) * sent {
                let payload: Vec<u8> = (sent * FRAME..(sent + 1) * FRAME)
                    .map(|sample| f64::from(sample) * f64::from(TONE) / f64::from(RATE) * TAU)
                    .map(|phase| mu_law((12_000.0 * phase.sin()) as i16))
                    .collect();
                let fields = Fields {
                    sequence_number: sent as u16,
                    timestamp: sent * FRAME,
                    ssrc: 0xcafe,
                    ..Fields::default()
                };
                let length = fields.write(&payload, &mut buffer).expect("room");
                let length = sender.protect(&mut buffer, length).expect("protected");
                self.media.send_to(&buffer[..length], target).expect("sent");
                sent += 1;
            }
            let Ok(size) = self.media.recv(&mut buffer) else { continue };
            // linphone asks for its address first, by STUN.
            if buffer[0] >> 6 != 2 || rtp::is_rtcp(&buffer[..size]) {
                continue;
            }
            let packet = receiver.unprotect(&mut buffer[..size]).expect("a packet of the phone's");
            let packet = Packet::parse(packet).expect("RTP");
            assert_eq!(packet.header.payload_type(), 0);
            heard.samples.extend(packet.payload.iter().map(|&byte| from_mu_law(byte)));
        }
        phone.wait_until_it_hears(TONE);
    }
}

/// G.711, mu-law.
fn mu_law(sample: i16) -> u8 {
    let magnitude = (i32::from(sample).abs() + 132).min(32_767);
    let exponent = (magnitude >> 7).ilog2();
    let mantissa = magnitude >> (exponent + 3) & 0x0f;
    let sign = if sample < 0 { 0x80 } else { 0 };
    !(sign | (exponent as u8) << 4 | mantissa as u8)
}

fn from_mu_law(byte: u8) -> i16 {
    let byte = !byte;
    let magnitude = (((i16::from(byte & 0x0f) << 3) + 132) << (byte >> 4 & 7)) - 132;
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

/// What we offer: the phone takes the first that it knows.
fn offer(suite: Suite, plus: Option<Plus>) -> Crypto {
    let length = suite.key_length() + suite.salt_length();
    let key: Vec<u8> = (1..).take(length).collect();
    let mut policy = Policy::new(suite);
    policy.plus = plus;
    Crypto::new(1, policy, &key).expect("a key of this length")
}

/// Calls a phone that encrypts, and hears it.
fn talk_to(kind: Kind, suite: Suite, plus: bool) {
    let exchange = Exchange::open();
    let account = Account { srtp: Srtp::Required, ..exchange.account("bob", Udp) };
    let mut bob = Phone::registered(kind, account);
    let contact = exchange.server.wait_for_registrations("bob", 1).remove(0).contact;
    let mut caller = Caller::new(&contact);

    let wanted = Plus { scheme: Scheme::Header, placement: Placement::Extension(5) };
    let ours = [offer(suite, plus.then_some(wanted))];
    let answer = caller.invite(&ours, &mut bob);
    let session = Session::parse(answer.as_bytes()).expect("a session description");
    let answered = offered(&session.media[0]);
    let mut agreement =
        accept(&ours, &answered).unwrap_or_else(|| panic!("no agreement: {answer}"));
    // No phone knows SRTP+ yet: it has passed over the parameter.
    assert_eq!(agreement.receive.policy.plus, None);
    if plus {
        // Tags in the header are sent all the same, and do no harm.
        agreement.send.policy.plus = Some(wanted);
    }
    caller.talk(&answer, &agreement, &mut bob);
    caller.hang_up();
    bob.wait_for(Event::Ended);
}

#[test]
fn mu_law_is_its_own_inverse() {
    for byte in 0..=255 {
        // Two codes stand for 0.
        assert!(mu_law(from_mu_law(byte)) == byte || byte == 0x7f, "{byte}");
    }
}

#[test]
fn baresip_talks_srtp() {
    talk_to(Kind::Baresip, Suite::AesCm128HmacSha1_80, false);
}

#[test]
fn baresip_takes_tags_of_srtp_plus() {
    talk_to(Kind::Baresip, Suite::AesCm128HmacSha1_32, true);
}

#[test]
fn linphone_talks_srtp() {
    talk_to(Kind::Linphone, Suite::AesCm128HmacSha1_80, false);
}

#[test]
fn linphone_takes_tags_of_srtp_plus() {
    talk_to(Kind::Linphone, Suite::AesCm128HmacSha1_80, true);
}
