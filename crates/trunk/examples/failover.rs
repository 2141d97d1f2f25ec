//! The first server of a trunk does not answer: its account registers at the second one.

use barebell_trunk::sip::locate::{Destination, Host};
use barebell_trunk::sip::{Duration, Instant, Transport};
use barebell_trunk::{AccountConfig, Event, Location, Registry, TrunkConfig};

fn main() {
    let mut now = Instant::from_micros(1_700_000_000_000_000);
    let mut registry = Registry::new("Example/1.0", &[7; 32], &[8; 32]);
    let host = Host::Name("provider.example.com".into());
    registry.configure(
        now,
        vec![TrunkConfig {
            name: "provider".into(),
            destination: Destination { host, port: None, transport: None, sips: false },
            uri: "sip:provider.example.com".into(),
            proxy: None,
            accounts: vec![AccountConfig {
                uri: "sip:49301@provider.example.com".into(),
                user: "49301".into(),
                auth_name: String::new(),
                password: None,
            }],
            registers: true,
            expires: Duration::from_secs(600),
            probe: None,
        }],
    );
    let mut asked = Vec::new();
    // 20 seconds without a response.
    for _ in 0..200 {
        registry.on_timer(now);
        while let Some(event) = registry.poll_event() {
            match event {
                Event::Locate { ticket, .. } => {
                    let location = |host| Location {
                        transport: Transport::Udp,
                        remote: ([192, 0, 2, host], 5060).into(),
                        local: Some(([192, 0, 2, 7], 5060).into()),
                    };
                    registry.located(now, ticket, &[location(1), location(2)]);
                }
                Event::Changed(notice) => println!("{notice}"),
                _ => {}
            }
        }
        while let Some(sent) = registry.poll_transmit() {
            asked.push(sent.flow.remote.to_string());
        }
        now += Duration::from_millis(100);
    }
    asked.dedup();
    assert_eq!(asked, ["192.0.2.1:5060", "192.0.2.2:5060"]);
}
