//! Attacks by session descriptions with lines that multiply.

use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use test_support::agent::Agent;

/// The memory that the server may need for a message of 64 KiB, in bytes.
const SLACK: u64 = 64 << 20;

/// A stranger offers 10,000 formats of one codec with a name of 30,000 bytes to the mailbox of bob.
#[test]
fn the_name_of_a_codec_is_not_kept_for_each_of_its_formats() {
    let settings = format!("{TRUSTS_NOBODY}[media_server]\nenabled = true\nmailboxes = [\"*\"]\n");
    let exchange = TestServer::with(&settings, &[]);
    let before = exchange.server.process().memory();
    let (formats, name) = ("99 ".repeat(10_000), "x".repeat(30_000));
    let description = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio 4000 RTP/AVP {formats}\r\na=rtpmap:99 {name}/8000\r\n"
    );
    let mut eve = Agent::stranger("eve", "elsewhere.test", exchange.server.address());
    let mut dialog = eve.dialog(&format!("sip:bob@{DOMAIN}"));
    eve.ask(&mut dialog, "INVITE", "", &description);
    assert_eq!(eve.final_response("INVITE").status(), Some(488));
    // The allocator keeps what it has once had.
    let after = exchange.server.process().memory();
    assert!(after < before + SLACK, "{before} bytes before, {after} after");
}
