//! Pages of a phone with a fake card.

use super::*;
use crate::machine::random::Random;
use crate::net::{Address, Network};
use crate::nic::fake;
use crate::options::phone::Options;
use crate::screen::console::View as _;
use crate::sound::Mute;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use sip::{Flow, Transport};

const NOW: Instant = Instant::from_micros(1_800_000_000_000_000);

/// A phone after its first step.
fn phone(options: &str) -> Phone {
    let mut parsed = Options::default();
    parsed.read("address=192.0.2.1/24 gateway=192.0.2.254").expect("options");
    parsed.read(options).expect("options");
    let network = Network::new(fake::card(), 1, true, NOW);
    let mut phone = Phone::new(parsed, network, Box::new(Mute), Random::new([1; 32]), NOW);
    phone.step(NOW);
    phone
}

fn look(view: &mut View, phone: &mut Phone) -> Vec<String> {
    let mut grid = Grid::new(80, 25);
    view.turn(phone, &grid, NOW);
    view.draw(&mut grid, phone, &(), NOW);
    (0..25).map(|row| grid.text(row)).collect()
}

fn press(view: &mut View, phone: &mut Phone, keys: &str) {
    for letter in keys.chars() {
        let key = if letter == '\n' { Key::Enter } else { Key::Character(letter) };
        assert!(!view.on_key(key, phone, NOW));
    }
}

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

#[test]
fn whoever_types_an_address_logs_in_and_the_password_is_not_shown() {
    let (mut phone, mut view) = (phone(""), View::default());
    assert!(has(&look(&mut view, &mut phone), "Log in to a server, or call a peer directly"));
    press(&mut view, &mut phone, "alice@192.0.2.9\nsecret");
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "sip:alice@192.0.2.9") && has(&rows, "******") && !has(&rows, "secret"));
    press(&mut view, &mut phone, "\n\n");
    assert_eq!(phone.login(), &Login::Asking);
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "sip:alice@192.0.2.9") && has(&rows, "logging in"), "{rows:?}");
    press(&mut view, &mut phone, "a");
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "Log in to a server"), "another account can be named: {rows:?}");
}

#[test]
fn no_key_of_the_login_form_reaches_the_menu() {
    let others = [Key::Control('i'), Key::Left, Key::Right, Key::Home, Key::End, Key::Help];
    for key in others.into_iter().chain([Key::Control('a'), Key::Up, Key::Down]) {
        let (mut phone, mut view) = (phone("dial=sip:bob@192.0.2.9"), View::default());
        press(&mut view, &mut phone, "alice@192.0.2.9");
        assert!(!view.on_key(key, &mut phone, NOW));
        press(&mut view, &mut phone, "c1b");
        let rows = look(&mut view, &mut phone);
        assert!(has(&rows, "Log in to a server") && phone.call().is_none(), "{key:?}: {rows:?}");
    }
    let (mut phone, mut view) = (phone(""), View::default());
    press(&mut view, &mut phone, "alice@192.0.2.9");
    assert!(!view.on_key(Key::Control('i'), &mut phone, NOW));
    press(&mut view, &mut phone, "secret\n\n");
    assert_eq!(phone.login(), &Login::Asking);
    assert_eq!(phone.options().password.as_deref(), Some("secret"));
}

#[test]
fn the_keys_have_room_in_80_columns() {
    let (mut phone, mut view) = (phone(""), View::default());
    assert!(!view.on_key(Key::PageDown, &mut phone, NOW));
    press(&mut view, &mut phone, "?");
    let mut wide = Grid::new(120, 25);
    view.draw(&mut wide, &mut phone, &(), NOW);
    for row in 0..25 {
        assert!(wide.text(row).len() <= 80, "{}", wide.text(row));
    }
}

#[test]
fn a_call_shows_its_page_until_it_is_over() {
    let (mut phone, mut view) = (phone("dial=sip:bob@192.0.2.9"), View::default());
    assert!(!view.on_key(Key::PageDown, &mut phone, NOW));
    assert!(has(&look(&mut view, &mut phone), "call sip:bob@192.0.2.9"));
    press(&mut view, &mut phone, "1");
    assert_eq!(phone.call().map(|call| call.party.clone()), Some("sip:bob@192.0.2.9".into()));
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "sip:bob@192.0.2.9") && has(&rows, "h: hang up"), "{rows:?}");
    press(&mut view, &mut phone, "h");
    assert!(phone.call().is_none());
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "c                       call an address"));
    assert!(has(&rows, "sip:bob@192.0.2.9: taken back"), "{rows:?}");
    press(&mut view, &mut phone, "n");
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "192.0.2.254") && has(&rows, "5060"), "{rows:?}");
}

#[test]
fn a_login_before_the_lease_is_made_with_the_lease() {
    let (mut phone, mut view) = (phone("address=dhcp"), View::default());
    press(&mut view, &mut phone, "alice@192.0.2.9\nsecret\n192.0.2.8\n");
    assert_eq!(phone.login(), &Login::Asking);
    let address = |ours: &str| {
        let ours = ours.parse().expect("an address");
        Some(Address { ours, gateway: None, dns: Vec::new(), tftp: None, file: None, ntp: None })
    };
    for lease in [address("192.0.2.1/24"), None, address("192.0.2.2/24")] {
        phone.on_address(lease, NOW);
        let logins = phone.log.since(0).filter(|line| line.starts_with("logging in as sip:alice@"));
        assert_eq!(logins.count(), 1, "the account stays when the address changes");
    }
    let Options { password, server, .. } = phone.options();
    assert_eq!((password.as_deref(), server.as_deref()), (Some("secret"), Some("192.0.2.8")));
}

#[test]
fn a_conflict_over_the_address_is_on_the_screen() {
    let mut options = Options::default();
    options.read("address=192.0.2.1/24").expect("options");
    let (card, wire) = fake::wired();
    let network = Network::new(card, 1, true, NOW);
    let mut phone = Phone::new(options, network, Box::new(Mute), Random::new([1; 32]), NOW);
    (0..2).for_each(|_| phone.step(NOW));
    // Another host answers the ARP probe.
    let mut answer = wire.borrow_mut().from_card.pop_front().expect("a probe");
    assert_eq!(answer[12..14], [8, 6]);
    let rival = [2, 0, 0, 0, 0, 9];
    answer[21] = 2;
    answer[22..28].copy_from_slice(&rival);
    answer[28..32].copy_from_slice(&[192, 0, 2, 1]);
    wire.borrow_mut().to_card.push_back(answer);
    phone.step(NOW);
    let mut view = View::default();
    assert!(!view.on_key(Key::PageDown, &mut phone, NOW));
    let shown = "address                 in use by 02-00-00-00-00-09";
    assert!(has(&look(&mut view, &mut phone), shown));
    press(&mut view, &mut phone, "n");
    assert!(has(&look(&mut view, &mut phone), shown));
    phone.step(NOW + Duration::from_secs(10));
    assert!(has(&look(&mut view, &mut phone), "192.0.2.1/24"));
}

/// Answers the ARP requests on the wire. Returns the datagrams to `port`, as text.
fn datagrams(wire: &RefCell<fake::Wire>, port: u16) -> Vec<String> {
    let frames = core::mem::take(&mut wire.borrow_mut().from_card);
    let mut sent = Vec::new();
    for mut frame in frames {
        if frame[12..14] == [8, 6] && frame[38..42] != frame[28..32] && frame[28..32] != [0; 4] {
            let (asker, asked): (Vec<u8>, Vec<u8>) = (frame[22..32].into(), frame[38..42].into());
            frame[21] = 2;
            frame[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
            frame[28..32].copy_from_slice(&asked);
            frame[32..42].copy_from_slice(&asker);
            wire.borrow_mut().to_card.push_back(frame);
        } else if frame[12..14] == [8, 0] && frame[36..38] == port.to_be_bytes() {
            sent.push(frame[42..].iter().map(|&byte| char::from(byte)).collect());
        }
    }
    sent
}

/// A phone at 192.168.0.1 that has the address, with its wire.
fn wired(options: &str) -> (Phone, Rc<RefCell<fake::Wire>>) {
    let mut parsed = Options::default();
    parsed.read("address=192.168.0.1/24").expect("options");
    parsed.read(options).expect("options");
    let (card, wire) = fake::wired();
    let network = Network::new(card, 1, true, NOW);
    (Phone::new(parsed, network, Box::new(Mute), Random::new([1; 32]), NOW), wire)
}

#[test]
fn the_public_address_is_asked_for_from_the_start_until_a_call_stands() {
    let (mut phone, wire) = wired("stun=192.168.0.9");
    let server = "192.168.0.9:3478".parse().expect("an address");
    let mut now = NOW;
    let queries = |phone: &mut Phone, now: &mut Instant, seconds: u64| {
        let mut count = 0;
        for _ in 0..10 * seconds {
            phone.step(*now);
            for query in datagrams(&wire, 3478) {
                count += 1;
                // A success with 203.0.113.5:40000, both XORed with the magic cookie.
                let mut answer: Vec<u8> = query.chars().map(|letter| letter as u8).collect();
                answer.truncate(20);
                answer[..4].copy_from_slice(&[1, 1, 0, 12]);
                answer.extend([0, 0x20, 0, 8, 0, 1, 0xbd, 0x52, 0xea, 0x12, 0xd5, 0x47]);
                let ports = phone.call.as_mut().map(|call| &mut call.leg.ports);
                let ports = ports.or(phone.spare.as_mut()).expect("the ports");
                assert!(ports.receive(*now, server, &answer));
            }
            *now += Duration::from_millis(100);
        }
        count
    };
    assert_eq!(queries(&mut phone, &mut now, 95), 4);
    let mut view = View::default();
    assert!(!view.on_key(Key::PageDown, &mut phone, NOW));
    press(&mut view, &mut phone, "n");
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "RTP, external           203.0.113.5:40000"), "{rows:?}");

    // A call has these ports. Once it is established, the query after 120 s is not sent.
    let ports = phone.rtp();
    phone.place(now, "sip:bob@192.168.0.2");
    assert_eq!(phone.rtp(), ports);
    phone.call.as_mut().expect("the call").stand(now);
    assert_eq!(queries(&mut phone, &mut now, 30), 0);
    phone.end_call(now, "");
    assert_eq!(queries(&mut phone, &mut now, 5), 1);
    assert_ne!(phone.rtp(), ports);
}

#[test]
fn the_external_sip_port_is_shown_as_the_registrar_sees_it() {
    let (mut phone, wire) = wired("account=sip:a@192.168.0.9");
    let mut now = NOW;
    let register = (0..100).find_map(|_| {
        phone.step(now);
        now += Duration::from_millis(100);
        datagrams(&wire, 5060).into_iter().find(|text| text.starts_with("REGISTER "))
    });
    let register = register.expect("a REGISTER");
    let mut response = String::from("SIP/2.0 200 OK\r\n");
    for line in register.lines() {
        let name = line.split(':').next().unwrap_or_default();
        if ["Via", "From", "To", "Call-ID", "CSeq", "Contact"].contains(&name) {
            response += &line.replace(";rport", ";received=203.0.113.5;rport=40001");
            response += "\r\n";
        }
    }
    response += "Expires: 300\r\nContent-Length: 0\r\n\r\n";
    let [local, remote] = ["192.168.0.1:5060", "192.168.0.9:5060"]
        .map(|address| address.parse().expect("an address"));
    let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
    phone.agent.receive(now, &flow, response.as_bytes());
    phone.act(now);
    assert_eq!(phone.login(), &Login::Registered);
    let mut view = View::default();
    let _ = look(&mut view, &mut phone);
    press(&mut view, &mut phone, "n");
    let rows = look(&mut view, &mut phone);
    assert!(has(&rows, "SIP, external           203.0.113.5:40001"), "{rows:?}");
}

/// Its answer must name the port that the remote end can reach.
#[test]
fn a_call_rings_when_a_stun_server_has_had_its_time() {
    let mut phone = phone("address=192.168.0.1/24 stun=192.168.0.9");
    let mut view = View::default();
    let remote = "192.168.0.2:5060".parse().expect("an address");
    let local = "192.168.0.1:5060".parse().expect("an address");
    let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
    let invite = "INVITE sip:a@192.168.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.168.0.2;branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\nFrom: Bob <sip:bob@192.168.0.2>;tag=1\r\nTo: <sip:a@192.168.0.1>\r\n\
         Call-ID: x\r\nCSeq: 1 INVITE\r\nContact: <sip:bob@192.168.0.2>\r\nContent-Length: 0\r\n\r\n";
    phone.agent.receive(NOW, &flow, invite.as_bytes());
    phone.act(NOW);
    phone.step(NOW);
    assert!(has(&look(&mut view, &mut phone), "looks what its port is outside"));
    phone.step(NOW + Duration::from_secs(2));
    let rows = look(&mut view, &mut phone);
    let with = rows.iter().find_map(|row| row.trim().strip_prefix("with")).map(str::trim);
    assert_eq!(with, Some("sip:bob@192.168.0.2"));
    assert!(has(&rows, "it rings here"), "{rows:?}");
}
