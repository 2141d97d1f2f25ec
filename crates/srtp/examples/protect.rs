//! Protects an RTP packet and takes it in at the other end, where a forged one is refused:
//!
//! ```sh
//! cargo run -p barebell-srtp --example protect
//! ```

use rtp::packet::Fields;
use srtp::{MasterKey, Policy, Receiver, Sender, Suite};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::new(Suite::AeadAes128Gcm);
    // The key and the salt, which both ends have agreed on, for example by SDES in SDP.
    let key = MasterKey::new(policy.suite, &[7; 28])?;
    let mut sender = Sender::new(&policy, vec![key.clone()])?;
    let mut receiver = Receiver::new(&policy, vec![key])?;

    // Behind the packet is room for the tag.
    let mut buffer = [0; 200];
    let fields = Fields { sequence_number: 1, timestamp: 160, ssrc: 7, ..Fields::default() };
    let length = fields.write(b"twenty milliseconds of speech", &mut buffer).ok_or("no room")?;
    println!("RTP: {length} bytes");
    let length = sender.protect(&mut buffer, length)?;
    println!("SRTP: {length} bytes");

    let mut forged = buffer;
    forged[length - 1] ^= 1;
    let error = receiver.unprotect(&mut forged[..length]).expect_err("a wrong tag is found");
    println!("forged: {error}");
    let packet = rtp::Packet::parse(receiver.unprotect(&mut buffer[..length])?)?;
    println!("received: {}", String::from_utf8_lossy(packet.payload));
    Ok(())
}
