//! The first serial port: 115,200 bits a second, eight of them a byte, one to stop.

use super::port;
use core::fmt;

const DATA: u16 = 0x3f8;
const INTERRUPTS: u16 = DATA + 1;
const FIFO: u16 = DATA + 2;
const LINE: u16 = DATA + 3;
const MODEM: u16 = DATA + 4;
const STATUS: u16 = DATA + 5;

const HAS_RECEIVED: u8 = 1;
const HAS_ROOM: u8 = 1 << 5;
/// What the register of the queue says where there is one, and how many bytes it takes.
const HAS_QUEUE: u8 = 0xc0;
const QUEUE: usize = 16;
/// Nobody waits longer for a port that takes nothing.
const PATIENCE: u32 = 100_000;

/// Sets the port up.
pub fn init() {
    port::write_u8(INTERRUPTS, 0);
    port::write_u8(LINE, 0x80);
    port::write_u8(DATA, 1);
    port::write_u8(INTERRUPTS, 0);
    port::write_u8(LINE, 0x03);
    port::write_u8(FIFO, 0xc7);
    port::write_u8(MODEM, 0x03);
}

/// The byte that came, if one did.
#[must_use]
pub fn read() -> Option<u8> {
    // Where there is no port, all bits are set.
    let status = port::read_u8(STATUS);
    (status != 0xff && status & HAS_RECEIVED != 0).then(|| port::read_u8(DATA))
}

/// Sends as many of `bytes` as the port takes without waiting.
pub fn send(bytes: impl Iterator<Item = u8>) {
    if port::read_u8(STATUS) & HAS_ROOM == 0 {
        return;
    }
    let most = if port::read_u8(FIFO) & HAS_QUEUE == HAS_QUEUE { QUEUE } else { 1 };
    bytes.take(most).for_each(|byte| port::write_u8(DATA, byte));
}

/// Writes to the port, and waits for it; what it does not take is lost.
#[derive(Clone, Copy, Debug)]
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                write(b'\r');
            }
            write(byte);
        }
        Ok(())
    }
}

fn write(byte: u8) {
    for _ in 0..PATIENCE {
        if port::read_u8(STATUS) & HAS_ROOM != 0 {
            return port::write_u8(DATA, byte);
        }
    }
}
