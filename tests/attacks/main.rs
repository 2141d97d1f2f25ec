//! Attacks on the whole program, each in a short form. No test measures time. The tests assert on
//! requests that are refused, counted or served, and on numbers of bytes.

mod apart;
mod certificates;
mod client;
mod disk;
mod forged;
mod handshakes;
mod names;
mod output;
mod pki;
mod proxies;
mod sources;
mod tickets;
mod web_proxy;
