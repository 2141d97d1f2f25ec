//! Links for phones: the right to make one, the changes by a fetch, and the states.

use crate::rig::{Rig, asked, field, text};
use panel::{Method, Question, Role};
use serde_json::Value;
use std::time::Duration;

const BOB: &str = "bob@a.com";
const API: &str = "/api/v1/users/bob/phone-links";

/// A rig with the user `bob` of the domain `a.com`, and a token of an operator.
fn rig() -> (Rig, String) {
    let rig = Rig::of_role(Role::Operator);
    "a.com".clone_into(&mut *rig.server.text.lock());
    rig.server.passwords.lock().insert(BOB.to_owned(), "a password".to_owned());
    let token = rig.token(Role::Operator);
    (rig, token)
}

/// The path of a new link.
fn link(rig: &mut Rig, token: &str, body: &str) -> String {
    let cookie = rig.cookie.clone();
    let made = rig.api(token, Method::Post, API, body);
    rig.cookie = cookie;
    assert_eq!(made.status, 200, "{}", text(&made));
    let made: Value = serde_json::from_slice(&made.body).unwrap();
    let url = made["url"].as_str().unwrap();
    url.strip_prefix("http://pbx.example").unwrap_or_else(|| panic!("{url}")).to_owned()
}

/// The passwords that were set since the last call.
fn set_passwords(rig: &Rig) -> Vec<String> {
    let asked = asked(rig).into_iter();
    let set = asked.filter_map(|question| match question {
        Question::PutUser { user, password } if user == "bob@a.com" => Some(password),
        Question::PutUser { user, .. } => panic!("the password of {user} was set"),
        _ => None,
    });
    set.collect()
}

#[test]
fn a_head_request_leaves_a_link_valid() {
    let (mut rig, token) = rig();
    let path = link(&mut rig, &token, "{\"kind\":\"linphone\"}");
    rig.cookie.clear();
    let mut request = rig.request(Method::Get, &path);
    request.is_head = true;
    let reply = rig.send(&request);
    assert_eq!((reply.status, field(&reply, "allow")), (405, Some("GET")));
    assert_eq!(set_passwords(&rig), [""; 0]);
    rig.source = [192, 0, 2, 66];
    assert_eq!(rig.get(&path).status, 200, "the link is still valid");
    assert_eq!(set_passwords(&rig).len(), 1);
}

#[test]
fn a_fetch_sets_a_new_password_and_the_link_holds_once() {
    for (kind, media_type) in [
        ("linphone", "application/xml; charset=utf-8"),
        ("yealink", "text/plain; charset=utf-8"),
        ("grandstream", "application/xml; charset=utf-8"),
        ("snom", "application/xml; charset=utf-8"),
        ("barebell-phone", "text/plain; charset=utf-8"),
    ] {
        let (mut rig, token) = rig();
        let path = link(&mut rig, &token, &format!("{{\"kind\":\"{kind}\"}}"));
        assert_eq!(set_passwords(&rig), [""; 0], "the link alone changes nothing");
        rig.cookie.clear();
        let reply = rig.get(&path);
        assert_eq!((reply.status, reply.kind), (200, media_type), "{kind}");
        let file = text(&reply);
        let set = set_passwords(&rig);
        assert_eq!(set.len(), 1, "{kind}");
        assert!(set[0].len() == 32 && file.contains(&set[0]), "{kind}: {file}");
        assert!(file.contains("pbx.example") && file.contains("a.com"), "{kind}: {file}");
        // A phone adds a name of its own, such as its MAC address: it has no effect.
        let reply = rig.get(&format!("{path}/cfg001122334455.xml"));
        assert_eq!(reply.status, 200);
        let again = set_passwords(&rig);
        assert!(again.len() == 1 && again != set, "each fetch sets another password");
        rig.source = [192, 0, 2, 66];
        assert_eq!(rig.get(&path).status, 404, "another source");
        rig.source = [192, 0, 2, 1];
        rig.now += Duration::from_secs(60);
        assert_eq!(rig.get(&path).status, 404, "later");
        assert_eq!(set_passwords(&rig), [""; 0]);
        let actions = rig.data.actions.lock();
        let puts = actions.iter().filter(|it| it.account == "phone link of bob@a.com");
        assert_eq!(puts.count(), 2);
        let secret = path.split('/').nth(3).unwrap();
        assert!(!format!("{actions:?}").contains(secret), "a secret is recorded");
    }
}

#[test]
fn links_expire_and_cannot_be_guessed() {
    let (mut rig, token) = rig();
    let path = link(&mut rig, &token, "{\"kind\":\"snom\"}");
    rig.cookie.clear();
    for wrong in [
        "/panel/phone/x/snom.xml",
        "/panel/phone//snom.xml",
        "/panel/phone/",
        "/panel/phone",
        "/panel/phone/001122334455.xml",
        &path.replace("/panel/phone/", "/panel/phone/A"),
    ] {
        let reply = rig.get(wrong);
        assert!(matches!(reply.status, 404 | 303), "{wrong}: {}", reply.status);
    }
    assert_eq!(rig.post(&path, "").status, 303, "a form is no fetch");
    rig.now += Duration::from_secs(24 * 3600);
    assert_eq!(rig.get(&path).status, 404);
    assert_eq!(set_passwords(&rig), [""; 0]);
}

#[test]
fn a_link_ends_with_its_user_and_with_another_password() {
    let (mut rig, token) = rig();
    let path = link(&mut rig, &token, "{\"kind\":\"snom\"}");
    let first = rig.server.passwords.lock().remove(BOB).unwrap();
    assert_eq!(rig.get(&path).status, 404, "the user was removed");
    rig.server.passwords.lock().insert(BOB.to_owned(), "another password".to_owned());
    assert_eq!(rig.get(&path).status, 404, "the password was changed");
    assert_eq!(set_passwords(&rig), [""; 0], "no user is added");
    rig.server.passwords.lock().insert(BOB.to_owned(), first);
    assert_eq!(rig.get(&path).status, 200);
    rig.server.passwords.lock().insert(BOB.to_owned(), "another password".to_owned());
    assert_eq!(rig.get(&path).status, 404, "the password was changed after the fetch");
    rig.server.passwords.lock().clear();
    let body = "{\"kind\":\"snom\"}";
    assert_eq!(rig.api(&token, Method::Post, API, body).status, 404, "there is no such user");
}

#[test]
fn links_need_an_operator_or_their_user() {
    let mut reader = Rig::of_role(Role::Reader);
    let token = reader.token(Role::Reader);
    let reply = reader.post_form("/panel/users/bob/phone", "kind=snom");
    assert!(reply.status == 422 && !text(&reply).contains("/panel/phone/"), "{}", text(&reply));
    assert_eq!(reader.api(&token, Method::Post, API, "{\"kind\":\"snom\"}").status, 403);
    assert_eq!(reader.api(&token, Method::Get, API, "").status, 200);

    let (mut operator, _) = rig();
    for (kind, has_code) in [("snom", false), ("linphone", true)] {
        let page = text(&operator.post_form("/panel/users/bob/phone", &format!("kind={kind}")));
        assert!(page.contains("/panel/phone/"), "{page}");
        assert_eq!(page.contains("<svg"), has_code, "{page}");
    }

    let mut user = Rig::of_user();
    "a.com".clone_into(&mut *user.server.text.lock());
    let reply = user.post_own("/panel/me/phone", "kind=yealink&user=bob@a.com&server=evil.example");
    let page = text(&reply);
    let path = page.split("http://pbx.example").nth(1).expect("the page has the link");
    let path = path.split('<').next().unwrap().to_owned();
    asked(&user);
    user.cookie.clear();
    let file = text(&user.get(&path));
    assert!(file.contains("auth_name = alice") && !file.contains("evil"), "{file}");
    let puts = asked(&user).into_iter().filter(|it| matches!(it, Question::PutUser { .. }));
    let users: Vec<_> = puts.map(|it| format!("{it:?}")).collect();
    assert!(users.len() == 1 && users[0].contains("alice@a.com"), "{users:?}");
}

#[test]
fn wishes_that_no_file_can_have_are_refused() {
    let (mut rig, token) = rig();
    for body in [
        "{}",
        "{\"kind\":\"cisco\"}",
        "{\"kind\":5}",
        "{\"kind\":\"snom\",\"transport\":\"tcp\"}",
        "{\"kind\":\"snom\",\"transport\":\"x\"}",
        "{\"kind\":\"snom\",\"server\":\"a b\"}",
        "{\"kind\":\"yealink\",\"server\":\"x = 1\"}",
        "{\"kind\":\"snom\",\"server\":\"</settings>\"}",
    ] {
        let reply = rig.api(&token, Method::Post, API, body);
        assert_eq!(reply.status, 422, "{body}: {}", text(&reply));
    }
    let path = "/api/v1/users/a%3Cb/phone-links";
    let reply = rig.api(&token, Method::Post, path, "{\"kind\":\"snom\"}");
    assert_eq!(reply.status, 422, "{}", text(&reply));
    let path = "/api/v1/users/nobody/phone-links";
    assert_eq!(rig.api(&token, Method::Post, path, "{\"kind\":\"snom\"}").status, 404);
    let body = "{\"kind\":\"snom\",\"transport\":\"tls\",\"server\":\"pbx.lan\"}";
    let path = link(&mut rig, &token, body);
    assert!(text(&rig.get(&path)).contains("sip:pbx.lan:5061;transport=tls"));
}

#[test]
fn the_states_of_links_are_shown() {
    let (mut rig, token) = rig();
    let states = |rig: &mut Rig| {
        let rows = text(&rig.api(&token, Method::Get, API, ""));
        let rows: Value = serde_json::from_str(&rows).unwrap();
        let rows = rows["items"].as_array().unwrap().clone();
        rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let path = link(&mut rig, &token, "{\"kind\":\"snom\"}");
    assert_eq!(states(&mut rig), ["waits"]);
    rig.get(&path);
    // The server of the rig always has a registration, and a call without sound.
    assert_eq!(states(&mut rig), ["registered"]);
    rig.now += Duration::from_secs(1);
    let path = link(&mut rig, &token, "{\"kind\":\"yealink\"}");
    assert_eq!(states(&mut rig), ["waits", "registered"]);
    rig.get(&path);
    assert_eq!(states(&mut rig), ["registered", "replaced"]);
    rig.now += Duration::from_secs(1);
    link(&mut rig, &token, "{\"kind\":\"snom\"}");
    rig.server.passwords.lock().insert(BOB.to_owned(), "another password".to_owned());
    assert_eq!(states(&mut rig), ["ended", "registered", "replaced"]);
    rig.now += Duration::from_secs(24 * 3600);
    assert_eq!(states(&mut rig), [""; 0]);
}

#[test]
fn a_page_of_a_link_is_no_frame_and_has_no_script_within() {
    let (mut rig, _) = rig();
    let reply = rig.post_form("/panel/users/bob/phone", "kind=linphone");
    let page = text(&reply);
    assert!(field(&reply, "content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    assert!(page.matches("<script").count() == 1 && !page.contains(" style="), "{page}");
}

#[test]
fn a_link_survives_a_restart_until_it_is_used_or_expires() {
    let (mut rig, token) = rig();
    let body = "{\"kind\":\"snom\",\"transport\":\"tls\"}";
    let path = link(&mut rig, &token, body);
    let secret = path.split('/').nth(3).unwrap().to_owned();
    let stored = rig.data.links.lock().clone();
    assert!(stored.len() == 1 && !format!("{stored:?}").contains(&secret), "{stored:?}");
    rig.restart();
    assert!(text(&rig.get(&path)).contains("transport=tls"), "it holds after a restart");
    assert_eq!(rig.data.links.lock().len(), 0, "a link that was used is not stored");
    assert_eq!(rig.get(&path).status, 200, "the phone repeats the fetch");
    rig.restart();
    assert_eq!(rig.get(&path).status, 404, "and not after a restart");

    let path = link(&mut rig, &token, body);
    rig.now += Duration::from_secs(24 * 3600 - 1);
    rig.get("/panel/login");
    assert_eq!(rig.data.links.lock().len(), 1);
    rig.now += Duration::from_secs(1);
    rig.get("/panel/login");
    assert_eq!(rig.data.links.lock().len(), 0, "it has expired");
    assert_eq!(rig.get(&path).status, 404);
    link(&mut rig, &token, body);
    rig.now += Duration::from_secs(24 * 3600);
    rig.restart();
    assert_eq!(rig.data.links.lock().len(), 0, "it has expired before the start");
    // A stored link of a user with another password is dead.
    let path = link(&mut rig, &token, body);
    rig.server.passwords.lock().insert(BOB.to_owned(), "another password".to_owned());
    rig.restart();
    asked(&rig);
    assert_eq!(rig.get(&path).status, 404);
    assert_eq!(set_passwords(&rig), [""; 0]);
    for _ in 0..20 {
        link(&mut rig, &token, body);
    }
    assert_eq!(rig.data.links.lock().len(), 8, "the limit of a user holds for stored ones");
}
