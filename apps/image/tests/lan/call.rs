//! Calls between two phones behind address translations.

use super::{Lan, SERVER, Sent, request};
use sip::Duration;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A phone. Its host is that of the address translation; its messages name a private address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phone {
    pub(crate) address: SocketAddrV4,
}

impl Phone {
    /// The phone behind the host 192.0.2.`host`.
    pub(crate) const fn new(host: u8) -> Self {
        Self { address: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), 5070) }
    }

    /// The address of its packets from the local `port`, behind the translation.
    pub(crate) const fn media(self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(*self.address.ip(), port + 10_000)
    }

    const fn private(self) -> Ipv4Addr {
        let [.., host] = self.address.ip().octets();
        Ipv4Addr::new(10, 0, 0, host)
    }

    /// The request of `user`, with the private address in its Contact, and the description of audio
    /// at the local `port`.
    fn request(self, method: &str, user: &str, number: u32, port: Option<u16>) -> String {
        let contact = format!("Contact: <sip:{user}@");
        let public = format!("{contact}{}>", self.address);
        let private = format!("{contact}{}:5070>", self.private());
        let request = request(method, user, self.address, number).replace(&public, &private);
        port.map_or(request.clone(), |port| with_body(&request, &self.description(port)))
    }

    fn description(self, port: u16) -> String {
        let host = self.private();
        format!(
            "v=0\r\no=- {port} 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP 0\r\n"
        )
    }

    /// The 200 to `request`.
    fn accept(self, request: &str, port: u16) -> String {
        let mut response = String::from("SIP/2.0 200 OK\r\n");
        for line in request.lines().take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap_or_default();
            if !["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"].contains(&name) {
                continue;
            }
            let tag = if name == "To" && !line.contains("tag=") { ";tag=callee" } else { "" };
            response += &format!("{line}{tag}\r\n");
        }
        let contact = format!("Contact: <sip:x@{}:5070>\r\n", self.private());
        response += &format!("{contact}Content-Length: 0\r\n\r\n");
        with_body(&response, &self.description(port))
    }
}

fn with_body(message: &str, body: &str) -> String {
    let headers = message.trim_end_matches("Content-Length: 0\r\n\r\n");
    let length = body.len();
    format!("{headers}Content-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// The port of audio in a message of the server, which has to name the server's address.
fn port_in(message: &str) -> u16 {
    assert!(message.contains(&format!("c=IN IP4 {SERVER}\r\n")), "{message}");
    let port = message.split("m=audio ").nth(1).and_then(|rest| rest.split(' ').next());
    port.and_then(|port| port.parse().ok()).expect("a port of audio")
}

/// An RTP packet of PCMU with this sequence number.
pub(crate) fn rtp(number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 160).to_be_bytes());
    packet.extend([0, 0, 0, 9]);
    packet.extend((0..160).map(|at| at as u8 ^ number as u8));
    packet
}

/// A call that is answered.
pub(crate) struct Call {
    pub(crate) phones: [Phone; 2],
    /// The local ports of audio.
    pub(crate) ports: [u16; 2],
    /// The ports of the relay to the phones.
    pub(crate) relay: [u16; 2],
    number: u32,
    response: String,
}

impl Lan {
    /// The messages to `phone`, since the last call of `exchange`.
    pub(crate) fn messages_to(&self, phone: Phone) -> impl Iterator<Item = &str> {
        let to = self.sent.iter().filter(move |sent| sent.to == phone.address);
        to.filter_map(|sent| std::str::from_utf8(&sent.payload).ok())
    }

    /// Registers `user` at `phone`.
    pub(crate) fn register(&mut self, phone: Phone, user: &str, number: u32) {
        let request = phone.request("REGISTER", user, number, None);
        let answers = self.exchange(phone.address, &request);
        assert!(answers.iter().any(|sent| sent.payload.starts_with(b"SIP/2.0 200")));
    }

    /// Offers a call to `user`. Returns the INVITE that `callee` gets, or the final response.
    pub(crate) fn offer(
        &mut self,
        [caller, callee]: [Phone; 2],
        user: &str,
        (number, port): (u32, u16),
    ) -> Result<String, String> {
        let invite = caller.request("INVITE", user, number, Some(port));
        self.sent.clear();
        self.send(caller.address, 5060, invite.as_bytes());
        self.run(Duration::from_millis(5));
        if let Some(invite) = self.messages_to(callee).find(|text| text.starts_with("INVITE")) {
            return Ok(invite.to_owned());
        }
        let is_final = |text: &&str| text.starts_with("SIP/2.0 ") && !text.contains(" 100 ");
        Err(self.messages_to(caller).find(is_final).unwrap_or_default().to_owned())
    }

    /// Answers the INVITE.
    pub(crate) fn answer(
        &mut self,
        phones: [Phone; 2],
        invite: &str,
        (number, ports): (u32, [u16; 2]),
    ) -> Call {
        let far = port_in(invite);
        let response = phones[1].accept(invite, ports[1]);
        self.sent.clear();
        self.send(phones[1].address, 5060, response.as_bytes());
        self.run(Duration::from_millis(5));
        let mut responses = self.messages_to(phones[0]);
        let response = responses.find(|text| text.starts_with("SIP/2.0 200"));
        let response = response.expect("the 200 at the caller").to_owned();
        let relay = [port_in(&response), far];
        Call { phones, ports, relay, number, response }
    }

    /// Sends a request of the caller within the dialog. Returns that at the callee.
    pub(crate) fn within(&mut self, call: &Call, method: &str, port: Option<u16>) -> String {
        let [caller, callee] = call.phones;
        let value = |name: &str| {
            let line = call.response.lines().find(|line| line.starts_with(name));
            line.map(|line| line[name.len()..].trim().to_owned()).expect("the header field")
        };
        let invite = caller.request("INVITE", "bob", call.number, port);
        let to = invite.lines().find(|line| line.starts_with("To: ")).expect("To").to_owned();
        let (first, rest) = invite.split_once("\r\n").expect("a first line");
        let target = value("Contact:");
        let start = first.split(' ').nth(1).expect("a URI");
        let request = format!("{first}\r\nRoute: {}\r\n{rest}", value("Record-Route:"))
            .replacen(start, target.trim_matches(['<', '>']), 1)
            .replacen("INVITE", method, 1)
            .replace(&to, &format!("To: {}", value("To:")))
            .replace(&format!("CSeq: {} INVITE", call.number), &format!("CSeq: 999999 {method}"))
            .replace("branch=z9hG4bK", &format!("branch=z9hG4bK{method}-"));
        self.sent.clear();
        self.send(caller.address, 5060, request.as_bytes());
        self.run(Duration::from_millis(5));
        let found = self.messages_to(callee).find(|text| text.starts_with(method));
        found.unwrap_or_else(|| panic!("no {method}: {:?}", self.sent)).to_owned()
    }

    /// Ends a call.
    pub(crate) fn hang_up(&mut self, call: &Call) {
        let bye = self.within(call, "BYE", None);
        let response = call.phones[1].accept(&bye, 0);
        let (headers, _) = response.split_once("Content-Type").expect("a body");
        let response = format!("{headers}Content-Length: 0\r\n\r\n");
        self.send(call.phones[1].address, 5060, response.as_bytes());
        self.run(Duration::from_millis(5));
    }

    /// Sends a packet of a phone to the relay. Returns those that the server sends then.
    pub(crate) fn pass(&mut self, from: SocketAddrV4, port: u16, packet: &[u8]) -> Vec<Sent> {
        self.sent.clear();
        self.send(from, port, packet);
        self.turn();
        std::mem::take(&mut self.sent)
    }
}
