//! Captures with known times, written byte by byte, and captures of others.

mod build;
mod corpora;
mod formats;
mod rtp;
mod sip;
mod streams;
