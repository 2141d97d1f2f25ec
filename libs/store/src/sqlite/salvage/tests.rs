use super::super::tests::{all, open, try_open};
use super::super::{DATABASE, Error, SECRET_LENGTH};
use super::*;
use crate::{CallFilter, CallRecords, Storage, StoredCall, User, Users};
use sip::Instant;
use sip::digest::Ha1Set;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

const USERS: usize = 2000;

fn user(number: usize) -> User {
    let name = format!("user{number:04}");
    let ha1 = Ha1Set::new(name.as_bytes(), b"a.com", b"secret");
    User { name, domain: Arc::from("a.com"), logins: ha1.into() }
}

/// A closed database with users on many pages and a setting, and its secret.
fn database(directory: &Path) -> (PathBuf, [u8; SECRET_LENGTH]) {
    let storage = open(directory);
    storage.put_users(&(0..USERS).map(user).collect::<Vec<_>>()).unwrap();
    storage.set_setting("a", b"b").unwrap();
    (directory.join(DATABASE), storage.secret().unwrap())
}

fn overwrite(path: &Path, page: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, page * PAGE).unwrap();
}

/// The root page of a table, counted from 0.
fn root(path: &Path, table: &str) -> u64 {
    let database = Connection::open(path).unwrap();
    let root: i64 = database
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .unwrap();
    root.cast_unsigned() - 1
}

/// A check of all records would take minutes of each start.
#[test]
fn damaged_records_of_calls_delay_no_start_and_the_one_after_their_first_use_salvages() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = database(directory.path());
    let parties = || ["a@x".to_owned(), "b@x".to_owned()];
    let call = |number| StoredCall {
        ended: Instant::from_micros(number),
        parties: parties(),
        led_to: None,
        number_of: None,
        is_failed: false,
        record: format!("{number:0100}"),
    };
    open(directory.path()).put_calls(&(0..500).map(call).collect::<Vec<_>>()).unwrap();
    overwrite(&path, root(&path, "call"), &[0xff; PAGE as usize]);
    let storage = open(directory.path());
    assert_eq!(all(&storage, None).len(), USERS);
    assert!(storage.kept_files().unwrap().is_empty());
    assert!(matches!(storage.put_calls(&[call(500)]), Err(Error::Database { .. })));
    assert!(storage.call_page(&CallFilter::default(), None, 1).is_err());
    drop(storage);
    for _ in 0..2 {
        let storage = open(directory.path());
        assert_eq!(all(&storage, None).len(), USERS);
        assert_eq!(storage.kept_files().unwrap().len(), 1);
        storage.put_calls(&[call(501)]).unwrap();
    }
}

#[test]
fn records_of_calls_keep_all_their_columns() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = database(directory.path());
    let call = StoredCall {
        ended: Instant::from_micros(7),
        parties: ["a@x".to_owned(), "b@x".to_owned()],
        led_to: Some("c@x".to_owned()),
        number_of: Some("d@x".to_owned()),
        is_failed: true,
        record: "{}".to_owned(),
    };
    open(directory.path()).put_calls(std::slice::from_ref(&call)).unwrap();
    overwrite(&path, root(&path, "setting"), &[0xff; PAGE as usize]);
    let storage = open(directory.path());
    assert_eq!(storage.kept_files().unwrap().len(), 1);
    let stored = storage.calls_after(0, 10).unwrap();
    assert!(stored.iter().map(|(_, it)| it).eq([&call]), "{stored:?}");
}

#[test]
fn users_on_either_side_of_a_damaged_page_are_saved() {
    let directory = tempfile::tempdir().unwrap();
    let (path, secret) = database(directory.path());
    let damaged = fs::read(&path).unwrap();
    // Pages that are no longer used may have the text, too.
    let places = damaged.windows(8).enumerate().filter(|(_, bytes)| *bytes == b"user1000");
    let pages: BTreeSet<u64> = places.map(|(place, _)| place as u64 / PAGE).collect();
    pages.into_iter().for_each(|page| overwrite(&path, page, &[0; PAGE as usize]));
    let damaged = fs::read(&path).unwrap();
    let storage = open(directory.path());
    let saved = all(&storage, None);
    assert!((USERS - 60..USERS).contains(&saved.len()), "{} users", saved.len());
    assert!(saved.contains(&user(0)) && saved.contains(&user(USERS - 1)));
    assert_eq!(storage.secret().unwrap(), secret);
    assert_eq!(storage.setting("a").unwrap().unwrap(), b"b");
    let [kept] = &storage.kept_files().unwrap()[..] else { panic!("one file is kept") };
    assert_eq!(fs::read(directory.path().join(kept)).unwrap(), damaged);
    // The new database is intact, with mode 0600.
    storage.put_users(&saved).unwrap();
    drop(storage);
    assert_eq!(all(&open(directory.path()), None).len(), saved.len());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn damaged_registrations_and_settings_cost_no_user() {
    for (table, keeps_secret) in [("binding", true), ("setting", false)] {
        let directory = tempfile::tempdir().unwrap();
        let (path, secret) = database(directory.path());
        overwrite(&path, root(&path, table), &[0x5a; PAGE as usize]);
        let storage = open(directory.path());
        assert_eq!(all(&storage, None).len(), USERS, "{table}");
        assert_eq!(storage.secret().unwrap() == secret, keeps_secret, "{table}");
        assert_eq!(storage.kept_files().unwrap().len(), 1, "{table}");
    }
}

#[test]
fn users_are_saved_where_the_beginning_is_overwritten_or_the_end_is_missing() {
    for is_cut in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = database(directory.path());
        if is_cut {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(file.metadata().unwrap().len() - PAGE).unwrap();
        } else {
            overwrite(&path, 0, b"garbage garbage!");
        }
        let damaged = fs::read(&path).unwrap();
        let storage = open(directory.path());
        let saved = all(&storage, None);
        let wanted = if is_cut { USERS / 4..USERS } else { USERS..USERS + 1 };
        assert!(wanted.contains(&saved.len()), "{} users", saved.len());
        let [kept] = &storage.kept_files().unwrap()[..] else { panic!("one file is kept") };
        assert_eq!(fs::read(directory.path().join(kept)).unwrap(), damaged);
    }
}

#[test]
fn a_database_without_readable_users_is_left_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = database(directory.path());
    let whole = fs::read(&path).unwrap();
    let overwritten = [&[0x5a; PAGE as usize], &whole[PAGE as usize..]].concat();
    for damaged in [&overwritten[..], b"garbage!", &overwritten] {
        fs::write(&path, damaged).unwrap();
        let error = try_open(directory.path()).unwrap_err();
        assert!(matches!(error, Error::NoUsers { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), damaged);
        let mut names =
            directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.all(|name| name == DATABASE || name == "lock"), "something is left");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(all(&open(directory.path()), None).len(), USERS);
}

#[test]
fn a_damaged_database_without_users_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let path = directory.path().join(DATABASE);
    overwrite(&path, root(&path, "binding"), &[0x5a; PAGE as usize]);
    let storage = open(directory.path());
    assert!(all(&storage, None).is_empty());
    assert_eq!(storage.kept_files().unwrap().len(), 1);
}

#[test]
fn a_database_that_is_gone_is_not_taken_for_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = database(directory.path());
    let journal = directory.path().join("journal-00000000000000000001-0");
    fs::write(&journal, b"").unwrap();
    for file in [Some(b""), None] {
        remove_file(&path).unwrap();
        if let Some(bytes) = file {
            fs::write(&path, bytes).unwrap();
        }
        let error = try_open(directory.path()).unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
    }
    remove_file(&journal).unwrap();
    assert!(all(&open(directory.path()), None).is_empty());
}

#[test]
fn a_secret_that_is_no_secret_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    storage.set_setting(SECRET, b"x").unwrap();
    let secret = storage.secret().unwrap();
    assert_eq!(storage.secret().unwrap(), secret);
}
