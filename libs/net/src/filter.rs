//! A filter program for the kernel (classic BPF), which drops datagrams before they are queued for
//! a socket.

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SKF_AD_OFF, SKF_AD_RANDOM,
};
use socket2::SockFilter;

/// The number of parts in the whole. With it all datagrams are accepted.
pub(crate) const ALL: u32 = 1 << 16;

/// The offset of the payload: the filter sees the UDP header first.
const PAYLOAD: u32 = 8;

/// A program that accepts datagrams that begin with one of `exempt`, and `parts` of [`ALL`] of the
/// others, at random.
pub(crate) fn admit(parts: u32, exempt: &[[u8; 4]]) -> Vec<SockFilter> {
    let load = |from: u32| SockFilter::new((BPF_LD | BPF_W | BPF_ABS) as u16, 0, 0, from);
    let give = |length: u32| SockFilter::new((BPF_RET | BPF_K) as u16, 0, 0, length);
    let mut program = vec![load(PAYLOAD)];
    // The jump offsets to the instruction that accepts the datagram.
    let skips = (2..exempt.len() as u8 + 2).rev();
    program.extend(exempt.iter().zip(skips).map(|(begin, skip)| {
        SockFilter::new((BPF_JMP | BPF_JEQ | BPF_K) as u16, skip, 0, u32::from_be_bytes(*begin))
    }));
    let random = (SKF_AD_OFF + SKF_AD_RANDOM) as u32;
    program.push(load(random));
    let bound = u64::from(parts.min(ALL)) * u64::from(u32::MAX) / u64::from(ALL);
    program.push(SockFilter::new((BPF_JMP | BPF_JGE | BPF_K) as u16, 1, 0, bound as u32));
    program.push(give(u32::MAX));
    program.push(give(0));
    program
}
