//! `barebell-bench` as a program, against its own peer, other programs and real servers.

mod agreement;
mod capture;
mod cli;
mod commands;
mod media;
mod scenario;
mod seeds;
mod servers;
mod support;
mod target;
mod tshark;
mod watch;
