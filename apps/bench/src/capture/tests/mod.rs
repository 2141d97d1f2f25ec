//! Captures with known times, made byte by byte, and captures of other programs.

mod begin_anew;
mod build;
mod corpora;
mod formats;
mod join;
mod offers;
mod rtp;
mod sip;
mod srtp;
mod streams;
mod tunnels;
