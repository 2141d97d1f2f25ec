//! Reception statistics of a source with jitter and one lost packet:
//!
//! ```sh
//! cargo run -p barebell-rtp --example reception
//! ```

use barebell_rtp::packet::HeaderFields;
use barebell_rtp::quality::{CodecQuality, mean_opinion_score, rating};
use barebell_rtp::{Packet, ReceptionStats};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut reception: Option<ReceptionStats> = None;
    for (number, delay) in [(0, 10), (1, 14), (2, 9), (4, 30), (5, 11), (6, 10)] {
        // A packet as received from a socket: 20 ms of G.711 at 8,000 samples per second.
        let mut buffer = [0; 200];
        let timestamp = 160 * u32::from(number);
        let fields =
            HeaderFields { sequence_number: number, timestamp, ssrc: 7, ..HeaderFields::default() };
        let length = fields.write(&[0xff; 160], &mut buffer)?;

        let packet = Packet::parse(&buffer[..length])?;
        let now = Duration::from_millis(20 * u64::from(number) + delay);
        let reception = reception.get_or_insert_with(|| ReceptionStats::new(&packet.header, 8000));
        println!("{number}: {:?}", reception.receive(&packet.header, now));
    }
    let mut reception = reception.ok_or("no packet")?;
    let (expected, lost) = (reception.expected(), reception.lost());
    println!("{lost} of {expected} lost, jitter {:?}", reception.spacing().jitter());
    println!("for a receiver report: {:?}", reception.report(Duration::from_millis(200)));
    let loss = lost as f64 / expected as f64;
    let rating = rating(CodecQuality::G711_CONCEALED, Duration::from_millis(100), loss, 1.0);
    println!("R {rating:.1}, MOS {:.2}", mean_opinion_score(rating));
    Ok(())
}
