//! The server without an operating system, in QEMU, with DHCP and TFTP by dnsmasq.

use peers::image::lan::{ENDS, HERE, Lan, SERVER};
use peers::image::{Firmware, Machine, Medium, Running, built as built_image};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::process::{Program, built, run, wait_until};
use peers::server::DOMAIN;
use peers::sipp::Sipp;
use peers::sipp::operations::Operations;
use peers::sipp::users::{USERS, password, user};
use peers::test_server::{PASSWORD, account, connect};
use peers::transport::Transport::{self, Tcp, Udp};
use sip::digest::Ha1Set;
use std::net::Ipv4Addr;
use std::process::Command;
use test_support::hostile::{End, HostileFrames};

const BENCH: Program = Program { name: "barebell-bench", packages: "(none: build it)" };

/// The maximum size of the server's ELF in bytes.
const MAX_ELF: u64 = 1_200_000;

/// The users of SIPp, and one with number 0 for the benchmark, which counts from 0. Their hashes
/// are MD5, the only algorithm of SIPp.
fn numbered_users() -> String {
    let line = |number| {
        let (user, password) = (user(number), password(number));
        let ha1 = Ha1Set::new(user.as_bytes(), DOMAIN.as_bytes(), password.as_bytes()).md5;
        let ha1: String = ha1.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{user}:{DOMAIN}:MD5:{ha1}\n")
    };
    (0..=USERS).map(line).collect()
}

/// Runs a load of the benchmark. All of its operations have to succeed, with any delay.
fn bench(operation: &str, authenticated: bool) {
    let mut command = Command::new(built(BENCH.name, "BAREBELL_BENCH"));
    command.args(["run", "--target", &format!("udp:{SERVER}"), "--domain", DOMAIN]);
    command.args(["--users", "500", "--user-pattern", "user{:05}:secret-{:05}"]);
    command.args(["--operation", operation, "--rate", "100", "--duration", "1s"]);
    command.args(["--warmup", "0s", "--tail", "0s", "--settle", "0s", "--max-lag", "10s"]);
    command.args(["--require", "success>=100%", "--quiet", "--no-report"]);
    if authenticated {
        command.arg("--auth");
    }
    let _ = run(BENCH, command);
}

/// All operations, by SIPp and by the benchmark.
fn operations(authenticated: bool) {
    let auth = if authenticated { "on" } else { "off" };
    let _lan = Lan::with_users(&numbered_users());
    let bench = |operation| bench(operation, authenticated);
    let operations = Operations { server: SERVER, authenticated, rate: 800 };

    // Without authentication, rate limits apply. SIPp and the benchmark are trusted.
    let options = format!("domain={DOMAIN} expires=3600 auth={auth} trusted={HERE}/32");
    let machine = Machine { options: &options, ..Machine::default() }.serve();
    let callee = Sipp::new("callee");
    let port = callee.port();
    operations.register(1..=500, port);
    operations.update(1..=200, port);
    operations.call(201..=300, callee);
    operations.call_nobody(1..=100);
    operations.log_out(1..=200, port);
    operations.call_absent(1..=50);
    for operation in
        ["register", "register-update", "register-logout", "invite", "invite-not-found"]
    {
        bench(operation);
    }
    drop(machine);

    let options = format!("{options} mode=redirect");
    let _machine = Machine { options: &options, ..Machine::default() }.serve();
    let nobody = Sipp::new("callee");
    operations.register(1..=101, nobody.port());
    operations.be_redirected(1..=100, &nobody);
    bench("invite-redirect");
}

#[test]
fn the_elf_is_no_larger_than_its_limit() {
    let size = std::fs::metadata(built_image("server")).expect("the image is readable").len();
    assert!(size <= MAX_ELF, "{size} bytes: `nm --size-sort` shows what is large");
}

#[test]
fn all_operations_without_authentication() {
    operations(false);
}

#[test]
fn all_operations_with_authentication() {
    operations(true);
}

/// Phones of two users call each other in both directions, and hear each other.
fn talk(
    (first, first_transport): (Kind, Transport),
    (second, second_transport): (Kind, Transport),
) {
    let mut alice = Phone::registered(first, account(SERVER, "alice", first_transport));
    let mut bob = Phone::registered(second, account(SERVER, "bob", second_transport));
    for from_alice in [true, false] {
        let (caller, callee) =
            if from_alice { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
        connect(caller, callee);
        caller.act(&Action::HangUp);
        caller.wait_for(Event::Ended);
        callee.wait_for(Event::Ended);
    }
}

#[test]
fn softphones_call_each_other() {
    let _lan = Lan::with_users(&format!("alice:{PASSWORD}\nbob:{PASSWORD}\n"));
    let _machine = Machine::default().serve();
    talk((Baresip, Udp), (Linphone, Udp));
    talk((Barebell, Tcp), (Baresip, Tcp));
    talk((Linphone, Tcp), (Barebell, Udp));
}

#[test]
fn softphones_hear_each_other_through_the_relay() {
    let _lan = Lan::with_users(&format!("alice:{PASSWORD}\nbob:{PASSWORD}\n"));
    // In clear; with keys of the phones; with keys of the relay on one side.
    for (options, kind, [caller, callee]) in [
        ("relay=all", Baresip, [Srtp::Off, Srtp::Off]),
        ("relay=all", Linphone, [Srtp::Required, Srtp::Required]),
        ("relay=all keys=offered", Barebell, [Srtp::Off, Srtp::Optional]),
    ] {
        let mut machine = Machine { options, ..Machine::default() }.serve();
        machine.type_keys("2");
        let wait_for_calls = |count: u8| {
            let row = format!(" relayed calls  {count}");
            wait_until(&format!("{row:?} on the terminal"), || {
                rows(&machine).iter().any(|shown| shown.starts_with(&row)).then_some(())
            });
        };
        let phone = |kind, user, srtp| {
            Phone::registered(kind, Account { srtp, ..account(SERVER, user, Udp) })
        };
        let (mut alice, mut bob) = (phone(Barebell, "alice", caller), phone(kind, "bob", callee));
        wait_for_calls(0);
        connect(&mut alice, &mut bob);
        wait_for_calls(1);
        alice.act(&Action::HangUp);
        bob.wait_for(Event::Ended);
        wait_for_calls(0);
    }
}

const ALICE: &str = "alice:secret\n";

/// The rows of the serial line's terminal, without trailing blanks.
fn rows(machine: &Running) -> Vec<String> {
    machine.terminal().screen().rows(0, 80).map(|row| row.trim_end().to_owned()).collect()
}

/// Presses a key on the serial line and on the keyboard. Waits until the terminal shows `text`, and
/// the screen shows the same page in characters of this size in pixels.
fn turn_to(machine: &mut Running, (key, qcode): (&str, &str), text: &str, cell: (usize, usize)) {
    machine.type_keys(key);
    machine.press(qcode);
    let page = format!("{text:?} on the terminal, and the same on the screen");
    wait_until(&page, || {
        let mut rows = rows(machine);
        // The bars at the top and bottom are as wide as the terminal or the screen.
        let is_shown = rows[0].contains("? keys") && rows.iter().any(|row| row.contains(text));
        rows[0].clear();
        rows.pop();
        (is_shown && machine.picture().shows(&rows, cell).is_ok()).then_some(())
    });
}

#[test]
fn it_boots_from_stick_disk_and_cd() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let disk = folder.path().join("disk.qcow2");
    let _lan = Lan::with_users(ALICE);
    let mut machine = Machine { medium: Medium::Stick, ..Machine::default() }.serve();
    machine.copy_disk(&disk);
    drop(machine);

    // The second line of the menu changes the mode.
    let mut machine = Machine { medium: Medium::Disk(disk), ..Machine::default() }.start();
    machine.wait_for("State: stateful");
    machine.type_keys("\x1b[B\r");
    machine.wait_for("Mode: redirect");
    machine.type_keys("\r");
    machine.wait_until_it_serves();
    machine.type_keys("2");
    machine.wait_for("redirect server, stateful");
    drop(machine);

    let _ = Machine { medium: Medium::Cd, ..Machine::default() }.serve();
    let uefi = Machine {
        medium: Medium::Cd,
        firmware: Firmware::Uefi,
        board: "q35",
        memory: 128,
        ..Machine::default()
    };
    let mut machine = uefi.serve();
    turn_to(&mut machine, ("?", "f1"), "fetches the file of users again", LETTER_OF_PIXELS);
}

/// The size of a character in pixels: VGA text mode, and Noto Sans Mono.
const LETTER_OF_VGA: (usize, usize) = (9, 16);
const LETTER_OF_PIXELS: (usize, usize) = (7, 16);

#[test]
fn screen_and_terminal_show_the_same() {
    let _lan = Lan::with_users("alice:secret\nbob:secret\n");
    let mut machine = Machine::default().serve();
    let log = "network card virtio";
    turn_to(&mut machine, ("1", "1"), log, LETTER_OF_VGA);
    turn_to(&mut machine, ("?", "f1"), "fetches the file of users again", LETTER_OF_VGA);
    turn_to(&mut machine, ("x", "x"), log, LETTER_OF_VGA);
}

#[test]
fn it_boots_from_a_network() {
    let mut lan = Lan::open();
    lan.offer("users", ALICE);
    lan.offer_copy("server", &built_image("server"));
    lan.offer_copy("server.efi", &built_image("server.efi"));
    // The boot program identifies itself: iPXE, or UEFI for x86-64. The server does neither.
    lan.serve(&[
        "--dhcp-match=set:ipxe,175",
        "--dhcp-match=set:uefi,option:client-arch,7",
        "--dhcp-boot=users",
        "--dhcp-boot=tag:ipxe,server",
        "--dhcp-boot=tag:uefi,server.efi",
    ]);
    for (firmware, board) in [(Firmware::Bios, "pc"), (Firmware::Uefi, "q35")] {
        let medium = Medium::Network;
        let _ = Machine { medium, firmware, board, memory: 128, ..Machine::default() }.serve();
    }
}

#[test]
fn it_boots_with_all_cards_and_processors() {
    let _lan = Lan::with_users(ALICE);
    let random = "-device virtio-rng-pci";
    let bridge = "-device pci-bridge,id=bridge,chassis_nr=1";
    let port = "-device pcie-root-port,id=root";
    for (board, processor, card, others) in [
        ("pc", "max", "virtio-net-pci,disable-modern=on,disable-legacy=off", ""),
        ("q35", "max", "virtio-net-pci,disable-modern=off,disable-legacy=on", ""),
        (
            "pc",
            "max",
            "virtio-net-pci,disable-modern=off,disable-legacy=off,bus=bridge,addr=3",
            bridge,
        ),
        ("q35", "max", "virtio-net-pci,disable-modern=off,disable-legacy=off,bus=root", port),
        ("pc", "qemu64", "e1000", random),
        ("q35", "kvm64", "e1000e", random),
    ] {
        // Identifies the combination if the test fails.
        eprintln!("{board}, {processor}, {card}");
        let _ = Machine { board, processor, card, others, ..Machine::default() }.serve();
    }
}

#[test]
fn missing_hardware_and_unknown_options_are_reported() {
    let _lan = Lan::with_users(ALICE);
    let usual = Machine::default();
    for (machine, why) in [
        (Machine { card: "rtl8139", ..usual.clone() }, "no driver for the network card"),
        (Machine { processor: "qemu64", ..usual.clone() }, "no source of randomness"),
        (Machine { options: "modus=proxy", ..usual }, "there is no option \"modus\""),
    ] {
        machine.start().wait_for(&format!("not started: {why}"));
    }
}

#[test]
fn missing_services_are_reported_until_available() {
    let mut lan = Lan::open();
    let options = "domain=barebell.test refresh=1";
    let mut machine = Machine { options, others: "-S", ..Machine::default() }.start();
    machine.set_link(false);
    machine.go_on();
    machine.wait_for("no link: is the cable plugged in at both ends?");
    machine.set_link(true);
    machine.wait_for("asking DHCP for an address");
    machine.wait_for("no lease: no DHCP server has answered");

    lan.serve(&["--dhcp-boot=users"]);
    machine.wait_for("address 10.77.0.10");
    machine.wait_for("the file of users was not taken: the TFTP server refused (code 1");
    lan.offer("users", "alice\n");
    machine.wait_for("the file of users was not taken: line 1: expected name:password");

    // A transfer of 32 MB takes seconds, so it is in progress when the server stops.
    let long = format!("#{:1000}\n", "").repeat(1 << 15) + ALICE;
    lan.offer("users", long);
    let before = lan.frames_to_machine();
    wait_until("the file to be on its way", || {
        (lan.frames_to_machine() > before + 50).then_some(())
    });
    lan.serve_no_longer();
    machine.wait_for("the file of users was not taken: the TFTP server does not answer");
    assert!(!machine.console().contains("ready"), "the server is not ready");
    lan.offer("users", ALICE);
    lan.serve(&["--dhcp-boot=users"]);
    machine.wait_until_it_serves();

    lan.offer("users", "alice:secret\nbob\n");
    machine.wait_for("the file of users was not taken: line 2");
    lan.withdraw("users");
    machine.wait_for("the file of users was not taken: the TFTP server refused (code 1");
    machine.set_link(false);
    machine.wait_for("the link is lost");
    machine.set_link(true);
    machine.wait_for("the link is there again");
    machine.wait_until_it_answers();
}

/// DHCP assigns an address for a few seconds, repeatedly; becomes unavailable, and returns.
#[test]
fn a_lease_expires_and_another_one_is_obtained() {
    let mut lan = Lan::open();
    lan.offer("users", ALICE);
    // The lease time, and the times of renewal. The minimum of dnsmasq itself is two minutes.
    let times =
        ["--dhcp-option-force=51,4", "--dhcp-option-force=58,2", "--dhcp-option-force=59,3"];
    lan.serve(&[&["--dhcp-boot=users"], &times[..]].concat());
    let mut machine = Machine::default().serve();
    let leases = |lan: &Lan| lan.log().matches("DHCPACK").count();
    wait_until("a lease that is renewed twice", || (leases(&lan) >= 3).then_some(()));
    assert!(
        !machine.console().contains("the lease has ended"),
        "the lease is renewed before it expires"
    );
    lan.serve_no_longer();
    machine.wait_for("the lease has ended");
    lan.serve(&["--dhcp-boot=users"]);
    machine.wait_until_it_serves();
}

#[test]
fn the_machine_reboots_after_a_fault_or_a_hang() {
    const INVALID: &[u8] = &[0x0f, 0x0b];
    const LOOP: &[u8] = &[0xeb, 0xfe];
    let _lan = Lan::with_users(ALICE);
    let (options, others) = ("domain=barebell.test reboot=1", "-device i6300esb");
    let mut machine = Machine { options, others, ..Machine::default() }.serve();
    machine.may_boot_again();
    machine.go_on_with(INVALID);
    machine.wait_for("Barebell has failed: invalid instruction at instruction 0x");
    machine.wait_for("It boots again in 1 s.");
    machine.wait_for("watchdog: boots again if nothing is done for 30 s");
    machine.wait_until_it_serves();
    machine.go_on_with(LOOP);
    machine.wait_for("Barebell, a SIP server without an operating system");
    machine.wait_until_it_serves();
}

/// The number of hostile frames; the environment variable allows a longer run.
fn rounds() -> usize {
    let given = std::env::var("BAREBELL_FLOOD").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(30_000)
}

#[test]
fn hostile_frames_do_not_stop_the_server() {
    const TURN: usize = 250;
    let lan = Lan::with_users(&format!("alice:{PASSWORD}\nbob:{PASSWORD}\n"));
    let mut machine = Machine::default().serve();
    let mut wire = lan.wire();
    let stranger = End { mac: [2, 0, 0, 77, 0, 20], address: Ipv4Addr::new(10, 77, 0, 20) };
    let [here, there] = ENDS;
    let lost = lan.frames_lost();
    for (number, frame) in HostileFrames::new(there, here, stranger, 8).take(rounds()).enumerate() {
        wire.send(&frame);
        if number % TURN == 0 {
            machine.wait_until_it_answers();
        }
    }
    machine.wait_until_it_answers();
    assert_eq!(lan.frames_lost(), lost, "the machine has received all frames");
    assert!(!machine.console().contains("memory is short"), "memory use is bounded");
    talk((Barebell, Udp), (Barebell, Tcp));
}
