//! Kamailio as a proxy that stays in the path (`record_route`, `loose_route`), with one address for
//! each side, and with the usual methods to reach user agents behind NATs.

use crate::folder::Folder;
use crate::process::{Process, Program, wait_until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::agent::ping;
use test_support::ports::free_ports;

const KAMAILIO: Program = Program { name: "kamailio", packages: "kamailio" };
/// Its address, different from that of the server under test.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The handling of unreachable contacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    /// No handling.
    Ignored,
    /// Replaces the contact by the source address (`fix_nated_contact`).
    ContactFixed,
    /// Adds the source address to the contact (`add_contact_alias`), and uses it from the
    /// Request-URI (`handle_ruri_alias`).
    Aliased,
}

/// The TLS identity of Kamailio: a folder with a certificate.
#[derive(Debug)]
pub struct Identity {
    folder: Folder,
}

impl Identity {
    /// Creates a self-signed certificate for `ADDRESS`.
    ///
    /// # Panics
    /// The certificate cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let folder = Folder::new("kamailio-identity");
        let identity = Self { folder };
        let made = net::tls::make_self_signed(
            &[ADDRESS.to_string()],
            &identity.certificate(),
            &identity.folder.join("key.pem"),
        );
        made.expect("the certificate can be created");
        identity
    }

    /// The certificate file.
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
    /// The certificate. User agents may connect over TLS.
    pub identity: &'t Identity,
    /// The certificate of the next hop, if reached over TLS.
    pub next_hop: Option<PathBuf>,
}

/// A running Kamailio. It is killed on drop.
#[derive(Debug)]
pub struct Kamailio {
    /// The address for initial requests.
    pub outside: SocketAddr,
    _process: Process,
    _folder: Folder,
}

impl Kamailio {
    /// Starts Kamailio. Initial requests are forwarded to `next_hop` from another port than that of
    /// reception, which yields two Record-Route entries.
    ///
    /// # Panics
    /// Kamailio cannot be started.
    #[must_use]
    pub fn start(next_hop: SocketAddr, nat: Nat) -> Self {
        Self::start_with(next_hop, nat, None)
    }

    /// As [`Kamailio::start`], with a media relay: its module rtpengine sends requests with `flags`
    /// to `engine`.
    ///
    /// # Panics
    /// Kamailio cannot be started.
    #[must_use]
    pub fn start_with_relay(next_hop: SocketAddr, engine: SocketAddr, flags: &str) -> Self {
        Self::start_by(&|outside, inside| {
            let relay = Some((engine, flags));
            configuration((outside, inside), next_hop, Nat::Ignored, None, relay)
        })
    }

    /// As [`Kamailio::start`], with TLS.
    ///
    /// # Panics
    /// Kamailio cannot be started.
    #[must_use]
    pub fn start_with(next_hop: SocketAddr, nat: Nat, tls: Option<&Tls<'_>>) -> Self {
        Self::start_by(&|outside, inside| {
            configuration((outside, inside), next_hop, nat, tls, None)
        })
    }

    /// Starts Kamailio as a registrar: any user logs in with `password`.
    ///
    /// # Panics
    /// Kamailio cannot be started.
    #[must_use]
    pub fn start_registrar(password: &str) -> Self {
        Self::start_by(&|outside, _| registrar(outside, password))
    }

    /// Starts Kamailio as a provider: `account` registers with `password`, which its calls need,
    /// too. They go to the phone at `subscriber`, and calls to the number of the account to its
    /// contact.
    ///
    /// # Panics
    /// Kamailio cannot be started.
    #[must_use]
    pub fn start_provider(account: &str, password: &str, subscriber: SocketAddr) -> Self {
        Self::start_by(&|outside, _| provider(outside, (account, password), subscriber))
    }

    /// Starts Kamailio with the configuration for its two addresses.
    fn start_by(configuration: &dyn Fn(SocketAddr, SocketAddr) -> String) -> Self {
        let folder = Folder::new("kamailio");
        let outside = SocketAddr::from((ADDRESS, free_ports(1)));
        let inside = SocketAddr::from((ADDRESS, free_ports(1)));
        folder.write("kamailio.cfg", &configuration(outside, inside));
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
    (outside, inside): (SocketAddr, SocketAddr),
    next_hop: SocketAddr,
    nat: Nat,
    tls: Option<&Tls<'_>>,
    engine: Option<(SocketAddr, &str)>,
) -> String {
    // Only the outside is behind a NAT.
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
    // It offers, answers and deletes, as the message asks for.
    let (engine, relay) = match engine {
        None => Default::default(),
        Some((engine, flags)) => (
            format!(
                "loadmodule \"rtpengine.so\"\n\
                 modparam(\"rtpengine\", \"rtpengine_sock\", \"udp:{engine}\")\n"
            ),
            format!("rtpengine_manage(\"{flags}\");"),
        ),
    };
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
{engine}
request_route {{
    if (!mf_process_maxfwd_header("70")) {{ sl_send_reply("483", "Too Many Hops"); exit; }}
    if (is_method("OPTIONS") && uri==myself) {{ sl_send_reply("200", "OK"); exit; }}
    {of_contact}
    if (is_method("CANCEL")) {{ {relay} if (t_check_trans()) {{ t_relay(); }} exit; }}
    t_on_reply("ANSWER");
    if (has_totag()) {{
        if (loose_route()) {{
            {of_target}
            if (is_method("NOTIFY")) {{ record_route(); }}
            {relay}
            t_relay();
            exit;
        }}
        if (is_method("ACK")) {{ t_check_trans(); exit; }}
        sl_send_reply("404", "Not Here");
        exit;
    }}
    if (is_method("ACK")) {{ t_check_trans(); exit; }}
    # The Route of a phone that has this proxy.
    remove_hf("Route");
    $du = "sip:{next_hop}{by}";
    $fs = "{inner}:{inside}";
    record_route();
    t_on_failure("FAILURE");
    {relay}
    t_relay();
}}
onreply_route[ANSWER] {{
    {of_contact}
    {relay}
    exit;
}}
failure_route[FAILURE] {{
    {relay}
    exit;
}}
"#
    )
}

/// The configuration of a registrar without calls.
fn registrar(outside: SocketAddr, password: &str) -> String {
    format!(
        r#"#!KAMAILIO
debug=1
children=1
disable_tcp=yes
auto_aliases=no
dns=no
rev_dns=no
listen=udp:{outside}
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "pv.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "auth.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
modparam("usrloc", "db_mode", 0)
request_route {{
    if (is_method("OPTIONS")) {{ sl_send_reply("200", "OK"); exit; }}
    if (!is_method("REGISTER")) {{ sl_send_reply("405", "Method Not Allowed"); exit; }}
    if (!pv_www_authenticate("$td", "{password}", "0")) {{ www_challenge("$td", "0"); exit; }}
    save("location");
    exit;
}}
"#
    )
}

/// The configuration of a provider.
fn provider(
    outside: SocketAddr,
    (account, password): (&str, &str),
    subscriber: SocketAddr,
) -> String {
    format!(
        r#"#!KAMAILIO
debug=1
children=1
disable_tcp=yes
auto_aliases=no
dns=no
rev_dns=no
listen=udp:{outside}
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "auth.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
modparam("usrloc", "db_mode", 0)
request_route {{
    if (!mf_process_maxfwd_header("70")) {{ sl_send_reply("483", "Too Many Hops"); exit; }}
    if (is_method("OPTIONS")) {{ sl_send_reply("200", "OK"); exit; }}
    if (is_method("CANCEL")) {{ if (t_check_trans()) {{ t_relay(); }} exit; }}
    if (has_totag()) {{
        if (loose_route()) {{ t_relay(); exit; }}
        if (is_method("ACK")) {{ t_check_trans(); exit; }}
        sl_send_reply("404", "Not Here");
        exit;
    }}
    if (is_method("ACK")) {{ t_check_trans(); exit; }}
    if (is_method("REGISTER")) {{
        if (!pv_www_authenticate("$td", "{password}", "0")) {{ www_challenge("$td", "0"); exit; }}
        save("location");
        exit;
    }}
    record_route();
    if ($rU == "{account}") {{
        if (!lookup("location")) {{ sl_send_reply("404", "Not Found"); exit; }}
        t_relay();
        exit;
    }}
    if (!pv_proxy_authenticate("$fd", "{password}", "0")) {{ proxy_challenge("$fd", "0"); exit; }}
    consume_credentials();
    $du = "sip:{subscriber}";
    t_relay();
}}
"#
    )
}

/// The configuration lines of the TLS module.
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

/// Returns true if a SIP element answers at `address`.
fn answers(address: SocketAddr) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket can be bound");
    socket.set_read_timeout(Some(Duration::from_millis(250))).expect("the read timeout can be set");
    let from = socket.local_addr().expect("the socket is bound");
    let sent = socket.send_to(&ping(from, address, 1), address);
    sent.is_ok() && socket.recv(&mut [0; 2048]).is_ok()
}
