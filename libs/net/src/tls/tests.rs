use super::*;
use std::path::Path;

mod bad;

/// Exchanges the output of two sessions until neither has any.
fn talk(one: &mut Session, other: &mut Session) -> Result<(Vec<u8>, Vec<u8>), TlsError> {
    let (mut heard_by_one, mut heard_by_other) = (Vec::new(), Vec::new());
    loop {
        let (mut from_one, mut from_other) = (Vec::new(), Vec::new());
        one.take(&mut from_one);
        other.take(&mut from_other);
        if from_one.is_empty() && from_other.is_empty() {
            return Ok((heard_by_one, heard_by_other));
        }
        let received = other.receive(&from_one, &mut heard_by_other);
        one.receive(&from_other, &mut heard_by_one)?;
        received?;
    }
}

fn identity(folder: &Path, names: &[&str]) -> Identity {
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    make_self_signed(&names, &chain, &key).unwrap();
    Identity::read(&chain, &key).unwrap()
}

fn server(identities: Vec<Identity>) -> Server {
    Server::new(identities, &ClientCertificates::Off, None).unwrap()
}

fn name(text: &str) -> ServerName<'static> {
    ServerName::try_from(text.to_owned()).unwrap()
}

#[test]
fn data_arrives_also_in_a_resumed_session() {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(folder.path(), &["example.org"]);
    let client = Client::new(&Trust::Pinned(identity.fingerprint()), None, false).unwrap();
    let first = server(vec![identity.clone()]);
    // A reload keeps the tickets.
    let second = Server::new(vec![identity], &ClientCertificates::Off, Some(&first)).unwrap();
    for (server, is_resumed) in [(first, false), (second, true)] {
        let mut caller = client.connect(name("example.org")).unwrap();
        let mut called = server.accept().unwrap();
        assert!(caller.is_handshaking() && called.is_handshaking());
        talk(&mut caller, &mut called).unwrap();
        assert!(!caller.is_handshaking() && !called.is_handshaking());
        assert_eq!((caller.is_resumed(), called.is_resumed()), (is_resumed, is_resumed));
        let long = vec![b'a'; 100_000];
        caller.send(&long);
        called.send(b"pong");
        caller.end();
        assert_eq!(talk(&mut caller, &mut called).unwrap(), (b"pong".to_vec(), long));
        assert!(called.has_ended() && !caller.has_ended());
        assert_eq!(called.suite().unwrap().0, "TLS 1.3");
    }
}

#[test]
fn the_server_name_selects_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    [&first, &second].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let identities = vec![
        identity(&first, &["example.org"]),
        identity(&second, &["*.example.com", "192.0.2.1"]),
    ];
    let [one, other] = [identities[0].fingerprint(), identities[1].fingerprint()];
    let server = server(identities);
    for (called, shown) in
        [("example.org", one), ("sip.example.com", other), ("else.net", one), ("192.0.2.1", one)]
    {
        let client = Client::new(&Trust::Pinned(shown), None, false).unwrap();
        let mut caller = client.connect(name(called)).unwrap();
        talk(&mut caller, &mut server.accept().unwrap()).unwrap();
        assert!(!caller.is_handshaking(), "{called}");
    }
}

#[test]
fn proofs_are_for_issuers_alone_and_while_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(vec![identity(folder.path(), &["example.org"])]);
    let digest = [7; 32];
    let proving = server.proving(vec![Proof::new("example.org", &digest).unwrap()]);
    let client = Client::new(&Trust::Any, None, false).unwrap();
    let mut issuer = (*client.sip).clone();
    issuer.alpn_protocols = vec![proof::ACME.to_vec()];
    let issuer = Arc::new(issuer);
    for (server, called, is_shown) in [
        (&proving, "example.org", true),
        (&proving, "example.com", false),
        (&server, "example.org", false),
    ] {
        let mut issuer = Session::connect(Arc::clone(&issuer), name(called)).unwrap();
        let error = talk(&mut issuer, &mut server.accept().unwrap()).unwrap_err().to_string();
        // This client does not know the extension that makes a certificate a proof.
        assert_eq!(error.contains("UnsupportedCriticalExtension"), is_shown, "{called}: {error}");
    }
    let mut caller = client.connect(name("example.org")).unwrap();
    talk(&mut caller, &mut proving.accept().unwrap()).unwrap();
    assert!(!caller.is_handshaking());
    assert!(Proof::new("example.org", b"short").is_err());
}

#[test]
fn an_untrusted_certificate_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(folder.path(), &["example.org"]);
    let [chain, key] = ["chain.pem", "key.pem"].map(|file| folder.path().join(file));
    let own = identity.fingerprint().to_string();
    let other = own.replacen(|_| true, if own.starts_with('0') { "1" } else { "0" }, 1);
    for (trust, called, words) in [
        (Trust::System, "example.org", "the issuer of the certificate is not trusted"),
        (Trust::Issuers(chain.clone()), "example.net", "is for example.org"),
        (Trust::Pinned(other.parse().unwrap()), "example.org", "is pinned"),
    ] {
        let client = Client::new(&trust, None, false).unwrap();
        let mut caller = client.connect(name(called)).unwrap();
        let mut called = server(vec![identity.clone()]).accept().unwrap();
        let error = talk(&mut caller, &mut called).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let no_tls =
        server(vec![identity]).accept().unwrap().receive(b"OPTIONS sip:a SIP/2.0", &mut Vec::new());
    let words = no_tls.unwrap_err().to_string();
    assert_eq!(words, "the other end does not speak TLS: it sends SIP in clear");
    let swapped = Identity::read(&key, &chain).unwrap_err();
    assert!(swapped.to_string().contains("key.pem: expected certificates in PEM"), "{swapped}");
}

#[test]
fn tls_1_0_and_an_encrypted_key_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(folder.path(), &["example.org"]);
    // A ClientHello of TLS 1.0 with TLS_RSA_WITH_AES_128_CBC_SHA and no extensions.
    let mut hello = vec![3, 1];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let mut record = vec![22, 3, 1, 0, hello.len() as u8 + 4, 1, 0, 0, hello.len() as u8];
    record.extend(hello);
    let mut session = server(vec![identity]).accept().unwrap();
    let old = session.receive(&record, &mut Vec::new()).unwrap_err();
    assert!(old.to_string().contains("only TLS 1.1 or older"), "{old}");

    let [chain, key] = ["chain.pem", "key.pem"].map(|file| folder.path().join(file));
    for text in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n\
         -----END RSA PRIVATE KEY-----\n",
    ] {
        std::fs::write(&key, text).unwrap();
        let encrypted = Identity::read(&chain, &key).unwrap_err().to_string();
        assert!(encrypted.contains("the key is encrypted"), "{encrypted}");
    }
}

#[test]
fn a_client_certificate_identifies_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(folder.path(), &["example.org"]);
    let chain = folder.path().join("chain.pem");
    let clients = ClientCertificates::Required(chain);
    let server = Server::new(vec![identity.clone()], &clients, None).unwrap();
    let trust = Trust::Pinned(identity.fingerprint());
    for (own, is_let_in) in [(Some(&identity), true), (None, false)] {
        let client = Client::new(&trust, own, false).unwrap();
        let mut caller = client.connect(name("example.org")).unwrap();
        let mut called = server.accept().unwrap();
        let result = talk(&mut caller, &mut called);
        assert_eq!(result.is_ok(), is_let_in, "{result:?}");
        assert_eq!(called.certificates().len(), usize::from(is_let_in));
    }
}

#[test]
fn fingerprints_are_read_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let fingerprint = identity(folder.path(), &["example.org"]).fingerprint();
    let text = fingerprint.to_string();
    assert_eq!(text.len(), 95);
    assert_eq!(text.parse(), Ok(fingerprint));
    let without = text.parse::<Trust>().unwrap_err();
    assert!(without.contains("expected sha256: before it"), "{without}");
    assert!(matches!(format!("sha256:{text}").parse(), Ok(Trust::Pinned(_))));
    assert_eq!(text.to_lowercase().replace(':', "").parse(), Ok(fingerprint));
    for wrong in [
        "",
        "AB",
        &text[3..],
        &text.replacen('A', "G", 1).replace(|c: char| c.is_ascii_digit(), "x"),
    ] {
        assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
    }
}

/// Connects to `before` and then to `after`. The results are true if the second session is resumed,
/// and if the second handshake succeeds.
fn comes_again(before: &Server, after: &Server, client: &Client) -> (bool, bool) {
    let mut is_resumed = false;
    let mut is_let_in = false;
    for server in [before, after] {
        let mut caller = client.connect(name("example.org")).unwrap();
        let mut called = server.accept().unwrap();
        is_let_in = talk(&mut caller, &mut called).is_ok();
        is_resumed = called.is_resumed();
    }
    (is_resumed, is_let_in)
}

#[test]
fn tickets_end_when_the_rules_for_clients_change() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        identity(&folder, &["example.org"])
    });
    let [issuers, others] = ["own", "other"].map(|name| folder.path().join(name).join("chain.pem"));
    let trust = Trust::Pinned(own.fingerprint());
    let of = |clients: &ClientCertificates, before: Option<&Server>| {
        Server::new(vec![own.clone()], clients, before).unwrap()
    };
    let required = ClientCertificates::Required(issuers.clone());
    for (shown, before, after, is_resumed, is_let_in) in [
        (None, ClientCertificates::Off, ClientCertificates::Off, true, true),
        (None, ClientCertificates::Off, required.clone(), false, false),
        (None, ClientCertificates::Optional(issuers.clone()), required.clone(), false, false),
        (Some(&own), required.clone(), required.clone(), true, true),
        (Some(&own), required.clone(), ClientCertificates::Required(others), false, false),
    ] {
        let client = Client::new(&trust, shown, false).unwrap();
        let first = of(&before, None);
        let second = of(&after, Some(&first));
        assert_eq!(comes_again(&first, &second, &client), (is_resumed, is_let_in), "{after:?}");
    }
    // A file with the same name, and other issuers.
    let client = Client::new(&trust, Some(&own), false).unwrap();
    let first = of(&required, None);
    std::fs::write(&issuers, std::fs::read(folder.path().join("other/chain.pem")).unwrap())
        .unwrap();
    assert_eq!(comes_again(&first, &of(&required, Some(&first)), &client), (false, false));
    drop(other);
}

#[test]
fn sip_and_web_socket_are_told_apart_by_alpn() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(vec![identity(folder.path(), &["example.org"])]);
    let client = Client::new(&Trust::Any, None, false).unwrap();
    let with = |alpn: &[&[u8]]| {
        let mut config = (*client.sip).clone();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Session::connect(Arc::new(config), name("example.org")).unwrap()
    };
    for (alpn, by_sip, by_web) in [
        (&[][..], true, true),
        (&[&b"sip"[..]][..], true, false),
        (&[b"sip/2"], true, false),
        (&[b"http/1.1"], false, true),
        (&[b"h2", b"http/1.1"], false, true),
        (&[b"sip", b"http/1.1"], true, true),
    ] {
        let taken = talk(&mut with(alpn), &mut server.accept().unwrap()).is_ok();
        let web = talk(&mut with(alpn), &mut server.accept_web().unwrap()).is_ok();
        assert_eq!((taken, web), (by_sip, by_web), "{alpn:?}");
    }
}
