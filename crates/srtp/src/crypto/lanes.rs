//! HMAC-SHA1 in the sixteen lanes of AVX-512.
//!
//! The rounds of SHA-1 depend on one another: the processor's SHA instructions are the fastest way
//! for a single message, and they do not overlap. Sixteen messages in parallel, one per lane, take
//! as long as seven in sequence.

use super::hmac::{self, BLOCK, Code, State};
use super::messages::{LANES, Message};
use core::array;
use pulp::x86::V4;
use pulp::{NullaryFnOnce, cast, u32x16};

/// The minimum number of messages for which the lanes are faster.
const WORTH: usize = 8;

/// The states of SHA-1 in all lanes, word by word.
type States = [u32x16; 5];

/// The code of each message present. Returns `None` if another implementation is faster.
pub(super) fn codes(messages: &[Option<Message<'_>>; LANES]) -> Option<[Code; LANES]> {
    if messages.iter().flatten().count() < WORTH {
        return None;
    }
    let simd = V4::try_new()?;
    let key = |lane: usize| messages[lane].as_ref().map(|message| message.hmac);

    let mut whole = [&[][..]; LANES];
    let mut last = [[[0; BLOCK]; 2]; LANES];
    let mut counts = [0; LANES];
    for (lane, message) in messages.iter().enumerate() {
        let Some(message) = message else { continue };
        whole[lane] = message.data.as_chunks().0;
        let padded = hmac::pad(message.data, &message.more, &mut last[lane]);
        counts[lane] = whole[lane].len() + padded;
    }
    let mut inner = [[0; 5]; LANES];
    let mut states = transpose(|lane, word| key(lane).map_or(0, |key| key.inner[word]));
    for number in 0..counts.into_iter().max()? {
        // A lane that has finished continues with arbitrary data.
        let blocks = array::from_fn(|lane| {
            let whole = whole[lane];
            whole.get(number).unwrap_or_else(|| &last[lane][(number - whole.len()).min(1)])
        });
        compress(simd, &mut states, &blocks);
        if counts.contains(&(number + 1)) {
            let states = by_lane(&states);
            for lane in (0..LANES).filter(|&lane| counts[lane] == number + 1) {
                inner[lane] = states[lane];
            }
        }
    }

    let blocks = inner.map(hmac::outer_block);
    let mut states = transpose(|lane, word| key(lane).map_or(0, |key| key.outer[word]));
    compress(simd, &mut states, &blocks.each_ref());
    Some(by_lane(&states).map(hmac::bytes))
}

/// Arranges words lane by lane.
#[inline(always)]
fn transpose<const WORDS: usize>(word: impl Fn(usize, usize) -> u32) -> [u32x16; WORDS] {
    array::from_fn(|number| {
        let mut lanes = [0; LANES];
        for (lane, place) in lanes.iter_mut().enumerate() {
            *place = word(lane, number);
        }
        cast(lanes)
    })
}

fn by_lane(states: &States) -> [State; LANES] {
    let words: [[u32; LANES]; 5] = states.map(cast);
    array::from_fn(|lane| array::from_fn(|word| words[word][lane]))
}

/// The compression function of SHA-1 (FIPS 180-4 section 6.1.2) in every lane.
fn compress(simd: V4, states: &mut States, blocks: &[&[u8; BLOCK]; LANES]) {
    simd.vectorize(Compress { simd, states, blocks });
}

struct Compress<'a> {
    simd: V4,
    states: &'a mut States,
    blocks: &'a [&'a [u8; BLOCK]; LANES],
}

impl NullaryFnOnce for Compress<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { simd, states, blocks } = self;
        let mut schedule =
            transpose(|lane, word| u32::from_be_bytes(blocks[lane].as_chunks::<4>().0[word]));
        let xor = |a, b, c| simd.xor_u32x16(simd.xor_u32x16(a, b), c);
        let choose = |b, c, d| simd.xor_u32x16(d, simd.and_u32x16(b, simd.xor_u32x16(c, d)));
        let majority = |b, c, d| {
            simd.or_u32x16(simd.and_u32x16(b, c), simd.and_u32x16(d, simd.or_u32x16(b, c)))
        };
        let mut new = *states;
        rounds::<0>(simd, &mut new, &mut schedule, 0x5a82_7999, choose);
        rounds::<20>(simd, &mut new, &mut schedule, 0x6ed9_eba1, xor);
        rounds::<40>(simd, &mut new, &mut schedule, 0x8f1b_bcdc, majority);
        rounds::<60>(simd, &mut new, &mut schedule, 0xca62_c1d6, xor);
        for (state, new) in states.iter_mut().zip(new) {
            *state = simd.wrapping_add_u32x16(*state, new);
        }
    }
}

/// Twenty rounds from round `FIRST`, which share a constant and a function. The message schedule is
/// computed in place, in a ring.
#[inline(always)]
fn rounds<const FIRST: usize>(
    simd: V4,
    states: &mut States,
    schedule: &mut [u32x16; 16],
    constant: u32,
    mix: impl Fn(u32x16, u32x16, u32x16) -> u32x16,
) {
    macro_rules! rounds {
        ($($step:literal)*) => {
            $(round(simd, states, schedule, FIRST + $step, constant, &mix);)*
        };
    }
    // A loop would keep the schedule in memory and take a quarter longer.
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
}

#[inline(always)]
fn round(
    simd: V4,
    states: &mut States,
    schedule: &mut [u32x16; 16],
    number: usize,
    constant: u32,
    mix: impl Fn(u32x16, u32x16, u32x16) -> u32x16,
) {
    let add = |a, b| simd.wrapping_add_u32x16(a, b);
    let xor = |a, b| simd.xor_u32x16(a, b);
    let place = number % 16;
    if number >= 16 {
        let back = |steps: usize| schedule[(number - steps) % 16];
        let new = xor(xor(back(3), back(8)), xor(back(14), back(16)));
        schedule[place] = rotate::<1, 31>(simd, new);
    }
    let [a, b, c, d, e] = *states;
    let constant = simd.splat_u32x16(constant);
    let mixed = add(add(mix(b, c, d), e), add(constant, schedule[place]));
    let first = add(rotate::<5, 27>(simd, a), mixed);
    *states = [first, a, rotate::<30, 2>(simd, b), c, d];
}

/// Rotates left by `LEFT`; `RIGHT` is 32 - `LEFT`.
#[inline(always)]
fn rotate<const LEFT: u32, const RIGHT: u32>(simd: V4, word: u32x16) -> u32x16 {
    simd.or_u32x16(simd.shl_const_u32x16::<LEFT>(word), simd.shr_const_u32x16::<RIGHT>(word))
}
