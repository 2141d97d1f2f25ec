//! Attacks on the panel of the real server, and the way of an administrator by plain HTTP.

use crate::rig::{PASSWORD, Rig, cookie};
use peers::server::DOMAIN;
use peers::test_server::PASSWORD as USER_PASSWORD;
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

#[test]
fn an_administrator_manages_users_whose_phones_follow() {
    let rig = Rig::new("");
    let session = rig.set_up();
    assert_eq!(rig.get("/panel/setup?key=x", "").status, 403);
    let added = rig.post_form("/panel/users", &session, "user=dave&new=very secret");
    let page = rig.get(added.field("location"), &session).body;
    assert!(page.contains(&format!("dave@{DOMAIN} was added")), "{page}");
    rig.post_form("/panel/users", &session, "user=dave&new=another secret");
    let page = rig.get("/panel/users", &session).body;
    assert!(page.contains(&format!("dave@{DOMAIN} exists already")), "{page}");
    assert!(page.contains(&format!("alice@{DOMAIN}")), "{page}");
    rig.post_form("/panel/users", &session, "user=dave@elsewhere.test&new=another secret");
    let page = rig.get("/panel/users", &session).body;
    assert!(page.contains("does not serve the domain elsewhere.test"), "{page}");
    assert!(!page.contains("dave@elsewhere.test"), "{page}");
    let page = rig.get("/panel/users?search=DAV", &session).body;
    assert!(page.contains("dave@") && !page.contains(&format!("alice@{DOMAIN}")), "{page}");
    let alice = rig.exchange.agent("alice");
    let page = rig.get(&format!("/panel/users/alice@{DOMAIN}"), &session).body;
    assert!(page.contains("sip:alice@127.0.0.1"), "{page}");
    let form = "busy=bob&no_answer=carol&after=15&do_not_disturb=1";
    rig.post_form(&format!("/panel/users/alice@{DOMAIN}/services"), &session, form);
    let users = rig.exchange.server.rows(&["user", "list", "--json"]);
    let row = users.iter().find(|row| row["name"] == "alice").expect("she is a user");
    let services = &row["services"];
    assert_eq!(services["busy"], format!("bob@{DOMAIN}"), "{row}");
    assert_eq!(services["no_answer"], format!("carol@{DOMAIN}"), "{row}");
    assert_eq!((&services["after"], &services["do_not_disturb"]), (&15_000.into(), &true.into()));
    rig.post_form(&format!("/panel/users/alice@{DOMAIN}/services"), &session, "");
    let users = rig.exchange.server.rows(&["user", "list", "--json"]);
    let row = users.iter().find(|row| row["name"] == "alice").expect("she is a user");
    assert!(row.get("services").is_none(), "{row}");
    rig.post_form(&format!("/panel/users/alice@{DOMAIN}/remove"), &session, "");
    let _ = rig.exchange.server.wait_for_registrations("alice", 0);
    drop(alice);
    let accounts = rig.exchange.server.rows(&["account", "list", "--json"]);
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    assert_eq!(
        (&accounts[0]["name"], &accounts[0]["second_factor"]),
        (&"eve".into(), &false.into())
    );
    let page = rig.get("/panel/access", &session).body;
    for action in ["make the first administrator", "put user", "change services", "remove user"] {
        assert!(page.contains(action), "{action}: {page}");
    }
}

#[test]
fn accounts_survive_a_restart_and_sessions_do_not() {
    let mut rig = Rig::new("");
    let session = rig.set_up();
    assert_eq!(rig.get("/panel/", &session).status, 200);
    rig.exchange.server.stop();
    rig.exchange.server.restart();
    assert_eq!(rig.get("/panel/", &session).field("location"), "/panel/login");
    let reply = rig.post("/panel/login", "", &format!("name=eve&password={PASSWORD}"));
    assert_eq!(rig.get("/panel/", &cookie(&reply)).status, 200);
    let links = rig.exchange.server.log().matches("make the first administrator").count();
    assert_eq!(links, 1, "there is an administrator after the restart");
}

#[test]
fn requests_for_other_hosts_and_from_other_sites_are_refused() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let csrf = rig.csrf(&session);
    let token = rig.token("reader");
    for host in ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil.example", "a b"] {
        for path in ["/panel/", "/panel/me/login", "/panel/phone/x", "/api/v1/users"] {
            let response = rig.send(&format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {session}\r\n\
                 Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
            ));
            assert_eq!(response.status, 421, "{host} {path}");
            assert!(!response.body.contains(DOMAIN), "{response:?}");
        }
    }
    // Links have the host of their request, which is one of this server.
    let wish = "{\"kind\":\"linphone\"}";
    let fields = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
         X-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\n",
        rig.token("operator")
    );
    let link = rig.request("POST", "/api/v1/users/alice/phone-links", &fields, wish);
    assert!(link.body.contains(&format!("http://{}/", rig.address)), "{link:?}");
    assert!(!link.body.contains("evil"), "{link:?}");
    let form = format!("csrf={csrf}&user=mal&new=very+secret");
    for origin in
        ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"]
    {
        let fields = format!(
            "Cookie: {session}\r\nContent-Type: application/x-www-form-urlencoded\r\n{origin}"
        );
        assert_eq!(rig.request("POST", "/panel/users", &fields, &form).status, 403, "{origin}");
    }
    assert_eq!(rig.post("/panel/users", &session, "user=mal&new=very+secret").status, 403);
    assert_eq!(rig.exchange.server.rows(&["user", "list", "--json"]).len(), 3);
}

#[test]
fn a_cookie_that_an_attacker_has_set_is_no_session_after_the_login() {
    let rig = Rig::new("");
    let _ = rig.set_up();
    for (path, name, cookie_name, password) in [
        ("/panel/login", "eve", "barebell", PASSWORD),
        ("/panel/me/login", "alice", "barebell-user", USER_PASSWORD),
    ] {
        let chosen = format!("{cookie_name}=chosen");
        let form = format!("name={name}&password={password}");
        let response = rig.post(path, &chosen, &form);
        let session = cookie(&response);
        assert!(session.starts_with(&format!("{cookie_name}=")), "{response:?}");
        assert_ne!(session, chosen);
        let page = path.trim_end_matches("login");
        assert_eq!(rig.get(page, &chosen).field("location"), path);
        assert_eq!(rig.get(page, &session).status, 200);
        // The identifier of an attacker's own session is not kept either.
        let again = cookie(&rig.post(path, &session, &form));
        assert_ne!(again, session);
        assert_eq!(rig.get(page, &session).field("location"), path);
    }
}

#[test]
fn replies_forbid_frames_scripts_and_caches() {
    let rig = Rig::new("");
    let session = rig.set_up();
    for path in ["/panel/", "/panel/login", "/panel/users", "/api/v1/status", "/panel/nothing"] {
        let response = rig.get(path, &session);
        let rules = response.field("content-security-policy");
        assert!(rules.contains("frame-ancestors 'none'"), "{path}: {response:?}");
        assert!(rules.contains("default-src 'none'") && !rules.contains("unsafe"), "{path}");
        assert_eq!(response.field("x-frame-options"), "DENY", "{path}");
        assert_eq!(response.field("cache-control"), "no-store", "{path}");
        assert_eq!(response.field("x-content-type-options"), "nosniff", "{path}");
    }
    let head = rig.request("HEAD", "/panel/", &format!("Cookie: {session}\r\n"), "");
    assert!(head.status == 200 && head.body.is_empty(), "{head:?}");
}

#[test]
fn huge_and_odd_requests_are_refused_and_monitoring_goes_on() {
    let rig = Rig::new("");
    let form = format!("name={}", "x".repeat(70_000));
    assert_eq!(rig.post("/panel/login", "", &form).status, 413);
    assert_eq!(rig.request("TRACE", "/panel/", "", "").status, 405);
    assert_eq!(rig.request("DELETE", "/panel/users", "", "").status, 405);
    for path in
        ["/panel/..%2f..%2fetc/passwd", "/panel/%ff", "/panel/panel.css%00", "/panel/%0d%0aX:y"]
    {
        let response = rig.get(path, "");
        assert!(matches!(response.status, 303 | 400 | 404), "{path}: {response:?}");
        assert!(!response.head.contains("X:y") && !response.body.contains("root:"), "{path}");
    }
    assert_eq!(rig.get("/metrics", "").status, 200);
    assert_eq!(rig.get("/healthz", "").status, 200);
}

#[test]
fn without_the_setting_there_is_no_panel() {
    let rig = Rig::with("[panel]\nenabled = false\n");
    assert!(!rig.exchange.server.log().contains("the panel"));
    for path in ["/", "/panel/", "/panel/login", "/api/v1/openapi.json"] {
        assert_eq!(rig.get(path, "").status, 404, "{path}");
    }
}

#[test]
fn header_fields_of_callers_are_text_in_pages() {
    let rig = Rig::new("[media]\nrelay = \"all\"\n");
    let session = rig.set_up();
    let bait = "%3Cscript%3Ealert(1)%3C/script%3E";
    let mut caller = rig.exchange.agent("alice");
    let mut dialog = caller.dialog(&format!("sip:{bait}@{DOMAIN}"));
    caller.ask(
        &mut dialog,
        "INVITE",
        "Subject: <script>alert(1)</script>\r\n",
        test_support::agent::SESSION,
    );
    let _ = caller.response("INVITE", 404);
    rig.exchange.server.wait_for_history(1);
    for path in ["/panel/records", "/panel/calls", "/panel/registrations"] {
        let page = rig.get(path, &session).body;
        assert!(!page.contains("<script>alert"), "{path}: {page}");
    }
    let page = rig.get("/panel/records", &session).body;
    assert!(page.contains("404"), "{page}");
    let csv = rig.get("/panel/records.csv", &session);
    assert!(csv.field("content-type").starts_with("text/csv"), "{csv:?}");
    assert!(csv.field("content-disposition").starts_with("attachment"), "{csv:?}");
    assert_eq!(csv.body.lines().count(), 2, "{csv:?}");
}

#[test]
fn an_operator_ends_a_registration_and_sees_why_a_call_failed() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let mut alice = rig.exchange.agent("alice");
    let bob = rig.exchange.agent("bob");
    let contact = rig.exchange.server.wait_for_registrations("bob", 1)[0].contact.clone();
    let form = format!("user=bob@{DOMAIN}&contact={contact}");
    rig.post_form("/panel/registrations/end", &session, &form);
    let page = rig.get("/panel/registrations", &session).body;
    assert!(page.contains(&format!("The registration of bob@{DOMAIN} was ended")), "{page}");
    let _ = rig.exchange.server.wait_for_registrations("bob", 0);
    let mut dialog = alice.dialog(&format!("sip:bob@{DOMAIN}"));
    alice.ask(&mut dialog, "INVITE", "", test_support::agent::SESSION);
    let _ = alice.response("INVITE", 480);
    let page = rig.get("/panel/refusals?target=alice", &session).body;
    assert!(page.contains("480") && page.contains("no registered phone"), "{page}");
    let page = rig.get("/panel/refusals?target=carol", &session).body;
    assert!(page.contains("No refused request fits"), "{page}");
    let page = rig.get("/panel/trace?target=alice", &session).body;
    assert!(page.contains("480") && page.contains("INVITE"), "{page}");
    for digest in page.split("response=&quot;").skip(1) {
        assert!(digest.starts_with("xxxxxxxx"), "a digest is shown: {page}");
    }
    let page = rig.get("/panel/access", &session).body;
    assert!(page.contains("end registration"), "{page}");
    drop(bob);
}

#[test]
fn a_call_id_from_many_ports_makes_no_wide_ladder() {
    let rig = Rig::new("");
    let server = rig.exchange.server.address();
    // They stay open: no port is taken twice.
    let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let sockets: Vec<UdpSocket> = (0..300).map(bind).collect();
    for (number, socket) in sockets.iter().enumerate() {
        let from = socket.local_addr().expect("it is bound");
        let invite = format!(
            "INVITE sip:bob@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@{DOMAIN}>;tag=1\r\nTo: <sip:bob@{DOMAIN}>\r\n\
             Call-ID: of-many-ports\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@{from}>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        socket.send_to(invite.as_bytes(), server).expect("it is sent");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("it is a valid time");
        let mut response = [0; 2048];
        let length = socket.recv(&mut response).expect("the server responds");
        assert!(response[..length].starts_with(b"SIP/2.0 "), "{response:?}");
    }
    let traces = rig.api(&rig.token("operator"), "GET", "/traces/of-many-ports", "");
    let traces: Value = serde_json::from_str(&traces.body).expect("the answer is JSON");
    let call = &traces["items"][0];
    let messages = call["messages"].as_array().map(Vec::len).unwrap_or_default();
    assert!(messages >= 600, "{messages} messages");
    let ladder = call["ladder"].as_str().expect("a text");
    assert!(ladder.lines().next().is_some_and(|line| line.ends_with(" 285 others")), "{ladder}");
    assert!(ladder.len() < 600 * messages, "{} bytes", ladder.len());
}
