//! Parses a REGISTER and answers it as a registrar that accepts every contact for an hour:
//!
//! ```sh
//! cargo run -p barebell-sip --example answer_register
//! ```

use barebell_sip::message::Response;
use barebell_sip::{HeaderName, Message};

const REGISTER: &[u8] = b"REGISTER sip:example.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK776asdhds;rport\r\n\
    Max-Forwards: 70\r\n\
    From: <sip:alice@example.com>;tag=456248\r\n\
    To: <sip:alice@example.com>\r\n\
    Call-ID: 843817637684230@998sdasdh09\r\n\
    CSeq: 1826 REGISTER\r\n\
    Contact: <sip:alice@192.0.2.9>\r\n\
    Content-Length: 0\r\n\r\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let message = Message::parse(REGISTER)?;
    // A faulty request gets an error response, so faults are separate from parse errors.
    let (status, reason) = match message.validate_request() {
        Ok(_) => (200, "OK".to_string()),
        Err(fault) => (fault.status(), fault.to_string()),
    };
    let response = Response {
        request: &message,
        source: "203.0.113.5:40123".parse()?,
        status,
        reason: &reason,
        to_tag: Some(b"2493k59kd"),
    };
    let mut answer = Vec::new();
    response.write(&mut answer, |fields| {
        for contact in message.elements(HeaderName::Contact) {
            fields.extend_from_slice(b"Contact: ");
            fields.extend_from_slice(contact);
            fields.extend_from_slice(b";expires=3600\r\n");
        }
    });
    print!("{}", String::from_utf8(answer)?);
    Ok(())
}
