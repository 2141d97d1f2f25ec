//! The server that boots.
#![no_std]
#![no_main]

use image::log::Log;
use image::machine::boot_info::Boot;
use image::machine::clock::{self, Clock};
use image::machine::random::{self, Random};
use image::machine::{bare, pci, port};
use image::net::Network;
use image::nic;
use image::options::server::Options;
use image::server::Server;
use image::server::screens::Screens;

/// Options that were given when the image was built; those of the boot loader come after them.
const BUILT_IN: &str = match option_env!("BAREBELL_IMAGE_OPTIONS") {
    Some(options) => options,
    None => "",
};

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut screens = Screens::open(boot.framebuffer);
    let mut log = Log::default();
    log.say(format_args!("Barebell, a SIP server without an operating system"));
    screens.show_log(&log);
    let mut options = Options::default();
    for text in [BUILT_IN, boot.command_line()] {
        if let Err(mistake) = options.read(text) {
            stop(screens, log, format_args!("{mistake}"));
        }
    }
    bare::set_pause(options.machine.reboot);
    screens.set_page(options.screen);
    let functions = pci::functions();
    let (seed, source) = match random::seed(&functions) {
        Ok(found) => found,
        Err(failure) => stop(screens, log, format_args!("{failure}")),
    };
    let mut random = Random::new(seed);
    let mut clock = Clock::new(clock::rate(), clock::time_of_day());
    let memory = bare::heap().claimed >> 20;
    log.say(format_args!("{} MHz, {memory} MiB, {source}", clock.rate / 1_000_000));
    screens.show_log(&log);
    let nic = match nic::open(&functions) {
        Ok(nic) => nic,
        Err(failure) => stop(screens, log, format_args!("{failure}")),
    };
    log.say(format_args!("network card {}, {}", nic.name(), nic.mac()));
    screens.show_log(&log);
    let number = u64::from_le_bytes(random.bytes());
    let network = Network::new(nic, number, options.machine.checksums, clock.now());
    let mut server = Server::new(options, network, random, bare::heap, clock.now());
    server.log = log;
    loop {
        server.step(&mut || clock.now());
        if let Some(micros) = server.correction() {
            clock.adjust(micros);
        }
        if screens.turn(&mut server, clock.now()) {
            port::reset();
        }
    }
}

/// Says why the server does not start, and boots again when a key is pressed.
fn stop(mut screens: Screens, mut log: Log, why: core::fmt::Arguments<'_>) -> ! {
    log.say(format_args!("not started: {why}"));
    log.say(format_args!("a key boots the machine again"));
    screens.show_log(&log);
    while !screens.is_key_pressed() {
        core::hint::spin_loop();
    }
    port::reset()
}
