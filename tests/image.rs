//! The server that boots without an operating system, in QEMU, with DHCP and TFTP of dnsmasq.

use peers::exchange::{PASSWORD, account, connect};
use peers::image::Machine;
use peers::image::lan::{HERE, Lan, SERVER};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone};
use peers::phone::{Action, Event, Phone};
use peers::process::{Program, built, run};
use peers::server::DOMAIN;
use peers::sipp::Sipp;
use peers::sipp::operations::Operations;
use peers::sipp::users::{USERS, password, user};
use peers::transport::Transport::{self, Tcp, Udp};
use sip::digest::Ha1Set;
use std::process::Command;

const BENCH: Program = Program { name: "barebell-bench", packages: "(none: build it)" };

/// The users of SIPp, and one with the number 0 for the benchmark, which counts from there. Their
/// hashes are of MD5, which is all that SIPp can.
fn numbered_users() -> String {
    let line = |number| {
        let (user, password) = (user(number), password(number));
        let ha1 = Ha1Set::new(user.as_bytes(), DOMAIN.as_bytes(), password.as_bytes()).md5;
        let ha1: String = ha1.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{user}:{DOMAIN}:MD5:{ha1}\n")
    };
    (0..=USERS).map(line).collect()
}

/// Has the benchmark put some load on the server. All of it has to succeed, however late.
fn bench(operation: &str, authenticated: bool) {
    let mut command = Command::new(built(BENCH.name, "BAREBELL_BENCH"));
    command.args(["run", "--target", &format!("udp:{SERVER}"), "--domain", DOMAIN]);
    command.args(["--users", "500", "--user-pattern", "user{:05}:secret-{:05}"]);
    command.args(["--operation", operation, "--rate", "100", "--duration", "1s"]);
    command.args(["--warmup", "0s", "--settle", "0s", "--max-lag", "10s"]);
    command.args(["--require", "success>=100%", "--quiet", "--no-report"]);
    if authenticated {
        command.arg("--auth");
    }
    let _ = run(BENCH, command);
}

/// All operations of row A2, by SIPp and by the benchmark.
fn operations(authenticated: bool) {
    let auth = if authenticated { "on" } else { "off" };
    let _lan = Lan::with_users(&numbered_users());
    let bench = |operation| bench(operation, authenticated);
    let operations = Operations { server: SERVER, authenticated, rate: 800 };

    // Without credentials strangers are slowed down; SIPp and the benchmark are none.
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
