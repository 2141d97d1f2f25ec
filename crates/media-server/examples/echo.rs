//! A call to the echo: its packets come back.

use barebell_media_server::media::Channel;
use barebell_media_server::sip::{Duration, Endpoint, Flow, Instant, Transport};
use barebell_media_server::{Config, Event, MediaServer, Opening};
use std::net::SocketAddr;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Keys are made of random bytes. These are not random.
    let mut server = MediaServer::new(Config::default(), Box::new(|bytes| bytes.fill(7)));
    let mut now = Instant::from_micros(1);
    let (local, remote) = ("192.0.2.1:5060".parse()?, "192.0.2.7:5060".parse()?);
    let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
    let flow = flow.internal_to(Endpoint::MediaServer);
    let description = "v=0\r\no=- 1 1 IN IP4 192.0.2.7\r\ns=-\r\nc=IN IP4 192.0.2.7\r\nt=0 0\r\n\
        m=audio 4000 RTP/AVP 0\r\n";
    let request = |method: &str, to: &str, cseq: u32, body: &str| {
        format!(
            "{method} sip:echo@example.com SIP/2.0\r\n\
             Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK{cseq}{method}\r\n\
             Route: <sip:echo@media-server.invalid;lr>\r\nMax-Forwards: 69\r\n\
             From: <sip:alice@example.com>;tag=a\r\nTo: {to}\r\nCall-ID: 1\r\n\
             CSeq: {cseq} {method}\r\nContact: <sip:alice@192.0.2.7>\r\n\
             Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let invite = request("INVITE", "<sip:echo@example.com>", 1, description);
    server.receive(now, &flow, invite.as_bytes());
    let Some(Event::Open { call, .. }) = server.poll_event() else { panic!("a call needs a port") };
    server.open(now, call, Opening::At("192.0.2.1:20000".parse()?));
    let mut to = None;
    while let Some(sent) = server.poll_transmit() {
        let text = String::from_utf8(sent.bytes)?;
        println!("{text}");
        if text.starts_with("SIP/2.0 200 ") {
            to = text.lines().find_map(|line| line.strip_prefix("To: ")).map(str::to_owned);
        }
    }
    let to = to.ok_or("the call is not answered")?;
    server.receive(now, &flow, request("ACK", &to, 1, "").as_bytes());

    // A packet of PCMU every 20 ms, with the sequence number and the timestamp of its place.
    let phone: SocketAddr = "192.0.2.7:4000".parse()?;
    let mut returned = 0;
    for number in 0..50_u16 {
        let mut packet = vec![0x80, 0];
        packet.extend(number.to_be_bytes());
        packet.extend((u32::from(number) * 160).to_be_bytes());
        packet.extend([1, 2, 3, 4]);
        packet.resize(172, 0x55);
        server.receive_media(now, call, Channel::Rtp, phone, &mut packet);
        server.tick(now, &mut |_, channel, _, packet| {
            // The sound of 0x55 is not silence, which is 0xff.
            returned += usize::from(channel == Channel::Rtp && packet[12..].contains(&0x55));
        });
        now += Duration::from_millis(20);
        server.on_timer(now);
    }
    println!("{returned} of 50 packets returned");
    assert!(returned > 20, "{returned}");
    Ok(())
}
