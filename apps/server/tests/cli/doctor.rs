//! `barebell doctor` finds mistakes that are made on purpose.

use crate::site::{Site, show, stdout};
use net::tls::make_self_signed;
use std::fs::{File, FileTimes};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, SystemTime};
use test_support::ports::free_ports;

/// The exit status, and the findings that are no `ok`: check, severity and text.
fn findings(site: &Site, words: &str) -> (Option<i32>, Vec<(String, String, String)>) {
    let output = site.command(&format!("doctor --json {words}")).output().unwrap();
    let text = stdout(&output);
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let faults = rows.filter(|row: &serde_json::Value| row["severity"] != "ok").map(|row| {
        assert!(row["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{row}");
        let [check, severity, text] =
            ["check", "severity", "text"].map(|key| row[key].as_str().unwrap().to_owned());
        (check, severity, text)
    });
    let faults = faults.filter(|(check, ..)| check != "limits").collect();
    (output.status.code(), faults)
}

/// Asserts that there is a finding of `check` and `severity` with `text`.
fn assert_found(site: &Site, words: &str, check: &str, severity: &str, text: &str) {
    let (status, found) = findings(site, words);
    let is_it = |it: &(String, String, String)| it.0 == check && it.1 == severity;
    assert!(found.iter().any(|it| is_it(it) && it.2.contains(text)), "{text}: {found:?}");
    assert!(matches!(status, Some(1 | 3)), "{status:?}");
}

#[test]
fn a_server_without_mistakes_has_no_errors() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "domains = [\"127.0.0.1\"]"));
    site.good(&format!("user add alice --password x --config {config}"));
    // The listener is the server's own.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!("domains = [\"127.0.0.1\"]\nlisten = [\"udp:127.0.0.1:{port}\"]\n");
    let config = show(&site.file("c.toml", &text));
    let _server = site.started(&mut site.command(&format!("serve --config {config}")));
    let (status, found) = findings(&site, &format!("--config {config}"));
    assert_eq!(found, []);
    assert!(matches!(status, Some(0 | 3)), "{status:?}");
    site.good("drain --no-wait");
    assert_found(&site, &format!("--config {config}"), "server", "error", "draining");
}

#[test]
fn a_port_of_ipv4_in_use_is_free_for_ipv6() {
    let site = Site::new();
    if UdpSocket::bind("[::]:0").is_err() {
        eprintln!("not run: this machine has no IPv6");
        return;
    }
    let taken = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = show(&site.file("c.toml", &format!("listen = [\"udp:[::]:{port}\"]\n")));
    let (_, found) = findings(&site, &format!("--config {config}"));
    assert!(found.iter().all(|(check, ..)| check != "ports"), "{found:?}");
}

#[test]
fn mistakes_made_on_purpose_are_found() {
    let site = Site::new();
    let write = |text: &str| format!("--config {}", show(&site.file("c.toml", text)));
    let found = |text: &str, check: &str, severity: &str, said: &str| {
        assert_found(&site, &write(text), check, severity, said);
    };
    const LISTEN: &str = "listen = [\"udp:127.0.0.1:0\"]\n";
    found("nonsense = 1\n", "configuration", "error", "unknown key `nonsense`");
    found(LISTEN, "server", "warning", "no server runs");
    found(LISTEN, "domains", "warning", "no domain is configured");
    let domain = "domains = [\"phones.invalid\"]\n";
    found(&format!("{domain}{LISTEN}"), "dns", "warning", "phones.invalid has no address");
    site.good(&format!("user list {}", write(LISTEN)));
    found(LISTEN, "users", "warning", "there are no users");
    site.good("user add alice@old.example --password x");
    let moved = "domains = [\"127.0.0.1\"]\n";
    found(&format!("{moved}{LISTEN}"), "users", "error", "in the domain old.example");
    let off = "[authentication]\nrequired = false\n";
    found(&format!("{LISTEN}{off}"), "users", "error", "authentication is off");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    found(&format!("listen = [\"udp:{address}\"]\n"), "ports", "error", "cannot be used");
    found("listen = [\"udp:192.0.2.77:5060\"]\n", "ports", "error", "192.0.2.77:5060 cannot");
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| site.file(name, ""));
    make_self_signed(&["example.com".to_owned()], &chain, &key).unwrap();
    let tls = |listen: &str| {
        let [chain, key] = [&chain, &key].map(|file| show(file));
        format!("{listen}[tls]\ncertificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n")
    };
    let secure = "listen = [\"tls:127.0.0.1:0\"]\n";
    let other = tls(&format!("{moved}{secure}"));
    found(&other, "certificate", "warning", "no certificate is for 127.0.0.1");
    std::fs::write(&key, "nonsense").unwrap();
    found(&tls(secure), "certificate", "error", "key.pem");
    let late = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2026, 1, 2);
    std::fs::write(&chain, params.self_signed(&late).unwrap().pem()).unwrap();
    std::fs::write(&key, late.serialize_pem()).unwrap();
    found(&tls(secure), "certificate", "error", "it has been invalid since 2026-01-02");
    // The clock has been set back since the database was written.
    let database = File::options().write(true).open(site.data().join("barebell.sqlite")).unwrap();
    let later = SystemTime::now() + Duration::from_secs(86_400);
    database.set_times(FileTimes::new().set_modified(later)).unwrap();
    found(LISTEN, "clock", "error", "it has been set back");
}

/// Answers datagrams by `reply` from now on. Returns the address.
fn server(reply: impl Fn(SocketAddr, &[u8]) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut datagram = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(&reply(from, &datagram[..length]), from);
        }
    });
    address
}

/// An NTP server with a clock that differs by `offset` seconds.
fn ntp(offset: i64) -> SocketAddr {
    server(move |_, _| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let seconds = now.as_secs().wrapping_add_signed(offset) + 2_208_988_800;
        let mut reply = vec![0; 48];
        (reply[0], reply[1]) = (0x24, 2);
        for at in [32, 40] {
            reply[at..at + 4].copy_from_slice(&(seconds as u32).to_be_bytes());
            let part = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
            reply[at + 4..at + 8].copy_from_slice(&(part as u32).to_be_bytes());
        }
        reply
    })
}

#[test]
fn other_servers_find_a_wrong_clock_and_an_address_translation() {
    let site = Site::new();
    let config =
        format!("--config {}", show(&site.file("c.toml", "listen = [\"udp:127.0.0.1:0\"]\n")));
    let (wrong, late, good) = (ntp(7200), ntp(-3), ntp(0));
    assert_found(&site, &format!("{config} --ntp {wrong}"), "clock", "error", "s behind");
    assert_found(&site, &format!("{config} --ntp {late}"), "clock", "warning", "s ahead of");
    let (_, found) = findings(&site, &format!("{config} --ntp {good}"));
    assert!(found.iter().all(|it| it.0 != "clock"), "{found:?}");
    // A server that sees the machine elsewhere.
    let stun = server(|_, request| {
        let mut reply = Vec::new();
        assert!(stun::respond_to_binding("192.0.2.7:5000".parse().unwrap(), request, &mut reply));
        reply
    });
    let elsewhere = format!("{config} --stun {stun}");
    assert_found(&site, &elsewhere, "nat", "error", "seen at 192.0.2.7 from outside");
    let listen = "listen = [\"udp:127.0.0.1:0 as 192.0.2.7:5060\"]\n";
    let told = format!("--config {} --stun {stun}", show(&site.file("d.toml", listen)));
    let (_, found) = findings(&site, &told);
    assert!(found.iter().all(|it| it.0 != "nat"), "{found:?}");
}

#[test]
fn a_domain_without_users_a_trunk_without_a_server_and_a_damaged_database_are_found() {
    let site = Site::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    let text = format!(
        "domains = [\"127.0.0.1\", \"localhost\"]\nlisten = [\"udp:127.0.0.1:0\"]\n\
         [[trunks]]\nname = \"provider\"\nhost = \"127.0.0.1\"\nport = {port}\nregister = false\n\
         probe_interval = \"10s\"\n"
    );
    let config = format!("--config {}", show(&site.file("c.toml", &text)));
    site.good(&format!("user add alice@127.0.0.1 --password x {config}"));
    assert_found(&site, &config, "users", "warning", "localhost has no users");
    let running = site.started(&mut site.command(&format!("serve {config}")));
    let trunks = || findings(&site, &config).1.into_iter().find(|it| it.0 == "trunks");
    let found = std::iter::repeat_with(trunks).take(50).flatten().next().expect("a fault");
    assert_eq!(found.1, "error");
    assert!(found.2.starts_with("no call goes through provider"), "{found:?}");
    running.terminate();
    std::fs::write(site.data().join("barebell.sqlite"), [0; 4096]).unwrap();
    let words = format!("doctor --json {config}");
    let text = stdout(&site.command(&words).output().unwrap());
    assert!(text.contains("is damaged"), "{text}");
}

/// The answer of a name server to `query`: the host of the domain has the address 127.0.0.1, and
/// its SRV record for UDP names `port`.
fn answer(query: &[u8], port: u16) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&byte| byte == 0).unwrap() + 1;
    let name = String::from_utf8_lossy(&query[12..end]).to_ascii_lowercase();
    let kind = u16::from_be_bytes([query[end], query[end + 1]]);
    let data = match kind {
        1 => Some(vec![127, 0, 0, 1]),
        // Priority and weight, the port, and the name of the host.
        33 if name.starts_with("\u{4}_sip\u{4}_udp") => {
            let [high, low] = port.to_be_bytes();
            Some([&[0, 0, 0, 0, high, low][..], b"\x03pbx\x06office\x07example\0"].concat())
        }
        _ => None,
    };
    // The question alone, without the records of EDNS.
    let mut reply =
        [&query[..2], &[0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0], &query[12..end + 4]].concat();
    if let Some(data) = data {
        reply[7] = 1;
        // The name of the question, the type, the class IN, and a minute.
        reply.extend([0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        reply.extend(data);
    }
    reply
}

/// With name servers of its own, if this test may mount their file, a wrong SRV record is seen.
#[test]
fn an_srv_record_with_another_port_is_found() {
    let is_root = nix::unistd::geteuid().is_root();
    let (site, port) = (Site::new(), free_ports(1));
    // The port of name servers is for root only.
    let Some(names) = is_root.then(|| UdpSocket::bind("127.77.0.53:53").unwrap()) else { return };
    std::thread::spawn(move || {
        let mut query = [0; 1500];
        while let Ok((length, from)) = names.recv_from(&mut query) {
            let _ = names.send_to(&answer(&query[..length], port), from);
        }
    });
    let servers = show(&site.file("resolv.conf", "nameserver 127.77.0.53\n"));
    let run = |listened: u16| {
        let text =
            format!("domains = [\"office.example\"]\nlisten = [\"udp:127.0.0.1:{listened}\"]\n");
        let config = show(&site.file("c.toml", &text));
        let before = format!("mount --bind {servers} /etc/resolv.conf");
        let doctor = site.command_after(&before, &format!("doctor --json --config {config}"));
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(doctor.get_program()).args(doctor.get_args());
        stdout(&command.output().unwrap())
    };
    let found = run(port + 1);
    let fault = format!("phones of office.example are sent to udp port {port}, where");
    assert!(found.contains(&fault), "{found}");
    let found = run(port);
    assert!(found.contains("the domains lead to ports where the server listens"), "{found}");
}

#[test]
fn a_database_of_accounts_that_is_gone_is_found() {
    let site = Site::new();
    let text =
        "listen = [\"udp:127.0.0.1:0\"]\n[accounts]\nurl = \"postgresql://x@127.0.0.1:9/sip\"\n";
    let config = format!("--config {}", show(&site.file("c.toml", text)));
    assert_found(&site, &config, "database", "error", "postgresql://127.0.0.1/sip cannot be used");
}

#[test]
fn few_files_that_may_be_open_are_found() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "listen = [\"udp:127.0.0.1:0\"]\n"));
    let doctor = |limit: &str| {
        let before = format!("ulimit -n {limit}");
        let words = format!("doctor --json --config {config}");
        stdout(&site.command_after(&before, &words).output().unwrap())
    };
    let text = doctor("1000");
    assert!(text.contains("only 1000 files may be open"), "{text}");
    let text = doctor("4096");
    assert!(!text.contains("files may be open"), "{text}");
}

/// In a mount namespace of its own the data are on a small disk, if this test may make one.
#[test]
fn a_disk_without_room_is_found() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "listen = [\"udp:127.0.0.1:0\"]\n"));
    std::fs::create_dir(site.data()).unwrap();
    let run = |size: &str| {
        let before = format!("mount -t tmpfs -o size={size} none {}", show(&site.data()));
        let doctor = site.command_after(&before, &format!("doctor --json --config {config}"));
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(doctor.get_program()).args(doctor.get_args());
        stdout(&command.output().unwrap())
    };
    let [small, large] = [run("8m"), run("400m")];
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let row = |text: &str| -> serde_json::Value {
        let mut rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
        rows.find(|row: &serde_json::Value| row["check"] == "disk").unwrap()
    };
    assert_eq!(row(&small)["severity"], "error", "{small}");
    assert!(row(&small)["text"].as_str().unwrap().ends_with("has 8 MiB of room"), "{small}");
    assert_eq!(row(&large)["severity"], "ok", "{large}");
}

/// In a network namespace of its own the firewall is seen, if this test may make one.
#[test]
fn a_firewall_that_drops_sip_is_found() {
    let site = Site::new();
    let config =
        show(&site.file("c.toml", "listen = [\"udp:0.0.0.0:5060\", \"tcp:0.0.0.0:5060\"]\n"));
    let doctor = site.command(&format!("doctor --json --config {config}"));
    let words: Vec<_> = std::iter::once(doctor.get_program())
        .chain(doctor.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let rules = "nft add table inet f && nft add chain inet f in '{ type filter hook input \
                 priority 0; policy drop; }' && nft add rule inet f in tcp dport 5060 accept";
    let script = format!("{rules} && {} || true", words.join(" "));
    let output = Command::new("unshare").args(["--net", "sh", "-c", &script]).output().unwrap();
    let text = stdout(&output);
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    assert!(text.contains("no rule names udp port 5060"), "{text}");
    assert!(!text.contains("no rule names tcp port 5060"), "{text}");
    assert!(text.contains("no rule names udp ports 20000-29999"), "{text}");
}
