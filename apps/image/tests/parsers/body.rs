//! The image's parsers on arbitrary bytes: no panics, and bounded memory.

use image::dns::Resolver;
use image::machine::random::Random;
use image::options::{phone, server};
use image::screen::keys::{Keyboard, Sequences};
use image::sntp::{self, TimeKeeper};
use image::tftp::{Progress, Transfer};
use image::users::Users;
use sip::locate::{Destination, Host};
use sip::{Duration, Instant};
use std::net::{Ipv4Addr, SocketAddrV4};

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const NOW: Instant = Instant::from_micros(1_795_700_000_000_000);
const MOST: usize = 100;

/// The first byte selects the parser of the rest.
pub(crate) fn parsers(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 6 {
        0 => users(bytes),
        1 => options(bytes),
        2 => transfer(bytes),
        3 => names(bytes),
        4 => time(bytes),
        _ => keys(bytes),
    }
}

fn users(bytes: &[u8]) {
    let mut users = Users::new("example.org", MOST);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let read = users.read(first).and_then(|()| users.read(second)).and_then(|()| users.end());
    assert!(users.len() <= MOST);
    if read.is_ok() {
        let lines = bytes.split(|&byte| byte == b'\n').count();
        assert!(users.into_users().count() <= lines);
    }
}

fn options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read =
        [server::Options::default().read(&text).err(), phone::Options::default().read(&text).err()];
    read.iter().flatten().for_each(|mistake| assert!(!mistake.to_string().is_empty()));
}

/// Datagrams, each behind a byte with its length.
fn datagrams(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first()?;
        let (datagram, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        Some(datagram)
    })
}

fn transfer(bytes: &[u8]) {
    let mut transfer = Transfer::new(SERVER, "users", MOST as u64, NOW);
    let (mut now, mut came) = (NOW, 0);
    for datagram in datagrams(bytes) {
        assert!(
            transfer.transmit().is_none_or(|(to, sent)| to.ip() == &SERVER && sent.len() < 600)
        );
        match transfer.receive(now, SocketAddrV4::new(SERVER, 1069), datagram) {
            Progress::More(data) => came += data.len(),
            Progress::Nothing => now += Duration::from_secs(1),
            Progress::End(_) | Progress::Failed(_) => return,
        }
        assert!(came <= MOST);
        if transfer.on_time(now).is_err() {
            return;
        }
    }
}

fn names(bytes: &[u8]) {
    let mut random = Random::new([7; 32]);
    let mut resolver = Resolver::default();
    resolver.set_servers(&[SERVER]);
    let host = Host::Name("example.com".to_owned());
    let destination = Destination { host, port: None, transport: None, sips: false };
    resolver.locate(NOW, destination, (), &mut random);
    for datagram in datagrams(bytes) {
        let (_, _, queries) = resolver.work();
        let Some((port, _, query)) = queries.into_iter().next() else { break };
        // The answer has the id and the question of the query.
        let mut answer = query;
        answer[2] |= 0x80;
        if let Some((head, rest)) = datagram.split_first_chunk::<10>() {
            answer[2..12].copy_from_slice(head);
            answer.extend_from_slice(rest);
        }
        resolver.receive(NOW, SocketAddrV4::new(SERVER, 53), port, &answer, &mut random);
    }
    if let Some(((), targets)) = resolver.found() {
        assert!(targets.len() <= 100);
    }
}

fn time(bytes: &[u8]) {
    let mut keeper = TimeKeeper::new(SERVER, NOW);
    let (server, _) = keeper.transmit(NOW, 7).expect("a question");
    assert_eq!(server.port(), sntp::PORT);
    let mut message = bytes.to_vec();
    if let Some(origin) = message.get_mut(24..32) {
        origin.copy_from_slice(&7_u64.to_be_bytes());
    }
    let _ = keeper.receive(NOW + Duration::from_millis(3), server, &message);
}

fn keys(bytes: &[u8]) {
    let (mut keyboard, mut terminal) = (Keyboard::default(), Sequences::default());
    for &byte in bytes {
        let _ = (keyboard.add(byte), terminal.add(byte));
    }
}
