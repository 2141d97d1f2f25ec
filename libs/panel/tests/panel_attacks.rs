//! Attacks on the panel: none of them changes or shows anything.

mod memory;
mod own_page;
mod phones;
mod rig;
mod second_factor;
mod uploads;

use panel::{Method, Question, Role};
use rig::{PASSWORD, Rig, asked, field, text};
use std::time::Duration;

/// The pages of a session.
const PAGES: [&str; 19] = [
    "/panel/",
    "/panel/users",
    "/panel/users?search=a",
    "/panel/users/alice",
    "/panel/registrations",
    "/panel/registrations?after=a&contact=b",
    "/panel/calls",
    "/panel/records",
    "/panel/records?user=a&from=2026-01-01&to=2026-12-31&failed=1&before=9",
    "/panel/refusals",
    "/panel/refusals?target=alice",
    "/panel/trace?target=alice",
    "/panel/trunks",
    "/panel/route?number=112",
    "/panel/bans",
    "/panel/system?doctor=1",
    "/panel/import",
    "/panel/backup",
    "/panel/access",
];

/// The forms of a session, with their content.
const FORMS: [(&str, &str, Role); 15] = [
    ("/panel/users", "user=bob&new=secret", Role::Operator),
    ("/panel/users/bob/password", "new=secret", Role::Operator),
    ("/panel/users/bob/services", "busy=carol", Role::Operator),
    ("/panel/users/bob/remove", "", Role::Operator),
    ("/panel/registrations/end", "user=bob&contact=sip:bob@192.0.2.9", Role::Operator),
    ("/panel/calls/end", "id=7", Role::Operator),
    ("/panel/bans/lift", "source=192.0.2.9", Role::Operator),
    ("/panel/system/reload", "", Role::Administrator),
    ("/panel/backup/download", "records=1", Role::Administrator),
    ("/panel/access/accounts", "name=mal&new=0123456789&role=reader", Role::Administrator),
    ("/panel/access/accounts/remove", "name=mal", Role::Administrator),
    ("/panel/access/tokens", "name=ci&role=administrator", Role::Administrator),
    ("/panel/access/tokens/remove", "name=ci", Role::Administrator),
    ("/panel/access/password", "password=x&new=0123456789&again=0123456789", Role::Reader),
    ("/panel/logout", "", Role::Reader),
];

#[test]
fn pages_and_forms_need_a_session() {
    let mut rig = Rig::of_administrator();
    for cookie in ["", "barebell=", "barebell=x", "other=1"] {
        cookie.clone_into(&mut rig.cookie);
        asked(&rig);
        let before = rig.data.accounts.lock().clone();
        for path in PAGES.into_iter().chain(["/panel/records.csv"]) {
            let reply = rig.get(path);
            assert_eq!((reply.status, field(&reply, "location")), (303, Some("/panel/login")));
        }
        for (path, form, _) in FORMS {
            let reply = rig.post(path, form);
            assert_eq!(field(&reply, "location"), Some("/panel/login"), "{path}");
        }
        assert_eq!(asked(&rig), []);
        assert_eq!(*rig.data.accounts.lock(), before);
    }
}

#[test]
fn forms_of_other_sites_are_refused() {
    let mut rig = Rig::of_administrator();
    let csrf = rig.csrf();
    asked(&rig);
    for (path, form, _) in FORMS {
        for (csrf, origin, site) in [
            ("", None, None),
            ("x", None, None),
            (&*csrf, Some("https://evil.example"), None),
            (&*csrf, Some("null"), None),
            (&*csrf, Some("https://pbx.example"), None),
            (&*csrf, Some("http://pbx.example.evil.example"), None),
            (&*csrf, None, Some("cross-site")),
            (&*csrf, None, Some("same-site")),
        ] {
            let mut request = rig.request(Method::Post, path);
            request.content_type = "application/x-www-form-urlencoded".to_owned();
            request.body = format!("csrf={csrf}&{form}").into_bytes();
            request.origin = origin.map(str::to_owned);
            request.fetch_site = site.map(str::to_owned);
            assert_eq!(rig.send(&request).status, 403, "{path} {origin:?} {site:?}");
        }
        let mut request = rig.request(Method::Post, path);
        request.content_type = "text/plain".to_owned();
        request.body = format!("csrf={csrf}&{form}").into_bytes();
        assert_eq!(rig.send(&request).status, 400, "{path} as text");
        // A link of another site is a GET.
        let reply = rig.get(&format!("{path}?csrf={csrf}&{form}"));
        assert!(matches!(reply.status, 200 | 404), "{path}");
    }
    let changes = asked(&rig).into_iter().filter(|it| it.role() > Role::Reader);
    assert_eq!(changes.count(), 0);
    assert_eq!(rig.data.accounts.lock().len(), 1);
    let mut request = rig.request(Method::Post, "/panel/calls/end");
    request.content_type = "application/x-www-form-urlencoded".to_owned();
    request.body = format!("csrf={csrf}&id=7").into_bytes();
    request.origin = Some("http://pbx.example".to_owned());
    request.fetch_site = Some("same-origin".to_owned());
    assert_eq!(rig.send(&request).status, 303);
    assert_eq!(asked(&rig), [Question::EndCall("7".to_owned())]);
}

#[test]
fn roles_limit_forms_and_tokens() {
    for role in Role::ALL {
        let mut rig = Rig::of_role(role);
        asked(&rig);
        for (path, form, needed) in FORMS.into_iter().filter(|it| it.0 != "/panel/logout") {
            let before = (rig.data.accounts.lock().clone(), rig.data.tokens.lock().clone());
            rig.post_form(path, form);
            let changes = asked(&rig).into_iter().any(|it| it.role() > Role::Reader)
                || before != (rig.data.accounts.lock().clone(), rig.data.tokens.lock().clone());
            let may = role >= needed && needed > Role::Reader;
            assert_eq!(changes, may, "{role}: {path}");
        }
    }
    let mut rig = Rig::new();
    let tokens = Role::ALL.map(|role| rig.token(role));
    let body = "{\"password\":\"secret\"}";
    for (method, path, needed) in [
        (Method::Get, "/api/v1/users", Role::Reader),
        (Method::Put, "/api/v1/users/bob", Role::Operator),
        (Method::Patch, "/api/v1/users/bob/services", Role::Operator),
        (Method::Delete, "/api/v1/users/bob", Role::Operator),
        (Method::Delete, "/api/v1/registrations/bob", Role::Operator),
        (Method::Get, "/api/v1/traces/bob", Role::Operator),
        (Method::Get, "/api/v1/refusals", Role::Reader),
        (Method::Delete, "/api/v1/calls/7", Role::Operator),
        (Method::Delete, "/api/v1/bans/192.0.2.1", Role::Operator),
        (Method::Post, "/api/v1/reload", Role::Administrator),
    ] {
        for (role, token) in Role::ALL.into_iter().zip(&tokens) {
            asked(&rig);
            let reply = rig.api(token, method, path, body);
            let expected = if role >= needed { 200 } else { 403 };
            assert_eq!(reply.status, expected, "{role}: {path}");
            assert_eq!(asked(&rig).len(), usize::from(role >= needed), "{role}: {path}");
        }
    }
}

#[test]
fn texts_of_strangers_are_never_markup() {
    let bait = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let mut rig = Rig::of_administrator();
    bait.clone_into(&mut *rig.server.text.lock());
    rig.cookie.clear();
    let tried = "%3Cscript%3Ealert(1)%3C/script%3E%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E";
    rig.log_in(tried, "x");
    rig.log_in("eve", PASSWORD);
    rig.post_form("/panel/users", &format!("user={tried}&new=bad"));
    let mut pages: Vec<_> = PAGES.map(str::to_owned).into();
    pages.push(format!("/panel/users/{}", tried.replace('/', "%2F")));
    for field in [
        "users?search",
        "registrations?search",
        "records?user",
        "route?number",
        "refusals?target",
        "trace?target",
    ] {
        pages.push(format!("/panel/{field}={tried}"));
    }
    pages.push(format!("/panel/setup?key={tried}"));
    let mut shown = 0;
    for path in pages {
        let page = text(&rig.get(&path));
        assert!(!page.contains("<script>") && !page.contains("<img"), "{path}: {page}");
        assert!(!page.contains("\"'>"), "{path}: {page}");
        shown += usize::from(page.contains("&lt;script&gt;"));
    }
    assert!(shown > 12, "{shown}");
}

#[test]
fn no_page_has_script_or_style_within_and_all_forbid_them() {
    let mut rig = Rig::of_administrator();
    for path in PAGES.into_iter().chain(["/panel/login", "/nothing", "/panel/nothing"]) {
        let reply = rig.get(path);
        let rules = field(&reply, "content-security-policy").unwrap();
        assert!(rules.contains("default-src 'none'") && rules.contains("frame-ancestors 'none'"));
        assert!(!rules.contains("unsafe"), "{rules}");
        let page = text(&reply);
        for bad in [" style=", " onclick=", "<style", "javascript:", "http://", "https://"] {
            assert!(!page.contains(bad), "{path} has {bad}");
        }
        assert_eq!(page.matches("<script").count(), 1, "{path}");
    }
}

#[test]
fn a_login_gives_a_new_session_and_ends_the_one_before() {
    let mut rig = Rig::of_administrator();
    let first = rig.cookie.clone();
    // An attacker has set a cookie of its own session, or of none.
    "barebell=chosen".clone_into(&mut rig.cookie);
    rig.log_in("eve", PASSWORD);
    let second = rig.cookie.clone();
    assert!(second != first && !second.contains("chosen"));
    rig.log_in("eve", PASSWORD);
    assert_ne!(rig.cookie, second);
    rig.cookie = second;
    assert_eq!(rig.get("/panel/").status, 303, "the session before has ended");
    rig.cookie = first;
    assert_eq!(rig.get("/panel/").status, 200);
    rig.post_form("/panel/logout", "");
    assert_eq!(rig.get("/panel/").status, 303);
}

#[test]
fn the_cookie_is_for_this_host_alone() {
    let mut rig = Rig::of_administrator();
    let reply = rig.log_in("eve", PASSWORD);
    let set = field(&reply, "set-cookie").unwrap();
    assert!(set.contains("; HttpOnly; SameSite=Strict") && !set.contains("Secure"), "{set}");
    rig.is_secure = true;
    let reply = rig.log_in("eve", PASSWORD);
    let set = field(&reply, "set-cookie").unwrap();
    assert!(set.starts_with("__Host-barebell=") && set.ends_with("; Secure"), "{set}");
}

#[test]
fn guessing_passwords_ends_soon_and_locks_no_known_source_out() {
    let mut rig = Rig::of_administrator();
    rig.cookie.clear();
    rig.source = [192, 0, 2, 66];
    let mut statuses = Vec::new();
    for number in 0..30 {
        statuses.push(rig.log_in("eve", &format!("guess number {number}")).status);
        rig.now += Duration::from_secs(1);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 10);
    assert_eq!(rig.log_in("eve", PASSWORD).status, 429);
    rig.source = [192, 0, 2, 1];
    assert_eq!(rig.log_in("eve", PASSWORD).status, 303, "this source has logged in before");
    rig.source = [192, 0, 2, 66];
    rig.now += Duration::from_secs(600);
    assert_eq!(rig.log_in("eve", PASSWORD).status, 303);
    let failures = rig.data.actions.lock().iter().filter(|it| !it.error.is_empty()).count();
    assert_eq!(failures, 10);
}

#[test]
fn names_and_passwords_of_any_length_are_refused_alike() {
    let mut rig = Rig::of_administrator();
    rig.cookie.clear();
    let page = |reply: &panel::Reply| (reply.status, text(reply));
    let wrong = page(&rig.log_in("eve", "not the password"));
    assert_eq!(page(&rig.log_in("nobody", "not the password")), wrong);
    assert_eq!(page(&rig.log_in(&"x".repeat(5000), "not the password")), wrong);
    assert_eq!(page(&rig.log_in("eve", &"x".repeat(5000))), wrong);
    assert_eq!(page(&rig.log_in("", "")), wrong);
}

#[test]
fn the_setup_link_holds_once() {
    let mut rig = Rig::new();
    let path = rig.panel.setup_path().unwrap().unwrap();
    assert_eq!(rig.get(&path).status, 200);
    for wrong in ["/panel/setup", "/panel/setup?key=", "/panel/setup?key=x"] {
        assert_eq!(rig.get(wrong).status, 403);
    }
    let form = format!("name=mal&new={PASSWORD}&again={PASSWORD}");
    assert_eq!(rig.post("/panel/setup", &form).status, 403);
    assert_eq!(rig.post("/panel/setup", &format!("key=x&{form}")).status, 403);
    let key = path.split_once("key=").unwrap().1.to_owned();
    for bad in ["name=a&new=short&again=short", "name=a%20b&new=0123456789&again=0123456789"] {
        assert_eq!(rig.post("/panel/setup", &format!("key={key}&{bad}")).status, 422);
    }
    assert!(rig.data.accounts.lock().is_empty());
    assert_eq!(rig.post("/panel/setup", &format!("key={key}&{form}")).status, 303);
    assert_eq!(rig.data.accounts.lock().len(), 1);
    assert_eq!(rig.post("/panel/setup", &format!("key={key}&{form}")).status, 403);
    assert!(rig.panel.setup_path().unwrap().is_none());
}

#[test]
fn paths_lead_to_no_file() {
    let mut rig = Rig::of_administrator();
    for path in [
        "/panel/../../etc/passwd",
        "/panel/..%2f..%2fetc/passwd",
        "/panel/panel.css/..",
        "//etc/passwd",
        "/panel/panel.js%00",
        "/api/v1/../../panel/",
        "/panel/users/%ff",
        "",
    ] {
        let reply = rig.get(path);
        assert!(matches!(reply.status, 400 | 404 | 401), "{path}: {}", reply.status);
        assert!(!text(&reply).contains("root:"), "{path}");
    }
}

#[test]
fn the_last_administrator_stays() {
    let mut rig = Rig::of_administrator();
    rig.post_form("/panel/access/accounts/remove", "name=eve");
    rig.post_form("/panel/access/accounts", &format!("name=eve&new={PASSWORD}&role=reader"));
    assert_eq!(rig.data.accounts.lock()[0].role, "administrator");
    assert_eq!(rig.get("/panel/access").status, 200);
}

#[test]
fn a_changed_or_removed_account_has_no_session() {
    let mut rig = Rig::of_role(Role::Operator);
    let of_joe = rig.cookie.clone();
    assert_eq!(rig.get("/panel/").status, 200);
    rig.log_in("eve", PASSWORD);
    let form = format!("name=joe&new={PASSWORD}&role=reader");
    rig.post_form("/panel/access/accounts", &form);
    rig.cookie = of_joe;
    assert_eq!(rig.get("/panel/").status, 303);
}

#[test]
fn wrong_tokens_are_refused_and_counted() {
    let mut rig = Rig::new();
    let token = rig.token(Role::Reader);
    for wrong in ["", "x", &token[..token.len() - 1], &token.to_lowercase()] {
        assert_eq!(rig.api(wrong, Method::Get, "/api/v1/status", "").status, 401);
    }
    let mut request = rig.request(Method::Get, "/api/v1/status");
    assert_eq!(rig.send(&request).status, 401);
    request.authorization = Some(format!("Basic {token}"));
    assert_eq!(rig.send(&request).status, 401);
    assert_eq!(asked(&rig), []);
    assert_eq!(rig.api(&token, Method::Get, "/api/v1/status", "").status, 200);
    for _ in 0..20 {
        rig.api("wrong", Method::Get, "/api/v1/status", "");
    }
    assert_eq!(rig.api("wrong", Method::Get, "/api/v1/status", "").status, 429);
}

#[test]
fn methods_that_a_resource_lacks_change_nothing_and_the_others_are_named() {
    let mut rig = Rig::new();
    let token = rig.token(Role::Administrator);
    for (method, path, allowed) in [
        (Method::Delete, "/api/v1/status", "GET, HEAD"),
        (Method::Get, "/api/v1/reload", "POST"),
        (Method::Patch, "/api/v1/users/alice", "GET, HEAD, PUT, DELETE"),
        (Method::Delete, "/api/v1/users/alice/phone-links", "GET, HEAD, POST"),
        (Method::Post, "/api/v1/openapi.json", "GET, HEAD"),
        (Method::Post, "/api/v1/backup", "GET, HEAD"),
        (Method::Other, "/api/v1/users/alice", "GET, HEAD, PUT, DELETE"),
    ] {
        let reply = rig.api(&token, method, path, "{}");
        assert_eq!((reply.status, field(&reply, "allow")), (405, Some(allowed)), "{path}");
    }
    let reply = rig.api(&token, Method::Post, "/api/v1/nothing", "{}");
    assert_eq!((reply.status, field(&reply, "allow")), (404, None));
    let reply = rig.send(&rig.request(Method::Other, "/panel/panel.css"));
    assert_eq!((reply.status, field(&reply, "allow")), (405, Some("GET, HEAD, POST")));
    assert_eq!(asked(&rig), []);
}

#[test]
fn parameters_of_another_type_are_refused() {
    let mut rig = Rig::new();
    let token = rig.token(Role::Reader);
    for query in ["failed=AAA", "failed=", "limit=", "limit=0", "limit=x", "since=-1", "after=%20"]
    {
        let path = format!("/api/v1/records?{query}");
        assert_eq!(rig.api(&token, Method::Get, &path, "").status, 422, "{query}");
    }
    assert_eq!(asked(&rig), []);
    let path = "/api/v1/records?failed=false&limit=500&since=0";
    assert_eq!(rig.api(&token, Method::Get, path, "").status, 200);
}
