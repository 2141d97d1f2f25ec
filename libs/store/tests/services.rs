//! The call services of users in the storage.

use sip::Duration;
use sip::digest::Ha1Set;
use sip_server::CallServices;
use std::path::Path;
use std::sync::Arc;
use store::sqlite::Sqlite;
use store::{Log, User, UserServices, Users};

fn open(path: &Path) -> Sqlite {
    let log = Log { write: |_, _, text| eprintln!("{}", text()) };
    Sqlite::open(Box::new(path.to_owned()), log).unwrap()
}

fn user(name: &str, domain: &str) -> User {
    let logins = Ha1Set::new(name.as_bytes(), domain.as_bytes(), b"1").into();
    User { name: name.to_owned(), domain: Arc::from(domain), logins }
}

fn all(storage: &dyn Users, domain: Option<&str>) -> Vec<UserServices> {
    let mut all = Vec::new();
    storage.services(domain, &mut |services| all.push(services)).unwrap();
    all
}

#[test]
fn services_are_kept_changed_and_removed_with_their_user() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    storage.put_users(&[user("bob", "a"), user("bob", "b")]).unwrap();
    let mut services = CallServices {
        always: Some("x@a".into()),
        busy: Some("y@a".into()),
        no_answer: Some("z@a".into()),
        no_answer_after: Duration::from_secs(7),
        unreachable: Some("u@a".into()),
        do_not_disturb: true,
    };
    assert!(!storage.put_services("carol", "a", &services).unwrap(), "no such user");
    assert!(storage.put_services("bob", "a", &services).unwrap());
    drop(storage);
    let storage = open(directory.path());
    let of = |name: &str, domain: &str, services: &CallServices| UserServices {
        name: name.into(),
        domain: domain.into(),
        services: services.clone(),
    };
    assert_eq!(all(&storage, None), [of("bob", "a", &services)]);
    assert_eq!(all(&storage, Some("b")), []);
    services.always = None;
    storage.put_services("bob", "a", &services).unwrap();
    assert_eq!(all(&storage, Some("a")), [of("bob", "a", &services)]);
    // A new password keeps them.
    storage.put_users(&[user("bob", "a")]).unwrap();
    assert_eq!(all(&storage, None).len(), 1);
    storage.remove_user("bob", "a").unwrap();
    assert_eq!(all(&storage, None), []);
    storage.put_services("bob", "b", &services).unwrap();
    storage.put_services("bob", "b", &CallServices::default()).unwrap();
    assert_eq!(all(&storage, None), []);
}

#[test]
fn targets_move_with_their_domain() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    storage.put_users(&[user("bob", "old"), user("al", "other")]).unwrap();
    let to = |busy: &str| CallServices { busy: Some(busy.into()), ..CallServices::default() };
    storage.put_services("bob", "old", &to("carol@old")).unwrap();
    storage.put_services("al", "other", &to("old@very.old")).unwrap();
    storage.move_users("old", "new").unwrap();
    let moved: Vec<_> = all(&storage, None)
        .into_iter()
        .map(|it| (it.name, it.domain, it.services.busy.unwrap()))
        .collect();
    let row = |name: &str, domain: &str, busy: &str| (name.into(), domain.into(), busy.into());
    assert_eq!(moved, [row("bob", "new", "carol@new"), row("al", "other", "old@very.old")]);
}
