//! Backups of the real server: by command, by page and by the API, and attacks with malicious ones.

use crate::rig::{PASSWORD, Response, Rig, cookie};
use peers::server::DOMAIN;
use serde_json::Value;
use test_support::agent::Agent;

/// Sends `content` as a file to `path` in a session.
fn upload(rig: &Rig, session: &str, path: &str, content: &str) -> Response {
    let csrf = rig.csrf(session);
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n--b\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{content}\r\n\
         --b--\r\n"
    );
    let fields = format!(
        "Cookie: {session}\r\nContent-Type: multipart/form-data; boundary=b\r\nOrigin: http://{}\r\n",
        rig.address
    );
    rig.request("POST", path, &fields, &body)
}

fn names(rig: &Rig) -> Vec<String> {
    let users = rig.exchange.server.rows(&["user", "list", "--json"]);
    users.iter().map(|row| row["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_restored_server_has_the_users_and_their_passwords_again() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let server = &rig.exchange.server;
    let _ = server.run(&["user", "forward", "alice", "--busy", "bob"]);
    let file = server.data().join("../backup.jsonl");
    let file = file.to_str().expect("a path of text");
    let said = server.run(&["backup", file]);
    assert!(said.contains("keep them as safe as passwords"), "{said}");
    let downloaded = rig.post_form("/panel/backup/download", &session, "");
    assert!(downloaded.field("content-disposition").contains("backup.jsonl"), "{downloaded:?}");
    let kept = std::fs::read_to_string(file).expect("the file was written");
    let data = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(data(&downloaded.body), data(&kept), "the panel and the command agree");

    // The users change, and a phone of a user that the backup does not have registers.
    for arguments in [
        &["user", "remove", "alice"][..],
        &["user", "add", "bob", "--password", "another"],
        &["user", "add", "mal", "--password", "secret"],
    ] {
        let _ = server.run(arguments);
    }
    let mut mal = Agent::new("mal", "secret", DOMAIN, server.address());
    mal.register();
    let trial = server.run(&["restore", file, "--dry-run"]);
    assert!(trial.contains("dry run: nothing is changed"), "{trial}");
    assert!(trial.contains(&format!("1 added (alice@{DOMAIN})")), "{trial}");
    assert!(trial.contains(&format!("1 changed (bob@{DOMAIN})")), "{trial}");
    assert!(trial.contains(&format!("1 removed (mal@{DOMAIN})")), "{trial}");
    assert_eq!(names(&rig), ["bob", "carol", "mal"]);
    let page = upload(&rig, &session, "/panel/backup/restore", &kept);
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains(&format!("1: mal@{DOMAIN}")), "{page:?}");
    assert_eq!(names(&rig), ["bob", "carol", "mal"], "the effect was shown only");
    let applied = rig.post_form("/panel/backup/restore/apply", &session, "");
    assert_eq!(applied.field("location"), "/panel/backup", "{applied:?}");
    assert_eq!(names(&rig), ["alice", "bob", "carol"]);
    let _ = server.wait_for_registrations("mal", 0);
    // Logins with the passwords of the backup.
    for user in ["alice", "bob"] {
        let _ = rig.exchange.agent(user);
    }
    let users = server.rows(&["user", "list", "--json"]);
    let alice = users.iter().find(|row| row["name"] == "alice").expect("she is a user");
    assert_eq!(alice["services"]["busy"], format!("bob@{DOMAIN}"));
    let page = rig.get("/panel/access", &session).body;
    for action in ["make backup", "restore backup", "barebell backup"] {
        assert!(page.contains(action), "{action}: {page}");
    }
}

#[test]
fn a_restore_of_other_accounts_ends_the_sessions() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let server = &rig.exchange.server;
    let backup = server.run(&["backup", "-"]);
    let form = format!("name=joe&new={PASSWORD}&role=administrator");
    rig.post_form("/panel/access/accounts", &session, &form);
    let login = rig.post("/panel/login", "", &format!("name=joe&password={PASSWORD}"));
    let joe = cookie(&login);
    assert_eq!(rig.get("/panel/", &joe).status, 200);
    let token = rig.token("administrator");
    let trial = rig.api(&token, "POST", "/restore?dry_run=true", &backup);
    let report: Value = serde_json::from_str(&trial.body).expect("the answer is JSON");
    assert_eq!(report["accounts"]["removed"]["first"][0], "joe", "{report}");
    assert_eq!(rig.get("/panel/", &joe).status, 200);
    assert_eq!(rig.api(&token, "POST", "/restore", &backup).status, 200);
    assert_eq!(rig.get("/panel/", &joe).field("location"), "/panel/login");
    assert_eq!(rig.get("/panel/", &session).status, 200, "eve is as she was");
    assert_eq!(rig.api(&token, "GET", "/status", "").status, 401, "the token is gone, too");
}

#[test]
fn malicious_backups_change_nothing() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let server = &rig.exchange.server;
    let good = server.run(&["backup", "-"]);
    let (lines, account) = (good.lines().count() - 1, "{\"account\"");
    let more = |line: &str| {
        let end = format!("{{\"end\":{{\"lines\":{}}}}}", lines + 1);
        format!("{}{line}\n{end}\n", good.split("{\"end\"").next().expect("a first part"))
    };
    let certificate =
        |name: &str| format!("{{\"certificate\":{{\"name\":\"{name}\",\"text\":\"x\"}}}}");
    let certificates = good.replacen("[\"users\"", "[\"certificates\",\"users\"", 1);
    let without = good.lines().filter(|line| !line.starts_with(account));
    let without: String = without.map(|line| format!("{line}\n")).collect();
    let without =
        without.replace(&format!("\"lines\":{lines}"), &format!("\"lines\":{}", lines - 1));
    let deep = "[".repeat(60_000);
    let user = good.lines().find(|line| line.starts_with("{\"user\"")).expect("there are users");
    let data = server.data();
    let files = || {
        let entries = std::fs::read_dir(&data).expect("the folder is there");
        let mut names: Vec<_> = entries.map(|it| it.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let before = (names(&rig), files());
    for (bad, reason) in [
        (more(&certificate("../../evil")), "unknown variant"),
        (more(&certificate("tls-key.pem")), "does not name the part certificates"),
        (
            certificates.replacen(
                "{\"end\"",
                &format!("{}\n{{\"end\"", certificate("tls-key.pem")),
                1,
            ),
            "not whole",
        ),
        (more(user), "twice"),
        (good.replace("\"alice\"", "\"ali\\u001bce\""), "contains"),
        (good.replacen("\"version\":1", "\"version\":9", 1), "version 9"),
        (good.replacen("\"name\":\"alice\"", "\"name\":7", 1), "invalid type"),
        (more("{\"script\":{\"run\":\"rm\"}}"), "unknown variant"),
        (without, "last one"),
        (deep, "line 1"),
        (good[..good.len() / 2].to_owned(), "line"),
        ("\u{0}\u{1}".to_owned(), "line 1"),
    ] {
        let page = upload(&rig, &session, "/panel/backup/restore", &bad);
        assert_eq!(page.status, 422, "{reason}: {page:?}");
        assert!(page.body.contains(reason), "{reason}: {page:?}");
        rig.post_form("/panel/backup/restore/apply", &session, "");
        assert_eq!((names(&rig), files()), before, "{reason}");
    }
    assert_eq!(rig.get("/panel/", &session).status, 200, "the administrator is still there");
    // Huge ones: of a stranger, and of an administrator beyond the limit.
    let huge = "x".repeat(70_000);
    assert_eq!(upload(&rig, &session, "/panel/import", &huge).status, 422, "a long list is read");
    let fields = "Content-Type: multipart/form-data; boundary=b\r\n";
    assert_eq!(rig.request("POST", "/panel/backup/restore", fields, &huge).status, 413);
    let claimed = rig.send(&format!(
        "POST /panel/backup/restore HTTP/1.1\r\nHost: {}\r\nCookie: {session}\r\n\
         Connection: close\r\nContent-Length: 99999999999\r\n\r\nx",
        rig.address
    ));
    assert_eq!(claimed.status, 413, "{claimed:?}");
    assert_eq!(rig.get("/healthz", "").status, 200);
}

#[test]
fn a_link_for_a_phone_holds_after_a_restart() {
    let mut rig = Rig::new("");
    let token = rig.token("operator");
    let made = rig.api(&token, "POST", "/users/bob/phone-links", "{\"kind\":\"barebell-phone\"}");
    let made: Value = serde_json::from_str(&made.body).expect("the answer is JSON");
    let url = made["url"].as_str().expect("a link was made");
    let path =
        url.strip_prefix(&format!("http://{}", rig.address)).expect("a link here").to_owned();
    rig.exchange.server.stop();
    rig.exchange.server.restart();
    let file = rig.get(&path, "");
    assert!(file.status == 200 && file.body.contains("password = \""), "{file:?}");
    rig.exchange.server.stop();
    rig.exchange.server.restart();
    assert_eq!(rig.get(&path, "").status, 404, "a used link does not come back");
}

#[test]
fn a_forgotten_password_is_set_by_a_command() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let server = &rig.exchange.server;
    let said = server.run(&["account", "password", "eve", "--password", "quite another one"]);
    assert!(said.contains("set the password of eve"), "{said}");
    assert_eq!(rig.get("/panel/", &session).field("location"), "/panel/login");
    let log_in = |password: &str| {
        rig.post("/panel/login", "", &format!("name=eve&password={password}")).status
    };
    assert_eq!((log_in(PASSWORD), log_in("quite another one")), (422, 303));
}
