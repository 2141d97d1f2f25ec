//! Certificates to be rejected, and the error messages.

use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use std::path::PathBuf;
use std::process::Command;

/// An issuer, and the folder with its certificate and those that it signs.
struct Issuer {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Issuer {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("issuer.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("issuer.pem")
    }

    /// An identity named `name`, with a certificate modified by `change`.
    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::ExplicitNoCa;
        change(&mut params);
        let pair = KeyPair::generate().unwrap();
        let signed = params.signed_by(&pair, &self.issuer).unwrap();
        let [chain, key] = ["chain.pem", "key.pem"].map(|file| self.folder.path().join(file));
        std::fs::write(&chain, signed.pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        Identity::read(&chain, &key).unwrap()
    }
}

/// The results of two handshakes with `identity`: as the server for a client that calls
/// `example.org` and trusts `issuers`, and as a client of a server that trusts `issuers`.
fn taken(identity: &Identity, issuers: &Path) -> [Result<(), TlsError>; 2] {
    let client = Client::new(&Trust::Issuers(issuers.to_owned()), None, false).unwrap();
    let mut caller = client.connect(name("example.org")).unwrap();
    let mut called = server(vec![identity.clone()]).accept().unwrap();
    let by_caller = talk(&mut caller, &mut called).map(drop);
    let clients = ClientCertificates::Required(issuers.to_owned());
    let good = identity_of_server();
    let client = Client::new(&Trust::Any, Some(identity), false).unwrap();
    let mut caller = client.connect(name("example.org")).unwrap();
    let mut called = Server::new(vec![good], &clients, None).unwrap().accept().unwrap();
    let mut by_called = Ok(());
    for _ in 0..4 {
        let (mut there, mut back, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        caller.take(&mut there);
        by_called = by_called.and(called.receive(&there, &mut plain));
        called.take(&mut back);
        let _ = caller.receive(&back, &mut plain);
    }
    [by_caller, by_called]
}

fn identity_of_server() -> Identity {
    let folder = tempfile::tempdir().unwrap();
    identity(folder.path(), &["example.org"])
}

#[test]
fn faults_of_a_certificate_are_named() {
    let (issuer, other) = (Issuer::new("one"), Issuer::new("other"));
    let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let good = issuer.sign("example.org", |params| params.extended_key_usages = both.clone());
    assert_eq!(taken(&good, &issuer.file()), [Ok(()), Ok(())]);
    let expired = issuer.sign("example.org", |params| params.not_after = date_time_ymd(2020, 2, 1));
    let early = issuer.sign("example.org", |params| params.not_before = date_time_ymd(2999, 1, 1));
    let issuing = issuer.sign("example.org", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let mail = issuer.sign("example.org", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
    });
    let others = other.sign("example.org", |_| {});
    for (identity, words) in [
        (expired, "the certificate has expired since Sat, 01 Feb 2020 00:00:00 GMT"),
        (early, "is not valid yet"),
        (issuing, "is that of an issuer (CA:TRUE"),
        (mail, "made for another purpose"),
        (others, "the issuer of the certificate is not trusted"),
    ] {
        for found in taken(&identity, &issuer.file()) {
            let error = found.unwrap_err();
            assert!(error.is_of_certificate() && error.to_string().contains(words), "{error}");
        }
    }
    // The names of client certificates are not checked.
    let elsewhere = issuer.sign("example.net", |_| {});
    let [by_caller, by_called] = taken(&elsewhere, &issuer.file());
    let error = by_caller.unwrap_err().to_string();
    assert_eq!(error, "the certificate is for example.net, and example.org was called");
    assert_eq!(by_called, Ok(()));
}

/// RFC 5922 section 7.1.
#[test]
fn names_in_sip_uris_come_before_those_of_hosts() {
    let issuer = Issuer::new("one");
    let with = |host: &str, uris: &[&str]| {
        issuer.sign(host, |params| {
            let uris = uris.iter().map(|uri| rcgen::SanType::URI((*uri).try_into().unwrap()));
            params.subject_alt_names.extend(uris);
        })
    };
    for (identity, refusal) in [
        (with("sip7.example.net", &["sip:example.org"]), None),
        (with("x.example", &["sip:other.example", "sip:Example.ORG"]), None),
        (with("example.org", &["sip:alice@example.net"]), None),
        (
            with("example.org", &["sip:example.net"]),
            Some("the certificate is for sip:example.net, and example.org was called"),
        ),
    ] {
        let [found, _] = taken(&identity, &issuer.file());
        assert_eq!(found.err().map(|error| error.to_string()).as_deref(), refusal);
    }
    let others = Issuer::new("other");
    let [found, _] = taken(&with("x.example", &["sip:example.org"]), &others.file());
    assert!(found.unwrap_err().to_string().contains("is not trusted"));
}

#[test]
fn a_weak_key_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "9"])
        .args(["-subj", "/CN=example.org", "-addext", "subjectAltName=DNS:example.org"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "chain.pem"])
        .current_dir(folder.path())
        .output()
        .expect("openssl, of the package of that name");
    assert!(made.status.success(), "{made:?}");
    let [chain, key] = ["chain.pem", "key.pem"].map(|file| folder.path().join(file));
    let error = Identity::read(&chain, &key).unwrap_err().to_string();
    assert!(error.contains("RSA of 2048 bits"), "{error}");
    let port = test_support::ports::free_ports(1);
    let mut called = Command::new("openssl")
        .args(["s_server", "-quiet", "-cert", "chain.pem", "-key", "key.pem", "-accept"])
        .args([&format!("127.0.0.1:{port}"), "-cipher", "DEFAULT:@SECLEVEL=0"])
        .current_dir(folder.path())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let client = Client::new(&Trust::Issuers(chain), None, false).unwrap();
    let patience = std::time::Duration::from_secs(20);
    let error = loop {
        let error = crate::ask(
            sip::Transport::Tls,
            ([127, 0, 0, 1], port).into(),
            Some((&client, name("example.org"))),
            |_| Vec::new(),
            patience,
        );
        match error.unwrap_err() {
            error if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                std::thread::sleep(patience / 1000);
            }
            error => break error.to_string(),
        }
    };
    called.kill().unwrap();
    called.wait().unwrap();
    assert!(error.contains("2048"), "{error}");
}

#[test]
fn a_long_chain_is_not_verified() {
    let issuer = Issuer::new("one");
    issuer.sign("example.org", |_| {});
    let [chain, key] = ["chain.pem", "key.pem"].map(|file| issuer.folder.path().join(file));
    let [own, above] = [&chain, &issuer.file()].map(|file| std::fs::read_to_string(file).unwrap());
    for (length, words) in
        [(10, None), (11, Some("its chain has 11 certificates, at most 10 are accepted"))]
    {
        std::fs::write(&chain, own.clone() + &above.repeat(length - 1)).unwrap();
        for found in taken(&Identity::read(&chain, &key).unwrap(), &issuer.file()) {
            let said = found.err().map(|error| error.to_string());
            let fits = |words| said.as_ref().is_some_and(|said| said.ends_with(words));
            assert!(words.map_or(said.is_none(), fits), "{length}: {said:?}");
        }
    }
}

/// RFC 5922 section 7.2.
#[test]
fn a_wildcard_is_no_name_of_a_sip_domain() {
    let issuer = Issuer::new("one");
    let identity = issuer.sign("*.example.org", |_| {});
    let client = Client::new(&Trust::Issuers(issuer.file()), None, false).unwrap();
    let server = server(vec![identity.clone()]);
    let mut caller = client.connect(name("sip.example.org")).unwrap();
    let error = talk(&mut caller, &mut server.accept().unwrap()).unwrap_err().to_string();
    assert!(error.contains("is for *.example.org") && error.contains("wildcard"), "{error}");
    let mut page = client.connect_web(name("sip.example.org")).unwrap();
    assert!(talk(&mut page, &mut server.accept_web().unwrap()).is_ok());
    assert_eq!(client.names(&identity.certified_key().cert), []);
    let by_name = issuer.sign("sip.example.org", |_| {});
    assert_eq!(client.names(&by_name.certified_key().cert), [name("sip.example.org")]);
    assert_eq!(client.names(&identity_of_server().certified_key().cert), [], "its issuer");
}
