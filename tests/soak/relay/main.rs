//! Relayed calls that are set up and torn down at random. At the end the server must have no port,
//! no descriptor and no memory left of them.
//!
//! `relay-soak [CALLS [SECONDS]]` prints the resources of the server as it goes, and fails if they
//! grow. The calls begin evenly over the time, by default as fast as the pairs of users place them.

use peers::call::{End, establish_described};
use peers::process::wait_until;
use peers::resources::Resources;
use peers::server::{DOMAIN, Options, ServerProcess, TRUSTS_NOBODY};
use std::env;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use test_support::agent::Agent;
use test_support::ports::free_ports;

/// The number of ports of the relay.
const PORTS: u16 = 300;
/// Calls at a time.
const PAIRS: usize = 12;
/// The time after which the memory of the server has its size: transactions are kept for 32 s.
const WARM: Duration = Duration::from_secs(80);
/// The growth after that which is no leak, in bytes: caches of the allocator.
const SLACK: u64 = 2 << 20;
/// The time after which users register again: half of that of their registrations.
const REFRESH: Duration = Duration::from_secs(300);

/// The counters of the server that explain a refused call.
const COUNTERS: [&str; 7] = [
    "relay-refused",
    "overload-refused",
    "overload-dropped",
    "rate-limited",
    "transaction-limit",
    "share-limit",
    "unread",
];

/// The users of a pair, each with a socket for media.
struct Pair {
    agents: [Agent; 2],
    media: [UdpSocket; 2],
    random: fastrand::Rng,
    /// The longest pause within a call, in milliseconds.
    longest_pause: u64,
    registered: Instant,
}

fn description(media: &UdpSocket, more: &str) -> String {
    let port = media.local_addr().expect("the socket is bound").port();
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n{more}"
    )
}

/// The address of the relay in a description.
fn place(description: &str) -> SocketAddr {
    let medium = description.lines().find_map(|line| line.strip_prefix("m=audio "));
    let port = medium.and_then(|medium| medium.split(' ').next()?.parse().ok());
    (Ipv4Addr::LOCALHOST, port.expect("the description has a medium")).into()
}

impl Pair {
    fn new(server: &ServerProcess, number: usize, longest_pause: u64) -> Self {
        let agent = |side: &str| {
            let name = format!("{side}{number}");
            let mut agent = Agent::new(&name, "secret", DOMAIN, server.address());
            agent.register();
            agent
        };
        let media = [(); 2].map(|()| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
            let wait = socket.set_read_timeout(Some(Duration::from_millis(200)));
            wait.expect("the read timeout can be set");
            socket
        });
        let random = fastrand::Rng::with_seed(number as u64);
        let registered = Instant::now();
        Self { agents: ["caller", "callee"].map(agent), media, random, longest_pause, registered }
    }

    fn call(mut self) -> Self {
        if self.registered.elapsed() > REFRESH {
            self.agents.iter_mut().for_each(Agent::register);
            self.registered = Instant::now();
        }
        match self.random.u8(..10) {
            0 => self.is_rejected(),
            1 => self.is_cancelled(),
            _ => return self.answered(),
        }
        self
    }

    /// The caller's INVITE, as the callee receives it.
    fn ring(&mut self) -> (test_support::agent::Received, sip::dialog::Dialog) {
        let [caller, callee] = &mut self.agents;
        let mut dialog = caller.dialog(&callee.address_of_record());
        caller.ask(&mut dialog, "INVITE", "", &description(&self.media[0], ""));
        let invite = callee.request("INVITE");
        let dialog = callee.dialog_with(&invite);
        (invite, dialog)
    }

    fn is_rejected(&mut self) {
        let (invite, dialog) = self.ring();
        let [caller, callee] = &mut self.agents;
        callee.answer(&invite, &dialog, 183, "", &description(&self.media[1], ""));
        caller.response("INVITE", 183);
        callee.answer(&invite, &dialog, 486, "", "");
        caller.final_response("INVITE");
        callee.request("ACK");
    }

    fn is_cancelled(&mut self) {
        let (invite, dialog) = self.ring();
        let [caller, callee] = &mut self.agents;
        callee.answer(&invite, &dialog, 180, "", "");
        caller.response("INVITE", 180);
        caller.cancel();
        let cancel = callee.request("CANCEL");
        callee.answer(&cancel, &dialog, 200, "", "");
        callee.answer(&invite, &dialog, 487, "", "");
        caller.final_response("INVITE");
        callee.request("ACK");
    }

    fn answered(self) -> Self {
        let Self { agents: [caller, callee], media, mut random, longest_pause, registered } = self;
        let uri = callee.address_of_record();
        let bodies = media.each_ref().map(|media| description(media, ""));
        let bodies = bodies.each_ref().map(String::as_str);
        let (mut caller, mut callee, received) = establish_described(caller, callee, &uri, bodies);
        let relay = [place(&received[1]), place(&received[0])];
        for _ in 0..random.u8(1..4) {
            talk(&media, relay);
            thread::sleep(Duration::from_millis(random.u64(..longest_pause)));
            match random.u8(..4) {
                0 => renew(&mut caller, &mut callee, &media, "a=sendonly\r\n"),
                1 => renew(&mut caller, &mut callee, &media, "m=video 5000 RTP/AVP 31\r\n"),
                2 => renew(&mut caller, &mut callee, &media, "m=video 0 RTP/AVP 31\r\n"),
                _ => {}
            }
        }
        match random.bool() {
            true => caller.pass(&mut callee, "BYE", ""),
            false => callee.pass(&mut caller, "BYE", ""),
        };
        let agents = [caller.agent, callee.agent];
        Self { agents, media, random, longest_pause, registered }
    }
}

/// Both ends agree on a description with these lines.
fn renew(caller: &mut End, callee: &mut End, media: &[UdpSocket; 2], more: &str) {
    let answer = more.replace("sendonly", "recvonly");
    let bodies = [description(&media[0], more), description(&media[1], &answer)];
    caller.pass_described(callee, "INVITE", "", bodies.each_ref().map(String::as_str));
}

/// A packet of each end reaches the other.
fn talk(media: &[UdpSocket; 2], relay: [SocketAddr; 2]) {
    let mut packet = [0xd5; 172];
    packet[..12].copy_from_slice(&[0x80, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 7]);
    for from in [0, 1] {
        wait_until("a packet to be relayed", || {
            media[from].send_to(&packet, relay[from]).expect("a packet is sent");
            let mut buffer = [0; 200];
            let (length, source) = media[1 - from].recv_from(&mut buffer).ok()?;
            (source == relay[1 - from] && buffer[..length] == packet).then_some(())
        });
    }
}

fn main() {
    let number = |text: String| text.parse::<usize>().expect("a number of calls, one of seconds");
    let mut arguments = env::args().skip(1).map(number);
    let calls = arguments.next().unwrap_or(10_000);
    let time = Duration::from_secs(arguments.next().unwrap_or(0) as u64);
    let time_of = |call: usize| time.mul_f64(call as f64 / calls.max(1) as f64);
    // Three of them fill the time in which each pair places one call.
    let longest_pause = 50.max(time_of(PAIRS).as_millis() as u64 / 3);
    let first = free_ports(PORTS);
    let ports = first..first + PORTS;
    let names = |number| ["caller", "callee"].map(|side| format!("{side}{number}"));
    let users: Vec<_> =
        (0..PAIRS).flat_map(names).map(|name| (name, "secret".to_owned())).collect();
    let media = format!("relay = \"all\"\nports = \"{}-{}\"\n", ports.start, ports.end - 1);
    // The messages that are kept for `barebell trace` would hide the growth of other memory.
    let configuration = format!("{TRUSTS_NOBODY}[trace]\nmemory = 0\n[media]\n{media}");
    let options =
        Options { arguments: &[], configuration: &configuration, users: &users, domain: "" };
    let server = ServerProcess::start(&options);
    let before = Resources::of(&server, &ports);
    println!("before the calls: {before:?}");
    let (begun, done, started) = (AtomicUsize::new(0), AtomicUsize::new(0), Instant::now());
    let mut warm = None;
    let has_failed = thread::scope(|scope| {
        let caller = |number| {
            let (server, begun, done) = (&server, &begun, &done);
            scope.spawn(move || {
                let mut pair = Pair::new(server, number, longest_pause);
                loop {
                    let call = begun.fetch_add(1, Ordering::Relaxed);
                    if call >= calls {
                        return;
                    }
                    thread::sleep(time_of(call).saturating_sub(started.elapsed()));
                    pair = pair.call();
                    thread::sleep(Duration::from_millis(pair.random.u64(..200)));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let callers: Vec<_> = (0..PAIRS).map(caller).collect();
        let mut next = 0;
        while !callers.iter().all(ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(500));
            let count = done.load(Ordering::Relaxed);
            if count < next {
                continue;
            }
            next = count + calls / 20;
            let now = Resources::of(&server, &ports);
            println!("{:5.0} s, {count} calls: {now:?}", started.elapsed().as_secs_f64());
            if warm.is_none() && started.elapsed() >= WARM {
                warm = Some(now);
            }
        }
        callers.into_iter().any(|caller| caller.join().is_err())
    });
    for name in COUNTERS {
        println!("{name}: {}", server.counter(name));
    }
    assert!(!has_failed, "a caller has stopped");
    wait_until("no port of the relay is open", || {
        (Resources::of(&server, &ports).ports == 0).then_some(())
    });
    let end = Resources::of(&server, &ports);
    println!("after {calls} calls: {end:?}");
    assert_eq!(server.counter("relay-refused"), 0);
    assert!(end.descriptors <= before.descriptors + 1, "{before:?}, then {end:?}");
    let Some(warm) = warm else { return println!("too few calls to judge the memory by") };
    assert!(end.resident <= warm.resident + SLACK, "{warm:?}, then {end:?}");
}
