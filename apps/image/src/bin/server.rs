//! The bootable server.
#![no_std]
#![no_main]

use image::bare;
use image::machine::boot_info::Boot;
use image::machine::port;
use image::machine::watchdog::Winder;
use image::options::server::Options;
use image::server::Server;
use image::server::screens::View;
use image::start::Started;

#[unsafe(no_mangle)]
fn run(boot: &Boot) -> ! {
    let mut options = Options::default();
    let started = Started::<View>::new(boot, "a SIP server", &mut |text| options.read(text));
    let (started, network) = started.network(&options.machine);
    let Started { mut screens, log, clock, random, .. } = started;
    screens.each(|view| view.set_page(options.screen));
    let mut server = Server::new(options, network, random, bare::heap, clock.now());
    server.log = log;
    let mut winder = Winder::default();
    loop {
        winder.turn(clock.now());
        server.step(&mut || clock.now());
        if screens.turn(&mut server, clock.now()) {
            port::reset();
        }
    }
}
