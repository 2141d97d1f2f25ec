//! Early dialogs through a server without trusted networks: two phones of one user ring, each in
//! its own early dialog, with reliable provisional responses (RFC 3262) and UPDATE (RFC 3311).

use peers::call::End;
use peers::test_server::TestServer;
use sip::HeaderName;
use sip::dialog::Dialog;
use test_support::agent::{Agent, Received, SESSION};

/// A ringing phone of bob, and the INVITE that it received.
struct Ringing {
    phone: End,
    invite: Received,
}

const RELIABLE: &str = "Require: 100rel\r\nRSeq: 7\r\n";

/// `agent` receives the INVITE and sends a reliable provisional response.
fn ring(mut agent: Agent) -> Ringing {
    let invite = agent.request("INVITE");
    let dialog = agent.dialog_with(&invite);
    agent.answer(&invite, &dialog, 183, RELIABLE, SESSION);
    Ringing { phone: End { agent, dialog }, invite }
}

/// Alice acknowledges the provisional response of a phone. Returns her view of the early dialog.
fn acknowledge(alice: &mut Agent, ringing: &mut Ringing) -> Dialog {
    let progress = alice.response_from("INVITE", 183, ringing.phone.dialog.id().local_tag);
    let mut early = progress.dialog();
    let [rseq, cseq] = [HeaderName::RSeq, HeaderName::CSeq].map(|name| progress.value(name));
    let acknowledged = format!("RAck: {rseq} {cseq}\r\n");
    alice.send(&mut early, "PRACK", &acknowledged, "");
    let End { agent, dialog } = &mut ringing.phone;
    let prack = agent.request("PRACK");
    agent.answer(&prack, dialog, 200, "", "");
    alice.response("PRACK", 200);
    early
}

/// Both ends change the session before the call is answered.
fn update_each_other(first: &mut End, second: &mut End) {
    first.pass(second, "UPDATE", "");
    second.pass(first, "UPDATE", "");
}

/// Alice calls bob, and both of his phones ring. Returns both phones and her views of the early
/// dialogs.
fn two_ring(exchange: &TestServer) -> (Agent, [Ringing; 2], [Dialog; 2]) {
    let phones = [exchange.agent("bob"), exchange.agent("bob")];
    let mut alice = exchange.agent("alice");
    let mut calling = alice.dialog(&phones[0].address_of_record());
    alice.ask(&mut calling, "INVITE", "Supported: 100rel\r\n", SESSION);
    let mut ringing = phones.map(ring);
    let early = ringing.each_mut().map(|phone| acknowledge(&mut alice, phone));
    (alice, ringing, early)
}

/// A phone answers the call. Returns alice's view of the confirmed dialog.
fn answer(alice: &mut Agent, early: &Dialog, ringing: &mut Ringing) -> Dialog {
    let End { agent, dialog } = &mut ringing.phone;
    agent.answer(&ringing.invite, dialog, 200, "", SESSION);
    let answered = alice.response_from("INVITE", 200, dialog.id().local_tag);
    let mut confirmed = early.clone();
    confirmed.on_success_received(&answered.message()).expect("the response is a 2xx");
    alice.acknowledge(&confirmed, &answered);
    agent.request("ACK");
    confirmed
}

/// A phone processes the CANCEL that it receives after another one has answered.
fn stop_ringing(ringing: &mut Ringing) {
    let End { agent, dialog } = &mut ringing.phone;
    let cancel = agent.request("CANCEL");
    agent.answer(&cancel, dialog, 200, "", "");
    agent.answer(&ringing.invite, dialog, 487, "", "");
    agent.request("ACK");
}

#[test]
fn one_of_two_early_dialogs_is_updated_and_the_other_confirmed() {
    let exchange = TestServer::without_trusted_sources();
    let (alice, [mut desk, mut pocket], [with_desk, with_pocket]) = two_ring(&exchange);
    let mut alice = End { agent: alice, dialog: with_pocket };
    update_each_other(&mut alice, &mut pocket.phone);
    alice.dialog = answer(&mut alice.agent, &with_desk, &mut desk);
    stop_ringing(&mut pocket);

    update_each_other(&mut alice, &mut desk.phone);
    alice.pass(&mut desk.phone, "INVITE", "");
    desk.phone.pass(&mut alice, "BYE", "");
}

#[test]
fn both_early_dialogs_are_updated_and_the_updated_one_confirmed() {
    let exchange = TestServer::without_trusted_sources();
    let (alice, [mut desk, mut pocket], [with_desk, with_pocket]) = two_ring(&exchange);
    let mut alice = End { agent: alice, dialog: with_desk };
    update_each_other(&mut alice, &mut desk.phone);
    let with_desk = std::mem::replace(&mut alice.dialog, with_pocket);
    update_each_other(&mut alice, &mut pocket.phone);
    alice.dialog = answer(&mut alice.agent, &with_desk, &mut desk);
    stop_ringing(&mut pocket);

    desk.phone.pass(&mut alice, "INVITE", "");
    alice.pass(&mut desk.phone, "BYE", "");
}

/// Its 200 crosses the CANCEL. The caller ends that call (RFC 3261 section 13.2.2.4).
#[test]
fn both_phones_answer_and_the_caller_hangs_up_on_one() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, [mut desk, mut pocket], [with_desk, with_pocket]) = two_ring(&exchange);
    let with_desk = answer(&mut alice, &with_desk, &mut desk);
    let cancel = pocket.phone.agent.request("CANCEL");
    pocket.phone.agent.answer(&cancel, &pocket.phone.dialog, 200, "", "");
    let with_pocket = answer(&mut alice, &with_pocket, &mut pocket);
    let mut alice = End { agent: alice, dialog: with_pocket };
    alice.pass(&mut pocket.phone, "BYE", "");

    alice.dialog = with_desk;
    alice.pass(&mut desk.phone, "INVITE", "");
    desk.phone.pass(&mut alice, "BYE", "");
}

/// A phone that moves before it answers is reached at its new address.
#[test]
fn a_phone_moves_while_it_rings() {
    let exchange = TestServer::without_trusted_sources();
    let (alice, [mut desk, mut pocket], [with_desk, _]) = two_ring(&exchange);
    let mut alice = End { agent: alice, dialog: with_desk };
    desk.phone.agent.move_away();
    update_each_other(&mut desk.phone, &mut alice);
    let early = alice.dialog.clone();
    alice.dialog = answer(&mut alice.agent, &early, &mut desk);
    stop_ringing(&mut pocket);
    alice.pass(&mut desk.phone, "INVITE", "");
    alice.pass(&mut desk.phone, "BYE", "");
}
