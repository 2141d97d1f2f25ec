//! A TFTP server (RFC 1350) for the file of users.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The bytes of a block; the first that is shorter is the last.
const BLOCK: usize = 512;
/// The time to wait for an acknowledgement, and how often a block is sent.
const PATIENCE: Duration = Duration::from_millis(500);
const TRIES: usize = 10;

/// The requests of the protocol.
const READ: u16 = 1;
const DATA: u16 = 3;
const ACKNOWLEDGEMENT: u16 = 4;

/// Opens the socket of the server. It is to be opened in the namespace of its clients.
///
/// # Errors
/// The port is not free, or needs root.
pub(super) fn open(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 69))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Answers every request to read with the content that `find` returns for the name, until `is_over`
/// is set. Requests for unknown names are not answered.
pub(super) fn serve(
    socket: &UdpSocket,
    find: impl Fn(&str) -> Option<Vec<u8>>,
    is_over: &AtomicBool,
) {
    let mut request = [0; BLOCK];
    while !is_over.load(Ordering::Acquire) {
        let Ok((length, client)) = socket.recv_from(&mut request) else { continue };
        let content = name(&request[..length]).and_then(&find);
        if let (Some(content), Ok(own)) = (content, socket.local_addr()) {
            // A client that gives up asks again.
            let _ = send(SocketAddr::new(own.ip(), 0), client, &content);
        }
    }
}

/// Returns the file name of a request to read.
fn name(request: &[u8]) -> Option<&str> {
    let (code, rest) = request.split_first_chunk()?;
    let (name, _) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    (u16::from_be_bytes(*code) == READ).then_some(name)
}

/// Sends the content from a port of its own.
fn send(own: SocketAddr, client: SocketAddr, content: &[u8]) -> io::Result<()> {
    let socket = UdpSocket::bind(own)?;
    socket.connect(client)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    for number in 0..=content.len() / BLOCK {
        let block = content.get(number * BLOCK..).unwrap_or_default();
        let block = &block[..block.len().min(BLOCK)];
        let number = (number as u16).wrapping_add(1).to_be_bytes();
        let data = [&DATA.to_be_bytes()[..], &number, block].concat();
        let expected = [ACKNOWLEDGEMENT.to_be_bytes(), number].concat();
        let is_taken = || -> io::Result<bool> {
            socket.send(&data)?;
            let mut answer = [0; 16];
            let length = socket.recv(&mut answer).unwrap_or(0);
            Ok(answer[..length] == expected)
        };
        let mut tries = 0;
        while !is_taken()? {
            tries += 1;
            if tries == TRIES {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_file_of_whole_blocks_ends_with_an_empty_one() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let is_over = AtomicBool::new(false);
        let content = vec![7; 2 * BLOCK];
        let find = |name: &str| (name == "/a/users").then(|| content.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&server, find, &is_over));
            let target = server.local_addr().unwrap();
            client.send_to(b"\0\x01/unknown\0octet\0", target).unwrap();
            client.send_to(b"\0\x01/a/users\0octet\0", target).unwrap();
            let mut sizes = Vec::new();
            let mut block = [0; 4 + BLOCK];
            for number in 1..=3u8 {
                let (length, from) = client.recv_from(&mut block).unwrap();
                assert_eq!(block[..4], [0, 3, 0, number]);
                sizes.push(length - 4);
                client.send_to(&[0, 4, 0, number], from).unwrap();
            }
            is_over.store(true, Ordering::Release);
            assert_eq!(sizes, [BLOCK, BLOCK, 0]);
        });
    }
}
