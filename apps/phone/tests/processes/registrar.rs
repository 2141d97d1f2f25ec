//! A registrar with one user, `alice` with the password [`PASSWORD`], which also answers OPTIONS.

use sip::digest::{Credentials, Ha1Set};
use std::net::{SocketAddr, UdpSocket};

pub(crate) const PASSWORD: &str = "s3cret-of-alice";

/// Starts a registrar that runs until the test ends. Its responses have the Date `date`.
pub(crate) fn start(date: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut datagram = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            if let Some(answer) = answer(&datagram[..length], date) {
                let _ = socket.send_to(answer.as_bytes(), from);
            }
        }
    });
    address
}

fn answer(request: &[u8], date: &str) -> Option<String> {
    let text = std::str::from_utf8(request).ok()?;
    let field = |name: &str| {
        let lines = text.lines().take_while(|line| !line.is_empty());
        let mut found = lines.filter_map(|line| line.split_once(':'));
        found.find(|(found, _)| *found == name).map(|(_, value)| value.trim())
    };
    let method = text.split(' ').next()?;
    if method == "ACK" {
        return None;
    }
    let ha1 = Ha1Set::new(b"alice", b"test", PASSWORD.as_bytes());
    let credentials = field("Authorization")
        .and_then(|value| Credentials::parse(value.as_bytes()).ok().flatten());
    let is_proved = credentials.is_some_and(|given| given.verify(&ha1, method.as_bytes(), b""));
    let status = match method {
        "OPTIONS" => "200 OK",
        "REGISTER" if is_proved => "200 OK",
        "REGISTER" => "401 Unauthorized",
        _ => "405 Method Not Allowed",
    };
    let mut lines = format!("SIP/2.0 {status}\r\n");
    for name in ["Via", "From", "Call-ID", "CSeq"] {
        lines.push_str(&format!("{name}: {}\r\n", field(name)?));
    }
    lines.push_str(&format!("To: {};tag=t\r\n", field("To")?));
    if status.starts_with("401") {
        lines.push_str(
            "WWW-Authenticate: Digest realm=\"test\", nonce=\"n\", qop=\"auth\", algorithm=MD5\r\n",
        );
    } else if let Some(contact) = field("Contact") {
        lines.push_str(&format!("Contact: {contact};expires=600\r\nExpires: 600\r\n"));
    }
    if !date.is_empty() {
        lines.push_str(&format!("Date: {date}\r\n"));
    }
    Some(lines + "Content-Length: 0\r\n\r\n")
}
