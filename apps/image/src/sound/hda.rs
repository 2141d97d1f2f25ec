//! Intel High Definition Audio controllers (HDA 1.0a), found by their class and driven by the
//! features that the standard requires of all of them.
//!
//! The streams run permanently around their rings and without interrupts. Their positions are read
//! when sound is played or recorded.

use super::device::Sound;
use super::queue::{FRAME, FRAMES, Microphone, Speaker};
use super::widgets::{Codec, FORMAT, WHO};
use crate::machine::mapping;
use crate::machine::memory::{PAGE, shared};
use crate::machine::pci::{Bar, Function};
use crate::machine::wait::{comes_true, pause};
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{Ordering, fence};

/// Length in bytes of the registers used, with those of all 30 streams.
const REGISTERS: u32 = 0x440;

const GCAP: usize = 0x00;
const GCTL: usize = 0x08;
const STATESTS: usize = 0x0e;
const INTCTL: usize = 0x20;
const CORB: usize = 0x40;
const RIRB: usize = 0x50;
const ICOI: usize = 0x60;
const ICII: usize = 0x64;
const ICIS: usize = 0x68;
const STREAMS: usize = 0x80;
const STREAM: usize = 0x20;

const GCTL_RUNS: u32 = 1;
const ICIS_BUSY: u16 = 1;
const ICIS_VALID: u16 = 1 << 1;

// Registers of the command and response rings.
const BASE_LOW: usize = 0x0;
const BASE_HIGH: usize = 0x4;
const WRITE_POINTER: usize = 0x8;
const READ_POINTER: usize = 0xa;
const ANSWER_COUNT: usize = 0xa;
const CONTROL: usize = 0xc;
const RING_STATUS: usize = 0xd;
const SIZE: usize = 0xe;

const POINTER_RESET: u16 = 1 << 15;
const RING_RUNS: u8 = 1 << 1;
/// Enables the interrupt status of responses; interrupts themselves are disabled.
const TELLS: u8 = 1;
const RING_TOLD: u8 = 1 | 1 << 2;

// Registers of a stream.
const POSITION: usize = 0x04;
const LENGTH: usize = 0x08;
const LAST_BUFFER: usize = 0x0c;
const FORMAT_OF: usize = 0x12;
const BUFFERS_LOW: usize = 0x18;
const BUFFERS_HIGH: usize = 0x1c;

const STREAM_RESET: u32 = 1;
const STREAM_RUNS: u32 = 1 << 1;

/// The stream tags on the link.
const OUTPUT: u8 = 1;
const INPUT: u8 = 2;

/// Time limit of a codec's response in milliseconds: the link needs some 50 us, but a virtual
/// machine may be scheduled late.
const PATIENCE: u64 = 200;

/// The PCI Express capability, and its bit for memory access without cache snooping.
const EXPRESS: u8 = 0x10;
const NO_SNOOP: u32 = 1 << 11;

/// The reason why a device is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It does not respond correctly.
    Silent,
    /// It has no analog input or output.
    Digital,
}

/// The mapped registers of a controller.
#[derive(Clone, Copy, Debug)]
struct Registers(*mut u8);

impl Registers {
    fn read<T>(self, at: usize) -> T {
        // SAFETY: the registers were mapped when the device was opened.
        unsafe { ptr::read_volatile(self.0.wrapping_add(at).cast()) }
    }

    fn write<T>(self, at: usize, value: T) {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.0.wrapping_add(at).cast(), value) }
    }

    /// Resets controller and codecs. Returns false if the reset does not complete.
    fn reset(self) -> bool {
        self.write(GCTL, 0_u32);
        if !comes_true(100, || self.read::<u32>(GCTL) & GCTL_RUNS == 0) {
            return false;
        }
        pause(100);
        self.write(GCTL, GCTL_RUNS);
        let is_back = comes_true(100, || self.read::<u32>(GCTL) & GCTL_RUNS != 0);
        self.write(INTCTL, 0_u32);
        // Codecs have 25 frames of the link to report their presence.
        pause(1000);
        // Without the device all bits are set.
        is_back && self.read::<u16>(GCAP) != u16::MAX
    }

    /// Sets up the stream descriptor `number`, with the stream tag `name` on the link, for the ring
    /// at `address`.
    fn set_up_stream(self, number: usize, name: u8, address: u64) -> Stream {
        let at = STREAMS + STREAM * number;
        self.write(at, 0_u32);
        comes_true(10, || self.read::<u32>(at) & STREAM_RUNS == 0);
        self.write(at, STREAM_RESET);
        comes_true(1, || self.read::<u32>(at) & STREAM_RESET != 0);
        self.write(at, 0_u32);
        comes_true(10, || self.read::<u32>(at) & STREAM_RESET == 0);
        // At least two buffers are required: the halves of the ring.
        let half = u64::from(FRAMES * FRAME / 2);
        let buffers = shared(PAGE).cast::<u64>();
        for (place, value) in [address, half, address + half, half].into_iter().enumerate() {
            // SAFETY: the page has room for four of them.
            unsafe { ptr::write_volatile(buffers.wrapping_add(place), value) };
        }
        let buffers = buffers.addr() as u64;
        self.write(at + BUFFERS_LOW, buffers as u32);
        self.write(at + BUFFERS_HIGH, (buffers >> 32) as u32);
        self.write(at + LENGTH, FRAMES * FRAME);
        self.write(at + LAST_BUFFER, 1_u16);
        self.write(at + FORMAT_OF, FORMAT);
        let stream = Stream { registers: self, at, name };
        stream.control(0);
        stream
    }
}

/// A stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    registers: Registers,
    /// The offset of its registers.
    at: usize,
    name: u8,
}

impl Stream {
    fn control(self, what: u32) {
        fence(Ordering::Release);
        self.registers.write(self.at, u32::from(self.name) << 20 | what);
    }

    /// The device's position in frames.
    fn position(self) -> u32 {
        self.registers.read::<u32>(self.at + POSITION) / FRAME
    }
}

/// The command and response rings.
#[derive(Debug)]
struct Rings {
    commands: *mut u32,
    answers: *mut u32,
    /// The capacity of both.
    sizes: [u16; 2],
    /// The index of the last command and of the last response.
    last: [u16; 2],
}

impl Rings {
    fn start(registers: Registers) -> Self {
        let memory = shared(PAGE);
        let (commands, answers) = (memory, memory.wrapping_add(PAGE / 2));
        let sizes = [(CORB, commands), (RIRB, answers)].map(|(ring, memory)| {
            registers.write(ring + CONTROL, 0_u8);
            comes_true(10, || registers.read::<u8>(ring + CONTROL) & RING_RUNS == 0);
            let address = memory.addr() as u64;
            registers.write(ring + BASE_LOW, address as u32);
            registers.write(ring + BASE_HIGH, (address >> 32) as u32);
            // The largest size supported.
            let can = registers.read::<u8>(ring + SIZE) >> 4;
            let (code, size) = match can {
                _ if can & 4 != 0 => (2, 256),
                _ if can & 2 != 0 => (1, 16),
                _ => (0_u8, 2),
            };
            registers.write(ring + SIZE, code);
            size
        });
        // Some controllers do not report the reset bit.
        registers.write(CORB + READ_POINTER, POINTER_RESET);
        comes_true(1, || registers.read::<u16>(CORB + READ_POINTER) & POINTER_RESET != 0);
        registers.write(CORB + READ_POINTER, 0_u16);
        comes_true(1, || registers.read::<u16>(CORB + READ_POINTER) & POINTER_RESET == 0);
        registers.write(CORB + WRITE_POINTER, 0_u16);
        registers.write(RIRB + WRITE_POINTER, POINTER_RESET);
        registers.write(RIRB + ANSWER_COUNT, 1_u16);
        registers.write(RIRB + CONTROL, RING_RUNS | TELLS);
        registers.write(CORB + CONTROL, RING_RUNS);
        Self { commands: commands.cast(), answers: answers.cast(), sizes, last: [0, 0] }
    }

    fn ask(&mut self, registers: Registers, command: u32) -> Option<u32> {
        let next = [0, 1].map(|ring| (self.last[ring] + 1) % self.sizes[ring]);
        // SAFETY: the index is within the ring.
        unsafe { ptr::write_volatile(self.commands.wrapping_add(next[0].into()), command) };
        fence(Ordering::Release);
        registers.write(CORB + WRITE_POINTER, next[0]);
        self.last[0] = next[0];
        let has_come = || registers.read::<u16>(RIRB + WRITE_POINTER) & 0xff == next[1];
        if !comes_true(PATIENCE, has_come) {
            return None;
        }
        fence(Ordering::Acquire);
        self.last[1] = next[1];
        // Some controllers stop if this flag is not cleared.
        registers.write(RIRB + RING_STATUS, RING_TOLD);
        // SAFETY: as above. A response has two words; the second one names the codec.
        Some(unsafe { ptr::read_volatile(self.answers.wrapping_add(2 * usize::from(next[1]))) })
    }
}

/// The link to the codecs.
#[derive(Debug)]
struct Link {
    registers: Registers,
    /// The rings, if the controller does not support immediate commands.
    rings: Option<Rings>,
}

impl Link {
    /// The response of a codec's node to a verb; `None` without a response.
    fn ask(&mut self, codec: u8, node: u8, verb: u32) -> Option<u32> {
        let command = u32::from(codec) << 28 | u32::from(node) << 20 | verb & 0xf_ffff;
        match &mut self.rings {
            Some(rings) => rings.ask(self.registers, command),
            None => self.ask_at_once(command),
        }
    }

    /// Sends a command by the immediate command registers, which some controllers lack.
    fn ask_at_once(&self, command: u32) -> Option<u32> {
        let status = || self.registers.read::<u16>(ICIS);
        if !comes_true(PATIENCE, || status() & ICIS_BUSY == 0) {
            return None;
        }
        self.registers.write(ICIS, ICIS_VALID);
        self.registers.write(ICOI, command);
        self.registers.write(ICIS, ICIS_BUSY);
        let has_come = || status() & (ICIS_BUSY | ICIS_VALID) == ICIS_VALID;
        comes_true(PATIENCE, has_come).then(|| self.registers.read(ICII))
    }
}

/// A controller with its streams, and the sound on them.
#[derive(Debug)]
pub(super) struct Hda {
    output: Option<(Stream, Speaker)>,
    input: Option<(Stream, Microphone)>,
}

impl Hda {
    /// Opens the device.
    pub(super) fn open(function: &Function) -> Result<Self, Trouble> {
        function.enable();
        for express in function.capabilities().iter().filter(|found| found.id == EXPRESS) {
            // The upper half holds status bits that are cleared by writing ones.
            let control = function.read(express.at + 8) & 0xffff;
            function.write(express.at + 8, control & !NO_SNOOP);
        }
        let Some(Bar::Memory(base)) = function.bar(0) else { return Err(Trouble::Silent) };
        let registers = mapping::device(base, REGISTERS).map(Registers).ok_or(Trouble::Silent)?;
        if registers.reset() { Self::set_up(registers) } else { Err(Trouble::Silent) }
    }

    /// Configures a device after the reset.
    fn set_up(registers: Registers) -> Result<Self, Trouble> {
        let present = registers.read::<u16>(STATESTS);
        let present: Vec<u8> = (0..15).filter(|codec| present & 1 << codec != 0).collect();
        let mut link = Link { registers, rings: None };
        let first = *present.first().ok_or(Trouble::Silent)?;
        if link.ask(first, 0, WHO).is_none() {
            link.rings = Some(Rings::start(registers));
        }
        let can = registers.read::<u16>(GCAP);
        let (inputs, outputs) = (usize::from(can >> 8 & 15), can >> 12);
        let (mut output, mut input, mut trouble) = (None, None, Trouble::Silent);
        for number in present {
            let ask = &mut |node, verb| link.ask(number, node, verb);
            let Some(codec) = Codec::read(ask) else { continue };
            trouble = Trouble::Digital;
            for path in codec.outputs().into_iter().filter(|_| outputs > 0) {
                if codec.open(ask, &path, OUTPUT).is_some() && output.is_none() {
                    let speaker = Speaker::new();
                    // Output streams come behind the input streams.
                    let stream = registers.set_up_stream(inputs, OUTPUT, speaker.address());
                    output = Some((stream, speaker));
                }
            }
            let path = if input.is_none() && inputs > 0 { codec.input() } else { None };
            if path.is_some_and(|path| codec.open(ask, &path, INPUT).is_some()) {
                let microphone = Microphone::new();
                let stream = registers.set_up_stream(0, INPUT, microphone.address());
                input = Some((stream, microphone));
            }
        }
        let streams =
            [output.as_ref().map(|(stream, _)| *stream), input.as_ref().map(|(stream, _)| *stream)];
        streams.into_iter().flatten().for_each(|stream| stream.control(STREAM_RUNS));
        if output.is_none() && input.is_none() { Err(trouble) } else { Ok(Self { output, input }) }
    }
}

impl Sound for Hda {
    fn name(&self) -> &'static str {
        match (&self.output, &self.input) {
            (Some(_), Some(_)) => "Intel HDA",
            (_, None) => "Intel HDA without a microphone",
            (None, _) => "Intel HDA without a loudspeaker",
        }
    }

    fn play(&mut self, samples: &[i16]) {
        if let Some((stream, speaker)) = &mut self.output {
            speaker.play(stream.position(), samples);
        }
    }

    fn record(&mut self, count: usize, out: &mut Vec<i16>) {
        if let Some((stream, microphone)) = &mut self.input {
            microphone.record(stream.position(), count, out);
        }
    }

    fn rest(&mut self) {
        if let Some((_, speaker)) = &mut self.output {
            speaker.rest();
        }
        if let Some((_, microphone)) = &mut self.input {
            microphone.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, laptop};
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// Sets up a simulated controller with a codec at address 2. It answers immediate commands, or
    /// uses rings of a size, or does not respond.
    fn set_up(codec: &mut Fake, way: Way) -> (Registers, Result<Hda, Trouble>) {
        let registers = Registers(shared(REGISTERS as usize));
        registers.write(GCAP, 0x1200_u16);
        registers.write(STATESTS, 1_u16 << 2);
        if let Way::Rings(size) = way {
            registers.write(CORB + SIZE, size);
            registers.write(RIRB + SIZE, size);
        }
        let is_over = AtomicBool::new(false);
        let address = registers.0.addr();
        let device = std::thread::scope(|scope| {
            scope.spawn(|| {
                let registers = Registers(address as *mut u8);
                let mut read = 0;
                while !is_over.load(Ordering::Relaxed) {
                    answer(registers, codec, way, &mut read);
                    std::thread::yield_now();
                }
            });
            let device = Hda::set_up(registers);
            is_over.store(true, Ordering::Relaxed);
            device
        });
        (registers, device)
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Way {
        AtOnce,
        Rings(u8),
        Never,
    }

    fn answer(registers: Registers, codec: &mut Fake, way: Way, read: &mut u16) {
        let mut ask = |command: u32| {
            assert_eq!(command >> 28, 2);
            codec.answer((command >> 20) as u8, command & 0xf_ffff)
        };
        match way {
            Way::AtOnce if registers.read::<u16>(ICIS) == ICIS_BUSY => {
                let answer = ask(registers.read(ICOI));
                registers.write(ICII, answer);
                registers.write(ICIS, ICIS_VALID);
            }
            Way::Rings(size) if registers.read::<u8>(RIRB + CONTROL) & RING_RUNS != 0 => {
                let size = if size & 0x40 != 0 { 256 } else { 16 };
                if registers.read::<u8>(CORB + CONTROL) & RING_RUNS == 0
                    || registers.read::<u16>(CORB + WRITE_POINTER) == *read
                {
                    return;
                }
                *read = (*read + 1) % size;
                let base = |ring| {
                    registers.read::<u32>(ring + BASE_LOW) as usize
                        | (registers.read::<u32>(ring + BASE_HIGH) as usize) << 32
                };
                let (commands, answers) = (base(CORB) as *const u32, base(RIRB) as *mut u32);
                // SAFETY: the driver has set these addresses of its rings.
                unsafe {
                    let command = ptr::read_volatile(commands.wrapping_add((*read).into()));
                    let place = answers.wrapping_add(2 * usize::from(*read));
                    ptr::write_volatile(place, ask(command));
                }
                registers.write(RIRB + WRITE_POINTER, *read);
            }
            _ => {}
        }
    }

    #[test]
    fn a_device_is_asked_in_either_way_and_its_streams_run() {
        for way in [Way::AtOnce, Way::Rings(0x70), Way::Rings(0x30)] {
            let mut codec = laptop();
            let (registers, device) = set_up(&mut codec, way);
            let mut device = device.expect("a device");
            assert_eq!(device.name(), "Intel HDA");
            assert!(codec.told.contains(&(0x03, 0x7_0610)));
            assert!(codec.told.contains(&(0x08, 0x7_0620)));
            // Two input streams come first.
            let [input, output] = [STREAMS, STREAMS + 2 * STREAM];
            assert_eq!(registers.read::<u32>(input), 2 << 20 | STREAM_RUNS);
            assert_eq!(registers.read::<u32>(output), 1 << 20 | STREAM_RUNS);
            for stream in [input, output] {
                assert_eq!(registers.read::<u32>(stream + LENGTH), FRAMES * FRAME);
                assert_eq!(registers.read::<u16>(stream + FORMAT_OF), FORMAT);
                assert_eq!(registers.read::<u16>(stream + LAST_BUFFER), 1);
                registers.write(stream + POSITION, 4 * 48_000_u32 / 10);
            }
            device.play(&[5000; 160]);
            let ring = |stream| {
                let low: u32 = registers.read(stream + BUFFERS_LOW);
                let high: u32 = registers.read(stream + BUFFERS_HIGH);
                let buffers = (u64::from(high) << 32 | u64::from(low)) as *const u64;
                // SAFETY: the driver has set this address.
                let [first, half, second, same] = unsafe { *buffers.cast::<[u64; 4]>() };
                assert_eq!((first + half, half, same), (second, second - first, half));
                first as *mut u32
            };
            let played = ring(output).wrapping_add(4800 + 40 * 48 + 800);
            // SAFETY: as above.
            let frame = unsafe { ptr::read_volatile(played) };
            assert_eq!(frame & 0xffff, frame >> 16);
            assert!((4900..5100).contains(&(frame & 0xffff)), "{frame:x}");
            for at in 0..4800 {
                // SAFETY: as above.
                unsafe { ptr::write_volatile(ring(input).wrapping_add(at), 3000) };
            }
            let mut heard = Vec::new();
            device.record(160, &mut heard);
            assert_eq!(heard.len(), 160);
            assert!(heard[60..].iter().all(|sample| (2990..3010).contains(sample)));
        }
    }

    #[test]
    fn a_device_that_does_not_answer_or_is_digital_is_said_to_be_so() {
        let (_, device) = set_up(&mut laptop(), Way::Never);
        assert_eq!(device.err(), Some(Trouble::Silent));
        let (_, device) = set_up(&mut Fake::new(&[]), Way::AtOnce);
        assert_eq!(device.err(), Some(Trouble::Digital));
        // No bit reports a codec.
        let registers = Registers(shared(REGISTERS as usize));
        assert_eq!(Hda::set_up(registers).err(), Some(Trouble::Silent));
    }
}
