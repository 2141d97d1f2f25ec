//! Packet traces for debugging: SIP as text, and SIP and RTP as a capture for Wireshark.

use crate::terminal::{self, printable_lines};
use crate::trace::Traced;
use sip::Transport;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// LINKTYPE_RAW: each packet begins with its IP header.
const RAW_IP: u16 = 101;
/// Maximum payload of a written TCP segment.
const MAX_SEGMENT: usize = 32 << 10;

/// Traces and captures packets. Clones write to the same capture.
#[derive(Clone, Default)]
pub(crate) struct Tap {
    prints: bool,
    capture: Option<Arc<Mutex<Capture>>>,
    /// The number of the last message traced.
    last: u64,
}

impl Tap {
    /// A tap that prints messages to standard error, or writes a capture to the file at `capture`,
    /// or both.
    ///
    /// # Errors
    /// A description of why the file cannot be written.
    pub(crate) fn new(prints: bool, capture: Option<&Path>) -> Result<Self, String> {
        let begin = |path: &Path| {
            let capture = Capture::begin(path)
                .map_err(|error| format!("{} cannot be written: {error}", path.display()));
            capture.map(|capture| Arc::new(Mutex::new(capture)))
        };
        Ok(Self { prints, capture: capture.map(begin).transpose()?, last: 0 })
    }

    fn capture(&self) -> Option<MutexGuard<'_, Capture>> {
        let capture = self.capture.as_ref()?;
        Some(capture.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the messages that were sent or received since.
    pub(crate) fn follow(&mut self, messages: &VecDeque<Traced>) {
        let last = self.last;
        for traced in messages.iter().filter(|traced| traced.number > last) {
            self.last = traced.number;
            if self.prints {
                terminal::print_block(&in_words(traced));
            }
            if let Some(mut capture) = self.capture() {
                capture.message(traced);
            }
        }
    }

    /// Writes an RTP packet with its time on the wire.
    pub(crate) fn packet(
        &self,
        sent: bool,
        at: SystemTime,
        socket: &UdpSocket,
        remote: SocketAddr,
        bytes: &[u8],
    ) {
        if let Some(mut capture) = self.capture()
            && let Ok(local) = socket.local_addr()
        {
            let (from, to) = if sent { (local, remote) } else { (remote, local) };
            capture.datagram(at, from, to, bytes);
        }
    }
}

/// A message as printable lines, the last one empty.
fn in_words(traced: &Traced) -> String {
    let at = humantime::format_rfc3339_millis(traced.at);
    let way = if traced.sent { "sent to" } else { "received from" };
    let text = String::from_utf8_lossy(&traced.bytes);
    let shown = printable_lines(text.trim_end());
    format!("--- {at} {way} {}\n{shown}\n", traced.flow)
}

/// A pcapng file with one raw IP interface. The IP, UDP and TCP headers are synthetic.
struct Capture {
    /// `None` after a failure.
    file: Option<BufWriter<File>>,
    /// The next sequence number of each direction of each connection.
    sequences: BTreeMap<(SocketAddr, SocketAddr), u32>,
}

impl Capture {
    fn begin(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        // The section length is unspecified.
        let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        file.write_all(&block(0x0a0d_0d0a, &section))?;
        let interface = [&RAW_IP.to_le_bytes()[..], &[0; 6]].concat();
        file.write_all(&block(1, &interface))?;
        file.flush()?;
        Ok(Self { file: Some(file), sequences: BTreeMap::new() })
    }

    fn message(&mut self, traced: &Traced) {
        let flow = traced.flow;
        let (from, to) = match traced.sent {
            true => (flow.local, flow.remote),
            false => (flow.remote, flow.local),
        };
        let bytes = with_length(&with_keys(&traced.bytes));
        match flow.transport {
            Transport::Udp => self.datagram(traced.at, from, to, &bytes),
            _ => bytes.chunks(MAX_SEGMENT).for_each(|part| self.segment(traced.at, from, to, part)),
        }
    }

    fn datagram(&mut self, at: SystemTime, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let Ok(length) = u16::try_from(8 + bytes.len()) else { return };
        let mut packet = Vec::with_capacity(usize::from(length));
        packet.extend([from.port(), to.port(), length, 0].map(u16::to_be_bytes).concat());
        packet.extend_from_slice(bytes);
        self.packet(at, from.ip(), to.ip(), UDP, packet, 6);
    }

    fn segment(&mut self, at: SystemTime, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let acknowledged = self.sequences.get(&(to, from)).copied().unwrap_or(1);
        let sequence = self.sequences.entry((from, to)).or_insert(1);
        let mut packet = [from.port(), to.port()].map(u16::to_be_bytes).concat();
        packet.extend([*sequence, acknowledged].map(u32::to_be_bytes).concat());
        *sequence = sequence.wrapping_add(bytes.len() as u32);
        // Header length of five words, PSH and ACK, window, checksum, urgent pointer.
        packet.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(bytes);
        self.packet(at, from.ip(), to.ip(), TCP, packet, 16);
    }

    /// Writes `packet` behind an IP header, and its checksum at the offset `checksum`.
    fn packet(
        &mut self,
        at: SystemTime,
        from: IpAddr,
        to: IpAddr,
        protocol: u8,
        mut packet: Vec<u8>,
        checksum: usize,
    ) {
        let Ok(length) = u16::try_from(packet.len()) else { return };
        let (addresses, header) = match (from.to_canonical(), to.to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let Some(total) = length.checked_add(20) else { return };
                let addresses = [from.octets(), to.octets()].concat();
                let [high, low] = total.to_be_bytes();
                let mut header = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
                header.extend_from_slice(&addresses);
                let sum = sum(&[&header]).to_be_bytes();
                header[10..12].copy_from_slice(&sum);
                (addresses, header)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let addresses = [from.octets(), to.octets()].concat();
                let [high, low] = length.to_be_bytes();
                (
                    addresses.clone(),
                    [&[0x60, 0, 0, 0, high, low, protocol, 64][..], &addresses].concat(),
                )
            }
            // Mixed address families cannot form a packet.
            _ => return,
        };
        let [high, low] = length.to_be_bytes();
        let sum = sum(&[&addresses, &[0, protocol, high, low], &packet]);
        packet[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        let since =
            at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let whole = (header.len() + packet.len()) as u32;
        let mut enhanced = Vec::with_capacity(whole as usize + 24);
        for word in [0, (since >> 32) as u32, since as u32, whole, whole] {
            enhanced.extend_from_slice(&word.to_le_bytes());
        }
        enhanced.extend_from_slice(&header);
        enhanced.extend_from_slice(&packet);
        let Some(file) = &mut self.file else { return };
        // Flushed each time: the file is complete whenever the program ends.
        if let Err(error) = file.write_all(&block(6, &enhanced)).and_then(|()| file.flush()) {
            terminal::say(&format_args!("the capture ends here: {error}"));
            self.file = None;
        }
    }
}

/// A pcapng block.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = ((body.len() + padding + 12) as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &[0; 3][..padding], &length].concat()
}

/// The Internet checksum (RFC 1071) of `parts`. All but the last have an even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let pairs = parts.iter().flat_map(|part| part.chunks(2));
    let words =
        pairs.map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into()));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The placeholder of a hidden key: Wireshark accepts only base64.
const NO_KEY: [u8; 40] = [b'A'; 40];

/// `message` with a placeholder for each hidden SDES key.
fn with_keys(message: &[u8]) -> Vec<u8> {
    const HIDDEN: &[u8] = b"inline:...";
    let mut out = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.windows(HIDDEN.len()).position(|window| window == HIDDEN) {
        out.extend_from_slice(&rest[..at + b"inline:".len()]);
        out.extend_from_slice(&NO_KEY);
        rest = &rest[at + HIDDEN.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Corrects Content-Length: without secrets a message has another length, and Wireshark would wait
/// for the rest.
fn with_length(message: &[u8]) -> Vec<u8> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end.map(|end| end + 4) else { return message.to_vec() };
    let (head, body) = message.split_at(end);
    let mut out = Vec::with_capacity(message.len());
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
        let is_length =
            name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"l");
        match is_length && line.contains(&b':') {
            true => out.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes()),
            false => out.extend_from_slice(line),
        }
    }
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // RFC 1071 section 3.
        assert_eq!(sum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(sum(&[&[0x12]]), !0x1200);
    }

    #[test]
    fn a_length_is_made_right() {
        let message = with_length(b"A sip:a SIP/2.0\r\ncontent-length : 99\r\nTo: l\r\n\r\nbody");
        assert_eq!(message, b"A sip:a SIP/2.0\r\nContent-Length: 4\r\nTo: l\r\n\r\nbody");
        assert_eq!(with_length(b"no end"), b"no end");
        let keys = with_keys(b"a=crypto:1 X inline:...|2^31;inline:...\r\n");
        let row = "A".repeat(40);
        let wanted = format!("a=crypto:1 X inline:{row}|2^31;inline:{row}\r\n");
        assert_eq!(keys, wanted.as_bytes());
    }

    #[test]
    fn received_text_does_not_control_the_terminal() {
        let address = "127.0.0.1:5060".parse().unwrap();
        let flow = sip::Flow {
            transport: Transport::Udp,
            local: address,
            remote: address,
            connection: None,
        };
        let bytes = b"A\r\n\x1b]0;x\x07".to_vec();
        let traced = Traced { number: 1, at: SystemTime::UNIX_EPOCH, sent: false, flow, bytes };
        let shown = in_words(&traced);
        assert!(
            shown.starts_with("--- 1970-01-01T00:00:00.000Z received from udp:127.0.0.1:5060\nA\n")
        );
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    }
}
