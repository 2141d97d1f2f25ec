//! The first serial port: 115,200 bits per second, eight data bits, no parity, one stop bit.

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
/// The FIFO bits of the status register, and the capacity of the FIFO in bytes.
const HAS_QUEUE: u8 = 0xc0;
const QUEUE: usize = 16;
/// Maximum number of polls for a port that does not accept data.
const PATIENCE: u32 = 100_000;

/// Initializes the port.
pub fn init() {
    port::write_u8(INTERRUPTS, 0);
    port::write_u8(LINE, 0x80);
    port::write_u8(DATA, 1);
    port::write_u8(INTERRUPTS, 0);
    port::write_u8(LINE, 0x03);
    port::write_u8(FIFO, 0xc7);
    port::write_u8(MODEM, 0x03);
}

/// Returns the next received byte, if there is one.
#[must_use]
pub fn read() -> Option<u8> {
    // Without a port all bits are set.
    let status = port::read_u8(STATUS);
    (status != 0xff && status & HAS_RECEIVED != 0).then(|| port::read_u8(DATA))
}

/// Sends as many of `bytes` as the port accepts without waiting.
pub fn send(bytes: impl Iterator<Item = u8>) {
    if port::read_u8(STATUS) & HAS_ROOM == 0 {
        return;
    }
    let most = if port::read_u8(FIFO) & HAS_QUEUE == HAS_QUEUE { QUEUE } else { 1 };
    bytes.take(most).for_each(|byte| port::write_u8(DATA, byte));
}

/// A blocking writer. Bytes that the port does not accept in time are lost.
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
