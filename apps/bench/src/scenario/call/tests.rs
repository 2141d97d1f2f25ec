//! Tests of calls: messages in, messages out, by a virtual clock.

use crate::scenario::counts::{Cause, Counts};
use crate::scenario::engine::Engine;
use crate::scenario::rig::world;
use crate::scenario::world::{Peer, World};
use sip::{Duration, Instant};

/// A scenario with its clock and peer.
struct Rig {
    engine: Engine,
    now: Instant,
}

impl Rig {
    fn new(body: &str) -> Self {
        Self::with(world(body))
    }

    fn with(world: World) -> Self {
        let now = Instant::from_micros(1_000_000);
        Self { engine: Engine::new(world, 10, now).unwrap(), now }
    }

    fn peer(&self) -> Peer {
        Peer { address: self.engine.world.settings.remote, connection: None }
    }

    /// Starts a call, and returns its messages.
    fn start(&mut self) -> Vec<String> {
        let remote = self.engine.world.settings.remote;
        assert!(self.engine.start(remote, self.now));
        self.sent()
    }

    /// Returns the messages that were sent.
    fn sent(&mut self) -> Vec<String> {
        let out = self.engine.world.out.drain(..);
        out.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect()
    }

    fn receive(&mut self, text: &str) -> Vec<String> {
        let peer = self.peer();
        self.engine.receive(peer, text.as_bytes(), self.now);
        self.sent()
    }

    /// Answers a request with a status.
    fn answer(&mut self, request: &str, status: u16) -> Vec<String> {
        let fields: String = request
            .lines()
            .filter(|line| {
                ["Via", "From", "To", "Call-ID", "CSeq"].iter().any(|name| line.starts_with(name))
            })
            .map(|line| format!("{line}\r\n"))
            .collect();
        self.receive(&format!("SIP/2.0 {status} X\r\n{fields}Contact: <sip:c@d>\r\n\r\n"))
    }

    fn pass(&mut self, millis: u64) -> Vec<String> {
        self.now += Duration::from_millis(millis);
        self.engine.expire(self.now);
        self.sent()
    }

    fn counts(&self) -> &Counts {
        &self.engine.world.counts
    }

    #[track_caller]
    fn assert_failed(&self, cause: Cause) {
        let counts = self.counts();
        assert_eq!((counts.failed, counts.causes.get(&cause)), (1, Some(&1)), "{counts:?}");
        assert_eq!(self.engine.len(), 0);
    }

    #[track_caller]
    fn assert_succeeded(&self) {
        assert_eq!((self.counts().succeeded, self.counts().failed), (1, 0), "{:?}", self.counts());
    }
}

/// Returns a step that sends a request.
fn send(method: &str, number: u32, attributes: &str) -> String {
    format!(
        "<send {attributes}><![CDATA[
        {method} sip:[service]@[remote_ip] SIP/2.0
        Via: SIP/2.0/[transport] [local_ip];branch=[branch]
        From: <sip:a@b>;tag=[call_number]
        To: <sip:c@d>[peer_tag_param]
        Call-ID: [call_id]
        CSeq: {number} {method}
        Content-Length: [len]
        ]]></send>"
    )
}

const RESPOND: &str = "<send><![CDATA[
    SIP/2.0 200 OK
    [last_Via:]
    [last_From:]
    [last_To:];tag=1
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0
    ]]></send>";

const INVITE: &str = "INVITE sip:x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKi\r\nFrom: <sip:f>;tag=9\r\n\
    To: <sip:t>\r\nCall-ID: theirs\r\nCSeq: 1 INVITE\r\n\r\n";

#[test]
fn a_call_goes_through_its_steps() {
    let mut rig = Rig::new(&format!(
        "{}<recv response=\"100\" optional=\"true\"/><recv response=\"180\" optional=\"true\"/>\
         <recv response=\"200\" rtd=\"true\"/>{}<pause milliseconds=\"100\"/>{}<recv response=\"200\"/>",
        send("INVITE", 1, "retrans=\"500\""),
        send("ACK", 1, ""),
        send("BYE", 2, "retrans=\"500\"")
    ));
    let invite = rig.start();
    rig.answer(&invite[0], 180);
    rig.answer(&invite[0], 180);
    rig.pass(50);
    let tagged = invite[0].replace("To: <sip:c@d>", "To: <sip:c@d>;tag=77");
    let acks = rig.answer(&tagged, 200);
    assert!(
        acks[0].starts_with("ACK ") && acks[0].contains("To: <sip:c@d>;tag=77\r\n"),
        "{acks:?}"
    );
    // A retransmission of the 200 has the same ACK again.
    assert_eq!(rig.answer(&tagged, 200), acks);
    let byes = rig.pass(100);
    assert!(byes[0].starts_with("BYE "), "{byes:?}");
    rig.answer(&byes[0], 200);
    rig.assert_succeeded();
    let counts = rig.counts();
    // The second 180 equals the first one, and is a retransmission.
    let received: Vec<_> =
        counts.steps.iter().map(|step| (step.count, step.retransmitted)).collect();
    assert_eq!(received, [(1, 0), (0, 0), (1, 1), (1, 1), (1, 1), (1, 0), (1, 0), (1, 0)]);
    assert_eq!(counts.response_times["1"].max(), 50_000);
    assert_eq!(counts.call_length.max(), 150_000);
}

#[test]
fn messages_are_retransmitted_until_the_limit() {
    let body = format!("{}<recv response=\"200\"/>", send("INVITE", 1, "retrans=\"500\""));
    let mut rig = Rig::new(&body);
    let invite = rig.start();
    for wait in [500, 1000, 2000, 4000, 8000] {
        assert_eq!(rig.pass(wait - 1), Vec::<String>::new());
        assert_eq!(rig.pass(1), invite);
    }
    assert_eq!(rig.pass(16_000), Vec::<String>::new());
    rig.assert_failed(Cause::Retransmissions);
    assert_eq!((rig.counts().steps[0].retransmitted, rig.counts().steps[0].timed_out), (5, 1));
    // Other requests wait for T2 at most.
    let body = format!("{}<recv response=\"200\"/>", send("OPTIONS", 1, "retrans=\"500\""));
    let mut rig = Rig::new(&body);
    rig.start();
    for wait in [500, 1000, 2000, 4000, 4000, 4000, 4000] {
        assert_eq!(rig.pass(wait).len(), 1);
    }
    rig.pass(4000);
    rig.assert_failed(Cause::Retransmissions);
}

#[test]
fn an_unexpected_message_fails_the_call_and_ends_its_dialog() {
    let body = format!("{}<recv response=\"180\"/><recv response=\"200\"/>", send("INVITE", 1, ""));
    for (first, status, ends) in [
        (None, 486, vec!["ACK"]),
        (None, 200, vec!["ACK", "BYE"]),
        (None, 183, vec![]),
        (Some(180), 183, vec!["CANCEL"]),
    ] {
        let mut rig = Rig::new(&body);
        let invite = rig.start();
        if let Some(first) = first {
            rig.answer(&invite[0], first);
        }
        let sent = rig.answer(&invite[0], status);
        let methods: Vec<_> = sent.iter().map(|text| text.split(' ').next().unwrap()).collect();
        assert_eq!(methods, ends, "{status}");
        rig.assert_failed(Cause::UnexpectedMessage);
        assert_eq!(rig.counts().unexpected[&format!("{status} to INVITE")], 1);
        // Later messages are those of a call that has ended.
        rig.answer(&invite[0], 200);
        assert_eq!(rig.counts().late, 1);
    }
}

#[test]
fn a_timeout_fails_the_call_or_leads_to_a_label() {
    let body = |on_timeout: &str| {
        format!(
            "{}<recv response=\"200\" timeout=\"100\" {on_timeout}/><label id=\"late\"/>{}",
            send("OPTIONS", 1, ""),
            send("OPTIONS", 2, "")
        )
    };
    let mut rig = Rig::new(&body(""));
    rig.start();
    rig.pass(100);
    rig.assert_failed(Cause::Timeout);
    let mut rig = Rig::new(&body("ontimeout=\"late\""));
    rig.start();
    assert!(rig.pass(100)[0].contains("CSeq: 2 OPTIONS"));
    rig.assert_succeeded();
    assert_eq!(rig.counts().steps[1].timed_out, 1);
}

#[test]
fn branches_follow_messages_tests_and_loops() {
    let mut rig = Rig::new(&format!(
        "<nop><action><assign assign_to=\"n\" value=\"0\"/></action></nop><label id=\"again\"/>{}\
         <recv response=\"404\" optional=\"true\" next=\"absent\"/><recv response=\"200\"><action>\
         <add assign_to=\"n\" value=\"1\"/>\
         <test assign_to=\"more\" variable=\"n\" compare=\"less_than\" value=\"3\"/></action></recv>\
         <nop next=\"again\" test=\"more\"/><nop condexec=\"more\" counter=\"skipped\"/>\
         <nop condexec=\"more\" condexec_inverse=\"true\" counter=\"run\" next=\"end\"/>\
         <label id=\"absent\"/>{}<label id=\"end\"/>",
        send("OPTIONS", 1, ""),
        send("MESSAGE", 7, "")
    ));
    let mut sent = rig.start();
    let mut branches = std::collections::BTreeSet::new();
    for _ in 0..3 {
        assert!(sent[0].starts_with("OPTIONS"), "{sent:?}");
        branches.insert(sent[0].lines().nth(1).unwrap().to_owned());
        sent = rig.answer(&sent[0].clone(), 200);
    }
    assert_eq!(branches.len(), 3, "each pass has a transaction of its own");
    rig.assert_succeeded();
    assert_eq!(rig.counts().counters.get("run"), Some(&1));
    assert_eq!(rig.counts().counters.get("skipped"), None);
    let sent = rig.start();
    let sent = rig.answer(&sent[0], 404);
    assert!(sent[0].starts_with("MESSAGE"), "{sent:?}");
}

#[test]
fn a_server_scenario_answers_and_repeats_itself() {
    let mut rig = Rig::new(&format!(
        "<recv request=\"INVITE\"/>{RESPOND}<recv request=\"ACK\" optional=\"true\"/>\
         <recv request=\"BYE\"/>{RESPOND}<timewait milliseconds=\"1000\"/>"
    ));
    let ok = rig.receive(INVITE);
    assert!(
        ok[0].starts_with("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKi\r\n"),
        "{ok:?}"
    );
    assert_eq!(rig.receive(INVITE), ok);
    let request = |method: &str| INVITE.replace("INVITE", method);
    assert_eq!(rig.receive(&request("ACK")), Vec::<String>::new());
    let bye = rig.receive(&request("BYE"));
    assert!(bye[0].contains("CSeq: 1 BYE"), "{bye:?}");
    rig.assert_succeeded();
    // The call remains for retransmissions.
    assert_eq!(rig.receive(&request("BYE")), bye);
    rig.pass(1000);
    assert_eq!(rig.engine.len(), 0);
    rig.receive(&request("BYE"));
    assert_eq!((rig.counts().late, rig.counts().started), (1, 1));
}

#[test]
fn messages_of_no_call_are_counted() {
    let mut rig = Rig::new(&format!("{}<recv response=\"200\"/>", send("OPTIONS", 1, "")));
    rig.receive(INVITE);
    rig.receive("garbage");
    rig.receive("\r\n\r\n");
    assert_eq!((rig.counts().out_of_call, rig.counts().malformed), (1, 1));
}

#[test]
fn responses_match_their_named_transaction() {
    let mut rig = Rig::new(&format!(
        "{}{}<recv response=\"200\" response_txn=\"second\"/><recv response=\"200\" response_txn=\"first\"/>",
        send("OPTIONS", 1, "start_txn=\"first\""),
        send("OPTIONS", 2, "start_txn=\"second\"")
    ));
    let sent = rig.start();
    rig.answer(&sent[1], 200);
    rig.answer(&sent[0], 200);
    rig.assert_succeeded();
}

#[test]
fn users_have_one_call_each_and_variables_of_their_own() {
    let mut world = world(&format!(
        "<User variables=\"seen\"/><nop><action><add assign_to=\"seen\" value=\"1\"/></action></nop>{}\
         <recv response=\"200\"/>",
        send("OPTIONS", 1, "").replace("[len]", "[len]\n        X-Seen: [userid] [$seen]")
    ));
    world.settings.users = Some(2);
    let n = world.scopes.len();
    world.users = vec![vec![Default::default(); n]; 2];
    let mut rig = Rig::with(world);
    let first = rig.start();
    rig.start();
    let remote = rig.engine.world.settings.remote;
    assert!(!rig.engine.start(remote, rig.now));
    rig.answer(&first[0], 200);
    let again = rig.start();
    assert!(first[0].contains("X-Seen: 0 1.0") && again[0].contains("X-Seen: 0 2.0"), "{again:?}");
}

#[test]
fn an_endless_loop_fails() {
    let mut rig = Rig::new(&format!(
        "{}<label id=\"1\"/><nop next=\"1\"/><recv response=\"200\"/>",
        send("OPTIONS", 1, "")
    ));
    rig.start();
    rig.assert_failed(Cause::Loop);
}
