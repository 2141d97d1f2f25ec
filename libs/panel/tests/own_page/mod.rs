//! The pages of a user, and attacks on them: no user sees or changes the data of another one.

use crate::rig::{PASSWORD, Rig, asked, field, text};
use panel::{Config, Method, Question, RecordFilter};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const ALICE: &str = "alice@a.com";

/// The forms of a user's pages.
const FORMS: [(&str, &str); 3] = [
    ("/panel/me/services", "busy=carol"),
    ("/panel/me/voicemail/delete", "id=7"),
    ("/panel/me/password", "password=the password of alice&new=0123456789&again=0123456789"),
];

/// The question of a user's pages with the user of each.
fn user_of(question: &Question) -> Option<String> {
    match question {
        Question::User(user)
        | Question::PutUser { user, .. }
        | Question::ChangeServices { user, .. }
        | Question::Registrations { user: Some(user), .. }
        | Question::Records(RecordFilter { user: Some(user), .. })
        | Question::Voicemail(user)
        | Question::DeleteMessage { user, .. } => Some(user.clone()),
        _ => None,
    }
}

#[test]
fn a_user_sees_and_changes_own_data_only() {
    let mut rig = Rig::of_user();
    asked(&rig);
    // Names of other users in any field and query have no effect.
    let other = "user=bob@a.com&name=bob@a.com&account=bob@a.com";
    for path in ["/panel/me/", "/panel/me/calls", "/panel/me/calls?before=9"] {
        let joint = if path.contains('?') { '&' } else { '?' };
        let reply = rig.get(&format!("{path}{joint}{other}"));
        assert_eq!(reply.status, 200, "{path}");
        assert!(text(&reply).contains(ALICE), "{path}");
    }
    for (path, form) in FORMS {
        let reply = rig.post_own(path, &format!("{form}&{other}"));
        assert_eq!(field(&reply, "location"), Some("/panel/me/"), "{path}");
    }
    let asked = asked(&rig);
    let changes = asked.iter().filter(|it| !matches!(it, Question::Status));
    assert!(changes.clone().count() > 6, "{asked:?}");
    for question in changes {
        assert_eq!(user_of(question).as_deref(), Some(ALICE), "{question:?}");
    }
    let put = Question::PutUser { user: ALICE.to_owned(), password: "0123456789".to_owned() };
    let delete = Question::DeleteMessage { user: ALICE.to_owned(), id: 7 };
    let change = json!({ "off": "all", "busy": "carol", "do_not_disturb": false });
    let services = Question::ChangeServices { user: ALICE.to_owned(), change };
    for expected in [put, delete, services] {
        assert!(asked.contains(&expected), "{expected:?}");
    }
    let actions = rig.data.actions.lock();
    for action in ["log in", "change services", "delete message", "put user"] {
        let is_it = |it: &&store::PanelAction| it.account == format!("user {ALICE}");
        assert!(actions.iter().filter(is_it).any(|it| it.action == action), "{action}");
    }
}

#[test]
fn a_form_is_one_change_and_one_that_changes_nothing_is_no_action() {
    let mut rig = Rig::of_user();
    asked(&rig);
    let changes = |rig: &Rig| {
        let actions = rig.data.actions.lock();
        actions.iter().filter(|it| it.action == "change services").count()
    };
    for (form, expected) in [("busy=carol", 1), ("", 1), ("busy=&always=", 1), ("busy=carol", 2)] {
        rig.post_own("/panel/me/services", form);
        let is_change = |it: &&Question| matches!(it, Question::ChangeServices { .. });
        assert_eq!(asked(&rig).iter().filter(is_change).count(), 1, "{form}");
        assert_eq!(changes(&rig), expected, "{form}");
    }
}

#[test]
fn a_session_of_a_user_opens_no_page_of_accounts_and_no_api() {
    let mut rig = Rig::of_user();
    let cookie = rig.cookie.clone();
    let id = cookie.split_once('=').unwrap().1.to_owned();
    // Also under the name of the other cookie.
    for cookie in [cookie, format!("barebell={id}")] {
        asked(&rig);
        for path in crate::PAGES {
            cookie.clone_into(&mut rig.cookie);
            assert_eq!(field(&rig.get(path), "location"), Some("/panel/login"), "{path}");
        }
        for (path, form, _) in crate::FORMS {
            cookie.clone_into(&mut rig.cookie);
            assert_eq!(field(&rig.post(path, form), "location"), Some("/panel/login"), "{path}");
        }
        assert_eq!(rig.get("/api/v1/users").status, 401);
        assert_eq!(asked(&rig), []);
    }
    // A session of an account opens no page of a user.
    rig.cookie.clear();
    rig.log_in("eve", PASSWORD);
    let id = rig.cookie.split_once('=').unwrap().1.to_owned();
    for name in ["barebell", "barebell-user"] {
        rig.cookie = format!("{name}={id}");
        for path in ["/panel/me/", "/panel/me/voicemail/7.wav"] {
            assert_eq!(field(&rig.get(path), "location"), Some("/panel/me/login"), "{path}");
        }
    }
}

#[test]
fn a_message_is_heard_by_its_user_only() {
    let mut rig = Rig::of_user();
    let reply = rig.get("/panel/me/voicemail/7.wav");
    assert_eq!((reply.kind, text(&reply)), ("audio/wav", "the voice of alice".to_owned()));
    for path in ["8.wav", "7", "-1.wav", "..%2f..%2f7.wav", "bob@a.com%2f7.wav", "7.wav/7.wav"] {
        assert_eq!(rig.get(&format!("/panel/me/voicemail/{path}")).status, 404, "{path}");
    }
    rig.cookie.clear();
    rig.user_log_in("bob@a.com", "the password of bob");
    assert_eq!(rig.get("/panel/me/").status, 200);
    assert_eq!(rig.get("/panel/me/voicemail/7.wav").status, 404);
    rig.cookie.clear();
    assert_eq!(rig.get("/panel/me/voicemail/7.wav").status, 303);
}

#[test]
fn forms_of_other_sites_change_no_user() {
    let mut rig = Rig::of_user();
    asked(&rig);
    for (path, form) in FORMS {
        for csrf in ["", "x"] {
            let reply = rig.post(path, &format!("csrf={csrf}&{form}"));
            assert_eq!(reply.status, 403, "{path}");
        }
        let mut request = rig.request(Method::Post, path);
        request.content_type = "application/x-www-form-urlencoded".to_owned();
        request.body = form.replace(' ', "+").into_bytes();
        request.origin = Some("https://evil.example".to_owned());
        assert_eq!(rig.send(&request).status, 403, "{path}");
        let reply = rig.get(&format!("{path}?{form}").replace(' ', "+"));
        assert_eq!(reply.status, 404, "{path}");
    }
    let changes = asked(&rig).into_iter().filter(|it| it.role() > panel::Role::Reader);
    assert_eq!(changes.count(), 0);
}

#[test]
fn a_session_ends_with_its_password_and_its_user() {
    let mut rig = Rig::of_user();
    let first = rig.cookie.clone();
    rig.cookie.clear();
    rig.user_log_in(ALICE, "the password of alice");
    rig.post_own("/panel/me/password", FORMS[2].1);
    assert_eq!(rig.get("/panel/me/").status, 200, "the session that changed it goes on");
    let second = std::mem::replace(&mut rig.cookie, first);
    assert_eq!(rig.get("/panel/me/").status, 303, "the other one has ended");
    rig.cookie = second;
    rig.server.passwords.lock().remove(ALICE);
    assert_eq!(rig.get("/panel/me/").status, 303, "the user was removed");
    // A new user of that name does not bring it back.
    rig.server.passwords.lock().insert(ALICE.to_owned(), "0123456789".to_owned());
    assert_eq!(rig.get("/panel/me/").status, 303);
}

#[test]
fn a_password_is_changed_with_the_present_one_only() {
    let mut rig = Rig::of_user();
    asked(&rig);
    for form in [
        "password=wrong&new=0123456789&again=0123456789",
        "password=the password of bob&new=0123456789&again=0123456789",
        "password=the password of alice&new=0123456789&again=0123456780",
        "password=the password of alice&new=short&again=short",
    ] {
        rig.post_own("/panel/me/password", form);
    }
    assert!(!asked(&rig).iter().any(|it| matches!(it, Question::PutUser { .. })));
    for _ in 0..20 {
        rig.post_own("/panel/me/password", "password=guess&new=0123456789&again=0123456789");
    }
    rig.post_own("/panel/me/password", FORMS[2].1);
    assert!(!asked(&rig).iter().any(|it| matches!(it, Question::PutUser { .. })), "no more tries");
}

#[test]
fn guesses_end_soon_and_tell_no_user() {
    let mut rig = Rig::of_user();
    rig.cookie.clear();
    rig.source = [192, 0, 2, 66];
    let wrong = rig.user_log_in("alice", "guess");
    for name in ["nobody", "alice@b.com", "", "a b", &"x".repeat(4000)] {
        rig.source[3] += 1;
        let reply = rig.user_log_in(name, "guess");
        assert_eq!((reply.status, &reply.body), (wrong.status, &wrong.body), "{name}");
        rig.now += Duration::from_secs(1);
    }
    rig.source = [192, 0, 2, 99];
    let mut statuses = Vec::new();
    for name in ["alice", "alice@a.com", "bob", "nobody"].iter().cycle().take(24) {
        statuses.push(rig.user_log_in(name, "guess").status);
        rig.now += Duration::from_secs(1);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 10);
    assert_eq!(rig.user_log_in("alice", "the password of alice").status, 429);
    // Administrators have limits of their own.
    assert_eq!(rig.log_in("eve", PASSWORD).status, 303);
}

#[test]
fn a_user_of_the_same_source_or_name_guesses_no_password_without_a_limit() {
    let mut rig = Rig::of_user();
    let mallory = "the password of mallory";
    for user in ["mallory@a.com", "alice@b.com"] {
        rig.server.passwords.lock().insert(user.to_owned(), mallory.to_owned());
    }
    // From the source of alice with a login of hers, and by the namesake in another domain.
    for (source, own) in [(1, "mallory"), (2, "alice@b.com")] {
        rig.source[3] = source;
        rig.now += Duration::from_secs(600);
        let names = ["alice", "alice@a.com", "sip:alice", "sip:alice@a.com"].iter().cycle();
        let mut tried = 0;
        for (guess, name) in names.enumerate().take(90) {
            if guess % 9 == 0 {
                rig.user_log_in(own, mallory);
            }
            tried += usize::from(rig.user_log_in(name, "guess").status == 422);
            rig.now += Duration::from_secs(1);
        }
        assert_eq!(tried, 10, "{own}");
    }
    // All ways to write the name are one name, from any source.
    rig.now += Duration::from_secs(600);
    let names = ["alice", "alice@a.com", "sip:alice", "sip:alice@a.com"].iter().cycle();
    let mut tried = 0;
    for (source, name) in (100..200).zip(names) {
        rig.source[3] = source;
        tried += usize::from(rig.user_log_in(name, "guess").status == 422);
        rig.now += Duration::from_secs(1);
    }
    assert_eq!(tried, 30);
    // The user logs in where the user has before, although the name is guessed at elsewhere.
    rig.source[3] = 1;
    assert_eq!(rig.user_log_in("alice", "the password of alice").status, 303);
}

#[test]
fn texts_of_callers_are_never_markup_for_users() {
    let mut rig = Rig::of_user();
    "<script>alert(1)</script>\"'><img src=x>".clone_into(&mut *rig.server.text.lock());
    for path in ["/panel/me/", "/panel/me/calls"] {
        let page = text(&rig.get(path));
        assert!(page.contains("&lt;script&gt;") && !page.contains("<img"), "{path}: {page}");
        assert_eq!(page.matches("<script").count(), 1, "{path}");
    }
}

#[test]
fn without_the_setting_there_are_no_pages_of_users() {
    let mut rig = Rig::of_user();
    let config = Config { idle: Duration::from_secs(1800), users: false };
    let (server, data) = (Arc::clone(&rig.server), Arc::clone(&rig.data));
    rig.panel = panel::Panel::new(config, server, data, Box::new(|| [7; 32]));
    for path in ["/panel/me/", "/panel/me/login", "/panel/me/calls"] {
        assert_eq!(rig.get(path).status, 404, "{path}");
    }
    assert_eq!(rig.user_log_in("alice", "the password of alice").status, 404);
    assert!(!text(&rig.get("/panel/login")).contains("/panel/me"));
}
