//! Attacks on the whole program, each in a short form. No test demands that something is fast. The
//! tests assert on requests that are refused, counted or served, on numbers of bytes, and on the
//! processor time that one source may use.

mod apart;
mod b2bua;
mod b2bua_storms;
mod browsers;
mod certificates;
mod classes;
mod client;
mod descriptions;
mod disk;
mod forged;
mod handshake_phones;
mod handshakes;
mod icmp;
mod names;
mod office_calls;
mod output;
mod pki;
mod proxies;
mod relay;
mod relay_places;
mod sources;
mod tickets;
mod trunk_servers;
mod web_proxy;
