//! Interoperability of softphones with crates/srtp, also with packets that carry SRTP+ tags, which
//! other phones do not know.

use peers::phone::{Account, Action, Event, Kind, Phone, Srtp};
use peers::test_server::TestServer;
use peers::tone::Recording;
use peers::transport::Transport::Udp;
use rtp::Packet;
use rtp::packet::HeaderFields;
use sdp::negotiation::{NegotiatedSrtp, accept, usable_crypto_attributes};
use sdp::{CryptoAttribute, SessionDescription};
use sip::HeaderName;
use sip::dialog::Dialog;
use sip::header::NameAddr;
use srtp::plus::{Placement, Scheme, SrtpPlus};
use srtp::{Policy, Receiver, Sender, Suite};
use std::f64::consts::TAU;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use test_support::agent::Agent;

/// The frequency of the sent tone in Hz.
const TONE: u32 = 440;
/// The sample rate of G.711.
const RATE: u32 = 8000;
/// The number of samples in a packet.
const FRAME: u32 = 160;

/// A caller that uses crates/srtp.
struct Caller {
    agent: Agent,
    media: UdpSocket,
    dialog: Dialog,
}

impl Caller {
    /// Creates a caller of the phone at a contact.
    fn new(contact: &str) -> Self {
        let contact = NameAddr::parse(HeaderName::Contact, contact.as_bytes())
            .expect("the contact is an address");
        let uri = contact.uri().expect("the contact has a URI");
        let address = uri.as_sip().and_then(|uri| Some((uri.host.ip()?, uri.port?)));
        let phone = address.unwrap_or_else(|| panic!("no address and port in {uri:?}"));
        let media = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket can be bound");
        media
            .set_read_timeout(Some(Duration::from_millis(5)))
            .expect("the read timeout can be set");
        let mut agent = Agent::stranger("caller", "127.0.0.1", phone.into());
        let dialog = agent.dialog(&String::from_utf8_lossy(contact.uri_bytes));
        Self { agent, media, dialog }
    }

    /// Calls with an offer of these attributes. Returns the session description of the answer.
    fn invite(&mut self, crypto: &[CryptoAttribute], phone: &mut Phone) -> String {
        let port = self.media.local_addr().expect("the socket is bound").port();
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

    /// Sends a tone and receives the phone's, until both were received for a second.
    fn talk(&self, answer: &str, agreement: &NegotiatedSrtp, phone: &mut Phone) {
        let session = SessionDescription::parse(answer.as_bytes())
            .expect("the answer is a session description");
        let media = &session.media[0];
        let address = session
            .address(media)
            .expect("the medium has an address")
            .parse()
            .expect("the address is numeric");
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
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no audio of the phone was received"
            );
            while start.elapsed() >= Duration::from_millis(20) * sent {
                let payload: Vec<u8> = (sent * FRAME..(sent + 1) * FRAME)
                    .map(|sample| f64::from(sample) * f64::from(TONE) / f64::from(RATE) * TAU)
                    .map(|phase| mu_law((12_000.0 * phase.sin()) as i16))
                    .collect();
                let fields = HeaderFields {
                    sequence_number: sent as u16,
                    timestamp: sent * FRAME,
                    ssrc: 0xcafe,
                    ..HeaderFields::default()
                };
                let length = fields
                    .write(&payload, &mut buffer)
                    .expect("the buffer has room for the packet");
                let length = sender.protect(&mut buffer, length).expect("the packet is protected");
                self.media.send_to(&buffer[..length], target).expect("the packet is sent");
                sent += 1;
            }
            let Ok(size) = self.media.recv(&mut buffer) else { continue };
            // linphone sends STUN requests first.
            if buffer[0] >> 6 != 2 || rtp::is_rtcp(&buffer[..size]) {
                continue;
            }
            let packet = receiver
                .unprotect(&mut buffer[..size])
                .expect("the packet of the phone is authentic");
            let packet = Packet::parse(packet).expect("the packet is RTP");
            assert_eq!(packet.header.payload_type(), 0);
            heard.samples.extend(packet.payload.iter().map(|&byte| from_mu_law(byte)));
        }
        phone.wait_until_it_hears(TONE);
    }
}

/// Encodes a sample in G.711 mu-law.
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

/// The offered attribute. The phone chooses the first supported one.
fn offer(suite: Suite, plus: Option<SrtpPlus>) -> CryptoAttribute {
    let length = suite.key_length() + suite.salt_length();
    let key: Vec<u8> = (1..).take(length).collect();
    let mut policy = Policy::new(suite);
    policy.plus = plus;
    CryptoAttribute::new(1, policy, &key).expect("the key length matches the suite")
}

/// Calls a phone with SRTP, and receives its audio.
fn talk_to(kind: Kind, suite: Suite, plus: bool) {
    let exchange = TestServer::open();
    let account = Account { srtp: Srtp::Required, ..exchange.account("bob", Udp) };
    let mut bob = Phone::registered(kind, account);
    let contact = exchange.server.wait_for_registrations("bob", 1).remove(0).contact;
    let mut caller = Caller::new(&contact);

    let wanted = SrtpPlus { scheme: Scheme::Header, placement: Placement::Extension(5) };
    let ours = [offer(suite, plus.then_some(wanted))];
    let answer = caller.invite(&ours, &mut bob);
    let session =
        SessionDescription::parse(answer.as_bytes()).expect("the answer is a session description");
    let answered = usable_crypto_attributes(&session.media[0]);
    let mut agreement =
        accept(&ours, &answered).unwrap_or_else(|error| panic!("{error}: {answer}"));
    // No other phone knows SRTP+, so the parameter is ignored.
    assert_eq!(agreement.receive.policy.plus, None);
    if plus {
        // Tags in the header extension are sent anyway, and do no harm.
        agreement.send.policy.plus = Some(wanted);
    }
    caller.talk(&answer, &agreement, &mut bob);
    caller.hang_up();
    bob.wait_for(Event::Ended);
}

#[test]
fn mu_law_is_its_own_inverse() {
    for byte in 0..=255 {
        // Two codes represent 0.
        assert!(mu_law(from_mu_law(byte)) == byte || byte == 0x7f, "{byte}");
    }
}

#[test]
fn baresip_talks_srtp() {
    talk_to(Kind::Baresip, Suite::AesCm128HmacSha1_80, false);
}

#[test]
fn baresip_ignores_srtp_plus_tags() {
    talk_to(Kind::Baresip, Suite::AesCm128HmacSha1_32, true);
}

#[test]
fn linphone_talks_srtp() {
    talk_to(Kind::Linphone, Suite::AesCm128HmacSha1_80, false);
}

#[test]
fn linphone_ignores_srtp_plus_tags() {
    talk_to(Kind::Linphone, Suite::AesCm128HmacSha1_80, true);
}
