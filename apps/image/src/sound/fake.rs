//! A simulated codec for tests.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A node: its parameters, its connection list in the format of the standard, its configuration,
/// and true if a plug is inserted.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) parameters: BTreeMap<u8, u32>,
    pub(super) inputs: Vec<u32>,
    pub(super) configuration: u32,
    pub(super) is_plugged: bool,
}

/// A codec, and the verbs it received.
#[derive(Clone, Debug, Default)]
pub(super) struct Fake {
    pub(super) nodes: BTreeMap<u8, Node>,
    pub(super) told: Vec<(u8, u32)>,
}

// Widget capabilities.
pub(super) const OUTPUT: u32 = 0x0000_0415; // output amplifier, own format
pub(super) const INPUT: u32 = 0x0010_051b; // input amplifier, own format, connections
pub(super) const MIXER: u32 = 0x0020_010b; // input amplifiers, connections
pub(super) const SELECTOR: u32 = 0x0030_0101;
pub(super) const PIN: u32 = 0x0040_0181;
pub(super) const PIN_AMPLIFIED: u32 = 0x0040_018d;
pub(super) const PIN_BOOSTED: u32 = 0x0040_008b;
pub(super) const DIGITAL: u32 = 1 << 9;

/// Mute, steps of 1.5 dB, 0 dB at step 0x17.
const AMPLIFIER: u32 = 0x8005_1f17;
/// Steps of 10 dB, starting at 0 dB.
const BOOST: u32 = 0x0027_0300;
/// 16 bits; 44,100, 48,000 and 96,000 frames a second.
const RATES: u32 = 0x0002_0160;

impl Fake {
    /// A codec with an audio function group of these widgets, with their connections.
    pub(super) fn new(widgets: &[(u8, u32, &[u32])]) -> Self {
        let mut codec = Self::default();
        codec.node(0).parameters.insert(0x04, 0x0001_0001);
        codec.node(1).parameters.extend([(0x05, 0x101), (0x04, 0x0002_00f0)]);
        codec.node(1).parameters.extend([(0x0a, RATES), (0x12, AMPLIFIER)]);
        for &(number, kind, inputs) in widgets {
            let node = codec.node(number);
            node.inputs = inputs.to_vec();
            let input_amplifier = if kind == PIN_BOOSTED { BOOST } else { AMPLIFIER };
            node.parameters.extend([(0x09, kind), (0x0a, RATES), (0x0d, input_amplifier)]);
            node.parameters.extend([(0x0e, inputs.len() as u32), (0x12, AMPLIFIER)]);
        }
        codec
    }

    pub(super) fn node(&mut self, number: u8) -> &mut Node {
        self.nodes.entry(number).or_default()
    }

    /// Sets the capabilities and the configuration of a pin.
    pub(super) fn pin(&mut self, number: u8, can: u32, configuration: u32) {
        self.node(number).parameters.insert(0x0c, can);
        self.node(number).configuration = configuration;
    }

    /// The response to a verb.
    pub(super) fn answer(&mut self, number: u8, verb: u32) -> u32 {
        let node = self.nodes.get(&number);
        match verb >> 8 {
            // A missing node is a vendor-defined widget.
            0xf00 => match node.and_then(|node| node.parameters.get(&(verb as u8))) {
                None if verb as u8 == 0x09 => 0x00f0_0000,
                found => found.copied().unwrap_or_default(),
            },
            0xf02 => {
                let Some(node) = node else { return 0 };
                let is_long = node.parameters[&0x0e] & 0x80 != 0;
                let (at_once, bits) = if is_long { (2, 16) } else { (4, 8) };
                let first = verb as u8 as usize / at_once * at_once;
                let entries = node.inputs.iter().skip(first).take(at_once);
                entries.zip(0..).fold(0, |sum, (entry, at)| sum | entry << (at * bits))
            }
            0xf09 => node.map_or(0, |node| u32::from(node.is_plugged) << 31),
            0xf1c => node.map_or(0, |node| node.configuration),
            _ => {
                self.told.push((number, verb));
                0
            }
        }
    }
}

/// The codec of a laptop: loudspeaker and headphones (0x14, 0x15) behind mixers with a loopback of
/// the microphones; a microphone jack (0x18) and a built-in microphone (0x19) on a mixer before the
/// converter (0x08); and a digital output.
pub(super) fn laptop() -> Fake {
    let mut codec = Fake::new(&[
        (0x02, OUTPUT, &[]),
        (0x03, OUTPUT, &[]),
        (0x06, OUTPUT | DIGITAL, &[]),
        (0x08, INPUT, &[0x23]),
        (0x0b, MIXER, &[0x18, 0x19]),
        (0x0c, MIXER, &[0x0b, 0x02]),
        (0x0d, MIXER, &[0x03, 0x0b]),
        (0x14, PIN_AMPLIFIED, &[0x0d, 0x0c]),
        (0x15, PIN_AMPLIFIED, &[0x0c, 0x0d]),
        (0x18, PIN_BOOSTED, &[]),
        (0x19, PIN_BOOSTED, &[]),
        (0x1e, PIN | DIGITAL, &[0x06]),
        (0x1f, PIN, &[0x0c]),
        (0x23, MIXER, &[0x14, 0x18, 0x19, 0x0b]),
    ]);
    codec.pin(0x14, 0x0001_0010, 0x9017_0110);
    codec.pin(0x15, 0x0001_001c, 0x0321_4020);
    codec.pin(0x18, 0x0000_1724, 0x03a1_1830);
    codec.pin(0x19, 0x0000_0220, 0x90a7_0130);
    codec.pin(0x1e, 0x0000_0010, 0x0145_1140);
    // It has no physical connection.
    codec.pin(0x1f, 0x0000_0010, 0x4111_11f0);
    codec
}
