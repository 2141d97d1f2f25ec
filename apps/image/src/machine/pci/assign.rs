//! Address assignment for devices if the firmware has done none, as QEMU's qboot.

use super::config::{BARS, BRIDGE, BUSES, CLASS, COMMAND, Config, DEVICE, ENABLE, kind, present};

/// Memory addresses for devices: above the possible memory of a PC, below its interrupt
/// controllers.
const MEMORY: Space = Space { next: 0xe000_0000, end: 0xfec0_0000 };
/// Ports for devices: above those of the chip set.
const PORTS: Space = Space { next: 0xc000, end: 0x1_0000 };

const PORT_WINDOW: u8 = 0x1c;
const MEMORY_WINDOW: u8 = 0x20;
const PREFETCHABLE_WINDOW: u8 = 0x24;
/// Granularity of a bridge's windows: ports, and memory above.
const PORT_PART: u64 = 1 << 12;
const MEMORY_PART: u64 = 1 << 20;

/// Closed windows: the end is below the start.
const NO_MEMORY: u32 = 0xfff0;
const NO_PORTS: u32 = 0xf0;

/// Class and subclass of a host bridge.
const HOST_BRIDGE: u32 = 0x0600;

/// An address space to assign from.
#[derive(Clone, Copy, Debug)]
struct Space {
    next: u64,
    end: u64,
}

impl Space {
    /// Takes `size`, a power of two, at a multiple of it.
    fn take(&mut self, size: u64) -> Option<u64> {
        let start = self.next.next_multiple_of(size);
        let end = start.checked_add(size).filter(|&end| end <= self.end)?;
        self.next = end;
        Some(start)
    }

    /// The range taken since `before`, in whole units of `part`; `None` if it is empty.
    fn window(&mut self, before: Self, part: u64) -> Option<(u64, u64)> {
        let start = before.next.next_multiple_of(part);
        if self.next == start {
            *self = before;
            return None;
        }
        self.next = self.next.next_multiple_of(part);
        Some((start, self.next))
    }
}

/// The address spaces and bus numbers.
struct Spaces {
    memory: Space,
    ports: Space,
    /// The last assigned bus number.
    bus: u8,
}

/// Assigns bus numbers, and addresses to all devices, as far as there is room.
pub(super) fn assign(config: &impl Config) {
    assign_bus(config, DEVICE, &mut Spaces { memory: MEMORY, ports: PORTS, bus: 0 });
}

fn assign_bus(config: &impl Config, bus: u8, spaces: &mut Spaces) {
    let functions = present(config, bus);
    // The firmware's bus numbers must not be ambiguous meanwhile.
    for &address in functions.iter().filter(|address| kind(config, **address) == BRIDGE) {
        config.write(address, BUSES, 0);
    }
    for address in functions {
        if config.read(address, CLASS) >> 16 == HOST_BRIDGE {
            continue;
        }
        let kind = kind(config, address);
        let command = config.read(address, COMMAND) & 0xffff;
        // Decoding is disabled while the registers are probed and set.
        config.write(address, COMMAND, command & !3);
        let count = match kind {
            DEVICE => 6,
            BRIDGE => 2,
            _ => 0,
        };
        assign_bars(config, address, count, spaces);
        if kind == BRIDGE {
            assign_bridge(config, address, spaces);
        }
        config.write(address, COMMAND, command | if kind == BRIDGE { ENABLE } else { 0 });
    }
}

fn assign_bars(config: &impl Config, address: u16, count: u8, spaces: &mut Spaces) {
    let size_bits = |at| {
        config.write(address, at, !0);
        let bits = config.read(address, at);
        config.write(address, at, 0);
        bits
    };
    let mut number = 0;
    while number < count {
        let at = BARS + 4 * number;
        number += 1;
        let low = size_bits(at);
        let is_ports = low & 1 != 0;
        let is_wide = low & 7 == 4 && number < count;
        let mut bits = u64::from(low & if is_ports { !3 } else { !15 });
        if is_wide {
            bits |= u64::from(size_bits(at + 4)) << 32;
            number += 1;
        }
        // The lowest writable bit gives the size.
        let size = bits & bits.wrapping_neg();
        if size == 0 {
            continue;
        }
        let space = if is_ports { &mut spaces.ports } else { &mut spaces.memory };
        // Without an address the register stays unused. All addresses are below 4 GiB.
        if let Some(start) = space.take(size) {
            config.write(address, at, start as u32);
        }
    }
}

fn assign_bridge(config: &impl Config, address: u16, spaces: &mut Spaces) {
    let Some(bus) = spaces.bus.checked_add(1) else { return };
    spaces.bus = bus;
    let numbers =
        config.read(address, BUSES) & 0xff00_0000 | u32::from(address >> 8) | u32::from(bus) << 8;
    // All higher bus numbers are behind this bridge until the last one is known.
    config.write(address, BUSES, numbers | 0xff << 16);
    let (memory, ports) = (spaces.memory, spaces.ports);
    spaces.memory.next = memory.next.next_multiple_of(MEMORY_PART);
    spaces.ports.next = ports.next.next_multiple_of(PORT_PART);
    assign_bus(config, bus, spaces);
    config.write(address, BUSES, numbers | u32::from(spaces.bus) << 16);
    let memory = spaces.memory.window(memory, MEMORY_PART);
    config.write(address, MEMORY_WINDOW, memory.map_or(NO_MEMORY, memory_window));
    config.write(address, PREFETCHABLE_WINDOW, NO_MEMORY);
    let ports = spaces.ports.window(ports, PORT_PART);
    config.write(address, PORT_WINDOW, ports.map_or(NO_PORTS, port_window));
}

fn memory_window((start, end): (u64, u64)) -> u32 {
    start as u32 >> 16 | (end - 1) as u32 & 0xfff0_0000
}

fn port_window((start, end): (u64, u64)) -> u32 {
    start as u32 >> 8 & 0xf0 | (end - 1) as u32 & 0xf000
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use core::ops::Range;

    /// A function: its bridge, its place on that bus, its registers, and their writable bits.
    struct Fake {
        bridge: Option<usize>,
        place: u16,
        registers: [u32; 64],
        settable: [u32; 64],
    }

    #[derive(Default)]
    struct Machine(RefCell<Vec<Fake>>);

    impl Machine {
        fn add(&self, bridge: Option<usize>, kind: u8, bars: &[u32]) -> usize {
            let mut all = self.0.borrow_mut();
            let place = all.iter().filter(|other| other.bridge == bridge).count() as u16 * 8;
            let (mut registers, mut settable) = ([0; 64], [0; 64]);
            registers[0] = 0x1000_8086;
            registers[usize::from(super::super::config::HEADER / 4)] = u32::from(kind) << 16;
            settable[usize::from(COMMAND / 4)] = 0x0407;
            if kind == BRIDGE {
                let windows = [BUSES, PORT_WINDOW, MEMORY_WINDOW, PREFETCHABLE_WINDOW];
                for (at, bits) in windows.into_iter().zip([0xff_ffff, 0xf0f0, !0, !0]) {
                    settable[usize::from(at / 4)] = bits;
                }
            }
            for (at, bar) in (usize::from(BARS / 4)..).zip(bars) {
                settable[at] = if bar & 1 != 0 { bar & 0xfffc } else { bar & !15 };
                registers[at] = bar & !settable[at];
            }
            all.push(Fake { bridge, place, registers, settable });
            all.len() - 1
        }

        /// The function with this address, if the bridges forward it.
        fn find(&self, address: u16) -> Option<usize> {
            let all = self.0.borrow();
            let bus = u32::from(address >> 8);
            let mut found = all.iter().enumerate().filter(|(_, function)| {
                let own = function.bridge.map_or(Some(0), |bridge| {
                    let mut outer = Some(bridge);
                    while let Some(at) = outer {
                        let numbers = all[at].registers[usize::from(BUSES / 4)];
                        if bus == 0 || !(numbers >> 8 & 0xff..=numbers >> 16 & 0xff).contains(&bus)
                        {
                            return None;
                        }
                        outer = all[at].bridge;
                    }
                    Some(all[bridge].registers[usize::from(BUSES / 4)] >> 8 & 0xff)
                });
                own == Some(bus) && function.place == address & 0xff
            });
            let (at, _) = found.next()?;
            assert!(found.next().is_none(), "two functions have the address {address:#x}");
            Some(at)
        }

        fn register(&self, function: usize, at: u8) -> u32 {
            self.0.borrow()[function].registers[usize::from(at / 4)]
        }

        /// The range of a bridge's window.
        fn window(&self, bridge: usize, is_ports: bool) -> Range<u64> {
            if is_ports {
                let bits = u64::from(self.register(bridge, PORT_WINDOW));
                (bits & 0xf0) << 8..(bits & 0xf000) + PORT_PART
            } else {
                let bits = u64::from(self.register(bridge, MEMORY_WINDOW));
                (bits & 0xfff0) << 16..(bits & 0xfff0_0000) + MEMORY_PART
            }
        }
    }

    impl Config for Machine {
        fn read(&self, address: u16, at: u8) -> u32 {
            self.find(address).map_or(!0, |function| self.register(function, at))
        }

        fn write(&self, address: u16, at: u8, value: u32) {
            let Some(function) = self.find(address) else { return };
            let function = &mut self.0.borrow_mut()[function];
            let (at, bits) = (usize::from(at / 4), function.settable[usize::from(at / 4)]);
            function.registers[at] = function.registers[at] & !bits | value & bits;
        }
    }

    /// Base address registers: type, and writable bits.
    const PORTS_32: u32 = !31 & 0xffff | 1;
    const MEMORY_4K: u32 = !0xfff;
    const MEMORY_128K: u32 = !0x1_ffff;
    const WIDE_16K: [u32; 2] = [!0x3fff | 0xc, !0];

    #[test]
    fn all_get_places_of_their_own_within_the_windows_of_their_bridges() {
        let machine = Machine::default();
        let card = [PORTS_32, MEMORY_4K, 0, 0, WIDE_16K[0], WIDE_16K[1]];
        let mut functions = alloc::vec![(machine.add(None, DEVICE, &card), &card[..])];
        let empty = machine.add(None, BRIDGE, &[]);
        let outer = machine.add(None, BRIDGE, &WIDE_16K);
        functions.push((outer, &WIDE_16K));
        functions.push((machine.add(Some(outer), DEVICE, &[MEMORY_128K]), &[MEMORY_128K]));
        let inner = machine.add(Some(outer), BRIDGE, &[]);
        functions.push((machine.add(Some(inner), DEVICE, &card), &card));
        functions.push((machine.add(Some(inner), DEVICE, &card), &card));
        let last = machine.add(None, BRIDGE, &[]);
        functions.push((machine.add(Some(last), DEVICE, &[MEMORY_4K]), &[MEMORY_4K]));

        // The firmware has numbered the buses in the opposite direction.
        for (bridge, numbers) in [(empty, 0x0404), (outer, 0x0302), (inner, 0x0303), (last, 0x0101)]
        {
            machine.0.borrow_mut()[bridge].registers[usize::from(BUSES / 4)] = numbers << 8;
        }
        assign(&machine);

        let mut places: Vec<(bool, Range<u64>)> = Vec::new();
        for (function, bars) in functions {
            for (number, bar) in (0_u8..).zip(bars).filter(|(_, bar)| ![0, !0].contains(*bar)) {
                let is_ports = bar & 1 != 0;
                let kind = if is_ports { 3 } else { 15 };
                let size = u64::from(!(bar & !kind) & if is_ports { 0xffff } else { !0 }) + 1;
                let start = u64::from(machine.register(function, BARS + 4 * number) & !kind);
                assert!(
                    start != 0 && start.is_multiple_of(size),
                    "{function} {number}: {start:#x}"
                );
                let place = start..start + size;
                let space = if is_ports { PORTS } else { MEMORY };
                assert!(space.next <= place.start && place.end <= space.end);
                let mut bridge = machine.0.borrow()[function].bridge;
                while let Some(at) = bridge {
                    let window = machine.window(at, is_ports);
                    assert!(window.start <= place.start && place.end <= window.end);
                    bridge = machine.0.borrow()[at].bridge;
                }
                for (other_is_ports, other) in &places {
                    let is_apart = other.end <= place.start || place.end <= other.start;
                    assert!(is_apart || *other_is_ports != is_ports);
                }
                places.push((is_ports, place));
            }
        }
        assert_eq!(places.len(), 3 + 1 + 1 + 2 * 3 + 1);
        assert!(machine.window(empty, false).is_empty() && machine.window(empty, true).is_empty());
        // A device that is not behind a bridge is not in its window.
        let windows = [outer, last].map(|bridge| machine.window(bridge, false));
        assert!(windows[0].end <= windows[1].start);
        let buses = [empty, outer, inner, last]
            .map(|bridge| machine.register(bridge, BUSES).to_le_bytes()[..3].to_vec());
        assert_eq!(buses, [[0, 1, 1], [0, 2, 3], [2, 3, 3], [0, 4, 4]]);
        assert_eq!(machine.register(inner, COMMAND), ENABLE);
    }

    #[test]
    fn too_large_regions_are_left_out() {
        let machine = Machine::default();
        let large = machine.add(None, DEVICE, &[0xc, 0xffff_fff0, !0xfff, 0]);
        let huge = machine.add(None, DEVICE, &[1 << 31, PORTS_32]);
        assign(&machine);
        assert_eq!(machine.register(large, BARS), 0xc);
        assert_eq!(machine.register(large, BARS + 4), 0);
        assert_eq!(machine.register(large, BARS + 8), MEMORY.next as u32);
        assert_eq!(machine.register(huge, BARS), 0);
        assert_eq!(machine.register(huge, BARS + 4), PORTS.next as u32 | 1);
    }
}
