//! The processor's I/O ports.

use core::arch::asm;

/// Reads a byte.
#[must_use]
pub fn read_u8(port: u16) -> u8 {
    let value;
    // SAFETY: reading a port accesses no memory; the effect on the device is up to its driver.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) }
    value
}

/// Reads two bytes.
#[must_use]
pub fn read_u16(port: u16) -> u16 {
    let value;
    // SAFETY: as for a byte.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack)) }
    value
}

/// Reads four bytes.
#[must_use]
pub fn read_u32(port: u16) -> u32 {
    let value;
    // SAFETY: as for a byte.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack)) }
    value
}

/// Writes a byte.
pub fn write_u8(port: u16, value: u8) {
    // SAFETY: a device may access memory in response, which is up to its driver. Without `nomem`
    // the compiler completes earlier writes first.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack)) }
}

/// Writes two bytes.
pub fn write_u16(port: u16, value: u16) {
    // SAFETY: as for a byte.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack)) }
}

/// Writes four bytes.
pub fn write_u32(port: u16, value: u32) {
    // SAFETY: as for a byte.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack)) }
}

/// Reboots the machine: by the reset register of most chip sets, or else by the keyboard
/// controller.
pub fn reset() -> ! {
    write_u8(0xcf9, 0x02);
    write_u8(0xcf9, 0x06);
    loop {
        write_u8(0x64, 0xfe);
        for _ in 0..1_000_000 {
            core::hint::spin_loop();
        }
    }
}
