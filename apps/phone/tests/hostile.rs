//! A call between two phones under attack by strangers: it stays audible, memory stays bounded, and
//! the next call works.
//!
//! `BAREBELL_FLOOD` sets the number of calls and of session changes; the default is smaller to save
//! time.

mod processes;

use processes::{PHONE, Running, loudest, phone, recorded};
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum growth of the attacked phone in KiB.
const GROWTH: u64 = 24 * 1024;

/// The number of calls or session changes: the environment's value, or `usual`.
fn count(usual: usize) -> usize {
    let wanted = std::env::var("BAREBELL_FLOOD").ok();
    wanted.map_or(usual, |number| number.parse().expect("BAREBELL_FLOOD is a number"))
}

/// Asserts that the resident memory of a phone has grown by less than [`GROWTH`] beyond `before`,
/// in KiB.
fn assert_grown_little(process: u32, before: u64, what: &str) {
    let now = resident(process);
    let grown = now.saturating_sub(before);
    println!("{what}: {before} KiB before, {now} KiB after");
    assert!(grown < GROWTH, "{what}: {grown} KiB more");
}

/// Two phones in a call.
struct Talk {
    callee: Running,
    caller: Child,
    folder: tempfile::TempDir,
    resident: u64,
    udp: UdpSocket,
}

/// The resident memory of a process in KiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

impl Talk {
    fn begin(srtp: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("heard.wav");
        let record = record.to_str().expect("text");
        let args = ["answer", "--auto", "--calls", "2", "--incoming", "1", "--srtp", srtp];
        let mut callee = Running::start(&[&args[..], &["--record", record]].concat());
        let caller = Command::new(PHONE)
            .args(["call", &callee.uri(), "--listen", "127.0.0.1:0", "--json", "--srtp", srtp])
            .args(["--play", "tone:1000"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the phone starts");
        callee.expect("answered");
        // By then both have allocated all that a call needs.
        std::thread::sleep(Duration::from_millis(500));
        let resident = resident(callee.child.id());
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        Self { callee, caller, folder, resident, udp }
    }

    fn sip(&self) -> SocketAddr {
        self.callee.address.parse().expect("an address")
    }

    /// Sends `count` datagrams with pauses, so that the queue does not drop all of them.
    fn flood(&self, to: SocketAddr, count: usize, datagram: impl Fn(usize) -> Vec<u8>) {
        for number in 0..count {
            let _ = self.udp.send_to(&datagram(number), to);
            if number % 64 == 63 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Asserts that the call goes on with sound, and that another one works.
    fn goes_on(mut self) {
        std::thread::sleep(Duration::from_millis(1500));
        assert!(self.callee.child.try_wait().expect("a process").is_none(), "it has ended");
        assert_grown_little(self.callee.child.id(), self.resident, "attacked");
        assert!(self.caller.try_wait().expect("a process").is_none(), "the call has ended");
        let pid = nix::unistd::Pid::from_raw(self.caller.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
        self.caller.wait().expect("it ends");
        let mut ended = self.callee.next().expect("an event");
        while ended["event"] != "ended" || ended["seconds"].is_null() {
            ended = self.callee.next().expect("an event");
        }
        assert_eq!(ended["by_peer"], true, "{ended}");
        let (rate, heard) = recorded(&self.folder.path().join("heard.wav"));
        // The last second, after the attack. Under load some of it is concealed.
        let last = &heard[heard.len().saturating_sub(rate as usize * 3 / 2)..];
        let level = loudest(1000.0, rate, last);
        assert!(level > 11_000.0, "the tone at {level}");
        let again = phone(&[
            "call",
            &self.callee.uri(),
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--duration",
            "500ms",
        ]);
        assert_eq!(again.status.code(), Some(0), "{again:?}");
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.caller.kill();
        let _ = self.caller.wait();
    }
}

fn request(method: &str, number: usize, to_tag: &str, lines: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bK{number}\r\n\
         From: <sip:s@127.0.0.1>;tag=s\r\nTo: <sip:bob@127.0.0.1>{to_tag}\r\nCall-ID: {number}\r\n\
         CSeq: {} {method}\r\nMax-Forwards: 70\r\nContact: <sip:s@127.0.0.1:9>\r\n{lines}\
         Content-Length: {}\r\n\r\n{body}",
        number + 1,
        body.len()
    )
    .into_bytes()
}

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";
const IS_SDP: &str = "Content-Type: application/sdp\r\n";

#[test]
fn invites_of_strangers() {
    let talk = Talk::begin("off");
    talk.flood(talk.sip(), count(20_000), |number| request("INVITE", number, "", IS_SDP, SDP));
    talk.goes_on();
}

#[test]
fn changes_in_forged_dialogs_and_answers_to_nothing() {
    let talk = Talk::begin("off");
    talk.flood(talk.sip(), 20_000, |number| match number % 4 {
        0 => request("INVITE", number, ";tag=guessed", IS_SDP, SDP),
        1 => request("UPDATE", number, ";tag=guessed", IS_SDP, SDP),
        2 => request("BYE", number, ";tag=guessed", "", ""),
        _ => {
            let text =
                String::from_utf8(request("INVITE", number, ";tag=t", "", "")).expect("text");
            let status = [100, 180, 200, 302, 401, 486, 999][number % 7];
            text.replacen("INVITE sip:bob@127.0.0.1 SIP/2.0", &format!("SIP/2.0 {status} X"), 1)
                .into_bytes()
        }
    });
    talk.goes_on();
}

#[test]
fn garbage_in_place_of_messages_descriptions_and_stun() {
    let talk = Talk::begin("off");
    let described = [
        "v=0\r\n",
        "\0\0\0\0",
        "m=audio 99999999999 RTP/AVP 0\r\n",
        "v=0\r\nm=audio 0 RTP/AVP 0\r\n",
        "v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 255.255.255.255\r\nm=audio 1 RTP/AVP 0 1 2\r\n",
    ];
    talk.flood(talk.sip(), 4000, |number| match number % 3 {
        0 => request("INVITE", number, "", IS_SDP, described[number % described.len()]),
        // An unsolicited binding success response, and octets 3 (ICMP destination unreachable).
        1 => [&[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[number as u8; 12]].concat(),
        _ => vec![3; number % 1400],
    });
    talk.goes_on();
}

/// The UDP ports of a process except `known`.
fn media_ports(process: u32, known: u16) -> Vec<u16> {
    let folder = std::fs::read_dir(format!("/proc/{process}/fd")).expect("its files");
    let links = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/net/udp").expect("the table of UDP");
    let port = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_own = sockets.iter().any(|socket| columns.get(9) == Some(&socket.as_str()));
        let (_, port) = columns.get(1)?.split_once(':')?;
        is_own.then(|| u16::from_str_radix(port, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(port).filter(|port| *port != known).collect()
}

#[test]
fn floods_of_rtp_and_rtcp() {
    for srtp in ["off", "required"] {
        let talk = Talk::begin(srtp);
        let ports = media_ports(talk.callee.child.id(), talk.sip().port());
        assert!(!ports.is_empty(), "no ports of media");
        for port in &ports {
            talk.flood(([127, 0, 0, 1], *port).into(), 50_000 / ports.len(), |number| {
                let sequence = (number as u16).to_be_bytes();
                match number % 8 {
                    // A BYE for a foreign SSRC.
                    0 => vec![0x81, 203, 0, 1, 0, 0, 0, number as u8],
                    _ => [&[0x80, 0][..], &sequence, &[0; 4], &[7; 4], &[0x2a; 160]].concat(),
                }
            });
        }
        talk.goes_on();
    }
}

#[test]
fn connections_that_say_nothing_half_or_too_much() {
    let talk = Talk::begin("off");
    let silent: Vec<TcpStream> =
        (0..40).filter_map(|_| TcpStream::connect(talk.sip()).ok()).collect();
    let head = "OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\n";
    let line = format!("X-Line: {}\r\n", "x".repeat(1000));
    let bodies = format!("{head}Content-Length: 4294967295\r\n\r\n");
    let mut others = Vec::new();
    for text in [head.to_owned(), line.repeat(8000), format!("{head}{}", line.repeat(8000)), bodies]
    {
        let mut stream = TcpStream::connect(talk.sip()).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a socket");
        // The phone may close the connection before all is written.
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.write_all(&vec![b'x'; 1 << 20]);
        others.push(stream);
    }
    let uri = format!("sip:bob@{};transport=tcp", talk.callee.address);
    let busy = phone(&["call", &uri, "--listen", "127.0.0.1:0", "--json", "--duration", "500ms"]);
    // A TCP caller is served too, and gets 486.
    let told = processes::told(&busy.stdout);
    assert_eq!(processes::event(&told, "ended")["sip_status"], 486, "{busy:?}");
    talk.goes_on();
    drop((silent, others));
}

/// A scripted peer and the call that it has placed.
struct Peer {
    udp: UdpSocket,
    media: UdpSocket,
    to: String,
}

impl Peer {
    fn open() -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
            socket
        };
        Self { udp: socket(), media: socket(), to: "<sip:bob@127.0.0.1>".to_owned() }
    }

    fn message(&self, method: &str, cseq: usize, with_session: bool) -> String {
        let own = self.udp.local_addr().expect("an address");
        let port = self.media.local_addr().expect("an address").port();
        let session = SDP.replace("audio 9", &format!("audio {port}"));
        let session = session.replace("- 1 1", &format!("- 1 {cseq}"));
        let (kind, body) = if with_session { (IS_SDP, &session[..]) } else { ("", "") };
        format!(
            "{method} sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{cseq}{method}\r\n\
             From: <sip:p@127.0.0.1>;tag=p\r\nTo: {}\r\nCall-ID: peer\r\nCSeq: {cseq} {method}\r\n\
             Max-Forwards: 70\r\nContact: <sip:p@{own}>\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            self.to,
            body.len()
        )
    }

    fn send(&self, to: SocketAddr, text: &str) {
        self.udp.send_to(text.as_bytes(), to).expect("sent");
    }

    /// The next response with `status` and this CSeq number.
    fn response(&self, status: u16, cseq: usize) -> String {
        self.response_within(Duration::MAX, status, cseq).expect("a response")
    }

    /// The same, if it arrives within `time`.
    fn response_within(&self, time: Duration, status: u16, cseq: usize) -> Option<String> {
        let (begun, mut bytes) = (Instant::now(), [0; 4096]);
        while begun.elapsed() < time {
            let length = self.udp.recv(&mut bytes).ok()?;
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let is_meant = text.starts_with(&format!("SIP/2.0 {status} "));
            if is_meant && text.contains(&format!("CSeq: {cseq} ")) {
                return Some(text);
            }
        }
        None
    }

    /// Drops all received datagrams.
    fn forget(&self) {
        self.udp.set_nonblocking(true).expect("a socket");
        while self.udp.recv(&mut [0; 2048]).is_ok() {}
        self.udp.set_nonblocking(false).expect("a socket");
    }

    /// The number of media packets within half a second.
    fn sound(&self) -> usize {
        let (end, mut bytes) = (Instant::now() + Duration::from_millis(500), [0; 2048]);
        self.media.set_nonblocking(true).expect("a socket");
        // Earlier packets do not count.
        while self.media.recv(&mut bytes).is_ok() {}
        let mut count = 0;
        while Instant::now() < end {
            match self.media.recv(&mut bytes) {
                Ok(_) => count += 1,
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        count
    }
}

/// A phone called by a peer that has not sent its ACK yet, and the phone's address.
fn called_by_peer() -> (Running, Peer, SocketAddr) {
    let args = ["answer", "--auto", "--calls", "2", "--incoming", "1", "--play", "tone:440"];
    let callee = Running::start(&args);
    let sip: SocketAddr = callee.address.parse().expect("an address");
    let mut peer = Peer::open();
    peer.send(sip, &peer.message("INVITE", 1, true));
    let answer = peer.response(200, 1);
    let to = answer.lines().find_map(|line| line.strip_prefix("To: ")).expect("a To");
    to.clone_into(&mut peer.to);
    (callee, peer, sip)
}

/// The peer hangs up, and the next call works.
fn ends_and_another_works(mut callee: Running, peer: &Peer, sip: SocketAddr, cseq: usize) {
    assert!(peer.sound() > 0);
    // Many rejections are retransmitted at once, so that the response may be lost.
    let hangs_up = |_| {
        peer.send(sip, &peer.message("BYE", cseq, false));
        peer.response_within(Duration::from_secs(1), 200, cseq)
    };
    (0..10).find_map(hangs_up).expect("an answer to BYE");
    callee.expect("ended");
    let again = callee.call(&["--duration", "500ms"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
}

#[test]
fn a_peer_that_changes_without_end_and_sound_that_waits_for_its_ack() {
    let (mut callee, peer, sip) = called_by_peer();
    // An attacker that names the address of a victim does not know the answer, so that the victim
    // gets no media.
    assert_eq!(peer.sound(), 0);
    peer.send(sip, &peer.message("ACK", 1, false));
    std::thread::sleep(Duration::from_millis(200));
    assert!(peer.sound() > 0);
    let (process, before) = (callee.child.id(), resident(callee.child.id()));
    let end = 2 + count(2000);
    for cseq in 2..end {
        let method = if cseq % 2 == 0 { "INVITE" } else { "UPDATE" };
        peer.send(sip, &peer.message(method, cseq, cseq % 3 > 0));
        if cseq % 64 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(callee.child.try_wait().expect("a process").is_none(), "it has ended");
    assert_grown_little(process, before, "changed without an answer or an ACK");
    // Their responses are still in the queue.
    peer.forget();
    ends_and_another_works(callee, &peer, sip, end);
}

#[test]
fn a_peer_that_changes_without_end_by_the_rules() {
    let (callee, peer, sip) = called_by_peer();
    peer.send(sip, &peer.message("ACK", 1, false));
    let (process, before) = (callee.child.id(), resident(callee.child.id()));
    let end = 2 + count(1000);
    for cseq in 2..end {
        peer.send(sip, &peer.message("INVITE", cseq, true));
        peer.response(200, cseq);
        peer.send(sip, &peer.message("ACK", cseq, false));
    }
    assert_grown_little(process, before, "changed by the rules");
    ends_and_another_works(callee, &peer, sip, end);
}
