//! Information from the boot loader: by PVH (QEMU's `-kernel`), Multiboot 2 (GRUB) or Multiboot 1
//! (iPXE).

use super::memory::Region;
use core::slice;

const PVH: u32 = 0x336e_c578;
const MULTIBOOT1: u32 = 0x2bad_b002;
const MULTIBOOT2: u32 = 0x36d7_6289;

const MAX_REGIONS: usize = 64;
const MAX_COMMAND_LINE: usize = 2048;
/// The type of usable memory in all three protocols.
const USABLE: u32 = 1;

/// A pixel framebuffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framebuffer {
    /// Its physical address.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Bits per pixel.
    pub depth: u8,
    /// Bit position of the red component, of eight bits.
    pub red: u8,
    /// Bit position of the green component.
    pub green: u8,
    /// Bit position of the blue component.
    pub blue: u8,
}

/// The information from the boot loader.
#[derive(Debug)]
pub struct Boot {
    regions: [Region; MAX_REGIONS],
    region_count: usize,
    command_line: [u8; MAX_COMMAND_LINE],
    command_line_length: usize,
    /// The framebuffer, if the screen is in a graphics mode.
    pub framebuffer: Option<Framebuffer>,
}

impl Boot {
    const fn new() -> Self {
        Self {
            regions: [Region { start: 0, length: 0 }; MAX_REGIONS],
            region_count: 0,
            command_line: [0; MAX_COMMAND_LINE],
            command_line_length: 0,
            framebuffer: None,
        }
    }

    /// The usable memory, which includes the image.
    #[must_use]
    pub fn memory(&self) -> &[Region] {
        &self.regions[..self.region_count]
    }

    /// The command line, up to the first octet that is not UTF-8.
    #[must_use]
    pub fn command_line(&self) -> &str {
        let bytes = &self.command_line[..self.command_line_length];
        bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    fn add_memory(&mut self, start: u64, length: u64, kind: u32) {
        if kind == USABLE && self.region_count < MAX_REGIONS {
            self.regions[self.region_count] = Region { start, length };
            self.region_count += 1;
        }
    }

    fn set_command_line(&mut self, bytes: &[u8]) {
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let length = length.min(MAX_COMMAND_LINE);
        self.command_line[..length].copy_from_slice(&bytes[..length]);
        self.command_line_length = length;
    }

    /// Reads the Multiboot 2 information: tags with type and length, aligned to eight bytes.
    fn read_multiboot2(&mut self, info: &[u8]) {
        let mut rest = info.get(8..).unwrap_or_default();
        while let (Some(kind), Some(length)) = (u32_at(rest, 0), u32_at(rest, 4)) {
            let Some(tag) = rest.get(8..length as usize) else { return };
            match kind {
                0 => return,
                1 => self.set_command_line(tag),
                6 => {
                    let size = u32_at(tag, 0).unwrap_or(0).max(24) as usize;
                    let entries = tag.get(8..).unwrap_or_default();
                    entries.chunks_exact(size).for_each(|entry| self.add_entry(entry));
                }
                8 => self.framebuffer = framebuffer(tag),
                _ => {}
            }
            let next = (length as usize).next_multiple_of(8);
            rest = rest.get(next..).unwrap_or_default();
        }
    }

    /// Adds a memory map entry: start, length and type, in the layout of all three protocols.
    fn add_entry(&mut self, entry: &[u8]) {
        if let (Some(start), Some(length), Some(kind)) =
            (u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))
        {
            self.add_memory(start, length, kind);
        }
    }

    /// Reads the Multiboot 1 memory map: each entry begins with its size.
    fn read_multiboot1_memory(&mut self, mut map: &[u8]) {
        while let Some(size) = u32_at(map, 0) {
            let Some(entry) = map.get(4..4 + size as usize) else { return };
            self.add_entry(entry);
            map = &map[4 + size as usize..];
        }
    }
}

fn framebuffer(tag: &[u8]) -> Option<Framebuffer> {
    let [depth, kind] = *tag.get(20..22)? else { return None };
    // Type 0 is a palette, type 2 is text.
    (kind == 1).then_some(Framebuffer {
        address: u64_at(tag, 0)?,
        pitch: u32_at(tag, 8)?,
        width: u32_at(tag, 12)?,
        height: u32_at(tag, 16)?,
        depth,
        red: *tag.get(24)?,
        green: *tag.get(26)?,
        blue: *tag.get(28)?,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the information at `info`, in the protocol given by `magic`.
///
/// # Safety
/// Both must be the boot loader's values, and memory must not have been written since.
pub unsafe fn read(magic: u32, info: u32) -> Boot {
    let mut boot = Boot::new();
    // SAFETY: the boot loader's pointers are valid and outside of our memory.
    let bytes = |address: u64, length: u32| unsafe {
        slice::from_raw_parts(address as *const u8, length as usize)
    };
    let text = |address: u64| if address == 0 { &[][..] } else { bytes(address, 2048) };
    let at = u64::from(info);
    match magic {
        PVH => {
            let header = bytes(at, 56);
            boot.set_command_line(text(u64_at(header, 24).unwrap_or(0)));
            let map = u64_at(header, 40).unwrap_or(0);
            let entries = u32_at(header, 48).unwrap_or(0);
            bytes(map, 24 * entries).chunks_exact(24).for_each(|entry| boot.add_entry(entry));
        }
        MULTIBOOT2 => boot.read_multiboot2(bytes(at, u32_at(bytes(at, 4), 0).unwrap_or(0))),
        MULTIBOOT1 => {
            let header = bytes(at, 52);
            let field = |at| u32_at(header, at).unwrap_or(0);
            if field(0) & (1 << 2) != 0 {
                boot.set_command_line(text(field(16).into()));
            }
            if field(0) & (1 << 6) != 0 {
                boot.read_multiboot1_memory(bytes(field(48).into(), field(44)));
            }
        }
        _ => {}
    }
    boot
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn tag(kind: u32, content: &[u8]) -> Vec<u8> {
        let mut tag = kind.to_le_bytes().to_vec();
        tag.extend((content.len() as u32 + 8).to_le_bytes());
        tag.extend(content);
        tag.resize(tag.len().next_multiple_of(8), 0);
        tag
    }

    fn entry(start: u64, length: u64, kind: u64) -> [u8; 24] {
        let mut entry = [0; 24];
        entry[..8].copy_from_slice(&start.to_le_bytes());
        entry[8..16].copy_from_slice(&length.to_le_bytes());
        entry[16..].copy_from_slice(&kind.to_le_bytes());
        entry
    }

    fn multiboot2() -> Vec<u8> {
        let map = [&24_u64.to_le_bytes()[..], &entry(0, 0x9fc00, 1), &entry(1 << 20, 1 << 27, 1)];
        let map = [map.concat(), entry(0xf000_0000, 1 << 20, 2).to_vec()].concat();
        let mut screen = 0x8000_0000_u64.to_le_bytes().to_vec();
        for number in [4096_u32, 1024, 768] {
            screen.extend(number.to_le_bytes());
        }
        screen.extend([32, 1, 0, 0, 16, 8, 8, 8, 0, 8]);
        let tags = [tag(1, b"mode=proxy\0"), tag(6, &map), tag(8, &screen), tag(0, b"")];
        [&[0; 8][..], &tags.concat()].concat()
    }

    #[test]
    fn multiboot_2_tells_options_memory_and_screen() {
        let mut boot = Boot::new();
        boot.read_multiboot2(&multiboot2());
        assert_eq!(boot.command_line(), "mode=proxy");
        let memory =
            [Region { start: 0, length: 0x9fc00 }, Region { start: 1 << 20, length: 1 << 27 }];
        assert_eq!(boot.memory(), memory);
        let screen = Framebuffer {
            address: 1 << 31,
            pitch: 4096,
            width: 1024,
            height: 768,
            depth: 32,
            red: 16,
            green: 8,
            blue: 0,
        };
        assert_eq!(boot.framebuffer, Some(screen));
    }

    #[test]
    fn truncated_or_damaged_entries_end_the_reading() {
        let whole = multiboot2();
        for length in 0..whole.len() {
            Boot::new().read_multiboot2(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 7, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                Boot::new().read_multiboot2(&damaged);
                Boot::new().read_multiboot1_memory(&damaged);
            }
        }
    }
}
