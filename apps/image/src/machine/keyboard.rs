//! The keyboard at the 8042 controller that every PC has or emulates. It is polled; the controller
//! buffers typed keys.

use super::port;

const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
const COMMAND: u16 = 0x64;

const HAS_BYTE: u8 = 1;
const IS_BUSY: u8 = 1 << 1;
const IS_FROM_MOUSE: u8 = 1 << 5;
/// The status value without a controller: all bits are set.
const NONE: u8 = 0xff;

const READ_SETTINGS: u8 = 0x20;
const WRITE_SETTINGS: u8 = 0x60;
const MOUSE_OFF: u8 = 0xa7;
const KEYBOARD_ON: u8 = 0xae;
/// Command to the keyboard: enable scanning.
const SEND: u8 = 0xf4;

/// Controller settings: interrupts off, keyboard on, mouse off, scan codes translated to set 1.
const SETTINGS_OFF: u8 = 0x13;
const SETTINGS_ON: u8 = 0x60;

/// Maximum number of polls for the controller.
const PATIENCE: u32 = 10_000;

/// Initializes the controller, if there is one.
pub fn init() {
    if port::read_u8(STATUS) == NONE {
        return;
    }
    write(COMMAND, MOUSE_OFF);
    // Keys typed before are dropped.
    for _ in 0..PATIENCE {
        if port::read_u8(STATUS) & HAS_BYTE == 0 {
            break;
        }
        let _ = port::read_u8(DATA);
    }
    write(COMMAND, READ_SETTINGS);
    let is_there = |_: &u32| port::read_u8(STATUS) & HAS_BYTE != 0;
    if (0..PATIENCE).find(is_there).is_some() {
        let settings = port::read_u8(DATA);
        write(COMMAND, WRITE_SETTINGS);
        write(DATA, (settings & !SETTINGS_OFF) | SETTINGS_ON);
    }
    write(COMMAND, KEYBOARD_ON);
    write(DATA, SEND);
}

fn write(port: u16, byte: u8) {
    for _ in 0..PATIENCE {
        if port::read_u8(STATUS) & IS_BUSY == 0 {
            break;
        }
    }
    port::write_u8(port, byte);
}

/// Returns the next byte, if there is one.
#[must_use]
pub fn read() -> Option<u8> {
    let status = port::read_u8(STATUS);
    if status == NONE || status & HAS_BYTE == 0 {
        return None;
    }
    let byte = port::read_u8(DATA);
    (status & IS_FROM_MOUSE == 0).then_some(byte)
}
