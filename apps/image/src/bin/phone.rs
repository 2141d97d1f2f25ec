//! The bootable phone.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use image::log::Log;
use image::machine::boot_info::Boot;
use image::machine::pci::Function;
use image::machine::port;
use image::machine::watchdog::Winder;
use image::options::phone::{Options, Sounds};
use image::phone::Phone;
use image::phone::screens::View;
use image::sound::{self, Mute, Sound};
use image::start::Started;

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut options = Options::default();
    let started = Started::<View>::new(boot, "a phone", &mut |text| options.read(text));
    let (started, network) = started.network(&options.machine);
    let Started { mut screens, mut log, clock, random, functions } = started;
    let sound = open_sound(&options, &functions, &mut log);
    let mut phone = Phone::new(options, network, sound, random, clock.now());
    phone.log = log;
    let mut winder = Winder::default();
    loop {
        winder.turn(clock.now());
        phone.step(clock.now());
        if screens.turn(&mut phone, clock.now()) {
            port::reset();
        }
    }
}

/// Opens the sound device, if sound is to be played.
fn open_sound(options: &Options, functions: &[Function], log: &mut Log) -> Box<dyn Sound> {
    if matches!(options.sound, Sounds::Echo | Sounds::Silence) {
        return Box::new(Mute);
    }
    match sound::open(functions) {
        Ok(device) => {
            log.say(format_args!("sound by {}", device.name()));
            device
        }
        Err(failure) => {
            log.say(format_args!("no sound: {failure}"));
            Box::new(Mute)
        }
    }
}
