//! Protects an RTP packet, unprotects it at the other end, and rejects a forged one:
//!
//! ```sh
//! cargo run -p barebell-srtp --example protect
//! ```

use barebell_srtp::{MasterKey, Policy, Receiver, Sender, Suite};
use rtp::packet::HeaderFields;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::new(Suite::AeadAes128Gcm);
    // The master key and salt, negotiated between both ends, for example by SDES in SDP.
    let key = MasterKey::new(policy.suite, &[7; 28])?;
    let mut sender = Sender::new(&policy, vec![key.clone()])?;
    let mut receiver = Receiver::new(&policy, vec![key])?;

    // The buffer has room for the tag behind the packet.
    let mut buffer = [0; 200];
    let fields =
        HeaderFields { sequence_number: 1, timestamp: 160, ssrc: 7, ..HeaderFields::default() };
    let length = fields.write(b"twenty milliseconds of speech", &mut buffer)?;
    println!("RTP: {length} bytes");
    let length = sender.protect(&mut buffer, length)?;
    println!("SRTP: {length} bytes");

    let mut forged = buffer;
    forged[length - 1] ^= 1;
    let error = receiver.unprotect(&mut forged[..length]).expect_err("a forged packet is rejected");
    println!("forged: {error}");
    let packet = rtp::Packet::parse(receiver.unprotect(&mut buffer[..length])?)?;
    println!("received: {}", String::from_utf8_lossy(packet.payload));
    Ok(())
}
