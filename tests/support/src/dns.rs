//! A DNS server with a fixed set of records.

use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Record types.
pub const A: u16 = 1;
/// See [`A`].
pub const SRV: u16 = 33;
/// See [`A`].
pub const NAPTR: u16 = 35;

/// Encodes a domain name.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in text.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// The data of an SRV record with weight 1.
#[must_use]
pub fn srv(priority: u8, port: u16, target: &str) -> Vec<u8> {
    [&[0, priority, 0, 1][..], &port.to_be_bytes(), &name(target)].concat()
}

/// The data of a NAPTR record that refers to SRV records.
#[must_use]
pub fn naptr(order: u8, service: &str, replacement: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    [&[0, order, 0, 1][..], &text("s"), &text(service), &text(""), &name(replacement)].concat()
}

/// Starts a DNS server at `address` with these records, by name and type. It runs until the test
/// ends. Returns its address, for a requested port of 0.
///
/// # Errors
/// The address cannot be bound.
///
/// # Panics
/// On its thread, if an answer cannot be sent.
pub fn serve(
    address: SocketAddr,
    records: Vec<(&'static str, u16, Vec<u8>)>,
) -> io::Result<SocketAddr> {
    serve_except(address, records, None)
}

/// As [`serve`]. Queries for names in the domain `silent` get no answer.
///
/// # Errors
/// The address cannot be bound.
///
/// # Panics
/// On its thread, if an answer cannot be sent.
pub fn serve_except(
    address: SocketAddr,
    records: Vec<(&'static str, u16, Vec<u8>)>,
    silent: Option<&str>,
) -> io::Result<SocketAddr> {
    let silent = silent.map(name);
    let socket = UdpSocket::bind(address)?;
    let address = socket.local_addr()?;
    std::thread::spawn(move || {
        let mut query = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let query = &query[..length];
            let is_silent = |silent: &[u8]| {
                query.to_ascii_lowercase().windows(silent.len()).any(|part| part == silent)
            };
            if silent.as_deref().is_some_and(is_silent) {
                continue;
            }
            let answer = answer(query, &records);
            socket.send_to(&answer, from).expect("the client receives the answer");
        }
    });
    Ok(address)
}

fn answer(query: &[u8], records: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
    // Twelve bytes of header, then name, type and class.
    let end =
        12 + query[12..].iter().position(|&byte| byte == 0).expect("the query has a name") + 1;
    let queried = query[12..end].to_ascii_lowercase();
    let kind = u16::from_be_bytes([query[end], query[end + 1]]);
    let is_queried = |record: &&(&str, u16, Vec<u8>)| name(record.0) == queried && record.1 == kind;
    let found: Vec<_> = records.iter().filter(is_queried).collect();
    let mut answer = query[..2].to_vec();
    answer.extend([0x85, 0x80, 0, 1, 0, found.len() as u8, 0, 0, 0, 0]);
    answer.extend(&query[12..end + 4]);
    for (_, record, data) in found {
        answer.extend([0xc0, 12]);
        answer.extend(record.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 60]);
        answer.extend((data.len() as u16).to_be_bytes());
        answer.extend(data);
    }
    answer
}
