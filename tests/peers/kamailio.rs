//! Kamailio as a proxy that stays in the path of all that goes through it (`record_route`,
//! `loose_route`), with one address for either side, and with the usual ways to reach user agents
//! behind NATs.

use crate::folder::Folder;
use crate::process::{Process, Program, wait_until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use test_support::agent::ping;
use test_support::ports::free_ports;

const KAMAILIO: Program = Program { name: "kamailio", packages: "kamailio" };
/// Its own address: it is another machine than the server under test.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What it does about contacts that cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    /// Nothing.
    Ignored,
    /// Writes where a message came from in place of its contact (`fix_nated_contact`).
    ContactFixed,
    /// Writes that beside the contact (`add_contact_alias`), and reads it in the request URI
    /// (`handle_ruri_alias`).
    Aliased,
}

/// A running Kamailio. It is killed when dropped.
#[derive(Debug)]
pub struct Kamailio {
    /// Where those are served who begin something.
    pub outside: SocketAddr,
    _process: Process,
    _folder: Folder,
}

impl Kamailio {
    /// Starts one that forwards what is not within a dialog to `next_hop`, from another port than
    /// where it comes, so that it has two entries in Record-Route.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(next_hop: SocketAddr, nat: Nat) -> Self {
        let folder = Folder::new("kamailio");
        let outside = SocketAddr::from((ADDRESS, free_ports(1)));
        let inside = SocketAddr::from((ADDRESS, free_ports(1)));
        folder.write("kamailio.cfg", &configuration(outside, inside, next_hop, nat));
        let mut command = KAMAILIO.command();
        command.args(["-DD", "-E", "-m", "32", "-M", "4", "-f"]).arg(folder.join("kamailio.cfg"));
        for option in ["-Y", "-w"] {
            command.arg(option).arg(folder.path());
        }
        let mut process = Process::start(KAMAILIO, command, &folder.join("kamailio.log"));
        wait_until("an answer of Kamailio to OPTIONS", || {
            process.assert_running();
            answers(outside).then_some(())
        });
        Self { outside, _process: process, _folder: folder }
    }
}

fn configuration(
    outside: SocketAddr,
    inside: SocketAddr,
    next_hop: SocketAddr,
    nat: Nat,
) -> String {
    // Only who is outside is behind a NAT.
    let from_outside = |command| format!("if ($Rp == {}) {{ {command}(); }}", outside.port());
    let from_inside = |command| format!("if ($Rp == {}) {{ {command}(); }}", inside.port());
    let (of_contact, of_target) = match nat {
        Nat::Ignored => (String::new(), String::new()),
        Nat::ContactFixed => (from_outside("fix_nated_contact"), String::new()),
        Nat::Aliased => (from_outside("add_contact_alias"), from_inside("handle_ruri_alias")),
    };
    format!(
        r#"#!KAMAILIO
debug=1
children=1
disable_tcp=yes
auto_aliases=no
dns=no
rev_dns=no
listen=udp:{outside}
listen=udp:{inside}
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "nathelper.so"
request_route {{
    if (!mf_process_maxfwd_header("70")) {{ sl_send_reply("483", "Too Many Hops"); exit; }}
    if (is_method("OPTIONS") && uri==myself) {{ sl_send_reply("200", "OK"); exit; }}
    {of_contact}
    if (is_method("CANCEL")) {{ if (t_check_trans()) {{ t_relay(); }} exit; }}
    t_on_reply("ANSWER");
    if (has_totag()) {{
        if (loose_route()) {{
            {of_target}
            if (is_method("NOTIFY")) {{ record_route(); }}
            t_relay();
            exit;
        }}
        if (is_method("ACK")) {{ t_check_trans(); exit; }}
        sl_send_reply("404", "Not Here");
        exit;
    }}
    if (is_method("ACK")) {{ t_check_trans(); exit; }}
    # What a phone that has this proxy puts in front.
    remove_hf("Route");
    $du = "sip:{next_hop}";
    $fs = "udp:{inside}";
    record_route();
    t_relay();
}}
onreply_route[ANSWER] {{
    {of_contact}
    exit;
}}
"#
    )
}

/// Whether somebody answers at `address`.
fn answers(address: SocketAddr) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket");
    socket.set_read_timeout(Some(Duration::from_millis(250))).expect("a socket that can wait");
    let from = socket.local_addr().expect("a bound UDP socket");
    let sent = socket.send_to(&ping(from, address, 1), address);
    sent.is_ok() && socket.recv(&mut [0; 2048]).is_ok()
}
