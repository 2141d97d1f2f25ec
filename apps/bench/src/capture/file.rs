//! The reader of capture files: pcap and pcapng.

use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use serde::Serialize;
use std::io::Read;

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// The time in nanoseconds since the Unix epoch.
    pub(super) time: u64,
    /// The number of the link type in the registry of tcpdump.org.
    pub(super) link: i32,
    /// The captured bytes.
    pub(super) bytes: &'a [u8],
    /// True if `bytes` is the whole packet.
    pub(super) whole: bool,
}

/// The end of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// The end follows a complete packet.
    #[default]
    Whole,
    /// The end is within a packet: the writer was stopped, or the file is a part of another.
    Cut,
    /// Reading stopped at data that is neither packet nor block.
    Damaged,
    /// Reading stopped at a block larger than [`LARGEST_BLOCK`].
    TooLarge,
    /// Reading stopped at the limit of decompressed size.
    TooLong,
    /// Reading stopped at an I/O error.
    Unreadable,
}

/// Properties of a file beside its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FileFacts {
    /// True for pcapng, false for pcap.
    pub(crate) pcapng: bool,
    /// True if the file is compressed by gzip.
    pub(crate) gzip: bool,
    /// True for a live capture of an interface.
    pub(crate) live: bool,
    /// Packets of the interface that the kernel dropped.
    pub(crate) dropped: u64,
    /// The end of the file.
    pub(crate) end: End,
    /// Packets without a time (Simple Packet Blocks, unknown interfaces); they are ignored.
    pub(crate) untimed: u64,
}

/// The error of a file that is not a capture.
#[derive(Debug)]
pub(super) struct NoCapture;

/// The largest block in bytes; reading takes at most twice that memory.
const LARGEST_BLOCK: usize = 16 << 20;
/// The initial size of the buffer.
const BUFFER: usize = 256 << 10;
/// The limit of interfaces per section of pcapng.
const INTERFACES: usize = 4096;
const NANOS: u64 = 1_000_000_000;

/// The properties of a pcapng interface.
#[derive(Clone, Copy)]
struct Interface {
    link: i32,
    units: u64,
    offset: i64,
}

/// Calls `each` with every packet of a capture, in the order of the file.
///
/// # Errors
/// [`NoCapture`] if the file is neither pcap nor pcapng. A damaged end is no error: the packets
/// before it are read, and [`FileFacts::end`] describes it.
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

/// Reads more bytes. Returns the end if the file has ended.
fn refill(reader: &mut dyn PcapReaderIterator) -> Option<End> {
    let before = reader.data().len();
    if reader.refill().is_err() {
        return Some(End::Unreadable);
    }
    // A block that needs more bytes, although the buffer had room and the file continues,
    // contradicts its own length.
    (reader.data().len() == before && !reader.reader_exhausted()).then_some(End::Damaged)
}

/// The state between blocks.
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
    /// Returns nanoseconds since the Unix epoch, or `None` for an invalid time.
    fn time(&self, stamp: u64) -> Option<u64> {
        let nanos = (u128::from(stamp) * u128::from(NANOS)).checked_div(self.units.into())?;
        let offset = i128::from(self.offset) * i128::from(NANOS);
        u64::try_from(i128::try_from(nanos).ok()?.checked_add(offset)?).ok()
    }
}
