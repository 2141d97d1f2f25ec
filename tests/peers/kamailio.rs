//! Kamailio as a proxy that stays in the path of all that goes through it (`record_route`,
//! `loose_route`), with one address for either side, and with the usual ways to reach user agents
//! behind NATs.

use crate::folder::Folder;
use crate::process::{Process, Program, wait_until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
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

/// Who Kamailio is over TLS, and a folder with its certificate.
#[derive(Debug)]
pub struct Identity {
    folder: Folder,
}

impl Identity {
    /// One that nobody has signed, for [`ADDRESS`].
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = Folder::new("kamailio-identity");
        let identity = Self { folder };
        let made = net::tls::make_self_signed(
            &[ADDRESS.to_string()],
            &identity.certificate(),
            &identity.folder.join("key.pem"),
        );
        made.expect("a certificate");
        identity
    }

    /// The file with the certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("chain.pem")
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self::new()
    }
}

/// TLS on one or both sides.
#[derive(Debug)]
pub struct Tls<'t> {
    /// Who it is. Those outside may come over TLS.
    pub identity: &'t Identity,
    /// The certificate of the next hop, if that is over TLS.
    pub next_hop: Option<PathBuf>,
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
        Self::start_with(next_hop, nat, None)
    }

    /// The same with TLS.
    ///
    /// # Panics
    /// Likewise.
    #[must_use]
    pub fn start_with(next_hop: SocketAddr, nat: Nat, tls: Option<&Tls<'_>>) -> Self {
        let folder = Folder::new("kamailio");
        let outside = SocketAddr::from((ADDRESS, free_ports(1)));
        let inside = SocketAddr::from((ADDRESS, free_ports(1)));
        folder.write("kamailio.cfg", &configuration(outside, inside, next_hop, nat, tls));
        let mut command = KAMAILIO.command();
        command.args(["-DD", "-E", "-m", "64", "-M", "8", "-f"]).arg(folder.join("kamailio.cfg"));
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
    tls: Option<&Tls<'_>>,
) -> String {
    // Only who is outside is behind a NAT.
    let from_outside = |command| format!("if ($Rp == {}) {{ {command}(); }}", outside.port());
    let from_inside = |command| format!("if ($Rp == {}) {{ {command}(); }}", inside.port());
    let (of_contact, of_target) = match nat {
        Nat::Ignored => (String::new(), String::new()),
        Nat::ContactFixed => (from_outside("fix_nated_contact"), String::new()),
        Nat::Aliased => (from_outside("add_contact_alias"), from_inside("handle_ruri_alias")),
    };
    let is_inside = tls.is_some_and(|tls| tls.next_hop.is_some());
    let (inner, by) = if is_inside { ("tls", ";transport=tls") } else { ("udp", "") };
    let streams = match tls {
        None => "disable_tcp=yes".to_owned(),
        Some(_) => format!("tcp_children=1\nenable_tls=yes\nlisten=tls:{outside}"),
    };
    let module = tls.map_or_else(String::new, module);
    format!(
        r#"#!KAMAILIO
debug=1
children=1
{streams}
auto_aliases=no
dns=no
rev_dns=no
listen=udp:{outside}
listen={inner}:{inside}
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "nathelper.so"
{module}
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
    $du = "sip:{next_hop}{by}";
    $fs = "{inner}:{inside}";
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

/// The lines for its module of TLS.
fn module(tls: &Tls<'_>) -> String {
    let param = |name: &str, value: &Path| {
        format!("modparam(\"tls\", \"{name}\", \"{}\")\n", value.display())
    };
    let mut lines =
        "loadmodule \"tls.so\"\nmodparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n".to_owned();
    lines += &param("certificate", &tls.identity.certificate());
    lines += &param("private_key", &tls.identity.folder.join("key.pem"));
    if let Some(certificate) = &tls.next_hop {
        lines += &param("ca_list", certificate);
        lines += "modparam(\"tls\", \"verify_certificate\", 1)\n";
    }
    lines
}

/// Whether somebody answers at `address`.
fn answers(address: SocketAddr) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket");
    socket.set_read_timeout(Some(Duration::from_millis(250))).expect("a socket that can wait");
    let from = socket.local_addr().expect("a bound UDP socket");
    let sent = socket.send_to(&ping(from, address, 1), address);
    sent.is_ok() && socket.recv(&mut [0; 2048]).is_ok()
}
