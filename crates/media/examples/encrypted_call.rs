//! An encrypted call between two ends, with a tone and a key, on a network that loses packets:
//!
//! ```sh
//! cargo run -p barebell-media --example encrypted_call
//! ```

use barebell_media::tone::{Tone, amplitude_of};
use barebell_media::{MediaConfig, Negotiator, Received, Security, Seed, Session};
use std::net::SocketAddr;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here: SocketAddr = ([192, 0, 2, 1], 4000).into();
    let there: SocketAddr = ([192, 0, 2, 2], 5000).into();
    // The keys are fixed for reproducible output. Real ones have to be random.
    let mut number = 0;
    let mut random = |bytes: &mut [u8]| {
        number += 1;
        bytes.fill(number);
    };

    let media_config = MediaConfig { security: Security::Required, ..MediaConfig::default() };
    let mut caller = Negotiator::new(media_config.clone(), here, 1);
    let mut callee = Negotiator::new(media_config, there, 2);
    let offer = caller.offer(&mut random);
    let (answer, theirs) = callee.answer(&offer, &mut random)?;
    let ours = caller.accept(&answer)?;
    println!("{}", String::from_utf8_lossy(&answer));

    let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 1 };
    let mut sender = Session::new(ours, seed)?;
    let mut receiver = Session::new(theirs, Seed { ssrc: 2, ..seed })?;
    let rate = sender.stream().codec.sample_rate();
    let mut tone = Tone::new(440.0, rate, 8000);
    let (mut played, mut digits) = (Vec::new(), String::new());
    for frame in 0..100 {
        let now = Duration::from_millis(20) * frame;
        if frame == 80 {
            sender.press('5')?;
        }
        let (mut samples, mut packet) = (Vec::new(), Vec::new());
        tone.fill(sender.frame_samples(), &mut samples);
        let to = sender.send(&samples, &mut packet)?;
        assert_eq!(to, Some(there));
        let is_lost = frame % 20 == 19;
        if !is_lost && let Received::Digit(digit) = receiver.receive(now, here, &mut packet) {
            digits.push(digit);
        }
        receiver.play(now, &mut played);
    }
    let statistics = receiver.statistics();
    let level = amplitude_of(440.0, rate, &played[played.len() / 2..played.len() * 3 / 4]);
    println!("received {}, lost {}", statistics.received, statistics.lost());
    println!("MOS {:.2}, a tone of {level:.0}, key {digits}", statistics.mos);
    assert_eq!(digits, "5");
    Ok(())
}
