//! Packets out of capture files: pcap and pcapng.

use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use serde::Serialize;
use std::io::Read;

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Nanoseconds since the Unix epoch.
    pub(super) time: u64,
    /// The number of the link type, as the registry of tcpdump.org has it.
    pub(super) link: i32,
    /// What was captured of it.
    pub(super) bytes: &'a [u8],
    /// Whether `bytes` is all that was on the wire.
    pub(super) whole: bool,
}

/// How a file ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// After a whole packet.
    #[default]
    Whole,
    /// Within a packet: the writer was stopped, or the file is a part of one.
    Cut,
    /// Something stands in it that is neither packet nor block; nothing after it was read.
    Damaged,
    /// A block larger than [`LARGEST_BLOCK`]; nothing after it was read.
    TooLarge,
    /// Unpacked, it is larger than any file that is read; nothing after that was.
    TooLong,
    /// The operating system could not read on.
    Unreadable,
}

/// What is to be told of a file beside its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FileFacts {
    /// Whether it is pcapng, and not pcap.
    pub(crate) pcapng: bool,
    /// Whether it is packed by gzip.
    pub(crate) gzip: bool,
    /// Whether it is no file, but an interface that was listened to.
    pub(crate) live: bool,
    /// Packets of the interface that the kernel had no room for.
    pub(crate) dropped: u64,
    /// How it ended.
    pub(crate) end: End,
    /// Packets without a time (Simple Packet Blocks, unknown interfaces), which are left out.
    pub(crate) untimed: u64,
}

/// Bytes that no capture begins with.
#[derive(Debug)]
pub(super) struct NoCapture;

/// The largest block that is read, in bytes; twice that is the most memory that reading takes.
const LARGEST_BLOCK: usize = 16 << 20;
/// What the buffer begins with.
const BUFFER: usize = 256 << 10;
/// The most interfaces of a section of pcapng.
const INTERFACES: usize = 4096;
const NANOS: u64 = 1_000_000_000;

/// What a packet of pcapng takes from its interface.
#[derive(Clone, Copy)]
struct Interface {
    link: i32,
    units: u64,
    offset: i64,
}

/// Calls `each` with every packet of a capture, in the order of the file.
///
/// # Errors
/// [`NoCapture`] where it is neither pcap nor pcapng. A file that ends badly is no error: what was
/// whole before is given, and [`FileFacts::end`] tells.
pub(super) fn read<'r>(
    source: impl Read + Send + 'r,
    mut each: impl FnMut(Frame<'_>),
) -> Result<FileFacts, NoCapture> {
    let mut reader = create_reader(BUFFER, source).map_err(|_| NoCapture)?;
    let mut facts = FileFacts::default();
    let mut blocks = Blocks { interfaces: Vec::new(), link: 0, units: 1_000_000 };
    let mut capacity = BUFFER;
    facts.end = loop {
        match reader.next() {
            Ok((length, block)) => {
                blocks.take(&block, &mut facts, &mut each);
                reader.consume(length);
            }
            Err(PcapError::Eof) => break End::Whole,
            Err(PcapError::UnexpectedEof) => break End::Cut,
            Err(PcapError::Incomplete(_)) => {
                if let Some(end) = refill(reader.as_mut()) {
                    break end;
                }
            }
            Err(PcapError::BufferTooSmall) => {
                if capacity >= LARGEST_BLOCK {
                    break End::TooLarge;
                }
                capacity *= 2;
                reader.grow(capacity);
                if let Some(end) = refill(reader.as_mut()) {
                    break end;
                }
            }
            Err(PcapError::ReadError) => break End::Unreadable,
            Err(_) => break End::Damaged,
        }
    };
    Ok(facts)
}

/// Reads on; tells how the file ended, where that is what it did.
fn refill(reader: &mut dyn PcapReaderIterator) -> Option<End> {
    let before = reader.data().len();
    if reader.refill().is_err() {
        return Some(End::Unreadable);
    }
    // A block that asks for more, though the buffer had room and the file has no end, contradicts
    // its own length.
    (reader.data().len() == before && !reader.reader_exhausted()).then_some(End::Damaged)
}

/// What is to be remembered from block to block.
struct Blocks {
    interfaces: Vec<Interface>,
    link: i32,
    units: u64,
}

impl Blocks {
    fn take(
        &mut self,
        block: &PcapBlockOwned<'_>,
        facts: &mut FileFacts,
        each: &mut impl FnMut(Frame<'_>),
    ) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.link = header.network.0 & 0xffff;
                self.units = if header.is_nanosecond_precision() { NANOS } else { 1_000_000 };
            }
            PcapBlockOwned::Legacy(packet) => each(Frame {
                time: u64::from(packet.ts_sec) * NANOS
                    + u64::from(packet.ts_usec) * (NANOS / self.units),
                link: self.link,
                bytes: packet.data,
                whole: packet.caplen >= packet.origlen,
            }),
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                facts.pcapng = true;
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                if self.interfaces.len() < INTERFACES {
                    self.interfaces.push(Interface {
                        link: interface.linktype.0,
                        units: interface.ts_resolution().unwrap_or(0),
                        offset: interface.ts_offset(),
                    });
                }
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(packet.if_id as usize);
                let stamp = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                match interface.and_then(|interface| Some((interface, interface.time(stamp)?))) {
                    Some((interface, time)) => each(Frame {
                        time,
                        link: interface.link,
                        bytes: packet.packet_data(),
                        whole: packet.caplen >= packet.origlen,
                    }),
                    None => facts.untimed += 1,
                }
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => facts.untimed += 1,
            PcapBlockOwned::NG(_) => {}
        }
    }
}

impl Interface {
    /// Nanoseconds since the Unix epoch; `None` for times that cannot be.
    fn time(&self, stamp: u64) -> Option<u64> {
        let nanos = (u128::from(stamp) * u128::from(NANOS)).checked_div(self.units.into())?;
        let offset = i128::from(self.offset) * i128::from(NANOS);
        u64::try_from(i128::try_from(nanos).ok()?.checked_add(offset)?).ok()
    }
}
