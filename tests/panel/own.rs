//! The pages of a user of the real server: login with the SIP password, forwards, voicemail, calls.

use crate::rig::{Rig, cookie};
use peers::call::establish;
use peers::server::DOMAIN;
use peers::test_server::PASSWORD;
use std::fs;

/// The cookie of a login of `user`.
fn log_in(rig: &Rig, user: &str, password: &str) -> String {
    let form = format!("name={user}&password={password}");
    let response = rig.post("/panel/me/login", "", &form);
    assert_eq!(response.field("location"), "/panel/me/", "{response:?}");
    cookie(&response)
}

/// A form of a user's page.
fn post(rig: &Rig, path: &str, session: &str, form: &str) -> String {
    let csrf = rig.csrf_of("/panel/me/calls", session);
    let response = rig.post(path, session, &format!("csrf={csrf}&{form}"));
    assert_eq!(response.field("location"), "/panel/me/", "{response:?}");
    rig.get("/panel/me/", session).body
}

#[test]
fn a_user_changes_forwards_and_password_and_hears_messages() {
    let rig = Rig::new("[media]\nrelay = \"all\"\n");
    let server = &rig.exchange.server;
    let mailbox = server.data().join("voicemail").join(format!("alice@{DOMAIN}"));
    fs::create_dir_all(&mailbox).expect("the data directory can be written");
    let description = "{\"id\":3,\"caller\":\"bob@x.test\",\"proved\":true,\"at\":1800000000,\
                       \"samples\":16000,\"heard\":false}";
    fs::write(mailbox.join("3.json"), description).expect("the folder can be written");
    fs::write(mailbox.join("3.wav"), "RIFF of a voice").expect("the folder can be written");
    let session = log_in(&rig, "alice", PASSWORD);
    let page = rig.get("/panel/me/", &session).body;
    assert!(page.contains("bob@x.test") && page.contains("new"), "{page}");
    let sound = rig.get("/panel/me/voicemail/3.wav", &session);
    assert_eq!((sound.field("content-type"), &*sound.body), ("audio/wav", "RIFF of a voice"));
    let described = fs::read_to_string(mailbox.join("3.json")).expect("the message stays");
    assert!(described.contains("\"heard\":true"), "{described}");
    // No other user hears it.
    let of_bob = log_in(&rig, &format!("bob@{DOMAIN}"), PASSWORD);
    assert_eq!(rig.get("/panel/me/voicemail/3.wav", &of_bob).status, 404);
    let _ = post(&rig, "/panel/me/voicemail/delete", &of_bob, "id=3");
    assert!(mailbox.join("3.wav").exists());
    let page = post(&rig, "/panel/me/voicemail/delete", &session, "id=3");
    assert!(page.contains("The message was deleted") && page.contains("There is no message"));
    assert!(!mailbox.join("3.wav").exists());

    let page = post(&rig, "/panel/me/services", &session, "busy=carol&do_not_disturb=1");
    assert!(page.contains("The call services were saved"), "{page}");
    let users = server.rows(&["user", "list", "--json"]);
    let row = |name: &str| users.iter().find(|row| row["name"] == name).expect("a user").clone();
    assert_eq!(row("alice")["services"]["busy"], format!("carol@{DOMAIN}"));
    assert!(row("bob").get("services").is_none());

    let form = format!("password={PASSWORD}&new=a better one&again=a better one");
    let page = post(&rig, "/panel/me/password", &session, &form);
    assert!(page.contains("The password was changed"), "{page}");
    let form = format!("name=alice&password={PASSWORD}");
    assert_eq!(rig.post("/panel/me/login", "", &form).status, 422);
    let again = log_in(&rig, "alice", "a better one");
    // A password that is changed elsewhere ends the sessions.
    server.run(&["user", "add", "alice", "--password", PASSWORD]);
    for session in [session, again] {
        assert_eq!(rig.get("/panel/me/", &session).field("location"), "/panel/me/login");
    }
}

#[test]
fn a_login_of_another_user_gives_no_further_guesses() {
    let rig = Rig::new("");
    // Attempts of pairs that have logged in are not limited in a second.
    for user in ["alice", "bob"] {
        let _ = log_in(&rig, user, PASSWORD);
    }
    let names = ["alice", "sip:alice", &format!("alice@{DOMAIN}")];
    for guess in 0..10 {
        if guess == 9 {
            let _ = log_in(&rig, "bob", PASSWORD);
        }
        let form = format!("name={}&password=guess", names[guess % 3]);
        assert_eq!(rig.post("/panel/me/login", "", &form).status, 422, "{guess}");
    }
    for user in ["alice", "bob"] {
        let form = format!("name={user}&password={PASSWORD}");
        assert_eq!(rig.post("/panel/me/login", "", &form).status, 429, "{user}");
    }
}

#[test]
fn a_user_sees_own_calls_and_phones_only() {
    let rig = Rig::new("[media]\nrelay = \"all\"\n");
    let (mut caller, mut callee) =
        establish(rig.exchange.agent("alice"), rig.exchange.agent("bob"));
    let _ = caller.pass(&mut callee, "BYE", "");
    rig.exchange.server.wait_for_history(1);
    for (user, is_party) in [("alice", true), ("bob", true), ("carol", false)] {
        let session = log_in(&rig, user, PASSWORD);
        let page = rig.get("/panel/me/calls", &session).body;
        let is_shown =
            page.contains(&format!("<td role=\"cell\" data-label=\"Caller\">alice@{DOMAIN}"));
        assert_eq!(is_shown, is_party, "{user}: {page}");
        let page = rig.get("/panel/me/", &session).body;
        for name in ["alice", "bob"] {
            let contact = format!("sip:{name}@127.0.0.1");
            assert_eq!(page.contains(&contact), name == user, "{user}: {page}");
        }
        assert_eq!(rig.get("/panel/users", &session).field("location"), "/panel/login");
    }
}

#[test]
fn without_the_setting_users_have_no_page() {
    let rig = Rig::with("[panel]\nenabled = true\nusers = false\n");
    assert_eq!(rig.get("/panel/me/login", "").status, 404);
    assert!(!rig.get("/panel/login", "").body.contains("/panel/me"));
}
