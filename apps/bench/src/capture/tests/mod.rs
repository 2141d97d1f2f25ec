//! Captures with known times, written byte by byte, and captures of others.

mod begin_anew;
mod build;
mod corpora;
mod formats;
mod offers;
mod rtp;
mod sip;
mod srtp;
mod streams;
mod tunnels;
