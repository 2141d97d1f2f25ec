mod numbers;

use super::*;
use crate::listen::Listen;
use crate::media::RecordsPlace;
use sip::digest::Algorithm;
use sip::stream::websocket::ClientField;
use sip_server::CallServices;
use sip_server::config::{Domain, Joining, MediaKeys, Mode, Relaying, State};
use sip_server::{MediaService, Watch, Watching};
use store::Sync;

/// The reference for operators. Its first TOML block contains every key with its default.
const REFERENCE: &str = include_str!("../../../../docs/configuration.md");

fn problems(text: &str) -> Vec<String> {
    let show = |problem: Problem| format!("{}:{}: {}", problem.line, problem.column, problem.text);
    parse(text).unwrap_err().into_iter().map(show).collect()
}

fn refused(text: &str, expected: &str) {
    let found = problems(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(expected), "{}", found[0]);
}

fn toml_blocks(text: &str) -> Vec<&str> {
    let blocks = text.split("```toml\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0).collect()
}

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(parse("").unwrap(), Settings::default());
}

#[test]
fn the_reference_shows_every_key_with_its_default() {
    let reference = toml_blocks(REFERENCE)[0];
    let defaults = Settings::default();
    let mut settings = parse(reference).unwrap();
    // These depend on the machine and have no default value of their own.
    let machine = "what the machine decides";
    assert_eq!(settings.listens, Listen::defaults(), "{machine}");
    settings.listens.clear();
    assert_eq!(settings.data.take(), Some("/var/lib/barebell".into()), "{machine}");
    assert_eq!(settings.workers.take(), Some(2), "{machine}");
    let clients = std::mem::take(&mut settings.tls.clients);
    assert!(matches!(clients, ClientCertificates::Optional(_)), "{machine}");
    assert_eq!(settings.tls.certificates.drain(..).count(), 1, "{machine}");
    let acme = settings.tls.acme.take().unwrap();
    assert_eq!((&*acme.directory, acme.domains.len()), (LETS_ENCRYPT, 1), "{machine}");
    let calls = [settings.media.ng_max_calls.take(), settings.media.max_calls.take()];
    assert_eq!(calls, [Some(settings.media.max_calls()); 2], "{machine}");
    assert_eq!(settings.max_connections.take(), Some(settings.max_connections()), "{machine}");
    let ng = std::mem::take(&mut settings.media.ng);
    assert!(ng.listen.is_some() && ng.clients.len() == 1 && ng.interfaces.is_empty(), "{machine}");
    assert_eq!(settings.trace.hep.take().as_deref(), Some("homer.example.com:9060"), "{machine}");
    let turn = std::mem::take(&mut settings.turn);
    assert_eq!((turn.servers.len(), turn.secret_file.is_some()), (2, true), "{machine}");
    assert_eq!(turn.lifetime, defaults.turn.lifetime);
    let accounts = settings.accounts.take().unwrap();
    assert_eq!(
        (&*accounts.place.table, accounts.place.password_file.is_some(), accounts.has_records),
        ("subscriber", true, false)
    );
    let [trunk] = &std::mem::take(&mut settings.trunks)[..] else { panic!("{machine}") };
    assert_eq!((&*trunk.name, trunk.accounts.len()), ("provider", 1), "{machine}");
    let media_server = &mut settings.media_server;
    let files = [media_server.sounds.take(), media_server.command.take()];
    assert!(files.iter().all(Option::is_some), "{machine}");
    media_server.services.names.retain(|(_, service)| *service != MediaService::Park);
    assert!(std::mem::take(&mut settings.engine.keeps_messages), "{machine}");
    let push = (settings.engine.push.take(), settings.push.url.take());
    assert!(push.0.is_some() && push.1.is_some(), "{machine}");
    let listen = settings.http.listen.take();
    assert!(listen.is_some_and(|address| address.ip().is_loopback()), "{machine}");
    assert!(settings.decisions.url.take().is_some(), "{machine}");
    let [group] = &std::mem::take(&mut settings.engine.groups)[..] else { panic!("{machine}") };
    assert_eq!((group.members.len(), group.fallback.as_deref()), (2, Some("carol")), "{machine}");
    assert_eq!(group.timeout, CallServices::DEFAULT_RINGING);
    assert_eq!(std::mem::take(&mut settings.engine.caller_names).len(), 1, "{machine}");
    assert_eq!(std::mem::take(&mut settings.engine.auto_answer), ["10", "2*"], "{machine}");
    let watching = std::mem::take(&mut settings.engine.watching);
    assert_eq!((watching.calls, &*watching.pickup), (Watch::Calls, "**"), "{machine}");
    settings.engine.watching = Watching { messages: watching.messages, ..Watching::default() };
    let example = Domain { name: "example.com".to_owned(), aliases: Vec::new() };
    assert_eq!(settings.engine.domains, [example], "{machine}");
    settings.engine.domains.clear();
    assert_eq!(settings, defaults);
}

#[test]
fn the_reference_names_every_key() {
    // For an unknown key the reader lists the known ones.
    let sections = [
        "registrar",
        "messages",
        "push",
        "authentication",
        "timers",
        "tls",
        "acme",
        "websocket",
        "limits",
        "media",
        "turn",
        "http",
        "panel",
        "numbers",
        "storage",
        "trace",
        "log",
    ];
    let reference: toml::Table = toml_blocks(REFERENCE)[0].parse().unwrap();
    let keys = |text: &str| {
        let found = problems(text);
        let (_, keys) = found[0].rsplit_once("expected one of: ").unwrap();
        keys.split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    for key in keys("nonsense = 1") {
        assert!(reference.contains_key(&key), "{key}");
    }
    for section in sections {
        for key in keys(&format!("[{section}]\nnonsense = 1")) {
            assert!(reference[section].as_table().unwrap().contains_key(&key), "{section}.{key}");
        }
    }
}

#[test]
fn the_examples_of_the_reference_are_accepted() {
    let blocks = toml_blocks(REFERENCE);
    assert!(blocks.len() > 1);
    for block in blocks {
        parse(block).unwrap_or_else(|problems| panic!("{block}\n{problems:?}"));
    }
}

#[test]
fn every_kind_of_value_is_read() {
    let settings = parse(
        r#"
        mode = "redirect"
        state = "stateless"
        listen = ["udp:127.0.0.1:5070", "tcp:[::1]:5070"]
        domains = ["Example.com", { name = "b.org", aliases = ["sip.b.org", "192.0.2.1"] }]
        workers = 3
        record_route = false
        timings = true
        server_name = ""
        [registrar]
        min_expires = 30
        default_expires = "1m 30s"
        [authentication]
        required = false
        algorithms = ["SHA-256", "md5"]
        [timers]
        t1 = "100ms"
        [media]
        relay = "all"
        keys = "offered"
        ports = "30000-30999"
        max_calls = 200
        max_calls_per_source = 20
        ng_max_calls = 240
        transcode = ["PCMA", "opus"]
        max_transcoded = 30
        max_transcoded_per_source = 0
        max_bandwidth = "2Gbit"
        max_bandwidth_per_source = "10Mbit"
        max_bandwidth_per_call = "800kbit"
        timeout = "2m"
        hold_timeout = "90m"
        ng = "10.0.0.5:2223"
        ng_clients = ["10.0.0.0/24", "10.0.1.7"]
        ng_interfaces = ["internal 10.0.0.5", "external 10.0.2.5 as 203.0.113.5"]
        records = "/var/log/calls"
        records_size = "1MiB"
        [calls]
        mode = "proxy"
        max_calls = 70
        max_calls_per_source = 7
        session_expires = "90s"
        check_interval = "10s"
        [storage]
        registrations = false
        sync = "always"
        "#,
    )
    .unwrap();
    let engine = &settings.engine;
    assert_eq!((engine.mode, engine.state), (Mode::Redirect, State::Stateless));
    assert_eq!(settings.listens[1].to_string(), "tcp:[::1]:5070");
    assert_eq!(engine.domains[0].name, "example.com");
    assert_eq!(engine.domains[1].aliases, ["sip.b.org", "192.0.2.1"]);
    assert_eq!(settings.workers, Some(3));
    assert_eq!((engine.record_route, engine.server_name.as_str()), (false, ""));
    assert!(engine.timings);
    assert_eq!(engine.registrar.min_expires, Duration::from_secs(30));
    assert_eq!(engine.registrar.default_expires, Duration::from_secs(90));
    assert!(!engine.authentication.required);
    assert_eq!(engine.authentication.algorithms, [Algorithm::Sha256, Algorithm::Md5]);
    assert_eq!(engine.timers.t1, Duration::from_millis(100));
    let media = &settings.media;
    assert_eq!((engine.relaying, media.ports.to_string().as_str()), (Relaying::All, "30000-30999"));
    assert_eq!(engine.media_keys, MediaKeys::Offered);
    let limits = media.limits(media.ports.pairs());
    assert_eq!((limits.calls, limits.calls_of_owner), (200, 20));
    assert_eq!((limits.conversions, limits.conversions_of_owner), (30, 0));
    assert_eq!(engine.transcode, [relay::Codec::Pcma, relay::Codec::Opus]);
    assert_eq!([limits.inactivity, limits.hold].map(|limit| limit.as_secs()), [120, 5400]);
    let relay::Bandwidth { all, owner, call } = limits.bandwidth;
    assert_eq!([all, owner, call], [250_000_000, 1_250_000, 100_000]);
    let ng = &media.ng;
    assert_eq!(ng.listen, Some(([10, 0, 0, 5], 2223).into()));
    assert_eq!((ng.clients.len(), ng.interfaces.len()), (2, 2));
    assert_eq!(media.records, RecordsPlace::File("/var/log/calls".into()));
    assert_eq!(media.records_size.0, 1 << 20);
    let b2bua = settings.b2bua;
    assert_eq!((engine.joining, b2bua.calls, b2bua.calls_of_source), (Joining::Off, 70, 7));
    assert_eq!(b2bua.session_expires.as_secs(), 90);
    assert_eq!(b2bua.probe.map(Duration::as_secs), Some(10));
    assert_eq!((settings.registrations, settings.sync), (false, Sync::Always));
    assert_eq!(engine.limits, sip_server::Config::default().limits);
}

#[test]
fn the_check_of_calls_can_be_turned_off() {
    let interval = |text: &str| {
        let settings = parse(&format!("[calls]\ncheck_interval = {text}"));
        settings.map(|settings| settings.b2bua.probe.map(Duration::as_secs))
    };
    assert_eq!(interval("false").unwrap(), None);
    assert_eq!(interval("120").unwrap(), Some(120));
    for text in ["true", "\"1s\"", "0", "\"2days\""] {
        assert!(interval(text).is_err(), "{text}");
    }
}

#[test]
fn the_b2bua_needs_a_proxy_with_transactions_and_record_route() {
    let joining = |text: &str| parse(text).map(|settings| settings.engine.joining);
    assert_eq!(joining(""), Ok(Joining::Needed));
    assert_eq!(joining("[calls]\nmode = \"b2bua\""), Ok(Joining::All));
    for line in ["mode = \"redirect\"", "state = \"stateless\"", "record_route = false"] {
        assert_eq!(joining(line), Ok(Joining::Needed), "{line}");
        let found = problems(&format!("{line}\n[calls]\nmode = \"b2bua\"\n"));
        assert!(matches!(&found[..], [one] if one.contains("needs mode")), "{found:?}");
    }
}

#[test]
fn lamps_and_pickup_are_read_and_need_each_other() {
    let office = |keys: &str| parse(&format!("[office]\n{keys}")).unwrap();
    let Settings { engine, tells_all_phones, .. } = office("watch = \"calls\"\npickup = \"*8\"\n");
    let expected = Watching { messages: true, calls: Watch::Calls, pickup: "*8".to_owned() };
    assert_eq!((engine.watching, tells_all_phones), (expected, false));
    let settings = office("messages = \"all\"");
    assert!(settings.engine.watching.messages && settings.tells_all_phones);
    assert!(!office("messages = \"off\"").engine.watching.messages);
    let allowed = office("auto_answer = [\"10\", \"2*\"]").engine.auto_answer;
    assert_eq!(allowed, ["10", "2*"]);
    let named = office("names = [{ user = \"10\", name = \"Anna Méyer\" }]").engine.caller_names;
    assert_eq!(named.get(&b"10"[..]).map(String::as_str), Some("Anna Méyer"));
    let named = |name: &str| format!("[office]\nnames = [{{ user = \"1\", name = '{name}' }}]");
    refused(&named("a\"b"), "2:31: name: `a\\\"b` is no name");
    let twice =
        "[office]\nnames = [{ user = \"1\", name = \"a\" }, { user = \"1\", name = \"b\" }]";
    refused(twice, "2:47: this user has a name already");
    refused("[office]\nauto_answer = [\"a@b\"]", "2:16: auto_answer: \"a@b\" is no user part");
    refused("[office]\npickup = \"**\"\nwatch = \"state\"", "2:10: office.pickup needs watch");
    refused("[office]\nwatch = \"calls\"\npickup = \"x\"", "3:10: pickup: `x` is no code");
    let stateless = "state = \"stateless\"\n[office]\nwatch = \"state\"";
    refused(stateless, "3:9: office.watch needs mode");
}

#[test]
fn all_problems_are_found_in_one_reading() {
    let found = problems(
        "mode = \"proxi\"\ncolour = 1\n\n[registrar]\nmin_expires = \"soon\"\nmax_contacts = 0\n\
         [timers]\nt1 = \"9s\"\n",
    );
    let starts = [
        "1:8: mode: `proxi` is unknown; expected one of: proxy, redirect, registrar",
        "2:1: unknown key `colour` at the top of the file; expected one of: mode, ",
        "5:15: min_expires: \"soon\" is no duration; expected a duration such as \"30s\"",
        "6:16: max_contacts: 0 is out of range; expected a whole number from 1 on",
        "8:6: t1 (9s) is longer than t2 (4s)",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn invalid_toml_is_reported_with_its_place() {
    refused("mode = \"proxy\"\nmode \"x\"\n", "2:");
    refused("a", "1:");
    // The consequences of an error are not reported.
    for text in [
        "mode = \"proxy\nstate = 5\n[",
        "domains = [\"a\"\nlisten = [\"udp:1.2.3.4:5\"]\n[tls]\nx = 1\n",
    ] {
        assert_eq!(problems(text).len(), 1, "{:?}", problems(text));
    }
    refused("mode = \"proxy\"\nmode = \"proxy\"\n", "2:1: this is not TOML: duplicate key");
}

#[test]
fn an_unknown_key_is_reported_with_the_nearest() {
    for (text, nearest) in [
        ("domain = []", "domains"),
        ("[limits]\nsource_rates = 1", "source_rate"),
        ("[tls]\ncertificate = []", "certificates"),
        ("[registrar]\nmaxcontacts = 1", "max_contacts"),
    ] {
        let found = problems(text);
        assert!(found[0].contains(&format!("did you mean `{nearest}`?")), "{found:?}");
    }
    assert!(!problems("nonsense = 1")[0].contains("did you mean"));
}

#[test]
fn columns_count_characters() {
    refused("server_name = \"ä\"", "1:15: server_name: expected at most 100 printable ASCII");
    refused("mode=\"proxy\"#äää\n\"ä\"=1", "2:1: unknown key `ä`");
    refused("domains = [\"ä\", \"a\"]", "1:12: domains: `ä` is no domain");
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    refused("[registrar]\nmax_expires = 30", "2:15: min_expires (1m) is longer than max_expires");
    refused(
        "[registrar]\nmin_expires = 10\nmax_expires = \"20m\"",
        "2:15: default_expires (1h) is not between",
    );
    refused("[registrar]\nmin_expires = 3601\ndefault_expires = \"2h\"", "2:15: min_expires is lo");
    refused("[timers]\nc = \"3m\"", "2:5: timer c must be longer than 3 minutes");
    refused("domains = [\"a\", \"b\", \"A\"]", "1:22: domains: `a` is repeated");
    refused(
        "domains = [\"a\", { name = \"b\", aliases = [\"a\"] }]",
        "1:42: domains: `a` is repeated",
    );
    refused("domains = [{ name = \"b\", alias = [] }]", "1:26: domains: unknown key `alias`");
    refused("domains = [{ aliases = [] }]", "1:12: domains: a domain has no name");
    refused(
        "listen = [\"udp:1.2.3.4:5\", \"udp:1.2.3.4:5\"]",
        "1:28: listen: this value is repeated",
    );
    for (one, other) in [("tcp:1.2.3.4:5", "ws:1.2.3.4:5"), ("wss:0.0.0.0:5", "tls:1.2.3.4:5")] {
        let expected = format!("1:{}: listen: {one} and {other} cannot both", one.len() + 15);
        refused(&format!("listen = [\"{one}\", \"{other}\"]"), &expected);
    }
    parse("listen = [\"udp:1.2.3.4:5\", \"tcp:1.2.3.4:5\", \"ws:[::]:5\", \"ws:0.0.0.0:6\"]")
        .unwrap();
    refused("listen = []", "1:10: listen: expected at least one value");
    refused("[authentication]\nalgorithms = [\"SHA-1\"]", "2:15: algorithms: `SHA-1` is unknown");
}

#[test]
fn acme_settings_that_no_issuer_accepts_are_refused() {
    let acme = |more: &str| format!("{more}\n[acme]\nterms_of_service_agreed = true\n");
    refused(&acme(""), "3:27: [acme] needs domains");
    refused("[acme]\ndomains = [\"a.org\"]", "2:11: issuers require that you agree");
    let domains = |value: &str| acme("") + &format!("domains = [{value}]");
    for name in ["\"localhost\"", "\"192.0.2.1\"", "\"[2001:db8::1]\""] {
        refused(&domains(name), "4:12: domains: ");
    }
    let of = |key: &str| domains("\"a.org\"") + "\n" + key;
    refused(
        &of("contacts = [\"mailto:a@b.org\"]"),
        "5:13: contacts: \"mailto:a@b.org\" is no mail add",
    );
    for place in ["http://a.org", "https:///dir", "https://a.org/a b", "https://"] {
        let expected = format!("5:13: directory: \"{place}\" is no issuer");
        refused(&of(&format!("directory = \"{place}\"")), &expected);
    }
    let clients = "[tls]\nclient_issuers = \"a.pem\"\nclient_certificates_required = true\n";
    let text = format!("{clients}{}", of("").trim_start());
    refused(&text, "6:11: the issuer has no client certificate");
    assert_eq!(parse(&of("")).unwrap().tls.acme.unwrap().domains, ["a.org"]);
    assert_eq!(parse("[acme]").unwrap(), Settings::default());
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    refused(
        "registrar = 5",
        "1:13: `registrar` is of type integer; expected a section [registrar]",
    );
    refused("workers = \"2\"", "1:11: workers: this is of type string; expected a whole number");
    refused("workers = -1", "1:11: workers: -1 is out of range");
    refused("workers = 99999999999999999999", "1:11: workers: 99999999999999999999 is out of");
    refused("mode = 1", "1:8: mode: this is of type integer; expected a string");
    refused("record_route = \"yes\"", "1:16: record_route: this is of type string; expected true");
    refused("listen = \"udp:1.2.3.4:5\"", "1:10: listen: this is of type string; expected an arr");
    refused("[timers]\nt1 = 0.5", "2:6: t1: this is of type float; expected a duration such as");
    refused("[timers]\nt1 = 0", "2:6: t1: expected a duration longer than zero");
    refused("[storage]\nsync = \"0s\"", "2:8: sync: `0s` is unknown; expected one of: always, nev");
}

#[test]
fn ports_of_media_are_a_range_with_room_for_the_calls() {
    refused("[media]\nrelay = \"yes\"", "2:9: relay: `yes` is unknown; expected one of: needed, a");
    for ports in ["20000", "80-90", "20000-20001", "30000-20000"] {
        let expected = format!("2:9: ports: `{ports}` is no range of ports; expected one such as");
        refused(&format!("[media]\nports = \"{ports}\""), &expected);
    }
    refused(
        "[media]\nports = \"20000-20099\"\nmax_calls = 26\n",
        "3:13: max_calls (26) needs 104 ports, more than those of ports (20000-20099)",
    );
    refused("[media]\nng_max_calls = 2501\n", "2:16: ng_max_calls (2501) needs 10004 ports,");
    refused("[media]\nmax_calls = 2501\n", "2:13: max_calls (2501) needs 10004 ports, more than");
    refused("[media]\nng = \"127.0.0.1:2223\"\n", "2:6: ng needs ng_clients, the addresses of");
    refused("[media]\nng = \"0.0.0.0:2223\"\n", "2:6: ng: `0.0.0.0:2223` is no address with");
    refused("[media]\nng_interfaces = [\"a\"]\n", "2:18: ng_interfaces: `a` is no interface;");
    refused(
        "[turn]\nservers = [\"stun:a\"]\nsecret_file = \"/s\"",
        "2:12: servers: `stun:a` is not the URI of a TURN server;",
    );
    refused("[turn]\nservers = [\"turn:a\"]", "2:11: servers and secret_file belong together");
    refused("[turn]\nsecret_file = \"/s\"", "2:15: servers and secret_file belong together");
    refused("[turn]\nlifetime = \"59s\"", "2:12: lifetime is shorter than a minute");
    refused("[media]\nrecords = \"calls\"", "2:11: records: `calls` is no path that begins with /");
    let media = parse("[media]\nrecords = false\nports = \"20000-20099\"\n").unwrap().media;
    assert_eq!(media.records, RecordsPlace::Off);
    assert_eq!(media.max_calls(), 25);
}

#[test]
fn numbers_are_read_in_every_form_of_toml() {
    let workers = |text: &str| parse(&format!("workers = {text}")).unwrap().workers;
    assert_eq!(["1_000", "0x10", "0b11", "+7"].map(workers), [1000, 16, 3, 7].map(Some));
}

#[test]
fn sizes_have_a_unit() {
    for value in ["\"0Mbit\"", "\"1\"", "\"1MBit\"", "\"99999999999999999Gbit\"", "1", "\"Gbit\""] {
        let place = "2:17: max_bandwidth: ";
        refused(&format!("[media]\nmax_bandwidth = {value}\n"), place);
    }
    let settings = parse("[limits]\ntransaction_memory = \"2GiB\"\n").unwrap();
    assert_eq!(settings.engine.limits.max_transaction_bytes, 2 << 30);
    assert_eq!(parse("[trace]\nmemory = 0\n").unwrap().trace.memory, 0);
    refused("[trace]\nmemory = 1\n", "2:10: memory: this is of type integer; expected a size");
    refused("[trace]\nmemory = 0\nhep = \"h:1\"\n", "3:7: hep needs memory");
    refused("[trace]\nhep = \"h\"\n", "2:7: hep: \"h\" is no host and port; expected one such as");
    for (value, expected) in [
        ("\"512\"", "2:17: dialog_memory: \"512\" is no size; expected a size such as"),
        ("\"0MiB\"", "2:17: dialog_memory: \"0MiB\" is out of range; expected a size such as"),
        (
            "\"99999999999999999GiB\"",
            "2:17: dialog_memory: \"99999999999999999GiB\" is out of range",
        ),
        ("512", "2:17: dialog_memory: this is of type integer; expected a size such as"),
    ] {
        refused(&format!("[limits]\ndialog_memory = {value}\n"), expected);
    }
}

#[test]
fn trusted_networks_may_speak_for_users() {
    let text = "[limits]\ntrusted = [\"127.0.0.0/8\", { network = \"192.0.2.10\", \
        speaks_for = [\"+49*\", \"100\"] }]\nproxies = [\"127.0.0.1\"]\nproxy_header = \"forwarded\"";
    let limits = parse(text).unwrap().engine.limits;
    assert_eq!((limits.trusted.len(), limits.speakers.len(), limits.proxies.len()), (2, 1, 1));
    assert_eq!(limits.proxy_header, ClientField::Forwarded);
    refused("[limits]\nproxy_header = \"Via\"", "2:16: proxy_header: `Via` is unknown");
    let [speaker] = &limits.speakers[..] else { panic!("{limits:?}") };
    assert_eq!(speaker.network, limits.trusted[1]);
    for (name, has) in [("+4930", true), ("+1", false), ("100", true), ("1000", false)] {
        assert_eq!(speaker.has(name.as_bytes()), has, "{name}");
    }
    for (trusted, wrong) in [
        ("{ network = \"192.0.2.10\" }", "expected a range"),
        ("{ network = \"x\", speaks_for = [\"1\"] }", "is no range"),
        ("{ network = \"192.0.2.10\", speaks_for = [] }", "at least one"),
        ("{ network = \"192.0.2.10\", speaks_for = [\"1\"] }, \"192.0.2.10\"", "repeated"),
        ("5", "expected a string"),
    ] {
        let problems = parse(&format!("[limits]\ntrusted = [{trusted}]")).unwrap_err();
        assert!(problems[0].text.contains(wrong), "{trusted}: {problems:?}");
    }
}

#[test]
fn trunks_have_a_name_a_host_and_accounts() {
    let text = "[[trunks]]\nname = \"one\"\nhost = \"sip.one.example:5080\"\ntransport = \"tls\"\n\
        proxy = \"[2001:db8::1]\"\nregister = true\nprobe_interval = false\n\
        [[trunks.accounts]]\nuser = \"49301\"\nauth_name = \"x\"\npassword = \"secret\"\n\
        [[trunks.accounts]]\nuser = \"49302\"\npassword_file = \"/p\"\ndomain = \"One.example\"\n\
        [[trunks]]\nname = \"two\"\nhost = \"192.0.2.1\"\nport = 5070\nsources = [\"192.0.2.0/24\"]\n";
    let trunks = parse(text).unwrap().trunks;
    let [one, two] = &trunks[..] else { panic!("{trunks:?}") };
    assert_eq!((one.host.uri(""), one.probe), ("sip:sip.one.example:5080".to_owned(), None));
    assert_eq!(one.destination().port, None, "that of the proxy");
    assert_eq!(one.accounts[1].domain.as_deref(), Some("one.example"));
    assert_eq!((two.host.uri(""), two.sources.len()), ("sip:192.0.2.1:5070".to_owned(), 1));
    assert!(!format!("{trunks:?}").contains("secret"), "a password is not shown");

    let of = |line: &str| format!("[[trunks]]\nname = \"a\"\nhost = \"b\"\n{line}");
    refused("[[trunks]]\nhost = \"b\"", "1:1: a trunk has no name");
    refused("[[trunks]]\nname = \"a\"", "1:1: a trunk has no host");
    refused("[trunks]\nname = \"a\"", "1:1: `trunks` is no array of tables; expected sections [[t");
    refused(&of("hots = \"b\""), "4:1: unknown key `hots` in [[trunks]]; did you mean `host`?");
    refused(&of("register = true"), "4:12: register = true needs accounts");
    refused(&of("transport = \"ws\""), "4:13: transport: `ws` is unknown; expected one of: udp,");
    refused(&of("host2 = 1\n[[trunks]]\nname = \"c\"\nhost = \"b\""), "4:1: unknown key `host2`");
    refused(&of("[[trunks]]\nname = \"a\"\nhost = \"b\""), "5:8: the trunk `a` is repeated");
    refused(&of("[[trunks.accounts]]\npassword = \"x\""), "4:1: an account has no user");
    refused(&of("expires = \"5s\""), "4:11: expected a duration from 60s to 1day");
    refused("[[trunks]]\nname = \"a b\"\nhost = \"b\"", "2:8: name: \"a b\" is no name of a trunk");
    refused("[[trunks]]\nname = \"a\"\nhost = \"b:x\"", "3:8: host: \"b:x\" is no server");
    let account = "[[trunks.accounts]]\nuser = \"1\"\npassword = \"x\"\npassword_file = \"/x\"";
    refused(&of(account), "7:17: password and password_file are both set");
    refused(&format!("state = \"stateless\"\n{}", of("")), "3:8: trunks need mode = \"proxy\"");
    let problems = parse(&of("trusted = 1\nidentity = \"x\"\nprefix = \"a\"")).unwrap_err();
    assert_eq!(problems.len(), 3, "all are found at once: {problems:?}");
}

#[test]
fn the_panel_needs_the_http_listener_and_lasting_sessions() {
    let http = "[http]\nlisten = \"127.0.0.1:8080\"\n";
    let settings = parse(&format!("{http}[panel]\nenabled = true\nidle = \"1h\"")).unwrap();
    assert_eq!((settings.panel.enabled, settings.panel.idle.as_secs()), (true, 3600));
    assert!(!parse("[panel]\nusers = false").unwrap().panel.users);
    refused("[panel]\nenabled = true", "2:11: panel.enabled needs http.listen");
    refused("[panel]\nidle = \"59s\"", "2:8: panel.idle is too short");
}
