//! The phone that boots.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use core::fmt::Write as _;
use image::log::Log;
use image::machine::boot_info::Boot;
use image::machine::clock::{self, Clock};
use image::machine::random::{self, Random};
use image::machine::serial::Serial;
use image::machine::{bare, pci};
use image::net::Network;
use image::nic;
use image::options::phone::Options;
use image::phone::Phone;
use image::phone::sound::Mute;

/// Options that were given when the image was built; those of the boot loader come after them.
const BUILT_IN: &str = match option_env!("BAREBELL_IMAGE_OPTIONS") {
    Some(options) => options,
    None => "",
};

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut log = Log::default();
    log.say(format_args!("Barebell, a phone without an operating system"));
    let mut options = Options::default();
    for text in [BUILT_IN, boot.command_line()] {
        if let Err(mistake) = options.read(text) {
            stop(format_args!("{mistake}"));
        }
    }
    bare::set_pause(options.machine.reboot);
    let Some(seed) = random::processor_seed() else {
        stop(format_args!("no source of randomness: the processor has neither RDSEED nor RDRAND"))
    };
    let mut random = Random::new(seed);
    let clock = Clock::new(clock::rate(), clock::time_of_day());
    let nic = match nic::open(&pci::functions()) {
        Ok(nic) => nic,
        Err(failure) => stop(format_args!("{failure}")),
    };
    log.say(format_args!("network card {}, {}", nic.name(), nic.mac()));
    let number = u64::from_le_bytes(random.bytes());
    let network = Network::new(nic, number, options.machine.checksums, clock.now());
    let mut phone = Phone::new(options, network, Box::new(Mute), random, clock.now());
    phone.log = log;
    let mut seen = 0;
    loop {
        phone.step(clock.now());
        for line in phone.log.since(seen) {
            let _ = writeln!(Serial, "{line}");
        }
        seen = phone.log.said();
    }
}

/// Says why the phone does not start.
fn stop(why: core::fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Serial, "not started: {why}");
    loop {
        core::hint::spin_loop();
    }
}
