//! An encrypted call between two ends, without a network: each end plays a tone, and the amplitude
//! of the other end's tone is printed.
//!
//! ```sh
//! cargo run -p barebell-call --example two_phones
//! ```

use barebell_call::media::tone::{Tone, amplitude_of};
use barebell_call::media::{Channel, Codec, MediaConfig, Security};
use barebell_call::sip::{Duration, Flow, Instant, Transport};
use barebell_call::sip_ua::{Agent, Config, Event, Location};
use barebell_call::{Call, Setup};
use std::net::SocketAddr;

/// The tones of the two ends, in hertz.
const TONES: [f64; 2] = [440.0, 660.0];
/// The samples of 20 ms.
const FRAME: usize = 160;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let signalling: [SocketAddr; 2] = ["192.0.2.1:5060".parse()?, "192.0.2.2:5060".parse()?];
    let media: [SocketAddr; 2] = ["192.0.2.1:4000".parse()?, "192.0.2.2:4000".parse()?];
    // The secrets and keys are fixed for reproducible output. Real ones have to be random.
    let mut state = 1_u8;
    let mut random = |bytes: &mut [u8]| {
        bytes.fill_with(|| {
            state = state.wrapping_mul(5).wrapping_add(7);
            state
        });
    };
    let mut agents = [1, 2].map(|number| Agent::new(Config::default(), &[number; 32]));
    let config = || MediaConfig {
        codecs: vec![Codec::Pcmu],
        security: Security::Required,
        ..MediaConfig::default()
    };
    let mut calls = media.map(|local| Call::new(Setup::new(config(), local), &mut random));
    let mut tones = TONES.map(|hertz| Tone::new(hertz, 8000, 8000));
    let mut heard = [Vec::new(), Vec::new()];

    let mut now = Instant::from_micros(1_000_000);
    let uri = format!("sip:bob@{}", signalling[1]);
    calls[0].place(&mut agents[0], now, None, &uri, &mut random)?;
    // Three seconds in steps of 20 ms.
    for _ in 0..150 {
        for end in 0..2 {
            let (local, remote) = (signalling[end], signalling[1 - end]);
            while let Some(event) = agents[end].poll_event() {
                match &event {
                    Event::Locate { ticket, .. } => {
                        let local = Some(local);
                        let location = Location { transport: Transport::Udp, remote, local };
                        agents[end].located(now, *ticket, &[location]);
                    }
                    Event::Incoming { call, offer, .. } => {
                        let offer = offer.as_deref();
                        calls[end].ring(&mut agents[end], now, *call, offer, &mut random)?;
                        calls[end].answer(&mut agents[end], now)?;
                    }
                    event => {
                        let change = calls[end].on_event(&mut agents[end], now, event, &mut random);
                        if let Some(change) = change {
                            println!("{local}: {change:?}");
                        }
                    }
                }
            }
            while let Some(message) = agents[end].poll_transmit() {
                let (transport, connection) = (Transport::Udp, None);
                let flow = Flow { transport, local: remote, remote: local, connection };
                agents[1 - end].receive(now, &flow, &message.bytes);
            }
            let (mut sound, mut packets) = (Vec::new(), Vec::new());
            tones[end].fill(FRAME, &mut sound);
            calls[end].send(&agents[end], now, &mut sound, &mut |channel, _to, packet| {
                packets.push((channel, packet.to_vec()));
            });
            for (channel, mut packet) in packets {
                let from = match channel {
                    Channel::Rtp => media[end],
                    Channel::Rtcp => SocketAddr::new(media[end].ip(), media[end].port() + 1),
                };
                calls[1 - end].receive(channel, now, from, &mut packet);
            }
            calls[end].play(now, &mut heard[end]);
        }
        now += Duration::from_millis(20);
        agents.iter_mut().for_each(|agent| agent.on_timer(now));
    }
    for (end, heard) in heard.iter().enumerate() {
        let last_second = &heard[heard.len().saturating_sub(8000)..];
        let amplitude = amplitude_of(TONES[1 - end], 8000, last_second);
        println!("{}: {} Hz with an amplitude of {amplitude:.0}", media[end], TONES[1 - end]);
        if amplitude < 1000.0 {
            return Err("an end does not hear the other one".into());
        }
    }
    Ok(())
}
