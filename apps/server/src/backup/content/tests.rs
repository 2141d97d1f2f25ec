use super::*;
use serde_json::{Value, json};
use test_support::Random;

const MD5: &str = "00112233445566778899aabbccddeeff";
const SHA: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn ha1() -> Value {
    json!({ "md5": MD5, "sha256": SHA, "sha512_256": SHA })
}

fn head() -> Value {
    let parts = ["users", "services", "panel", "configuration", "certificates", "records"];
    let parts: Vec<_> = parts.into_iter().chain(["voicemail"]).collect();
    json!({ "backup": { "version": 1, "program": "1.0", "made": 5, "parts": parts } })
}

/// One line of each kind, without head and end.
fn lines() -> Vec<Value> {
    let sound = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        media_server::wav::write(8000, &[1, 2, 3]),
    );
    vec![
        json!({ "realm": { "domain": "a.com", "realm": "pbx" } }),
        json!({ "user": { "name": "alice", "domain": "a.com", "ha1": ha1() } }),
        json!({ "user": {
            "name": "bob", "domain": "a.com", "ha1": ha1(), "address_ha1": ha1(),
            "authentication": { "name": "4711", "ha1": ha1() },
        } }),
        json!({ "services": {
            "name": "bob", "domain": "a.com", "no_answer": "alice@a.com", "after": 9000,
        } }),
        json!({ "account": {
            "name": "eve", "role": "administrator", "password": PASSWORD, "created": 7,
            "second_factor": { "secret": "00".repeat(20), "used": 5 },
        } }),
        json!({ "token": { "name": "ci", "role": "reader", "hash": SHA, "created": 7 } }),
        json!({ "configuration": { "text": "domains = [\"a.com\"]\n" } }),
        json!({ "certificate": { "name": "tls-acme-account.json", "text": "{}" } }),
        json!({ "message": {
            "mailbox": "bob@a.com", "id": 7, "caller": "sip:x@y", "proved": false, "at": 5,
            "heard": false, "sound": sound,
        } }),
    ]
}

/// A backup of these lines, with a head and an end.
fn backup(lines: &[Value]) -> String {
    let end = json!({ "end": { "lines": lines.len() + 1 } });
    let all = [head()].into_iter().chain(lines.iter().cloned()).chain([end]);
    all.map(|line| format!("{line}\n")).collect()
}

fn fault(text: &[u8]) -> String {
    read(&mut { text }).map(|_| ()).expect_err("it was read").to_string()
}

#[test]
fn each_kind_of_line_is_read() {
    let text = backup(&lines());
    let content = read(&mut text.as_bytes()).unwrap();
    let data = content.data;
    assert_eq!(data.users.as_ref().unwrap().users.len(), 2);
    assert_eq!(data.users.unwrap().realms["a.com"], "pbx");
    assert_eq!(data.services.unwrap()[0].services.no_answer.as_deref(), Some("alice@a.com"));
    let panel = data.panel.unwrap();
    assert_eq!((panel.accounts.len(), panel.tokens.len()), (1, 1));
    assert_eq!(panel.accounts[0].1.as_ref().unwrap().used, 5);
    assert_eq!(content.configuration.unwrap().text, "domains = [\"a.com\"]\n");
    assert_eq!((content.certificates.len(), content.messages.len()), (1, 1));
    // The last end of a line may be missing.
    assert!(read(&mut text.trim_end().as_bytes()).is_ok());
}

#[test]
fn a_backup_that_is_cut_is_refused() {
    let text = backup(&lines());
    for length in 0..text.len() - 1 {
        assert!(read(&mut &text.as_bytes()[..length]).is_err(), "{length}");
    }
    let mut rest: Vec<_> = text.split_inclusive('\n').collect();
    rest.remove(3);
    assert!(fault(rest.concat().as_bytes()).contains("not whole"));
    assert!(fault(b"").contains("empty"));
    let twice = format!("{text}{text}");
    assert!(fault(twice.as_bytes()).contains("behind the end"));
}

/// A member of a line, and a value that it cannot have.
fn bad_values() -> Vec<(usize, &'static str, Value)> {
    let long = "x".repeat(200);
    vec![
        (1, "/user/name", json!("a b")),
        (1, "/user/name", json!("a\u{1b}[2J")),
        (1, "/user/name", json!("a\nb")),
        (1, "/user/name", json!("")),
        (1, "/user/name", json!(long)),
        (1, "/user/name", json!(5)),
        (1, "/user/name", json!(["a"])),
        (1, "/user/domain", json!("A.com")),
        (1, "/user/domain", json!("a..com")),
        (1, "/user/domain", json!("../x")),
        (1, "/user/ha1/md5", json!("00")),
        (1, "/user/ha1/md5", json!("zz112233445566778899aabbccddeeff")),
        (1, "/user/ha1", json!({ "md5": MD5 })),
        (1, "/user/ha1", json!(null)),
        (2, "/user/authentication/name", json!("alice@a.com")),
        (2, "/user/authentication/name", json!("a b")),
        (0, "/realm/realm", json!("a\"b")),
        (3, "/services/no_answer", json!("alice")),
        (3, "/services/no_answer", json!("al ice@a.com")),
        (3, "/services/after", json!(0)),
        (3, "/services/after", json!(-1)),
        (3, "/services/after", json!(1e9)),
        (3, "/services/no_answer", json!(null)),
        (4, "/account/name", json!("eve<script>")),
        (4, "/account/role", json!("root")),
        (4, "/account/password", json!("plain")),
        (4, "/account/password", json!(PASSWORD.replace("m=19456", "m=4000000"))),
        (4, "/account/created", json!(253_402_300_800_u64)),
        (5, "/token/created", json!(u64::MAX)),
        (4, "/account/second_factor/secret", json!("00")),
        (5, "/token/hash", json!("00")),
        (5, "/token/name", json!("a\u{0}")),
        (5, "/token/role", json!("Administrator")),
        (6, "/configuration/text", json!("a\u{0}b")),
        (6, "/configuration/text", json!("x".repeat((1 << 20) + 1))),
        (7, "/certificate/name", json!("../../etc/passwd")),
        (7, "/certificate/name", json!("/etc/passwd")),
        (7, "/certificate/name", json!("barebell.sqlite")),
        (7, "/certificate/name", json!("tls-chain.pem\u{0}")),
        (8, "/message/mailbox", json!("../../x")),
        (8, "/message/mailbox", json!("bob")),
        (8, "/message/id", json!("../7")),
        (8, "/message/id", json!(u64::MAX)),
        (8, "/message/at", json!(u64::MAX)),
        (8, "/message/sound", json!("!!")),
        (8, "/message/sound", json!("AAAA")),
    ]
}

#[test]
fn bad_values_are_refused_with_their_line() {
    for (at, place, value) in bad_values() {
        let mut lines = lines();
        *lines[at].pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value.clone();
        let error = fault(backup(&lines).as_bytes());
        assert!(
            error.starts_with(&format!("the backup cannot be used: line {}", at + 2)),
            "{error}"
        );
        assert!(!error.chars().any(char::is_control), "{error:?}");
        assert!(error.len() < 2000, "{error}");
    }
}

#[test]
fn unknown_and_missing_members_are_refused() {
    for at in 0..lines().len() {
        let mut with = lines();
        let kind = with[at].as_object().unwrap().keys().next().unwrap().clone();
        with[at][&kind]["command"] = json!("rm -r /");
        let error = fault(backup(&with).as_bytes());
        assert!(error.contains("unknown field `command`") && error.contains("column"), "{error}");
        let mut without = lines();
        let members = without[at][&kind].as_object_mut().unwrap();
        let optional = ["authentication", "address_ha1", "second_factor", "after"];
        let name = members.keys().find(|it| !optional.contains(&&***it)).unwrap().clone();
        members.remove(&name);
        assert!(fault(backup(&without).as_bytes()).contains("missing field"), "{kind} {name}");
    }
    for line in [
        json!({ "exec": {} }),
        json!({}),
        json!([]),
        json!(null),
        json!("user"),
        json!({ "user": {}, "token": {} }),
        head(),
    ] {
        let _ = fault(backup(&[line]).as_bytes());
    }
    let doubled = backup(&lines()).replacen(
        "\"domain\":\"a.com\"",
        "\"domain\":\"a.com\",\"domain\":\"b.com\"",
        1,
    );
    assert!(fault(doubled.as_bytes()).contains("duplicate field"));
    let _ = fault("[".repeat(100_000).as_bytes());
    let _ = fault(b"\xff\xfe");
    let _ = fault("\u{feff}{}".as_bytes());
}

#[test]
fn what_is_there_twice_is_refused() {
    for at in 0..lines().len() {
        let mut twice = lines();
        twice.push(twice[at].clone());
        let error = fault(backup(&twice).as_bytes());
        assert!(error.contains("twice") || error.contains("two names"), "{error}");
    }
    for name in ["alice", "4711"] {
        let mut lines = lines();
        lines.push(json!({ "user": {
            "name": "mal", "domain": "a.com", "ha1": ha1(),
            "authentication": { "name": name, "ha1": ha1() },
        } }));
        let error = fault(backup(&lines).as_bytes());
        assert!(error.contains("both log in as"), "{error}");
    }
    let mut renamed = lines();
    renamed.push(
        json!({ "token": { "name": "x", "role": "administrator", "hash": SHA, "created": 7 } }),
    );
    assert!(fault(backup(&renamed).as_bytes()).contains("two names"));
}

#[test]
fn other_versions_and_unnamed_parts_are_refused() {
    let text = backup(&lines());
    let other = text.replacen("\"version\":1", "\"version\":2", 1);
    assert!(fault(other.as_bytes()).contains("version 2, this program reads version 1"));
    let fewer = text.replacen("\"users\",", "", 1);
    assert!(fault(fewer.as_bytes()).contains("does not name the part users"));
    let more = text.replacen("\"users\",", "\"users\",\"scripts\",", 1);
    assert!(fault(more.as_bytes()).contains("unknown variant"));
    let twice = text.replacen("\"users\",", "\"users\",\"users\",", 1);
    assert!(fault(twice.as_bytes()).contains("twice"));
    let late = text.replacen("\"made\":5", "\"made\":300000000000", 1);
    assert!(fault(late.as_bytes()).contains("out of range"));
    let headless = text.split_once('\n').unwrap().1;
    assert!(fault(headless.as_bytes()).contains("this is no backup"));
}

#[test]
fn a_changed_backup_is_read_or_refused() {
    let text = backup(&lines()).into_bytes();
    let mut random = Random::new(7);
    let pieces: [&[u8]; 6] = [b"\"", b"{", b"\\u0000", b"\n", b"-1", b"99999999999999999999"];
    for _ in 0..5000 {
        let mut changed = text.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(changed.len() as u64) as usize;
            let length = random.below(20) as usize;
            let end = (at + length).min(changed.len());
            let piece = *random.pick(&pieces);
            changed.splice(at..end, piece.iter().copied());
        }
        if let Err(error) = read(&mut &*changed) {
            let error = error.to_string();
            assert!(!error.chars().any(char::is_control) && error.len() < 2000, "{error:?}");
        }
    }
}

#[test]
fn a_line_that_is_too_long_is_not_read_to_its_end() {
    /// An endless line.
    struct Endless(u64);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += buffer.len() as u64;
            buffer.fill(b'"');
            Ok(buffer.len())
        }
    }
    let mut input = io::BufReader::new(Endless(0));
    let error = read(&mut input).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("has more than"), "{error}");
    assert!(input.get_ref().0 < 2 * MAX_LINE);
}
