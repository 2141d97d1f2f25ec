//! The phone that boots.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use image::machine::boot_info::Boot;
use image::machine::port;
use image::options::phone::Options;
use image::phone::Phone;
use image::phone::screens::View;
use image::phone::sound::Mute;
use image::start::Started;

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut options = Options::default();
    let started = Started::<View>::new(boot, "a phone", &mut |text| options.read(text));
    let (started, network) = started.network(&options.machine);
    let Started { mut screens, log, clock, random, .. } = started;
    let mut phone = Phone::new(options, network, Box::new(Mute), random, clock.now());
    phone.log = log;
    loop {
        phone.step(clock.now());
        if screens.turn(&mut phone, clock.now()) {
            port::reset();
        }
    }
}
