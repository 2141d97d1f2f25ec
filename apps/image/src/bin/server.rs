//! The server that boots.
#![no_std]
#![no_main]

use core::fmt::Write as _;
use image::machine::boot_info::Boot;
use image::machine::clock::{self, Clock};
use image::machine::random::{self, Random};
use image::machine::serial::Serial;
use image::machine::{bare, pci};
use image::net::Network;
use image::nic;
use image::options::Options;
use image::server::Server;

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut screen = Serial;
    let _ = writeln!(screen, "Barebell, a SIP server without an operating system");
    let options = match Options::parse(boot.command_line()) {
        Ok(options) => options,
        Err(mistake) => stop(format_args!("{mistake}")),
    };
    let Some(seed) = random::processor_seed() else {
        stop(format_args!("no source of randomness: the processor has neither RDSEED nor RDRAND"))
    };
    let mut random = Random::new(seed);
    let clock = Clock::new(clock::rate(), clock::time_of_day());
    let heap = bare::heap();
    let _ = writeln!(screen, "{} MHz, {} MiB", clock.rate / 1_000_000, heap.claimed >> 20);
    let nic = match nic::open(&pci::functions()) {
        Ok(nic) => nic,
        Err(failure) => stop(format_args!("{failure}")),
    };
    let _ = writeln!(screen, "network card {}, {}", nic.name(), nic.mac());
    let number = u64::from_le_bytes(random.bytes());
    let network = Network::new(nic, number, options.checksums, clock.now());
    let mut server = Server::new(options, network, random, clock.now());
    let mut seen = 0;
    loop {
        server.step(&mut || clock.now());
        for line in server.log.since(seen) {
            let _ = writeln!(screen, "{line}");
        }
        seen = server.log.said();
    }
}

/// Says why the server does not start.
fn stop(why: core::fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Serial, "not started: {why}");
    loop {
        core::hint::spin_loop();
    }
}
