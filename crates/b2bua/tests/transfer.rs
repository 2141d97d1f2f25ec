//! Requests that pass within a call: INFO, MESSAGE, and the transfer by REFER and NOTIFY.

mod rig;

use rig::{Rig, session};
use sip::Method;
use sip_ua::{CallId, Event, PassedRequest, Placement, Transfer};
use std::time::Duration;

/// A phone sends an INFO with this media type and body.
fn inform(rig: &mut Rig, phone: usize, call: CallId, body_type: &str, body: &[u8]) {
    let lines = b"X-Note: 1\r\n";
    let request = PassedRequest { method: Method::Info, lines, body_type, body };
    rig.act(phone, |phone, now| phone.request(now, call, &request));
}

#[test]
fn keys_by_info_pass_in_both_directions() {
    let mut rig = Rig::new(30, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.act(0, |phone, now| phone.press(now, caller, '5'));
    let event = rig.expect_where(1, |event| matches!(event, Event::Key { .. }));
    assert_eq!(event, Event::Key { call: callee, key: '5' });
    rig.act(1, |phone, now| phone.press(now, callee, '#'));
    let event = rig.expect_where(0, |event| matches!(event, Event::Key { .. }));
    assert_eq!(event, Event::Key { call: caller, key: '#' });
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn the_response_to_a_request_that_passes_is_that_of_the_other_end() {
    let mut rig = Rig::new(31, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    inform(&mut rig, 0, caller, "application/media_control+xml", b"<a/>");
    let event = rig.expect_where(0, |event| matches!(event, Event::Response { .. }));
    let Event::Response { response: Ok(response), .. } = event else { panic!("{event:?}") };
    assert!(response.starts_with(b"SIP/2.0 415"));
    let info = rig.last(1, "INFO");
    assert!(info.contains("Content-Type: application/media_control+xml\r\n"), "{info}");
    assert!(info.contains("X-Note: 1\r\n") && info.ends_with("\r\n\r\n<a/>"), "{info}");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_blind_transfer_passes_with_its_progress() {
    let mut rig = Rig::new(32, &Rig::phones(3));
    let (caller, callee) = rig.establish(0, 1);
    let target = "sip:p2@192.0.2.100";
    rig.act(0, |phone, now| phone.transfer(now, caller, target));
    rig.expect_where(1, |event| matches!(event, Event::TransferAsked { .. }));
    let offer = session(1, 6000, "sendrecv");
    let moved = rig.act(1, |phone, now| phone.follow(now, callee, offer));
    let third = rig.expect_incoming(2);
    rig.act(2, |phone, now| phone.answer(now, third, &session(2, 7000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Transfer { transfer: Transfer::Done, .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.act(1, |phone, now| phone.hang_up(now, moved));
    rig.finish();
}

#[test]
fn a_transfer_after_consultation_joins_both_parties() {
    let mut rig = Rig::new(33, &Rig::phones(3));
    let (first, second) = rig.establish(0, 1);
    let (consultation, third) = rig.establish(0, 2);
    rig.act(0, |phone, now| phone.transfer_to(now, first, consultation));
    let event = rig.expect_where(1, |event| matches!(event, Event::TransferAsked { .. }));
    let Event::TransferAsked { to, replaces: true, .. } = event else { panic!("{event:?}") };
    assert_eq!(to, "sip:p2@192.0.2.100:5060");
    let offer = session(1, 6000, "sendrecv");
    let moved = rig.act(1, |phone, now| phone.follow(now, second, offer));
    let event = rig.expect_where(2, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call, replaces, .. } = event else { panic!("{event:?}") };
    assert_eq!(replaces, Some(third), "the dialog is translated");
    rig.act(2, |phone, now| phone.answer(now, call, &session(2, 7000, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Answered { .. }));
    // The consultation has ended with its replacement.
    rig.expect_where(
        0,
        |event| matches!(event, Event::Ended { call, .. } if *call == consultation),
    );
    rig.act(0, |phone, now| phone.hang_up(now, first));
    rig.pass(Duration::from_secs(1));
    rig.act(1, |phone, now| phone.hang_up(now, moved));
    rig.finish();
}

#[test]
fn a_second_transfer_is_notified_by_its_own_number() {
    let mut rig = Rig::new(34, &Rig::phones(3));
    let (caller, callee) = rig.establish(0, 1);
    for _ in 0..2 {
        rig.act(0, |phone, now| phone.transfer(now, caller, "sip:p2@192.0.2.100"));
        rig.expect_where(1, |event| matches!(event, Event::TransferAsked { .. }));
        rig.act(1, |phone, now| phone.follow(now, callee, session(1, 6000, "sendrecv")));
        let third = rig.expect_incoming(2);
        rig.act(2, |phone, now| phone.decline(now, third, 486));
        rig.expect_where(0, |event| {
            matches!(event, Event::Transfer { transfer: Transfer::Failed(_), .. })
        });
        rig.pass(Duration::from_secs(1));
    }
    let refer = rig.last(1, "REFER");
    let number = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the field");
        line.trim().split([' ', '=']).find_map(|word| word.parse::<u32>().ok()).expect("a number")
    };
    let notify = rig.last(0, "NOTIFY");
    let told = number(&notify, "Event: refer;id");
    assert_ne!(told, 0, "{notify}");
    // The legs have sent different numbers of requests.
    let _ = number(&refer, "CSeq:");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn the_requests_of_one_call_take_no_room_from_those_of_another() {
    let passing = sip_ua::Config { passes: true, ..sip_ua::Config::default() };
    let configs = [Rig::phones(1), vec![passing], Rig::phones(1)].concat();
    let mut rig = Rig::new(35, &configs);
    let (first, _) = rig.establish(0, 1);
    let (second, _) = rig.establish(0, 2);
    // The phone answers none.
    for _ in 0..60 {
        inform(&mut rig, 0, first, "text/plain", b"x");
        rig.pass(Duration::from_millis(50));
    }
    // Some of the last responses may be lost at first.
    rig.pass(Duration::from_secs(4));
    assert_eq!((rig.count(1, "INFO") >= 50, rig.count(0, "SIP/2.0 500")), (true, 10));
    inform(&mut rig, 0, second, "text/plain", b"x");
    let event = rig.expect_where(0, |event| matches!(event, Event::Response { response: Ok(response), .. } if response.starts_with(b"SIP/2.0 415")));
    assert!(event.call().is_none());
    for call in [first, second] {
        rig.act(0, |phone, now| phone.hang_up(now, call));
    }
    rig.answer_requests(1);
    rig.finish();
}

/// The value of a parameter or of a field in a message.
fn tag(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name)).expect("the field");
    line.rsplit("tag=").next().expect("a tag").trim().to_owned()
}

#[test]
fn a_call_is_replaced_by_its_full_name_only() {
    for is_right in [false, true] {
        let mut rig = Rig::new(36, &Rig::phones(3));
        let (first, second) = rig.establish(0, 1);
        let answer = rig.last(0, "SIP/2.0 200");
        let call_id = answer.lines().find_map(|line| line.strip_prefix("Call-ID: "));
        let (call_id, mut own) = (call_id.expect("a Call-ID"), tag(&answer, "From:"));
        if !is_right {
            own.push('x');
        }
        let theirs = tag(&answer, "To:");
        let lines = format!("Replaces: {call_id};to-tag={theirs};from-tag={own}\r\n");
        // The third phone has the name of the call as the first one knows it.
        let flow = sip::Flow {
            transport: sip::Transport::Udp,
            local: rig::address(2),
            remote: ([192, 0, 2, 100], 5060).into(),
            connection: None,
        };
        let (third, _) = rig.act(2, |phone, now| {
            Ok(phone.place_for(
                now,
                Placement {
                    uri: b"sip:p1@192.0.2.100",
                    from: b"<sip:p2@192.0.2.100>",
                    to: b"<sip:p1@192.0.2.100>",
                    routes: &[],
                    flow,
                    max_forwards: 70,
                    lines: lines.into_bytes(),
                    session: session(2, 6000, "sendrecv"),
                    envelope: None,
                    is_reliable: true,
                    account: None,
                },
            ))
        });
        if !is_right {
            rig.expect_where(2, |event| matches!(event, Event::Ended { .. }));
            assert_eq!((rig.count(2, "SIP/2.0 481"), rig.b2bua().calls()), (1, 1));
            rig.act(0, |phone, now| phone.hang_up(now, first));
            rig.finish();
            continue;
        }
        let event = rig.expect_where(1, |event| matches!(event, Event::Incoming { .. }));
        let Event::Incoming { call, replaces, .. } = event else { panic!("{event:?}") };
        assert_eq!(replaces, Some(second), "the dialog is translated");
        rig.act(1, |phone, now| phone.answer(now, call, &session(1, 7000, "sendrecv")));
        rig.expect_where(2, |event| matches!(event, Event::Answered { .. }));
        rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
        rig.act(2, |phone, now| phone.hang_up(now, third));
        rig.finish();
    }
}
