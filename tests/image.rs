//! The server that boots without an operating system, in QEMU, with DHCP and TFTP of dnsmasq.

use peers::image::Machine;
use peers::image::lan::Lan;

#[test]
fn boots_and_answers() {
    let _lan = Lan::with_users("alice:secret\n");
    let _machine = Machine::default().serve();
}
