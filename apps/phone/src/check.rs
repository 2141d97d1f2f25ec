//! The `check` command: tests configuration, network, DNS and account, and advises on faults.

mod date;
mod nat;
mod probe;
mod turn;

use crate::interface::Interface;
use crate::lookups::TRANSPORTS;
use crate::outcome::Outcome;
use crate::phone::{Phone, Setup};
use crate::report::{PhoneEvent, Report};
use crate::terminal;
use net::Dns;
use net::tls::{Client, ServerName, Trust};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use probe::Answered;
use sip::locate::{AddressFamilies, Destination};
use sip::{Transport, Uri};
use sip_ua::Account;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

/// Time limit of a registration: timer F (RFC 3261 section 17.1.2.2) and a margin.
const REGISTRATION: Duration = Duration::from_secs(35);
/// Tolerated clock difference: certificates and nonces allow about that much.
const SKEW: Duration = Duration::from_secs(60);

/// The listening address that is checked by default: that of `answer` and of the screen.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 5060);

/// Reports the results.
struct Check {
    report: Report,
    failed: Vec<String>,
}

impl Check {
    fn tell(&mut self, what: &str, works: bool, found: String, advice: Option<&str>) {
        if !works {
            self.failed.push(format!("{what}: {found}"));
        }
        let advice = advice.filter(|_| !works).map(str::to_owned);
        self.report.tell(&PhoneEvent::Check { what: what.to_owned(), works, found, advice });
    }
}

/// Runs all checks. `listen` is the listening address of the command line.
///
/// # Errors
/// The outcome of the program if a check fails.
pub(crate) fn run(
    mut setup: Setup,
    listen: Option<SocketAddr>,
    report: Report,
) -> Result<Outcome, Outcome> {
    let mut check = Check { report, failed: Vec::new() };
    configuration(&mut check, &setup.accounts);
    network(&mut check);
    let (wanted, is_named) = (listen.unwrap_or(DEFAULT_LISTEN), listen.is_some());
    let is_free = port(&mut check, wanted, is_named);
    setup.listen = if is_free { wanted } else { SocketAddr::new(wanted.ip(), 0) };
    setup.accounts.iter().for_each(|account| server(&mut check, account, &setup.trust));
    if let Some((works, found, advice)) = nat::look(&setup.stun) {
        check.tell("NAT", works, found, advice);
    }
    for (works, found, advice) in setup.ice.iter().flat_map(turn::look) {
        check.tell("TURN", works, found, advice);
    }
    registrations(&mut check, setup)?;
    match &check.failed[..] {
        [] => Ok(Outcome::Done),
        [failed] => Err(Outcome::Failed(failed.clone())),
        failed => {
            Err(Outcome::Failed(format!("{} checks failed: {}", failed.len(), failed.join("; "))))
        }
    }
}

fn configuration(check: &mut Check, accounts: &[Account]) {
    let names: Vec<&str> = accounts.iter().map(|account| account.uri.as_str()).collect();
    let found = match names.is_empty() {
        true => "no account: calls go directly to the called address".to_owned(),
        false => format!("accounts {}", names.join(", ")),
    };
    check.tell("configuration", true, found, None);
}

/// Checks the interfaces that are up, and the default routes.
fn network(check: &mut Check) {
    let interfaces = match getifaddrs() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            let found = format!("interfaces cannot be listed: {error}");
            return check.tell("interfaces", false, found, None);
        }
    };
    let up = interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    let addresses: Vec<String> = up
        .filter_map(|interface| {
            let storage = interface.address?;
            let four = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            let address = four.or(storage.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))?;
            Some(format!("{} {address}", interface.interface_name))
        })
        .collect();
    let advice = "bring an interface up, or check the cable";
    check.tell("interfaces", !addresses.is_empty(), addresses.join(", "), Some(advice));
    // Documentation addresses (RFC 5737, RFC 3849): only the route to them is looked up.
    let outside = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])];
    let sources = outside.map(|ip| net::source_for(SocketAddr::new(ip, 5060)));
    let ways: Vec<String> = sources.into_iter().flatten().map(|ip| ip.to_string()).collect();
    let found = match ways.is_empty() {
        true => "there is no default route: only this machine and its networks can be \
                 reached"
            .to_owned(),
        false => format!("packets go out from {}", ways.join(" and ")),
    };
    check.tell("default route", !ways.is_empty(), found, Some("set a default route"));
}

/// Checks that the SIP port of `wanted` is free. Returns false if it is not. That is a failure only
/// if the command line names the port: `call` uses a free one.
fn port(check: &mut Check, wanted: SocketAddr, is_named: bool) -> bool {
    let udp = UdpSocket::bind(wanted).map(drop);
    let free = udp.and_then(|()| TcpListener::bind(wanted).map(drop));
    let found = match &free {
        Ok(()) => format!("{wanted} is free"),
        Err(error) if is_named => format!("cannot listen on {wanted}: {error}"),
        Err(error) => format!(
            "{wanted} cannot be used ({error}): `call` uses another port, and so do `answer` and the \
             screen with an account; without one they need --listen"
        ),
    };
    let advice = "end the other program (ss -ulnp), or choose another port with --listen";
    check.tell("port", free.is_ok() || !is_named, found, Some(advice));
    free.is_ok()
}

fn transport_name(transport: Transport) -> String {
    transport.uri_name().to_uppercase()
}

/// Locates the server of an account and checks that it answers.
fn server(check: &mut Check, account: &Account, trust: &Trust) {
    let towards = account.proxy.as_deref().unwrap_or(&account.uri);
    let destination = match sip_ua::destination(towards.as_bytes()) {
        Ok(destination) => destination,
        Err(error) => {
            let found = format!("{towards}: {error}");
            return check.tell("DNS", false, found, Some("give the account a proxy"));
        }
    };
    let dns = Dns::new(TRANSPORTS.to_vec(), AddressFamilies::V4First, |text| {
        terminal::say(&text);
    });
    let located = dns.locate_and_wait(destination.clone()).unwrap_or_default();
    let places: Vec<String> = located
        .iter()
        .map(|target| format!("{} {}", transport_name(target.transport), target.address))
        .collect();
    let found = match places.is_empty() {
        true => format!("{towards} has no address (NAPTR, SRV, A, AAAA)"),
        false => format!("{towards} is at {}", places.join(", then ")),
    };
    let advice = "check /etc/resolv.conf and the domain's name, or give the account a proxy";
    check.tell("DNS", !places.is_empty(), found, Some(advice));
    let mut date = None;
    let is_secure = destination.sips || destination.transport.is_some_and(Transport::is_secure);
    let tried: &[Transport] = match destination.transport {
        Some(Transport::Wss) => &[Transport::Wss],
        Some(Transport::Ws) => &[Transport::Ws],
        _ if is_secure => &[Transport::Tls],
        _ => &[Transport::Udp, Transport::Tcp],
    };
    let client = match is_secure.then(|| Client::new(trust, None, true)).transpose() {
        Ok(client) => client,
        Err(error) => {
            let advice = "name another file with --trust, or tls.trust of the configuration";
            return check.tell("TLS", false, error.to_string(), Some(advice));
        }
    };
    for &transport in tried {
        let destination = Destination { transport: Some(transport), ..destination.clone() };
        let targets = dns.locate_and_wait(destination).unwrap_or_default();
        let Some(target) = targets.first() else { continue };
        // The preferred transport of the domain has to work; the others may be missing.
        let is_needed = located.first().is_some_and(|first| first.transport == transport);
        let name = server_name(towards);
        let tls = client.as_ref().zip(name);
        match probe::options(transport, target.address, tls, towards) {
            Ok(Answered { status, reason, date: told, after }) => {
                date = date.or(told);
                let millis = after.as_millis();
                let found =
                    format!("{} answers {status} {reason} after {millis} ms", target.address);
                check.tell(&name_of_probe(transport), true, found, None);
            }
            Err(cause) => {
                let note = if is_needed { "" } else { "; the other transport is preferred" };
                let found = format!("{}: {cause}{note}", target.address);
                let advice = match is_secure {
                    true => "check the certificate, firewalls, --trust and tls.trust",
                    false => "check firewalls, and the transports of the server",
                };
                check.tell(&name_of_probe(transport), !is_needed, found, Some(advice));
            }
        }
    }
    if let Some(date) = date {
        clock(check, date);
    }
}

/// The server name for TLS: the host of `uri`.
fn server_name(uri: &str) -> Option<ServerName<'static>> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri.as_bytes()) else { return None };
    ServerName::try_from(uri.host.to_string().trim_matches(['[', ']']).to_owned()).ok()
}

fn name_of_probe(transport: Transport) -> String {
    format!("OPTIONS over {}", transport_name(transport))
}

/// Compares the local clock with the server's date.
fn clock(check: &mut Check, date: SystemTime) {
    let now = SystemTime::now();
    let skew = now.duration_since(date).unwrap_or_else(|early| early.duration());
    let way = if now > date { "ahead of" } else { "behind" };
    let is_right = skew <= SKEW;
    let found = match is_right {
        true => "as the server's".to_owned(),
        false => format!(
            "{} {way} the server's",
            humantime::format_duration(Duration::from_secs(skew.as_secs()))
        ),
    };
    check.tell("clock", is_right, found, Some("set the clock, by NTP at best"));
}

/// Registers the accounts, then removes the bindings.
fn registrations(check: &mut Check, setup: Setup) -> Result<(), Outcome> {
    let wanting = setup.accounts.iter().filter(|account| account.registers);
    let mut waiting: Vec<String> = wanting.map(|account| account.uri.clone()).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    let mut registering =
        Registering { begun: Instant::now(), waiting: waiting.len(), outcomes: Vec::new() };
    crate::interface::run(Phone::new(setup)?, &mut registering);
    let advice = "check username, password, realm and proxy of the account";
    for (account, outcome) in registering.outcomes {
        waiting.retain(|other| *other != account);
        let (works, found) = match outcome {
            Outcome::Done => (true, format!("{account} is registered")),
            outcome => (false, outcome.to_string()),
        };
        check.tell("registration", works, found, Some(advice));
    }
    for account in waiting {
        let found = format!("{account}: the server does not answer");
        check.tell("registration", false, found, Some(advice));
    }
    Ok(())
}

/// A front end that registers all accounts and ends.
struct Registering {
    begun: Instant,
    /// Number of accounts without a result yet.
    waiting: usize,
    outcomes: Vec<(String, Outcome)>,
}

impl Registering {
    fn note(&mut self, account: &str, outcome: Outcome) {
        if self.outcomes.iter().all(|(known, _)| known != account) {
            self.outcomes.push((account.to_owned(), outcome));
            self.waiting -= 1;
        }
    }
}

impl Interface for Registering {
    fn begin(&mut self, phone: &mut Phone) {
        phone.register();
    }

    fn hear(&mut self, _phone: &mut Phone, told: &PhoneEvent) {
        match told {
            PhoneEvent::Registered { account, .. } => self.note(account, Outcome::Done),
            PhoneEvent::RegistrationFailed { account, outcome, .. } => {
                self.note(account, outcome.clone());
            }
            _ => {}
        }
    }

    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome> {
        let is_over = self.waiting == 0 || self.begun.elapsed() >= REGISTRATION;
        (is_over || phone.was_interrupted()).then_some(Outcome::Done)
    }

    fn due(&self, _phone: &Phone) -> Option<Instant> {
        Some(self.begun + REGISTRATION)
    }
}
