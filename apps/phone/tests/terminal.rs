//! Text of strangers on a terminal: no field of a message writes control characters.

mod processes;

use processes::PHONE;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A window title, colours by CSI and its C1 form, a bell, and right-to-left text.
const EVIL: &str = "\x1b]0;title\x07\x1b[31m\u{9b}5m\u{202e}x";

/// A phone that answers at a free port, and its address.
fn answering(socket: &UdpSocket, more: &[&str]) -> (Child, SocketAddr) {
    // A port that was free a moment ago.
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let listen = free.to_string();
    let mut child = Command::new(PHONE)
        .args(["answer", "--auto", "--listen", &listen])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the phone starts");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    for _ in 0..100 {
        let options = request("OPTIONS", "o", "stranger", "", "", socket);
        socket.send_to(options.as_bytes(), free).expect("it is sent");
        if receive(socket).is_some_and(|text| text.starts_with("SIP/2.0 200")) {
            return (child, free);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the phone does not answer");
}

fn receive(socket: &UdpSocket) -> Option<String> {
    let mut datagram = [0; 4096];
    let length = socket.recv(&mut datagram).ok()?;
    Some(String::from_utf8_lossy(&datagram[..length]).into_owned())
}

/// The next message with this beginning; others are skipped.
fn expect(socket: &UdpSocket, beginning: &str) -> String {
    for _ in 0..50 {
        if let Some(text) = receive(socket).filter(|text| text.starts_with(beginning)) {
            return text;
        }
    }
    panic!("no {beginning}");
}

fn request(
    method: &str,
    call_id: &str,
    name: &str,
    lines: &str,
    body: &str,
    from: &UdpSocket,
) -> String {
    let here = from.local_addr().expect("an address");
    format!(
        "{method} sip:phone@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {here};rport;branch=z9hG4bK{call_id}{method}\r\n\
         Max-Forwards: 70\r\nFrom: \"{name}\" <sip:s@{here}>;tag=1\r\nTo: <sip:phone@127.0.0.1>\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 {method}\r\nContact: <sip:s@{here}>\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An offer of one codec with this name.
fn offer(codec: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio 4000 RTP/AVP 100\r\na=rtpmap:100 {codec}/8000\r\n"
    )
}

/// Ends the phone and returns all its output.
fn printed(mut child: Child) -> String {
    let process = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(process, nix::sys::signal::SIGTERM).expect("it runs");
    let mut all = Vec::new();
    let (mut out, mut error) = (child.stdout.take(), child.stderr.take());
    out.as_mut().expect("its output").read_to_end(&mut all).expect("it ends");
    error.as_mut().expect("its words").read_to_end(&mut all).expect("it ends");
    child.wait().expect("it ends");
    String::from_utf8(all).expect("UTF-8")
}

/// Asserts that `text` has no control characters but line ends.
fn assert_harmless(text: &str) {
    let harms = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let line = text.lines().find(|line| line.contains(harms));
    assert!(line.is_none(), "{line:?} in {text:?}");
}

#[test]
fn strangers_that_call_and_write_do_not_reach_the_terminal() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for more in [&[][..], &["--json"], &["--trace"]] {
        let (phone, at) = answering(&socket, more);
        let send = |text: String| {
            socket.send_to(text.as_bytes(), at).expect("it is sent");
        };
        let body = format!("hi {EVIL}\r\nforged: a line\rforged too");
        send(request("MESSAGE", "m", EVIL, "Content-Type: text/plain\r\n", &body, &socket));
        expect(&socket, "SIP/2.0 200");
        let sdp = "Content-Type: application/sdp\r\n";
        send(request("INVITE", "i", EVIL, sdp, &offer(&format!("no{EVIL}")), &socket));
        expect(&socket, "SIP/2.0 488");
        send(request("INVITE", "j", EVIL, sdp, &offer("PCMU"), &socket));
        let answer = expect(&socket, "SIP/2.0 200");
        let to = answer.lines().find(|line| line.starts_with("To:")).expect("a To");
        let to = |text: String| text.replace("To: <sip:phone@127.0.0.1>", to);
        send(to(request("ACK", "j", EVIL, "", "", &socket)));
        let refer = format!("Refer-To: \"{EVIL}\" <sip:x@127.0.0.1>\r\n");
        let refer =
            request("REFER", "j", EVIL, &refer, "", &socket).replace(" 1 REFER", " 2 REFER");
        send(to(refer));
        expect(&socket, "SIP/2.0");
        let bye = format!("Reason: {EVIL}\r\n");
        send(to(request("BYE", "j", EVIL, &bye, "", &socket).replace(" 1 BYE", " 3 BYE")));
        expect(&socket, "SIP/2.0 200");
        let text = printed(phone);
        assert!(text.contains("title") && text.contains("forged: a line"), "{text}");
        assert_harmless(&text);
        // The trace keeps the lines of a body.
        let is_forged = text.lines().any(|line| line.starts_with("forged"));
        assert!(!is_forged || more == ["--trace"], "{text}");
    }
}

#[test]
fn a_callee_that_refuses_does_not_reach_the_terminal() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let uri = format!("sip:s@{}", socket.local_addr().expect("an address"));
    for more in [&["--trace"][..], &["--json"]] {
        let child = Command::new(PHONE)
            .args(["call", &uri, "--listen", "127.0.0.1:0"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let mut datagram = [0; 4096];
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        let (length, from) = socket.recv_from(&mut datagram).expect("an INVITE");
        let invite = String::from_utf8_lossy(&datagram[..length]).into_owned();
        let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let fields = invite.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
        let fields: String = fields
            .map(|line| match line.starts_with("To:") {
                true => format!("{line};tag=2\r\n"),
                false => format!("{line}\r\n"),
            })
            .collect();
        let answer = format!(
            "SIP/2.0 486 Busy {EVIL}\r\n{fields}Warning: 399 a \"{EVIL}\"\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(answer.as_bytes(), from).expect("it is sent");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(10), "{output:?}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
        assert!(text.contains("title"), "{text}");
        assert_harmless(&text);
        while socket.set_nonblocking(true).is_ok() && socket.recv(&mut datagram).is_ok() {}
        socket.set_nonblocking(false).expect("it waits again");
    }
}
