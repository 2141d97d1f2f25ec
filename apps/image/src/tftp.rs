//! A TFTP client for one file (RFC 1350), with the options of RFC 2347 to 2349, without I/O.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use sip::{Duration, Instant};

/// The TFTP port.
const PORT: u16 = 69;
/// Block size in bytes without options, and the requested one, which fits an Ethernet frame.
const BLOCK: usize = 512;
const LARGEST_BLOCK: usize = 1468;
/// Interval of retransmissions, and their number.
const INTERVAL: Duration = Duration::from_secs(1);
const TRIES: u8 = 6;

const READ: u16 = 1;
const DATA: u16 = 3;
const ACK: u16 = 4;
const ERROR: u16 = 5;
const OPTIONS: u16 = 6;

/// The error code for a datagram from an unknown transfer id.
const UNKNOWN_TRANSFER: u16 = 5;

/// The reason of a failed transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server does not respond.
    Silent,
    /// The server refused with this error code and text.
    Refused(u16, String),
    /// The file is longer than this limit in bytes.
    TooLong(u64),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("the TFTP server does not answer"),
            Self::Refused(code, text) => {
                write!(f, "the TFTP server refused (code {code}: {})", text.escape_debug())
            }
            Self::TooLong(most) => write!(f, "the file has more than {most} bytes"),
        }
    }
}

/// The result of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// No new data.
    Nothing,
    /// More data of the file.
    More(&'a [u8]),
    /// The last data of the file.
    End(&'a [u8]),
    /// The transfer has failed.
    Failed(Failure),
}

/// The transfer of a file.
#[derive(Debug)]
pub struct Transfer {
    server: Ipv4Addr,
    /// The server's port for this transfer, once it has answered.
    port: Option<u16>,
    /// The maximum length of the file, and the bytes received.
    most: u64,
    came: u64,
    block_size: usize,
    /// The number of the expected block.
    block: u16,
    /// The last datagram sent, and its time.
    sent: Vec<u8>,
    sent_at: Instant,
    tries: u8,
    is_to_send: bool,
}

impl Transfer {
    /// Requests `file` from `server`; it may have at most `most` bytes.
    #[must_use]
    pub fn new(server: Ipv4Addr, file: &str, most: u64, now: Instant) -> Self {
        let mut sent = READ.to_be_bytes().to_vec();
        let size = alloc::format!("{LARGEST_BLOCK}");
        for word in [file, "octet", "blksize", &size, "tsize", "0"] {
            sent.extend_from_slice(word.as_bytes());
            sent.push(0);
        }
        Self {
            server,
            port: None,
            most,
            came: 0,
            block_size: BLOCK,
            block: 1,
            sent,
            sent_at: now,
            tries: 1,
            is_to_send: true,
        }
    }

    /// Returns the datagram to send now, and its destination.
    pub fn transmit(&mut self) -> Option<(SocketAddrV4, &[u8])> {
        let is_to_send = core::mem::take(&mut self.is_to_send);
        let remote = SocketAddrV4::new(self.server, self.port.unwrap_or(PORT));
        is_to_send.then_some((remote, &self.sent))
    }

    /// Retransmits an unanswered datagram.
    ///
    /// # Errors
    /// After the last retransmission.
    pub fn on_time(&mut self, now: Instant) -> Result<(), Failure> {
        if now.since(self.sent_at) < INTERVAL {
            return Ok(());
        }
        if self.tries == TRIES {
            return Err(Failure::Silent);
        }
        self.tries += 1;
        self.sent_at = now;
        self.is_to_send = true;
        Ok(())
    }

    /// Handles a datagram from `remote`. Datagrams from other hosts change nothing.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        remote: SocketAddrV4,
        datagram: &'a [u8],
    ) -> Progress<'a> {
        let is_server =
            *remote.ip() == self.server && self.port.is_none_or(|port| port == remote.port());
        let Some((kind, rest)) = datagram.split_first_chunk::<2>().filter(|_| is_server) else {
            return Progress::Nothing;
        };
        match u16::from_be_bytes(*kind) {
            DATA => {
                let Some((number, data)) = rest.split_first_chunk::<2>() else {
                    return Progress::Nothing;
                };
                self.on_data(now, remote.port(), u16::from_be_bytes(*number), data)
            }
            OPTIONS if self.block == 1 && self.came == 0 => {
                self.on_options(now, remote.port(), rest)
            }
            ERROR => {
                let code = rest.first_chunk().map_or(0, |code| u16::from_be_bytes(*code));
                let text = rest.get(2..).unwrap_or_default();
                let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
                let text = String::from_utf8_lossy(&text[..text.len().min(100)]).into_owned();
                match code {
                    UNKNOWN_TRANSFER if self.port.is_none() => Progress::Nothing,
                    _ => Progress::Failed(Failure::Refused(code, text)),
                }
            }
            _ => Progress::Nothing,
        }
    }

    fn on_data<'a>(
        &mut self,
        now: Instant,
        port: u16,
        number: u16,
        data: &'a [u8],
    ) -> Progress<'a> {
        if number != self.block {
            // The previous block again: its acknowledgement may be lost. Answering each copy would
            // never end, so the retransmission is left to the timer.
            return Progress::Nothing;
        }
        // A server without options answers with the first block.
        self.port = Some(port);
        self.came += data.len() as u64;
        if self.came > self.most || data.len() > self.block_size {
            return Progress::Failed(Failure::TooLong(self.most));
        }
        self.acknowledge(now, number);
        self.block = self.block.wrapping_add(1);
        if data.len() < self.block_size { Progress::End(data) } else { Progress::More(data) }
    }

    fn on_options(&mut self, now: Instant, port: u16, options: &[u8]) -> Progress<'static> {
        let mut words = options.split(|&byte| byte == 0);
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            let value = core::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
            let Some(value) = value else { continue };
            if name.eq_ignore_ascii_case(b"blksize") {
                self.block_size = (value as usize).clamp(8, LARGEST_BLOCK);
            } else if name.eq_ignore_ascii_case(b"tsize") && value > self.most {
                return Progress::Failed(Failure::TooLong(self.most));
            }
        }
        self.port = Some(port);
        self.acknowledge(now, 0);
        Progress::Nothing
    }

    fn acknowledge(&mut self, now: Instant, number: u16) {
        self.sent.clear();
        self.sent.extend_from_slice(&ACK.to_be_bytes());
        self.sent.extend_from_slice(&number.to_be_bytes());
        (self.sent_at, self.tries, self.is_to_send) = (now, 1, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 4), 1069);

    fn started() -> Transfer {
        let mut transfer = Transfer::new(*SERVER.ip(), "users", 10_000, Instant::ZERO);
        let (remote, request) = transfer.transmit().expect("a request");
        assert_eq!(remote.port(), PORT);
        assert_eq!(request, b"\0\x01users\0octet\0blksize\x001468\0tsize\x000\0");
        assert_eq!(transfer.transmit(), None);
        transfer
    }

    fn data(number: u16, bytes: &[u8]) -> Vec<u8> {
        [&DATA.to_be_bytes()[..], &number.to_be_bytes(), bytes].concat()
    }

    fn sent(transfer: &mut Transfer) -> Vec<u8> {
        transfer.transmit().map_or(Vec::new(), |(_, bytes)| bytes.to_vec())
    }

    #[test]
    fn blocks_become_a_file() {
        let mut transfer = started();
        let options = b"\0\x06blksize\x001000\0tsize\x001500\0";
        assert_eq!(transfer.receive(Instant::ZERO, SERVER, options), Progress::Nothing);
        assert_eq!(sent(&mut transfer), [0, 4, 0, 0]);
        let first = data(1, &[1; 1000]);
        assert_eq!(transfer.receive(Instant::ZERO, SERVER, &first), Progress::More(&[1; 1000]));
        assert_eq!(sent(&mut transfer), [0, 4, 0, 1]);
        assert_eq!(transfer.receive(Instant::ZERO, SERVER, &first), Progress::Nothing);
        assert_eq!(sent(&mut transfer), []);
        let last = data(2, &[2; 500]);
        assert_eq!(transfer.receive(Instant::ZERO, SERVER, &last), Progress::End(&[2; 500]));
        assert_eq!(sent(&mut transfer), [0, 4, 0, 2]);
    }

    #[test]
    fn a_server_that_knows_no_options_is_understood() {
        let mut transfer = started();
        let first = data(1, &[1; 512]);
        assert_eq!(transfer.receive(Instant::ZERO, SERVER, &first), Progress::More(&[1; 512]));
        let last = data(2, b"");
        assert_eq!(transfer.receive(Instant::ZERO, SERVER, &last), Progress::End(b""));
    }

    #[test]
    fn strangers_are_not_heard_and_silence_ends() {
        let mut transfer = started();
        let other = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 5), 1069);
        assert_eq!(transfer.receive(Instant::ZERO, other, &data(1, b"x")), Progress::Nothing);
        transfer.receive(Instant::ZERO, SERVER, &data(1, &[0; 512]));
        let port = SocketAddrV4::new(*SERVER.ip(), 1070);
        assert_eq!(transfer.receive(Instant::ZERO, port, &data(2, b"x")), Progress::Nothing);
        let (mut now, mut count) = (Instant::ZERO, 0);
        let failure = loop {
            now += INTERVAL;
            if let Err(failure) = transfer.on_time(now) {
                break failure;
            }
            count += usize::from(transfer.transmit().is_some());
        };
        assert_eq!((failure, count), (Failure::Silent, usize::from(TRIES) - 1));
    }

    #[test]
    fn refusals_and_files_without_end_are_told() {
        let refused = b"\0\x05\0\x01File not found\0";
        let failure = Failure::Refused(1, "File not found".into());
        assert_eq!(started().receive(Instant::ZERO, SERVER, refused), Progress::Failed(failure));
        let long = b"\0\x06tsize\x0010001\0";
        let failure = Failure::TooLong(10_000);
        assert_eq!(started().receive(Instant::ZERO, SERVER, long), Progress::Failed(failure));
        let mut transfer = started();
        let outcome = (1..).find_map(|number| {
            match transfer.receive(Instant::ZERO, SERVER, &data(number, &[0; 512])) {
                Progress::Failed(failure) => Some((number, failure)),
                _ => None,
            }
        });
        assert_eq!(outcome, Some((20, Failure::TooLong(10_000))));
    }
}
