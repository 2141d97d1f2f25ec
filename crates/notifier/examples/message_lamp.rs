//! A telephone subscribes to its mailbox. The notifier sends the present count, and each change.

use barebell_notifier::sip::{Duration, Endpoint, Flow, Instant, Transport};
use barebell_notifier::{Config, Messages, Notifier};

fn main() {
    let mut now = Instant::from_micros(1);
    // The secret has to be random. This one is not.
    let mut notifier = Notifier::new(Config::default(), &[7; 32]);
    let (local, remote) = (([192, 0, 2, 1], 5060).into(), ([192, 0, 2, 7], 5060).into());
    let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
    let flow = flow.internal_to(Endpoint::Notifier);
    let subscribe =
        b"SUBSCRIBE sip:notifier@192.0.2.1;of=alice%40example.com;by=alice%40example.com SIP/2.0\r\n\
        Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1\r\nMax-Forwards: 69\r\n\
        From: <sip:alice@example.com>;tag=a\r\nTo: <sip:alice@example.com>\r\nCall-ID: 1\r\n\
        CSeq: 1 SUBSCRIBE\r\nContact: <sip:alice@192.0.2.7>\r\nEvent: message-summary\r\n\
        Content-Length: 0\r\n\r\n";
    notifier.receive(now, &flow, subscribe);
    let mut counts = Vec::new();
    for new in [0, 1, 2] {
        notifier.set_messages(now, "alice@example.com", Messages { new, old: 1 });
        // Changes in quick succession become one NOTIFY, so time passes between them.
        for _ in 0..20 {
            notifier.on_timer(now);
            while let Some(sent) = notifier.poll_transmit() {
                let text = String::from_utf8(sent.bytes).expect("SIP messages of ours are UTF-8");
                println!("{text}\n");
                if text.starts_with("NOTIFY ") {
                    counts.extend(
                        text.lines().find(|line| line.starts_with("Voice")).map(str::to_owned),
                    );
                    notifier.receive(now, &flow, ok(&text).as_bytes());
                }
            }
            now += Duration::from_millis(500);
        }
    }
    assert!(counts.last().is_some_and(|line| line.contains("2/1")), "{counts:?}");
}

/// The 200 of the telephone for a NOTIFY.
fn ok(notify: &str) -> String {
    let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let fields = notify.lines().filter(|line| copied.iter().any(|name| line.starts_with(name)));
    let fields: Vec<_> = fields.collect();
    format!("SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n", fields.join("\r\n"))
}
