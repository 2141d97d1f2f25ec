//! Users that another program changes in the database.

use rusqlite::Connection;
use sip::digest::Ha1Set;
use sip_server::CallServices;
use std::sync::Arc;
use store::sqlite::Sqlite;
use store::{Log, OtherChange, User, Users};

fn user(name: &str) -> User {
    let logins = Ha1Set::new(name.as_bytes(), b"a.com", b"1").into();
    User { name: name.to_owned(), domain: Arc::from("a.com"), logins }
}

#[test]
fn changes_of_other_programs_are_taken_once_and_own_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log { write: |_, _, text| eprintln!("{}", text()) };
    let storage = Sqlite::open(Box::new(directory.path().to_owned()), log).unwrap();
    let names = ["alice", "bob", "carol"];
    storage.put_users(&names.map(user)).unwrap();
    storage.put_users(&[user("bob")]).unwrap();
    storage.remove_user("carol", "a.com").unwrap();
    let services = CallServices { do_not_disturb: true, ..CallServices::default() };
    storage.put_services("bob", "a.com", &services).unwrap();
    storage.move_users("a.com", "b.com").unwrap();
    storage.move_users("b.com", "a.com").unwrap();
    assert_eq!(storage.take_changes().unwrap(), []);
    let other = Connection::open(directory.path().join("barebell.sqlite")).unwrap();
    let run = |sql: &str| other.execute_batch(sql).unwrap();
    run("DELETE FROM subscriber WHERE name = 'alice'");
    run("UPDATE call_services SET do_not_disturb = 0, busy = 'x@a.com' WHERE name = 'bob'");
    run("UPDATE subscriber SET ha1_md5 = zeroblob(16) WHERE name = 'bob'");
    run("INSERT INTO subscriber (domain, name, ha1_md5, ha1_sha256, ha1_sha512_256)
         VALUES ('a.com', 'dave', zeroblob(1), zeroblob(32), zeroblob(32))");
    // An own change keeps those of others.
    storage.put_users(&[user("erin")]).unwrap();
    let changes = storage.take_changes().unwrap();
    assert_eq!(changes.len(), 3, "{changes:?}");
    let [OtherChange::Removed { name, .. }, OtherChange::Put(bob, services), dave] = &changes[..]
    else {
        panic!("{changes:?}")
    };
    assert_eq!((&name[..], &bob.name[..]), ("alice", "bob"));
    assert_eq!(bob.logins.by_name.md5, [0; 16]);
    assert_eq!(services.busy.as_deref(), Some("x@a.com"));
    assert!(!services.do_not_disturb);
    assert!(matches!(dave, OtherChange::Damaged { name, .. } if name == "dave"));
    assert_eq!(storage.take_changes().unwrap(), []);
}
