//! A client sends a binding request and a responder answers. The network drops the first two
//! requests.

use barebell_stun::{BindingResponse, Client, Event, TransactionId};
use std::net::SocketAddr;
use std::time::Duration;

fn main() {
    let server: SocketAddr = ([192, 0, 2, 1], 3478).into();
    let nat: SocketAddr = ([198, 51, 100, 7], 40_000).into();
    let mut client = Client::new(TransactionId(*b"a random one"), server, Duration::ZERO);
    let (mut request, mut response) = (Vec::new(), Vec::new());
    let mut requests = 0;
    let mapped = loop {
        let now = client.next_timer().expect("the client has no response yet");
        match client.poll(now, &mut request) {
            Event::Send(to) => {
                requests += 1;
                println!("{:4} ms: {} bytes to {to}", now.as_millis(), request.len());
            }
            Event::Wait => continue,
            Event::TimedOut => panic!("the binding request timed out"),
        }
        if requests > 2 && barebell_stun::respond_to_binding(nat, &request, &mut response) {
            match client.receive(server, &response) {
                Some(BindingResponse::Mapped(address)) => break address,
                other => panic!("unexpected event: {other:?}"),
            }
        }
    };
    assert_eq!(mapped, nat);
    println!("seen as {mapped} from outside");
}
