//! Answers an offer of audio protected by SRTP (RFC 4568):
//!
//! ```sh
//! cargo run -p barebell-sdp --example answer
//! ```

use barebell_sdp::SessionDescription;
use barebell_sdp::negotiation::{SrtpPreferences, answer, usable_crypto_attributes};

const OFFER: &[u8] = b"v=0\r\n\
    o=alice 1 1 IN IP4 192.0.2.9\r\n\
    s=-\r\n\
    c=IN IP4 192.0.2.9\r\n\
    t=0 0\r\n\
    m=audio 49170 RTP/SAVP 0 8\r\n\
    a=crypto:1 AEAD_AES_128_GCM inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubA==\r\n\
    a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj\r\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let offer = SessionDescription::parse(OFFER)?;
    let audio = offer.media.first().ok_or("no medium")?;
    println!(
        "they receive {} at {:?}, port {}",
        audio.media_type,
        offer.address(audio),
        audio.port
    );

    // The key is fixed for reproducible output. A real key has to be random.
    let agreement =
        answer(&usable_crypto_attributes(audio), &SrtpPreferences::secure(), |key| key.fill(7))?;
    print!(
        "v=0\r\no=bob 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
         m={} 40000 {} 0\r\na=crypto:{}\r\n",
        audio.media_type, audio.protocol, agreement.send
    );
    assert_eq!(agreement.receive.master_keys()?.len(), 1);
    Ok(())
}
