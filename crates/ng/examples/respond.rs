//! A relay without media answers the requests of a call. The answer is sent twice, as after the
//! loss of a response.

use barebell_ng::{Command, Duplicates, Request, Response};
use std::net::SocketAddr;
use std::time::Duration;

const DATAGRAMS: [&str; 5] = [
    "1_1 d7:command4:pinge",
    "1_2 d7:call-id3:a@b7:command5:offer8:from-tag1:f3:ICE6:remove3:sdp5:v=0\r\ne",
    "1_3 d7:call-id3:a@b7:command6:answer8:from-tag1:f3:sdp5:v=0\r\n6:to-tag1:te",
    "1_3 d7:call-id3:a@b7:command6:answer8:from-tag1:f3:sdp5:v=0\r\n6:to-tag1:te",
    "1_4 d7:call-id3:a@b7:command10:play mediae",
];

fn main() {
    let proxy: SocketAddr = ([192, 0, 2, 1], 40_000).into();
    let mut duplicates = Duplicates::new(Default::default());
    let mut repeated = 0;
    for (datagram, now) in DATAGRAMS.iter().zip((0..).map(Duration::from_secs)) {
        let datagram = datagram.as_bytes();
        let mut out = Vec::new();
        if let Some(response) = duplicates.response(now, proxy, datagram) {
            out.extend_from_slice(response);
            repeated += 1;
        } else {
            match Request::parse(datagram) {
                Ok(request) => respond(&request).write(request.cookie, &mut out),
                Err(error) => {
                    println!("rejected: {error}");
                    error.respond(&mut out);
                }
            }
            duplicates.store(now, proxy, datagram, &out);
        }
        println!("{}", out.escape_ascii());
    }
    assert_eq!(repeated, 1);
}

/// The response of a relay that changes nothing.
fn respond<'r>(request: &Request<'r>) -> Response<'r> {
    match request.command {
        Command::Ping => Response::Pong,
        Command::Offer { sdp, .. } | Command::Answer { sdp, .. } => Response::Sdp(sdp),
        Command::Delete { .. } => Response::Ok,
        Command::Query { .. } => Response::Error("the call is not known"),
        Command::List { .. } => Response::Calls(&[]),
    }
}
