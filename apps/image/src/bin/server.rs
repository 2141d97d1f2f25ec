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

/// Options that were given when the image was built; those of the boot loader come after them.
const BUILT_IN: &str = match option_env!("BAREBELL_IMAGE_OPTIONS") {
    Some(options) => options,
    None => "",
};

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut screen = Serial;
    let _ = writeln!(screen, "Barebell, a SIP server without an operating system");
    let mut options = Options::default();
    for text in [BUILT_IN, boot.command_line()] {
        if let Err(mistake) = options.read(text) {
            stop(format_args!("{mistake}"));
        }
    }
    let functions = pci::functions();
    let (seed, source) = match random::seed(&functions) {
        Ok(found) => found,
        Err(failure) => stop(format_args!("{failure}")),
    };
    let mut random = Random::new(seed);
    let mut clock = Clock::new(clock::rate(), clock::time_of_day());
    let heap = bare::heap();
    let _ =
        writeln!(screen, "{} MHz, {} MiB, {source}", clock.rate / 1_000_000, heap.claimed >> 20);
    let nic = match nic::open(&functions) {
        Ok(nic) => nic,
        Err(failure) => stop(format_args!("{failure}")),
    };
    let _ = writeln!(screen, "network card {}, {}", nic.name(), nic.mac());
    let number = u64::from_le_bytes(random.bytes());
    let network = Network::new(nic, number, options.checksums, clock.now());
    let mut server = Server::new(options, network, random, bare::heap, clock.now());
    let mut seen = 0;
    loop {
        server.step(&mut || clock.now());
        if let Some(micros) = server.correction() {
            clock.adjust(micros);
        }
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
