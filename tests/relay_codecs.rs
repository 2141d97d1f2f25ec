//! Phones without a common codec talk through the media relay of the server, which converts.

use peers::pair::{Pair, hold_and_resume, press};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone};
use peers::phone::Srtp::{self, Off, Required};
use peers::process::wait_until;
use peers::test_server::TestServer;
use peers::transport::Transport::Udp;
use std::fs;

/// A phone: its kind, its encryption policy, and its codecs if it is barebell-phone.
type Side = (Kind, Srtp, &'static str);

/// Starts the phones of alice and bob at a server that relays all calls and converts these codecs.
fn pair(codecs: &str, alice: Side, bob: Side) -> Pair {
    let media = "[media]\nrelay = \"all\"\nports = \"32300-32399\"\nkeys = \"converted\"\n";
    let exchange = TestServer::with(&format!("{media}transcode = [{codecs}]\n"), &[]);
    Pair::at(exchange, alice.0, bob.0, |account| {
        let (_, srtp, codecs) = if account.user == "alice" { alice } else { bob };
        (account.srtp, account.codecs, account.transport) = (srtp, codecs, Udp);
    })
}

/// Alice calls bob. Each hears the tone of the other with its level, also after a hold, and their
/// keys pass. The record of the call has `expected` as the codecs of both.
fn talks(codecs: &str, alice: Side, bob: Side, expected: [&str; 2]) {
    let mut pair = pair(codecs, alice, bob);
    pair.connect();
    pair.hear();
    press(&mut pair.alice, &mut pair.bob);
    press(&mut pair.bob, &mut pair.alice);
    hold_and_resume(&mut pair.alice, &mut pair.bob);
    hold_and_resume(&mut pair.bob, &mut pair.alice);
    pair.end(true);
    let file = pair.exchange.server.data().join("calls.jsonl");
    let record = wait_until("the record of the call", || {
        fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))
    });
    let record: serde_json::Value = serde_json::from_str(&record).expect("a line of JSON");
    let stream = &record["streams"][0];
    let sides =
        [("from_caller", expected[0], expected[1]), ("from_callee", expected[1], expected[0])];
    for (side, codec, to) in sides {
        let packets = &stream[side];
        assert_eq!(packets["codec"], codec, "{record}");
        assert_eq!(packets["converted"]["to"], to, "{record}");
        assert_eq!(packets["unsent"], 0, "{record}");
        for counter in ["excess", "unusable"] {
            assert_eq!(packets["converted"][counter], 0, "{record}");
        }
    }
}

#[test]
fn gsm_and_g711() {
    let here = (Barebell, Off, "GSM");
    talks("\"PCMA\"", here, (Baresip, Off, ""), ["GSM/8000", "PCMA/8000"]);
    talks("\"GSM\"", (Linphone, Off, ""), here, ["PCMU/8000", "GSM/8000"]);
}

#[test]
fn opus_and_g711() {
    let here = (Barebell, Off, "opus");
    talks("\"PCMU\", \"PCMA\"", here, (Linphone, Off, ""), ["opus/48000", "PCMU/8000"]);
    talks("\"opus\"", (Baresip, Off, ""), here, ["PCMU/8000", "opus/48000"]);
}

#[test]
fn opus_and_g722_with_keys_on_one_side() {
    let (here, there) = ((Barebell, Off, "opus"), (Barebell, Required, "G722"));
    talks("\"G722\", \"opus\"", here, there, ["opus/48000", "G722/8000"]);
    talks("\"G722\", \"opus\"", there, here, ["G722/8000", "opus/48000"]);
}
