//! The codecs in offers and answers.

use super::changes::{Additions, Answered, Translation};
use super::format::{Format, FormatChange, Formats, Kind};
use super::route::Route;
use super::rules::CodecRules;
use crate::codec::{bit, name_of};
use crate::digits::EventTypes;
use crate::side::Side;
use rtp::payload::DYNAMIC_PAYLOAD_TYPES;
use sdp::{MediaDescription, RtpMap};
use smallvec::SmallVec;

/// The clock rate of telephone events for a codec that the relay does not know, in Hz, and the
/// payload type that most phones have for them.
const TELEPHONE_RATE: u32 = 8000;
const EVENT_NUMBER: u8 = 101;

/// An offer as it was passed on.
#[derive(Debug, Default)]
struct Offered {
    /// The payload types of the offerer that may be used.
    own: Formats,
    /// Those of them that the other end got, and those that the relay added.
    sent: Formats,
    added: u128,
}

/// The codecs of one medium, of both sides.
#[derive(Debug, Default)]
pub(crate) struct MediumCodecs {
    /// The last offers of each side.
    offered: [Option<Offered>; 2],
    /// The payload types that each side has named in the last exchange with an answer.
    agreed: [Formats; 2],
    /// The payload types that the relay has used in offers to each side. A number is not used for
    /// another codec (RFC 3264 section 8.3.2).
    numbers: [SmallVec<[Format; 4]>; 2],
}

impl MediumCodecs {
    /// Returns the change to `medium`, the offer of the side `by`.
    pub(crate) fn offer(
        &mut self,
        by: Side,
        medium: &MediaDescription<'_>,
        rules: CodecRules<'_>,
        may_add: Additions,
    ) -> FormatChange {
        let to = by.other().index();
        let mut own = Formats::read(medium);
        let mut used = medium.rtpmaps().fold(own.bits(), |bits, map| bits | bit(map.payload_type));
        let types = medium.payload_types();
        let [stripped, masked] = [rules.strip, rules.mask].map(|list| {
            let is_named = |format: &&Format| is_named(rules, list, &types, **format);
            own.list.iter().filter(is_named).fold(0, |bits, format| bits | bit(format.payload_type))
        });
        let mut removed = stripped | masked;
        let packet_time = own.packet_time;
        let is_left =
            |removed: u128| move |format: &Format| removed & bit(format.payload_type) == 0;
        let mut sent: SmallVec<[Format; 8]> =
            own.list.iter().copied().filter(is_left(removed)).collect();
        own.list.retain(|format| is_left(stripped)(format));
        let mut added = SmallVec::<[Format; 4]>::new();
        if may_add.codecs && own.sounds().next().is_some() {
            let known = self.agreed[to].clone();
            let sounds = known.sounds().map(|(number, codec)| (Some(number), codec));
            let listed = rules.transcode.iter().map(|&codec| (None, codec));
            for (number, codec) in sounds.chain(listed) {
                let kind = Kind::Sound(codec);
                if !sent.iter().chain(&added).any(|format| format.kind == kind) {
                    self.add(
                        to,
                        kind,
                        number.or(codec.static_payload_type()),
                        &mut used,
                        &mut added,
                    );
                }
            }
            let clock_rates: SmallVec<[u32; 4]> = added
                .iter()
                .filter_map(|it| match it.kind {
                    Kind::Sound(codec) => Some(codec.clock_rate()),
                    _ => None,
                })
                .collect();
            for clock_rate in clock_rates {
                let kind = Kind::Event { clock_rate };
                let is_there = sent.iter().chain(&added).any(|format| format.kind == kind);
                if own.events().next().is_some() && !is_there {
                    let number = known.events().find(|it| it.1 == clock_rate);
                    self.add(to, kind, number.map(|it| it.0), &mut used, &mut added);
                }
            }
        }
        if may_add.events && own.events().next().is_none() {
            let mut clock_rates = SmallVec::<[u32; 4]>::new();
            for format in sent.iter().chain(&added) {
                let clock_rate = match format.kind {
                    Kind::Sound(codec) => codec.clock_rate(),
                    _ => TELEPHONE_RATE,
                };
                if !clock_rates.contains(&clock_rate) {
                    clock_rates.push(clock_rate);
                }
            }
            for clock_rate in clock_rates {
                let kind = Kind::Event { clock_rate };
                self.add(to, kind, Some(EVENT_NUMBER), &mut used, &mut added);
            }
        }
        // A medium without a codec is none.
        if !sent.iter().chain(&added).any(is_main) {
            (removed, sent) = (0, own.list.iter().copied().collect());
        }
        let change = FormatChange { removed, added, is_converted: false };
        sent.extend(change.added.iter().copied());
        let added = change.added.iter().fold(0, |bits, format| bits | bit(format.payload_type));
        let sent = Formats { list: sent, packet_time };
        self.offered[by.index()] = Some(Offered { own, sent, added });
        change
    }

    /// Records that the last offer of the side `by` has no audio.
    pub(crate) fn withdraw(&mut self, by: Side) {
        self.offered[by.index()] = None;
    }

    /// Adds a format under a number that is free, if one is.
    fn add(
        &mut self,
        to: usize,
        kind: Kind,
        preferred: Option<u8>,
        used: &mut u128,
        added: &mut SmallVec<[Format; 4]>,
    ) {
        let known = self.numbers[to].iter().find(|format| format.kind == kind);
        let known = known.map(|format| format.payload_type);
        let others = self.numbers[to].iter().filter(|format| format.kind != kind);
        let others = others.fold(0, |bits, format| bits | bit(format.payload_type));
        let wanted = [known, preferred].into_iter().flatten();
        let is_free = |number: &u8| *used & bit(*number) == 0;
        let mut numbers = wanted.chain(DYNAMIC_PAYLOAD_TYPES.filter(|it| others & bit(*it) == 0));
        let Some(payload_type) = numbers.find(is_free) else { return };
        *used |= bit(payload_type);
        let format = Format { payload_type, kind };
        self.numbers[to].retain(|format| format.kind != kind);
        self.numbers[to].push(format);
        added.push(format);
    }

    /// Returns the changes by `medium`, the answer to the last offer of the side `offerer`. Digits
    /// are translated for the answerer if `takes_digits`.
    pub(crate) fn answer(
        &mut self,
        offerer: Side,
        medium: &MediaDescription<'_>,
        takes_digits: bool,
    ) -> Answered {
        let answer = Formats::read(medium);
        let Some(offered) = &self.offered[offerer.index()] else { return Default::default() };
        let digits = translation(offerer, offered, &answer, takes_digits);
        // The answerer gets the digits of these.
        let events = digits.as_ref().filter(|it| it.side == offerer);
        let converted = converted(offered, &answer, events.is_some());
        let change = match &converted {
            Some((added, _)) => {
                FormatChange { removed: !0, added: added.clone(), is_converted: true }
            }
            None => {
                let added = events.map(|it| formats_of(&it.sent)).unwrap_or_default();
                let removed = offered.added & !offered.own.bits();
                FormatChange { removed, added, is_converted: false }
            }
        };
        self.agreed[offerer.index()] = offered.own.clone();
        self.agreed[offerer.other().index()] = answer;
        let routes = converted.map(|(_, [to_answerer, to_offerer])| match offerer {
            Side::Caller => [to_answerer, to_offerer],
            Side::Callee => [to_offerer, to_answerer],
        });
        Answered { formats: change, routes, digits }
    }
}

/// The conversions of the packets to the answerer, and of those to the offerer.
type Routes = [Route; 2];

/// Returns the formats of the answer for the offerer and the conversions, if the first codec of the
/// answer is none of the offerer.
fn converted(
    offered: &Offered,
    answer: &Formats,
    translates_events: bool,
) -> Option<(SmallVec<[Format; 4]>, Routes)> {
    let first = answer.list.iter().find(|format| is_main(format))?;
    let Kind::Sound(codec) = first.kind else { return None };
    let Offered { own, sent, added } = offered;
    let is_own =
        |format: &Format| added & bit(format.payload_type) == 0 && sent.list.contains(format);
    let is_offered = sent.sounds().any(|(_, offered)| offered == codec);
    let is_shared =
        is_own(first) || sent.list.iter().any(|format| format.kind == first.kind && is_own(format));
    if is_shared || !is_offered {
        return None;
    }
    // A codec of the same bandwidth loses nothing, and others cost more.
    let same = own.sounds().find(|(_, it)| it.sample_rate() == codec.sample_rate());
    let chosen = same.or_else(|| own.sounds().next())?;
    let has_events = answer.events().next().is_some();
    let own_event = own.event_at(chosen.1.clock_rate());
    let event = own_event.filter(|_| has_events || translates_events);
    let noise = own.noise().filter(|_| chosen.1.clock_rate() == 8000);
    let noise = noise.filter(|_| answer.noise().is_some());
    let mut formats = SmallVec::new();
    formats.push(Format { payload_type: chosen.0, kind: Kind::Sound(chosen.1) });
    let event_format = event.map(|(payload_type, clock_rate)| Format {
        payload_type,
        kind: Kind::Event { clock_rate },
    });
    formats.extend(event_format);
    formats.extend(noise.map(|payload_type| Format { payload_type, kind: Kind::Noise }));
    // The answerer sends under the numbers of the offer, and perhaps under its own.
    let mut accepts = answer.clone();
    let others = sent.list.iter().filter(|format| answer.bits() & bit(format.payload_type) == 0);
    accepts.list.extend(others.copied());
    let has_events = event.is_some() && has_events;
    let to_answerer = Route::new(own.clone(), answer, (first.payload_type, codec), has_events);
    let to_offerer = Route::new(accepts, own, chosen, has_events);
    Some((formats, [to_answerer, to_offerer]))
}

/// The translation of digits after `answer`, if only one of the ends has telephone events.
/// `Offered` has some for the answerer if digits are translated for the offerer.
fn translation(
    offerer: Side,
    offered: &Offered,
    answer: &Formats,
    takes_digits: bool,
) -> Option<Translation> {
    let types = |formats: &Formats| formats.events().collect::<EventTypes>();
    let (own, theirs) = (types(&offered.own), types(answer));
    match (own.is_empty(), theirs.is_empty()) {
        (false, true) if takes_digits => {
            Some(Translation { side: offerer, received: own.clone(), sent: own })
        }
        (true, false) => {
            // The answerer sends under the numbers of the offer, and perhaps under its own.
            let mut received = types(&offered.sent);
            received.extend(theirs.iter().copied().filter(|it| !offered.sent.has(it.0)));
            Some(Translation { side: offerer.other(), received, sent: theirs })
        }
        _ => None,
    }
}

fn formats_of(events: &EventTypes) -> SmallVec<[Format; 4]> {
    let format = |&(payload_type, clock_rate): &(u8, u32)| Format {
        payload_type,
        kind: Kind::Event { clock_rate },
    };
    events.iter().map(format).collect()
}

/// True if a format is that of a codec, other than events and comfort noise.
const fn is_main(format: &Format) -> bool {
    matches!(format.kind, Kind::Sound(_) | Kind::Other)
}

/// True if `list` names the codec of `format`. Events and comfort noise belong to all codecs.
fn is_named(
    rules: CodecRules<'_>,
    list: &[&str],
    types: &[(u8, Option<RtpMap<'_>>)],
    format: Format,
) -> bool {
    let is_companion = !is_main(&format);
    name_of(types, format.payload_type).is_some_and(|name| match is_companion {
        true => list.iter().any(|known| known.eq_ignore_ascii_case(name)),
        false => rules.names(list, name),
    })
}
