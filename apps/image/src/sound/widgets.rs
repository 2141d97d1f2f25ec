//! The widgets of an Intel High Definition Audio codec, and the audio paths through them (HDA 1.0a,
//! chapter 7).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Sends a verb with its payload, 20 bits, to a node of a codec. `None` without a response.
pub(super) type Ask<'a> = &'a mut dyn FnMut(u8, u32) -> Option<u32>;

/// The format of a stream of 48,000 frames per second, 16 bits, stereo.
pub(super) const FORMAT: u16 = 0x0011;

/// A verb for the root node that every codec answers: get the vendor.
pub(super) const WHO: u32 = GET_PARAMETER;

// Verbs, shifted by the size of their payload.
const SET_FORMAT: u32 = 0x2_0000;
const SET_AMPLIFIER: u32 = 0x3_0000;
const GET_PARAMETER: u32 = 0xf_0000;
const GET_CONNECTIONS: u32 = 0xf_0200;
const GET_SENSE: u32 = 0xf_0900;
const GET_CONFIGURATION: u32 = 0xf_1c00;
const SET_CONNECTION: u32 = 0x7_0100;
const SET_POWER: u32 = 0x7_0500;
const SET_STREAM: u32 = 0x7_0600;
const SET_PIN: u32 = 0x7_0700;
const START_SENSE: u32 = 0x7_0900;
const SET_EXTERNAL_AMPLIFIER: u32 = 0x7_0c00;

// Parameters.
const NODES: u32 = 0x04;
const GROUP_TYPE: u32 = 0x05;
const WIDGET: u32 = 0x09;
const RATES: u32 = 0x0a;
const PIN: u32 = 0x0c;
const INPUT_AMPLIFIER: u32 = 0x0d;
const CONNECTIONS: u32 = 0x0e;
const OUTPUT_AMPLIFIER: u32 = 0x12;

const AUDIO_GROUP: u32 = 1;

// Widget capabilities.
const HAS_INPUT_AMPLIFIER: u32 = 1 << 1;
const HAS_OUTPUT_AMPLIFIER: u32 = 1 << 2;
const HAS_OWN_AMPLIFIER: u32 = 1 << 3;
const HAS_OWN_FORMAT: u32 = 1 << 4;
const HAS_CONNECTIONS: u32 = 1 << 8;
const IS_DIGITAL: u32 = 1 << 9;

/// Support of 48,000 frames per second and 16 bits.
const RATE_AND_BITS: u32 = 1 << 6 | 1 << 17;

// Pin capabilities.
const SENSES: u32 = 1 << 2;
const SENSES_WHEN_ASKED: u32 = 1 << 1;
const DRIVES_HEADPHONES: u32 = 1 << 3;
const IS_OUTPUT: u32 = 1 << 4;
const IS_INPUT: u32 = 1 << 5;
const HAS_EXTERNAL_AMPLIFIER: u32 = 1 << 16;

// Pin control bits.
const HEADPHONES: u32 = 1 << 7;
const OUTPUT: u32 = 1 << 6;
const INPUT: u32 = 1 << 5;

// The default device of a pin's configuration.
const LINE_OUT: u32 = 0;
const LOUDSPEAKER: u32 = 1;
const HEADPHONES_OUT: u32 = 2;
const LINE_IN: u32 = 8;
const MICROPHONE: u32 = 10;

// Bits of the set amplifier verb.
const OF_OUTPUT: u32 = 1 << 15;
const OF_INPUT: u32 = 1 << 14;
const BOTH_SIDES: u32 = 3 << 12;
const MUTED: u32 = 1 << 7;

/// Amplification of a microphone in quarters of a decibel: its level is that far below line level.
const BOOST: u32 = 80;

/// The type of a widget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Output,
    Input,
    Mixer,
    Selector,
    Pin,
    Other,
}

/// The presence of a plug at a pin, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    /// Nothing is plugged in.
    Absent,
    /// It is built in, or has no detection.
    Unknown,
    /// A plug is inserted.
    Plugged,
}

#[derive(Debug)]
struct Pin {
    can: u32,
    /// The default device.
    device: u32,
    presence: Presence,
}

#[derive(Debug)]
struct Widget {
    kind: Kind,
    /// Amplifier capabilities, if it has amplifiers.
    input_amplifier: Option<u32>,
    output_amplifier: Option<u32>,
    /// Its connection list.
    inputs: Vec<u8>,
    /// The pin, if it has an analog physical connection.
    pin: Option<Pin>,
    /// True if it converts streams of [`FORMAT`].
    converts: bool,
}

/// A widget on a path, and the index of its selected input; `None` for the last one.
pub(super) type Hop = (u8, Option<usize>);

/// The audio widgets of a codec.
#[derive(Debug)]
pub(super) struct Codec {
    widgets: BTreeMap<u8, Widget>,
}

/// The range of nodes below a node.
fn nodes(ask: Ask<'_>, node: u8) -> Option<core::ops::Range<u8>> {
    let answer = ask(node, GET_PARAMETER | NODES)?;
    let first = (answer >> 16) as u8;
    Some(first..first.saturating_add(answer as u8))
}

impl Codec {
    /// Powers the codec up and reads its widgets. `None` if it does not respond or has no audio.
    pub(super) fn read(ask: Ask<'_>) -> Option<Self> {
        for group in nodes(ask, 0)? {
            if ask(group, GET_PARAMETER | GROUP_TYPE)? & 0xff != AUDIO_GROUP {
                continue;
            }
            ask(group, SET_POWER)?;
            let mut widgets = BTreeMap::new();
            for node in nodes(ask, group)? {
                widgets.insert(node, Widget::read(ask, group, node)?);
            }
            return Some(Self { widgets });
        }
        None
    }

    /// The paths from output pins back to their converters: of pins with an inserted plug, or else
    /// of built-in pins and pins without detection.
    pub(super) fn outputs(&self) -> Vec<Vec<Hop>> {
        let mut found: Vec<(Presence, Vec<Hop>)> = Vec::new();
        for (&node, pin) in self.pins() {
            let leads_out = matches!(pin.device, LINE_OUT | LOUDSPEAKER | HEADPHONES_OUT);
            if pin.can & IS_OUTPUT == 0 || !leads_out {
                continue;
            }
            let best = found.first().map(|(presence, _)| *presence);
            if best.is_some_and(|best| best > pin.presence) {
                continue;
            }
            if best.is_some_and(|best| best < pin.presence) {
                found.clear();
            }
            let taken: BTreeMap<u8, usize> = found
                .iter()
                .flat_map(|(_, path)| path)
                .filter_map(|&(node, input)| Some((node, input?)))
                .collect();
            let is_end = |_, widget: &Widget| widget.kind == Kind::Output && widget.converts;
            if let Some(path) = self.path(node, &taken, &is_end) {
                found.push((pin.presence, path));
            }
        }
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// The path from a converter back to the most likely input pin.
    pub(super) fn input(&self) -> Option<Vec<Hop>> {
        let mut pins: Vec<_> = self
            .pins()
            .filter(|(_, pin)| pin.can & IS_INPUT != 0)
            .filter(|(_, pin)| matches!(pin.device, MICROPHONE | LINE_IN))
            .collect();
        pins.sort_by_key(|(_, pin)| core::cmp::Reverse((pin.presence, pin.device == MICROPHONE)));
        let converters = || {
            let converts = |widget: &Widget| widget.kind == Kind::Input && widget.converts;
            self.widgets.iter().filter(move |(_, widget)| converts(widget))
        };
        pins.into_iter().find_map(|(&pin, _)| {
            let is_end = |node, _: &Widget| node == pin;
            converters().find_map(|(&from, _)| self.path(from, &BTreeMap::new(), &is_end))
        })
    }

    fn pins(&self) -> impl Iterator<Item = (&u8, &Pin)> {
        self.widgets.iter().filter_map(|(node, widget)| Some((node, widget.pin.as_ref()?)))
    }

    /// The shortest path from a widget back to one that `is_end`, through mixers and selectors.
    /// Inputs that other paths have selected are kept.
    fn path(
        &self,
        from: u8,
        taken: &BTreeMap<u8, usize>,
        is_end: &dyn Fn(u8, &Widget) -> bool,
    ) -> Option<Vec<Hop>> {
        // For each visited widget its successor, and the input index there.
        let mut heard_by = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            let Some(widget) = self.widgets.get(&node) else { continue };
            if node != from && is_end(node, widget) {
                let mut path = alloc::vec![(node, None)];
                let mut last = node;
                while let Some(&(node, input)) = heard_by.get(&last) {
                    path.push((node, Some(input)));
                    last = node;
                }
                path.reverse();
                return Some(path);
            }
            if node != from && !matches!(widget.kind, Kind::Mixer | Kind::Selector) {
                continue;
            }
            for (at, &input) in widget.inputs.iter().enumerate() {
                let is_free = taken.get(&node).is_none_or(|&taken| taken == at);
                if is_free && input != from && !heard_by.contains_key(&input) {
                    heard_by.insert(input, (node, at));
                    queue.push_back(input);
                }
            }
        }
        None
    }

    /// Configures `path` for the stream number `stream`. `None` if the codec does not respond.
    pub(super) fn open(&self, ask: Ask<'_>, path: &[Hop], stream: u8) -> Option<()> {
        for &(node, used) in path {
            let widget = self.widgets.get(&node)?;
            ask(node, SET_POWER)?;
            if let (Some(used), false) = (used, widget.kind == Kind::Mixer)
                && widget.inputs.len() > 1
            {
                ask(node, SET_CONNECTION | used as u32)?;
            }
            if let Some(can) = widget.output_amplifier {
                ask(node, SET_AMPLIFIER | OF_OUTPUT | BOTH_SIDES | level(can, 0))?;
            }
            let plays = widget.kind == Kind::Pin && used.is_some();
            if let (Some(can), false) = (widget.input_amplifier, plays) {
                let is_microphone = widget.pin.as_ref().is_some_and(|pin| pin.device == MICROPHONE);
                let level = level(can, if is_microphone { BOOST } else { 0 });
                // The other inputs of a mixer are muted.
                for input in 0..widget.inputs.len().clamp(1, 16) {
                    let mute = if input == used.unwrap_or(0) { 0 } else { MUTED };
                    let index = (input as u32) << 8;
                    ask(node, SET_AMPLIFIER | OF_INPUT | BOTH_SIDES | index | level | mute)?;
                }
            }
            if let Some(pin) = &widget.pin {
                ask(node, SET_PIN | pin.control(plays))?;
                if plays && pin.can & HAS_EXTERNAL_AMPLIFIER != 0 {
                    ask(node, SET_EXTERNAL_AMPLIFIER | 1 << 1)?;
                }
            }
            if widget.converts {
                ask(node, SET_FORMAT | u32::from(FORMAT))?;
                ask(node, SET_STREAM | u32::from(stream) << 4)?;
            }
        }
        Some(())
    }
}

/// The gain step for `quarters` of a decibel, with the amplifier capabilities `can`.
fn level(can: u32, quarters: u32) -> u32 {
    let (zero, steps, size) = (can & 0x7f, can >> 8 & 0x7f, (can >> 16 & 0x7f) + 1);
    (zero + quarters / size).min(steps)
}

impl Pin {
    /// Reads the pin; the inner `None` means no analog physical connection.
    fn read(ask: Ask<'_>, node: u8) -> Option<Option<Self>> {
        const NOWHERE: u32 = 1;
        const IS_BUILT_IN: u32 = 2;
        let can = ask(node, GET_PARAMETER | PIN)?;
        let configuration = ask(node, GET_CONFIGURATION)?;
        let connector = configuration >> 30;
        let tells = can & SENSES != 0 && configuration & 1 << 8 == 0;
        let presence = if connector == IS_BUILT_IN || !tells {
            Presence::Unknown
        } else {
            if can & SENSES_WHEN_ASKED != 0 {
                ask(node, START_SENSE)?;
            }
            let is_plugged = ask(node, GET_SENSE)? >> 31 != 0;
            if is_plugged { Presence::Plugged } else { Presence::Absent }
        };
        let pin = Self { can, device: configuration >> 20 & 15, presence };
        Some((connector != NOWHERE).then_some(pin))
    }

    /// The pin control value for playing or recording.
    fn control(&self, plays: bool) -> u32 {
        let drives = self.can & DRIVES_HEADPHONES != 0 && self.device == HEADPHONES_OUT;
        // Microphone bias: 80 % of the supply voltage, or else half of it.
        let bias = match self.can >> 8 & 0xff {
            _ if self.device != MICROPHONE => 0,
            can if can & 1 << 4 != 0 => 4,
            can if can & 1 << 1 != 0 => 1,
            _ => 0,
        };
        match (plays, drives) {
            (true, true) => OUTPUT | HEADPHONES,
            (true, false) => OUTPUT,
            (false, _) => INPUT | bias,
        }
    }
}

impl Widget {
    /// Reads the widget `node` of `group`; `None` if it does not respond.
    fn read(ask: Ask<'_>, group: u8, node: u8) -> Option<Self> {
        let can = ask(node, GET_PARAMETER | WIDGET)?;
        let kind = match can >> 20 & 15 {
            0 => Kind::Output,
            1 => Kind::Input,
            2 => Kind::Mixer,
            3 => Kind::Selector,
            4 => Kind::Pin,
            _ => Kind::Other,
        };
        let amplifier_of = if can & HAS_OWN_AMPLIFIER != 0 { node } else { group };
        let mut amplifier = |has, parameter| match can & has {
            0 => Some(None),
            _ => ask(amplifier_of, GET_PARAMETER | parameter).map(Some),
        };
        let input_amplifier = amplifier(HAS_INPUT_AMPLIFIER, INPUT_AMPLIFIER)?;
        let output_amplifier = amplifier(HAS_OUTPUT_AMPLIFIER, OUTPUT_AMPLIFIER)?;
        let is_analog = can & IS_DIGITAL == 0;
        let converts = is_analog && matches!(kind, Kind::Output | Kind::Input) && {
            let format_of = if can & HAS_OWN_FORMAT != 0 { node } else { group };
            ask(format_of, GET_PARAMETER | RATES)? & RATE_AND_BITS == RATE_AND_BITS
        };
        let pin = if is_analog && kind == Kind::Pin { Pin::read(ask, node)? } else { None };
        let inputs = if can & HAS_CONNECTIONS != 0 { inputs(ask, node)? } else { Vec::new() };
        Some(Self { kind, input_amplifier, output_amplifier, inputs, pin, converts })
    }
}

/// The connection list of `node`. `None` if it does not respond.
fn inputs(ask: Ask<'_>, node: u8) -> Option<Vec<u8>> {
    let answer = ask(node, GET_PARAMETER | CONNECTIONS)?;
    let (count, is_long) = (answer & 0x7f, answer & 0x80 != 0);
    let (at_once, bits) = if is_long { (2, 16) } else { (4, 8) };
    let is_range = 1 << (bits - 1);
    let mut found: Vec<u8> = Vec::new();
    for at in 0..count {
        let entries = ask(node, GET_CONNECTIONS | (at - at % at_once))?;
        let entry = entries >> (at % at_once * bits) & (is_range | (is_range - 1));
        let last = (entry & (is_range - 1)) as u8;
        // A range continues from the previous entry.
        let first = match found.last() {
            Some(&before) if entry & is_range != 0 => before.saturating_add(1),
            _ => last,
        };
        found.extend(first..=last);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Fake, MIXER, OUTPUT, PIN, SELECTOR, laptop};
    use super::*;

    fn read(fake: &mut Fake) -> Codec {
        Codec::read(&mut |node, verb| Some(fake.answer(node, verb))).expect("a codec")
    }

    #[test]
    fn headphones_are_preferred_to_the_loudspeaker() {
        let mut fake = laptop();
        let loudspeaker = alloc::vec![(0x14, Some(0)), (0x0d, Some(0)), (0x03, None)];
        assert_eq!(read(&mut fake).outputs(), core::slice::from_ref(&loudspeaker));
        fake.node(0x15).is_plugged = true;
        let headphones = alloc::vec![(0x15, Some(0)), (0x0c, Some(1)), (0x02, None)];
        assert_eq!(read(&mut fake).outputs(), core::slice::from_ref(&headphones));
        // Without detection all outputs are used.
        fake.node(0x15).configuration |= 1 << 8;
        assert_eq!(read(&mut fake).outputs(), [loudspeaker, headphones]);
    }

    #[test]
    fn a_microphone_that_is_plugged_in_comes_before_one_that_is_built_in() {
        let mut fake = laptop();
        let path = |at, pin| Some(alloc::vec![(0x08, Some(0)), (0x23, Some(at)), (pin, None)]);
        assert_eq!(read(&mut fake).input(), path(2, 0x19));
        fake.node(0x18).is_plugged = true;
        assert_eq!(read(&mut fake).input(), path(1, 0x18));
        // A plugged-in line is used if there is no microphone.
        fake.node(0x18).configuration = 0x0381_1830;
        fake.node(0x19).configuration = 0x4000_0000;
        assert_eq!(read(&mut fake).input(), path(1, 0x18));
        fake.node(0x18).configuration = 0x4000_0000;
        assert_eq!(read(&mut fake).input(), None);
    }

    #[test]
    fn a_path_is_opened_and_other_inputs_are_muted() {
        let mut fake = laptop();
        fake.node(0x18).is_plugged = true;
        let codec = read(&mut fake);
        let (output, input) = (codec.outputs().remove(0), codec.input().unwrap());
        fake.told.clear();
        let ask = &mut |node, verb| Some(fake.answer(node, verb));
        codec.open(ask, &output, 1).unwrap();
        codec.open(ask, &input, 2).unwrap();
        let expected = [
            (0x14, 0x7_0500), // power
            (0x14, 0x7_0100), // selects the first input
            (0x14, 0x3_b017), // amplifies by 0 dB
            (0x14, 0x7_0740), // output enabled
            (0x14, 0x7_0c02), // external amplifier on
            (0x0d, 0x7_0500),
            (0x0d, 0x3_7017), // playback path at 0 dB
            (0x0d, 0x3_7197), // microphone loopback muted
            (0x03, 0x7_0500),
            (0x03, 0x3_b017),
            (0x03, 0x2_0011), // the format
            (0x03, 0x7_0610), // stream 1
            (0x08, 0x7_0500),
            (0x08, 0x3_7017),
            (0x08, 0x2_0011),
            (0x08, 0x7_0620), // stream 2
            (0x23, 0x7_0500),
            (0x23, 0x3_7097),
            (0x23, 0x3_7117), // the jack
            (0x23, 0x3_7297),
            (0x23, 0x3_7397),
            (0x18, 0x7_0500),
            (0x18, 0x3_7002), // amplifies by 20 dB
            (0x18, 0x7_0724), // input enabled, bias of 80 %
        ];
        assert_eq!(fake.told, expected);
        let mut answers = 3;
        let ask = &mut |_, _| {
            answers -= 1;
            (answers > 0).then_some(0)
        };
        assert_eq!(codec.open(ask, &output, 1), None);
    }

    #[test]
    fn a_selection_of_one_path_is_kept_by_the_other() {
        let mut fake = Fake::new(&[
            (2, OUTPUT, &[]),
            (3, OUTPUT, &[]),
            (4, SELECTOR, &[9, 2, 3]),
            (5, PIN, &[4]),
            (6, PIN, &[4]),
            (9, MIXER, &[4, 9]),
        ]);
        fake.pin(5, 0x10, 0x0101_0000);
        fake.pin(6, 0x10, 0x0101_0000);
        let codec = read(&mut fake);
        let path = |pin| alloc::vec![(pin, Some(0)), (4, Some(1)), (2, None)];
        assert_eq!(codec.outputs(), [path(5), path(6)]);
        // Its path needs another input of the selector than the one taken.
        let taken = BTreeMap::from([(4, 0)]);
        assert_eq!(codec.path(6, &taken, &|_, widget| widget.kind == Kind::Output), None);
    }

    #[test]
    fn connections_are_read_in_all_their_ways() {
        let mut fake = Fake::new(&[(9, MIXER, &[2, 0x85, 0x14, 0x12, 0x93, 0x80])]);
        let mut ask = |entries: Option<(u32, &[u32])>| {
            if let Some((length, entries)) = entries {
                fake.node(9).parameters.insert(0x0e, length);
                fake.node(9).inputs = entries.to_vec();
            }
            inputs(&mut |node, verb| Some(fake.answer(node, verb)), 9).unwrap()
        };
        assert_eq!(ask(None), [2, 3, 4, 5, 0x14, 0x12, 0x13]);
        assert_eq!(ask(Some((0x83, &[0x17, 0x8019, 2]))), [0x17, 0x18, 0x19, 2]);
        assert_eq!(ask(Some((0, &[]))), []);
        assert_eq!(ask(Some((1, &[0x85]))), [5]);
    }

    #[test]
    fn a_codec_without_analog_sound_or_without_answers_has_no_path() {
        let digital = fake::DIGITAL;
        let mut fake = Fake::new(&[(2, OUTPUT | digital, &[]), (3, PIN | digital, &[2])]);
        fake.pin(3, 0x10, 0x0101_0000);
        let codec = read(&mut fake);
        assert!(codec.outputs().is_empty() && codec.input().is_none());
        let mut fake = laptop();
        for most in 0..100 {
            let mut asked = 0;
            let ask = &mut |node, verb| {
                asked += 1;
                (asked <= most).then(|| fake.answer(node, verb))
            };
            assert!(Codec::read(ask).is_none());
        }
    }

    #[test]
    fn answers_that_make_no_sense_do_no_harm() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let ask = &mut |_, verb| {
                Some(match verb {
                    // Many widgets of existing types.
                    _ if verb == GET_PARAMETER | NODES => 0x0001_00ff,
                    _ if verb == GET_PARAMETER | GROUP_TYPE => 1,
                    _ if verb == GET_PARAMETER | WIDGET => random.u32(..) & 0x003f_ffff,
                    _ => random.u32(..),
                })
            };
            let codec = Codec::read(ask).expect("a codec");
            let paths = codec.outputs().into_iter().chain(codec.input());
            paths.for_each(|path| codec.open(ask, &path, 1).unwrap());
        }
    }
}
