//! Start-up from the boot loader to a program: the common part of all images.

use crate::bare;
use crate::log::Log;
use crate::machine::boot_info::Boot;
use crate::machine::clock::{self, Clock};
use crate::machine::pci::{self, Function};
use crate::machine::random::{self, Random};
use crate::machine::{port, watchdog};
use crate::net::Network;
use crate::nic;
use crate::options::{Machine, Mistake};
use crate::screen::console::{Consoles, View};
use crate::virtio::rng;
use alloc::vec::Vec;
use core::fmt;

/// Options given when the image was built; the boot loader's options follow them.
const BUILT_IN: &str = match option_env!("BAREBELL_IMAGE_OPTIONS") {
    Some(options) => options,
    None => "",
};

/// A machine that is ready for its program.
#[derive(Debug)]
pub struct Started<V: View> {
    /// Its screens.
    pub screens: Consoles<V>,
    /// The log.
    pub log: Log,
    /// Its clock.
    pub clock: Clock,
    /// Its random numbers.
    pub random: Random,
    /// Its devices.
    pub functions: Vec<Function>,
}

impl<V: View> Started<V> {
    /// Initializes the machine for the program `title`, and passes each text of options to `read`.
    pub fn new(
        boot: &Boot,
        title: &str,
        read: &mut dyn FnMut(&str) -> Result<(), Mistake>,
    ) -> Self {
        let mut screens = Consoles::open(boot.framebuffer);
        let mut log = Log::default();
        log.say(format_args!("Barebell, {title} without an operating system"));
        screens.show_log(&log);
        if let Err(mistake) = [BUILT_IN, boot.command_line()].into_iter().try_for_each(read) {
            stop(screens, log, format_args!("{mistake}"));
        }
        let functions = pci::functions();
        let is_watched = watchdog::start(&functions);
        let (seed, source) = match random::seed(|| functions.iter().find_map(rng::seed)) {
            Ok(found) => found,
            Err(failure) => stop(screens, log, format_args!("{failure}")),
        };
        let clock = Clock::new(clock::rate(), clock::time_of_day());
        let memory = bare::heap().claimed >> 20;
        log.say(format_args!("{} MHz, {memory} MiB, {source}", clock.rate / 1_000_000));
        if is_watched {
            let patience = watchdog::PATIENCE;
            log.say(format_args!("watchdog: boots again if nothing is done for {patience} s"));
        }
        screens.show_log(&log);
        Self { screens, log, clock, random: Random::new(seed), functions }
    }

    /// Opens the network with the first supported card.
    pub fn network(mut self, options: &Machine) -> (Self, Network) {
        bare::set_pause(options.reboot);
        let nic = match nic::open(&self.functions) {
            Ok(nic) => nic,
            Err(failure) => stop(self.screens, self.log, format_args!("{failure}")),
        };
        self.log.say(format_args!("network card {}, {}", nic.name(), nic.mac()));
        self.screens.show_log(&self.log);
        let number = u64::from_le_bytes(self.random.bytes());
        let network = Network::new(nic, number, options.checksums, self.clock.now());
        (self, network)
    }
}

/// Reports why the program cannot start, and reboots when a key is pressed.
fn stop<V: View>(mut screens: Consoles<V>, mut log: Log, why: fmt::Arguments<'_>) -> ! {
    log.say(format_args!("not started: {why}"));
    log.say(format_args!("a key boots the machine again"));
    screens.show_log(&log);
    while !screens.is_key_pressed() {
        watchdog::wind();
    }
    port::reset()
}
