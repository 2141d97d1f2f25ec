//! Backups and lists of users: the rights to make and to upload them, and the confirmation.

use crate::rig::{PASSWORD, Rig, asked, field, text};
use panel::{MAX_CONTENT, Method, Question, Role};
use std::time::Duration;

/// The questions about backups and imports since the last call, that change something.
fn applied(rig: &Rig) -> Vec<Question> {
    let is_one = |question: &Question| {
        matches!(
            question,
            Question::Restore { is_trial: false, .. }
                | Question::ImportUsers { is_trial: false, .. }
                | Question::Backup { .. }
        )
    };
    asked(rig).into_iter().filter(is_one).collect()
}

/// Sends `content` as a file. Returns status and page.
fn upload(rig: &mut Rig, path: &str, content: &str) -> (u16, String) {
    let request = rig.upload(path, content);
    let reply = rig.send(&request);
    (reply.status, text(&reply))
}

#[test]
fn a_backup_is_restored_after_its_effect_was_shown() {
    let mut rig = Rig::of_administrator();
    "<script>alert(1)</script>".clone_into(&mut *rig.server.text.lock());
    asked(&rig);
    let (status, page) = upload(&mut rig, "/panel/backup/restore", "the backup");
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("30: &lt;script&gt;") && !page.contains("<script>alert"), "{page}");
    assert!(page.contains("/panel/backup/restore/apply"), "{page}");
    assert_eq!(applied(&rig), []);
    let reply = rig.post_form("/panel/backup/restore/apply", "");
    assert_eq!(field(&reply, "location"), Some("/panel/backup"));
    let content = b"the backup"[..].into();
    assert_eq!(applied(&rig), [Question::Restore { content, is_trial: false }]);
    let page = text(&rig.get("/panel/backup"));
    assert!(page.contains("The backup was restored") && !page.contains("<script>alert"), "{page}");
    // It is applied once.
    rig.post_form("/panel/backup/restore/apply", "");
    assert_eq!(applied(&rig), []);
    assert!(text(&rig.get("/panel/backup")).contains("Nothing waits"));
    let actions: Vec<_> = rig.data.actions.lock().iter().map(|it| it.action.clone()).collect();
    assert_eq!(actions.iter().filter(|it| *it == "restore backup").count(), 1, "{actions:?}");
}

#[test]
fn a_backup_that_is_refused_does_not_wait() {
    let mut rig = Rig::of_administrator();
    for content in ["bad", ""] {
        let (status, page) = upload(&mut rig, "/panel/backup/restore", content);
        assert_eq!(status, 422, "{page}");
        rig.post_form("/panel/backup/restore/apply", "");
        assert_eq!(applied(&rig), [], "{content}");
    }
}

#[test]
fn a_waiting_upload_is_of_one_session_and_ends() {
    let mut rig = Rig::of_administrator();
    let (status, _) = upload(&mut rig, "/panel/backup/restore", "one");
    assert_eq!(status, 200);
    let first = std::mem::take(&mut rig.cookie);
    rig.log_in("eve", PASSWORD);
    assert_ne!(rig.cookie, first);
    rig.post_form("/panel/backup/restore/apply", "");
    assert_eq!(applied(&rig), [], "of another session of the account");
    rig.cookie.clone_from(&first);
    rig.post_form("/panel/import/apply", "");
    assert_eq!(applied(&rig), [], "of another kind");
    rig.now += Duration::from_secs(600);
    rig.post_form("/panel/backup/restore/apply", "");
    assert_eq!(applied(&rig), [], "too late");
}

#[test]
fn only_administrators_make_and_restore_backups() {
    for role in Role::ALL {
        let mut rig = Rig::of_role(role);
        let may = role == Role::Administrator;
        assert_eq!(rig.get("/panel/backup").status, if may { 200 } else { 403 }, "{role}");
        asked(&rig);
        let reply = rig.post_form("/panel/backup/download", "certificates=1&voicemail=1");
        let question = Question::Backup { certificates: true, records: false, voicemail: true };
        let expected = if may { vec![question] } else { Vec::new() };
        assert_eq!(applied(&rig), expected, "{role}");
        assert_eq!(field(&reply, "content-disposition").is_some(), may, "{role}");
        let (status, _) = upload(&mut rig, "/panel/backup/restore", "x");
        assert_eq!(status, if may { 200 } else { 403 }, "{role}");
        let told = rig.data.actions.lock().last().map(|it| (it.action.clone(), it.error.clone()));
        let error = if may { "" } else { "not allowed" };
        assert_eq!(told, Some(("try backup".to_owned(), error.to_owned())), "{role}");
        rig.post_form("/panel/backup/restore/apply", "");
        assert_eq!(applied(&rig).len(), usize::from(may), "{role}");
        let token = rig.token(role);
        let status = if may { 200 } else { 403 };
        for (method, path) in [
            (Method::Get, "/api/v1/backup?records=true"),
            (Method::Post, "/api/v1/restore?dry_run=true"),
            (Method::Post, "/api/v1/restore"),
        ] {
            assert_eq!(rig.api(&token, method, path, "x").status, status, "{role} {path}");
        }
        assert_eq!(applied(&rig).len(), 2 * usize::from(may), "{role}");
    }
    let mut rig = Rig::new();
    let token = rig.token(Role::Administrator);
    let reply = rig.api(&token, Method::Get, "/api/v1/backup", "");
    assert_eq!((reply.kind, text(&reply)), ("application/x-ndjson", "{\"backup\":{}}\n\n".into()));
    asked(&rig);
    for path in
        ["/api/v1/restore?dry_run=1", "/api/v1/restore?dry_run=yes", "/api/v1/restore?dryrun=true"]
    {
        assert_eq!(rig.api(&token, Method::Post, path, "x").status, 422, "{path}");
    }
    assert_eq!(rig.api(&token, Method::Get, "/api/v1/backup?records=on", "").status, 422);
    assert_eq!(asked(&rig), [], "a doubtful request asks nothing");
}

#[test]
fn uploads_of_other_sites_and_without_a_session_are_refused() {
    let mut rig = Rig::of_administrator();
    for path in ["/panel/backup/restore", "/panel/import"] {
        let good = rig.upload(path, "x");
        asked(&rig);
        let mut foreign = good.clone();
        foreign.origin = Some("https://evil.example".to_owned());
        assert_eq!(rig.send(&foreign).status, 403);
        let mut forged = good.clone();
        let body = String::from_utf8(forged.body).unwrap();
        forged.body = body.replace("name=\"csrf\"", "name=\"other\"").into_bytes();
        assert_eq!(rig.send(&forged).status, 403);
        let mut stranger = good.clone();
        stranger.cookie.clear();
        assert_eq!(field(&rig.send(&stranger), "location"), Some("/panel/login"));
        let mut broken = good.clone();
        broken.body.truncate(broken.body.len() - 4);
        assert_eq!(rig.send(&broken).status, 400);
        assert_eq!(asked(&rig), []);
        assert_eq!(rig.send(&good).status, 200);
    }
}

#[test]
fn only_sufficient_roles_may_send_long_contents() {
    let mut usual = Rig::new();
    for path in ["/panel/backup/restore", "/panel/import", "/api/v1/restore", "/panel/login"] {
        let request = usual.request(Method::Post, path);
        assert_eq!(usual.panel.most_content(&request), MAX_CONTENT, "{path}");
    }
    for role in Role::ALL {
        let mut rig = Rig::of_role(role);
        let token = rig.token(role);
        for (path, needed) in [
            ("/panel/backup/restore", Some(Role::Administrator)),
            ("/api/v1/restore", Some(Role::Administrator)),
            ("/panel/import", Some(Role::Operator)),
            ("/api/v1/users", Some(Role::Operator)),
            ("/panel/users", None),
            ("/panel/backup/restore/apply", None),
            ("/api/v1/reload", None),
        ] {
            let mut request = rig.request(Method::Post, path);
            request.authorization = Some(format!("Bearer {token}"));
            let is_long = rig.panel.most_content(&request) > MAX_CONTENT;
            assert_eq!(is_long, needed.is_some_and(|it| role >= it), "{role} {path}");
            request.method = Method::Get;
            assert_eq!(rig.panel.most_content(&request), MAX_CONTENT, "{path}");
            request.method = Method::Post;
            request.origin = Some("https://evil.example".to_owned());
            if path.starts_with("/panel") {
                assert_eq!(rig.panel.most_content(&request), MAX_CONTENT, "{path}");
            }
        }
    }
}

#[test]
fn users_are_imported_after_the_effect_was_shown() {
    let mut reader = Rig::of_role(Role::Reader);
    assert_eq!(reader.get("/panel/import").status, 403);
    let (status, _) = upload(&mut reader, "/panel/import", "alice:x");
    assert_eq!(status, 403);
    assert_eq!(asked(&reader).iter().filter(|it| it.role() > Role::Reader).count(), 0);

    let mut rig = Rig::of_role(Role::Operator);
    "<script>alert(1)</script>".clone_into(&mut *rig.server.text.lock());
    assert!(text(&rig.get("/panel/import")).contains("multipart/form-data"));
    let (status, page) = upload(&mut rig, "/panel/import", "bad");
    assert_eq!(status, 422);
    assert!(page.contains("1 lines cannot be used") && page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.contains("/panel/import/apply") && !page.contains("<script>alert"), "{page}");
    rig.post_form("/panel/import/apply", "");
    assert_eq!(applied(&rig), [], "a list with mistakes does not wait");
    let (status, page) = upload(&mut rig, "/panel/import", "alice:x");
    assert!(status == 200 && page.contains("does not serve that domain"), "{page}");
    assert_eq!(applied(&rig), []);
    let reply = rig.post_form("/panel/import/apply", "");
    assert_eq!(field(&reply, "location"), Some("/panel/users"));
    let list = |lines: &[u8]| lines.into();
    let question = Question::ImportUsers { text: list(b"alice:x"), domain: None, is_trial: false };
    assert_eq!(applied(&rig), [question]);
    assert!(text(&rig.get("/panel/users")).contains("Users were imported: 3 new, 1 with"));

    let token = rig.token(Role::Operator);
    let body = "{\"text\":\"bob:y\\n\",\"domain\":\"a.com\",\"dry_run\":false}";
    assert_eq!(rig.api(&token, Method::Post, "/api/v1/users", body).status, 200);
    let domain = Some("a.com".to_owned());
    let question = Question::ImportUsers { text: list(b"bob:y\n"), domain, is_trial: false };
    assert_eq!(applied(&rig), [question]);
    for body in [
        "{}",
        "{\"text\":5}",
        "{\"text\":\"a:b\",\"dry_run\":1}",
        "{\"text\":\"a:b\",\"domain\":1}",
        "{\"text\":\"a:b\",\"dryrun\":true}",
    ] {
        assert_eq!(rig.api(&token, Method::Post, "/api/v1/users", body).status, 422, "{body}");
    }
    let token = rig.token(Role::Reader);
    let reply = rig.api(&token, Method::Post, "/api/v1/users", "{\"text\":\"a:b\"}");
    assert_eq!(reply.status, 403);
    assert_eq!(applied(&rig), []);
}

#[test]
fn sessions_end_when_their_account_is_changed_elsewhere() {
    let change = |rig: &Rig, change: &dyn Fn(&mut store::PanelAccount)| {
        let mut accounts = rig.data.accounts.lock();
        accounts.iter_mut().filter(|it| it.name == "eve").for_each(change);
    };
    let mut rig = Rig::of_administrator();
    change(&rig, &|account| account.created += 1);
    assert_eq!(rig.get("/panel/users").status, 200);
    change(&rig, &|account| account.password.push('x'));
    assert_eq!(field(&rig.get("/panel/users"), "location"), Some("/panel/login"));
    let mut rig = Rig::of_administrator();
    change(&rig, &|account| "reader".clone_into(&mut account.role));
    let request = rig.request(Method::Post, "/panel/backup/restore");
    assert_eq!(rig.panel.most_content(&request), MAX_CONTENT);
    assert_eq!(field(&rig.get("/panel/users"), "location"), Some("/panel/login"));
    let mut rig = Rig::of_administrator();
    rig.data.accounts.lock().clear();
    assert_eq!(field(&rig.get("/panel/users"), "location"), Some("/panel/login"));
    // A new own password keeps the session.
    let mut rig = Rig::of_administrator();
    let form = format!("password={PASSWORD}&new=another one here&again=another one here");
    rig.post_form("/panel/access/password", &form);
    assert!(text(&rig.get("/panel/access")).contains("The password was changed"));
    assert_eq!(rig.get("/panel/users").status, 200);
}
