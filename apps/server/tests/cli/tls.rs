//! A server with TLS.

use crate::phone::{PATIENCE, request, status};
use crate::site::{Server, Site, show, stdout};
use net::tls::{Client, Identity, ServerName, Trust, make_self_signed};
use sip::Transport;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// A server of example.com that listens for TLS, with `section` in its configuration.
fn serve(site: &Site, section: &str) -> (Server, SocketAddr) {
    let config = site.file(
        "tls.toml",
        &format!("domains = [\"example.com\"]\nlisten = [\"tls:127.0.0.1:0\"]\n{section}"),
    );
    let words = format!("serve --auth off --config {}", show(&config));
    let server = site.started(&mut site.command(&words));
    let listens = status(site)["listens"].clone();
    let address = listens[0].as_str().unwrap().trim_start_matches("tls:").parse().unwrap();
    (server, address)
}

/// The status line of the response to OPTIONS, with the certificates of `trust` trusted; or the
/// error.
fn ask(address: SocketAddr, trust: &Trust) -> Result<String, String> {
    let client = Client::new(trust, None, false).unwrap();
    let name = ServerName::try_from("example.com").unwrap();
    let options = |from| {
        let more = "Content-Length: 0\r\n";
        request("OPTIONS", "sip:example.com", "TLS", from, 1, more).into_bytes()
    };
    let answer = net::ask(Transport::Tls, address, Some((&client, name)), options, PATIENCE);
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}

/// The certificate that the server has logged last, in the form that `--trust` takes.
fn said_last(log: &str) -> Trust {
    let said = log.rsplit("fingerprint is ").next().unwrap();
    said.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_certificate_is_made_once_and_kept() {
    let site = Site::new();
    let (server, address) = serve(&site, "");
    let own = said_last(&site.log_with("fingerprint is "));
    assert!(matches!(own, Trust::Pinned(_)), "{own:?}");
    assert_eq!(ask(address, &own).unwrap(), "SIP/2.0 200 OK");
    let issuers = Trust::Issuers(site.data().join("tls-chain.pem"));
    assert_eq!(ask(address, &issuers).unwrap(), "SIP/2.0 200 OK", "it is for the domain");
    server.terminate();
    let (_server, address) = serve(&site, "");
    assert_eq!(ask(address, &own).unwrap(), "SIP/2.0 200 OK");
}

#[test]
fn a_start_without_its_files_names_each_of_them() {
    let site = Site::new();
    let config = site.file(
        "tls.toml",
        "listen = [\"tls:127.0.0.1:0\"]\n[tls]\n\
         certificates = [{ chain = \"/nowhere/chain.pem\", key = \"/nowhere/key.pem\" }]\n",
    );
    let config = show(&config);
    let said = site.bad(&format!("serve --config {config}"));
    let [chain, key] =
        [27, 55].map(|column| format!("error: {config}:3:{column}: tls.certificates"));
    assert!(said.contains(&format!("{chain}.chain: cannot read /nowhere/chain.pem: ")), "{said}");
    assert!(said.contains(&format!("{key}.key: cannot read /nowhere/key.pem: ")), "{said}");
}

#[test]
fn certificates_are_read_again_and_connections_go_on() {
    let site = Site::new();
    let files = ["chain.pem", "key.pem"].map(|name| site.file(name, ""));
    let make = |[chain, key]: &[PathBuf; 2]| {
        make_self_signed(&["example.com".to_owned()], chain, key).unwrap();
        Identity::read(chain, key).unwrap().fingerprint()
    };
    let first = make(&files);
    let [chain, key] = files.each_ref().map(|file| show(file));
    let section = format!("[tls]\ncertificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n");
    let (server, address) = serve(&site, &section);
    assert_eq!(ask(address, &Trust::Pinned(first)).unwrap(), "SIP/2.0 200 OK");
    let second = make(&files);
    server.hang_up();
    site.log_with(&second.to_string());
    assert_eq!(ask(address, &Trust::Pinned(second)).unwrap(), "SIP/2.0 200 OK");
    assert!(ask(address, &Trust::Pinned(first)).unwrap_err().contains("is pinned"));
    // An invalid file changes nothing.
    std::fs::write(&files[0], "nonsense").unwrap();
    server.hang_up();
    let log = site.log_with("the certificates are kept as they were");
    assert!(log.contains("expected certificates in PEM"), "{log}");
    assert_eq!(ask(address, &Trust::Pinned(second)).unwrap(), "SIP/2.0 200 OK");
    let config = show(&site.data().with_file_name("tls.toml"));
    let said = stdout(&site.command(&format!("check --config {config}")).output().unwrap());
    assert!(said.contains(&format!("tls: {chain}: expected certificates in PEM")), "{said}");
}

/// The check by OpenSSL: TLS 1.2 and 1.3 only, with suites that have forward secrecy and AEAD.
#[test]
fn weak_tls_is_refused() {
    let site = Site::new();
    let (_server, address) = serve(&site, "");
    for (flags, is_spoken) in [
        ("-tls1_3", true),
        ("-tls1_2", true),
        ("-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305", true),
        ("-tls1_1 -cipher ALL@SECLEVEL=0", false),
        ("-tls1 -cipher ALL@SECLEVEL=0", false),
        // Suites without AEAD.
        ("-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA", false),
        ("-tls1_2 -cipher ECDHE-ECDSA-AES256-SHA384", false),
        // Suites without forward secrecy, or without encryption.
        ("-tls1_2 -cipher AES256-GCM-SHA384", false),
        ("-tls1_2 -cipher NULL@SECLEVEL=0", false),
    ] {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &address.to_string(), "-servername", "example.com"]);
        let run = openssl.args(flags.split(' ')).stdin(std::process::Stdio::null()).output();
        let run = run.expect("openssl, of the package of that name");
        let (said, why) = (stdout(&run), String::from_utf8_lossy(&run.stderr));
        assert_eq!(!said.contains("Cipher is (NONE)"), is_spoken, "{flags}: {said}{why}");
        assert!(is_spoken || why.contains("alert"), "{flags} is refused by the server: {why}");
    }
}

#[test]
fn check_warns_of_failing_acme_validation() {
    let site = Site::new();
    let check = |config: &str| {
        let acme = "[acme]\ndomains = [\"sip.example.com\"]\nterms_of_service_agreed = true\n";
        let config = site.file("acme.toml", &format!("{config}\n{acme}"));
        let words = format!("check --config {}", show(&config));
        stdout(&site.command(&words).output().unwrap())
    };
    let said = check("domains = [\"example.com\"]\nlisten = [\"tls:127.0.0.1:0\"]");
    assert!(
        said.contains("orders a certificate for sip.example.com from https://acme-v02"),
        "{said}"
    );
    assert!(said.contains("example.com is not in acme.domains"), "{said}");
    assert!(said.contains("nothing listens for TLS on port 443"), "{said}");
    let listen = "tls:127.0.0.1:0 as 192.0.2.1:443";
    let said = check(&format!("domains = [\"sip.example.com\"]\nlisten = [\"{listen}\"]"));
    assert!(!said.contains("in acme.domains") && !said.contains("on port 443"), "{said}");
    let said = check("listen = [\"udp:127.0.0.1:0\"]");
    assert!(said.contains("so [acme] has no effect"), "{said}");
}

/// An issuer accepts connections and never answers.
#[test]
fn a_reload_begins_an_order_anew() {
    let site = Site::new();
    let issuer = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = issuer.local_addr().unwrap();
    let section = format!(
        "[acme]\ndomains = [\"sip.example.com\"]\nterms_of_service_agreed = true\n\
         directory = \"https://{place}/directory\"\n"
    );
    let (server, _) = serve(&site, &section);
    for number in 1..=3 {
        let asked = || site.log().matches("asking for a certificate").count();
        let deadline = Instant::now() + PATIENCE;
        while asked() < number {
            assert!(Instant::now() < deadline, "{number}: {}", site.log());
            std::thread::sleep(PATIENCE / 1000);
        }
        server.hang_up();
    }
}

#[test]
fn peers_without_tls_are_answered_and_counted() {
    let site = Site::new();
    let (_server, address) = serve(&site, "");
    let mut peer = TcpStream::connect(address).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.write_all(b"OPTIONS sip:example.com SIP/2.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = peer.read_to_end(&mut answer);
    // An alert (RFC 8446 section 5.1).
    assert_eq!(answer.first(), Some(&21));
    site.log_with("fails: the other end does not speak TLS");
    assert_eq!(status(&site)["counters"]["tls-failures"], 1);
}

/// Requests to a peer with a client certificate are sent on the connection that it has opened (RFC
/// 5923), if the certificate is for the called name.
#[test]
fn a_peer_that_says_so_is_called_on_its_own_connection() {
    for (name, alias, is_called) in [
        ("localhost", ";alias", true),
        ("localhost", "", false),
        ("other.example", ";alias", false),
    ] {
        let site = Site::new();
        let [chain, key] = ["peer.pem", "peer-key.pem"].map(|file| site.file(file, ""));
        make_self_signed(&[name.to_owned()], &chain, &key).unwrap();
        let identity = Identity::read(&chain, &key).unwrap();
        let file = show(&chain);
        let section = format!("[tls]\nclient_issuers = \"{file}\"\ntrust = \"{file}\"\n");
        let (_server, address) = serve(&site, &section);
        let client = Client::new(&Trust::Any, Some(&identity), false).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let session = client.connect(ServerName::try_from("example.com").unwrap()).unwrap();
        let mut wire = net::Wire::new(Some(session), 1 << 20);
        let mut said = String::new();
        let mut hear = |wire: &mut net::Wire, end: &str| {
            while !said.contains(end) {
                socket.write_all(wire.pending()).unwrap();
                wire.consume(wire.pending().len());
                let mut chunk = [0; 4096];
                let Ok(count @ 1..) = socket.read(&mut chunk) else { break };
                said += &String::from_utf8_lossy(&wire.receive(&chunk[..count]).unwrap());
            }
            std::mem::take(&mut said)
        };
        let options = |uri: &str, via: &str, number: u32| {
            format!(
                "OPTIONS {uri} SIP/2.0\r\nVia: SIP/2.0/TLS {via};branch=z9hG4bK{number}\r\n\
                 Max-Forwards: 9\r\nFrom: <sip:p@{name}>;tag=1\r\nTo: <{uri}>\r\n\
                 Call-ID: {number}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let via = format!("127.0.0.1:9{alias}");
        wire.push(&[options("sip:example.com", &via, 1).as_bytes()]).unwrap();
        assert!(hear(&mut wire, "\r\n\r\n").starts_with("SIP/2.0 200 "));
        // No program listens on port 9.
        wire.push(&[options("sip:p@localhost:9;transport=tls", &via, 2).as_bytes()]).unwrap();
        let heard = hear(&mut wire, "\r\n\r\n");
        let start = if is_called { "OPTIONS sip:p@localhost:9" } else { "SIP/2.0 480 " };
        assert!(heard.starts_with(start), "{name} {alias}: {heard}");
    }
}
