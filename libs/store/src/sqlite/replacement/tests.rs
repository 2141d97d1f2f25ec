use super::*;
use crate::sqlite::tests::{all, open};
use crate::{
    CallFilter, CallRecords, PanelAccount, PanelData, PanelToken, SecondFactor, StoredCall, Users,
};
use sip::digest::Ha1Set;
use sip_server::{AuthName, Logins};

fn user(name: &str, password: &str, auth_name: Option<&str>) -> User {
    let ha1 = |login: &str| Ha1Set::new(login.as_bytes(), b"a.com", password.as_bytes());
    let logins = Logins {
        by_name: ha1(name),
        by_address: None,
        by_auth_name: auth_name
            .map(|auth| Box::new(AuthName { name: auth.as_bytes().into(), ha1: ha1(auth) })),
    };
    User { name: name.to_owned(), domain: "a.com".into(), logins }
}

fn services(name: &str, busy: &str) -> UserServices {
    let services = CallServices { busy: Some(busy.to_owned()), ..CallServices::default() };
    UserServices { name: name.to_owned(), domain: "a.com".to_owned(), services }
}

fn account(name: &str, password: &str) -> PanelAccount {
    let (role, password) = ("administrator".to_owned(), password.to_owned());
    PanelAccount { name: name.to_owned(), role, password, created: 7 }
}

fn call(ended: u64) -> StoredCall {
    let parties = ["a".to_owned(), "b".to_owned()];
    let (ended, record) = (Instant::from_micros(ended), format!("{{\"at\":{ended}}}"));
    StoredCall { ended, parties, led_to: None, number_of: None, is_failed: false, record }
}

fn records(storage: &Sqlite) -> Vec<String> {
    let mut found = Vec::new();
    storage
        .calls(&CallFilter::default(), 100, &mut |record| {
            found.push(record);
            true
        })
        .unwrap();
    found
}

fn stored_services(storage: &Sqlite) -> Vec<UserServices> {
    let mut found = Vec::new();
    storage.services(None, &mut |it| found.push(it)).unwrap();
    found
}

/// Everything that a replacement may change.
fn state(storage: &Sqlite) -> impl PartialEq + std::fmt::Debug + use<> {
    let factor = storage.second_factor("eve").unwrap();
    let panel = (storage.panel_accounts().unwrap(), storage.panel_tokens().unwrap(), factor);
    (
        all(storage, None),
        storage.realms().unwrap(),
        stored_services(storage),
        panel,
        records(storage),
    )
}

/// A storage with alice, bob and carol, an account and a token.
fn filled(storage: &Sqlite) {
    let users = [user("alice", "1", Some("x")), user("bob", "2", None), user("carol", "3", None)];
    storage.put_users(&users).unwrap();
    storage.put_services("bob", "a.com", &services("bob", "alice@a.com").services).unwrap();
    storage.put_panel_account(&account("eve", "$1")).unwrap();
    storage.put_second_factor("eve", &SecondFactor { secret: vec![1; 20], used: 9 }).unwrap();
    let token = PanelToken { name: "ci".into(), role: "reader".into(), hash: [1; 32], created: 1 };
    storage.put_panel_token(&token).unwrap();
    storage.put_calls(&[call(5)]).unwrap();
}

/// bob without a change, alice and dave with others' login names, no carol.
fn replacement() -> Replacement {
    let users =
        vec![user("alice", "1", None), user("bob", "2", None), user("dave", "4", Some("x"))];
    let realms = BTreeMap::from([("a.com".to_owned(), "pbx".to_owned())]);
    let factor = SecondFactor { secret: vec![1; 20], used: 4 };
    Replacement {
        users: Some(UserSet { users, realms }),
        services: Some(vec![services("dave", "bob@a.com"), services("nobody", "bob@a.com")]),
        panel: Some(PanelSet {
            accounts: vec![(account("eve", "$2"), Some(factor)), (account("mal", "$3"), None)],
            tokens: Vec::new(),
        }),
        calls: vec![call(5), call(6)],
    }
}

#[test]
fn a_replacement_leaves_its_data_only_and_a_trial_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    filled(&storage);
    let before = state(&storage);
    let told = storage.replace(&replacement(), true).unwrap();
    assert!(state(&storage) == before, "a trial changed the data");
    let replaced = storage.replace(&replacement(), false).unwrap();
    assert_eq!(told, replaced);
    let names = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    let expected = Difference {
        added: names(&["dave@a.com"]),
        changed: names(&["alice@a.com"]),
        removed: names(&["carol@a.com"]),
        unchanged: 1,
    };
    assert_eq!(replaced.users, expected);
    assert_eq!(replaced.services.added, ["dave@a.com"]);
    assert_eq!(replaced.services.removed, ["bob@a.com"]);
    assert_eq!(replaced.unknown, ["nobody@a.com"]);
    assert_eq!(
        (&*replaced.accounts.added, &*replaced.accounts.changed),
        (&names(&["mal"])[..], &names(&["eve"])[..])
    );
    assert_eq!((&*replaced.tokens.removed, replaced.calls), (&names(&["ci"])[..], 1));
    assert_eq!(all(&storage, None), replacement().users.unwrap().users);
    assert_eq!(storage.realms().unwrap()["a.com"], "pbx");
    assert_eq!(stored_services(&storage), [services("dave", "bob@a.com")]);
    assert_eq!(storage.second_factor("eve").unwrap().unwrap().used, 9, "used codes stay used");
    assert_eq!(records(&storage).len(), 2);
    assert!(storage.take_changes().unwrap().is_empty(), "they are no changes of others");
    // The same again changes nothing.
    let again = storage.replace(&replacement(), false).unwrap();
    assert_eq!((again.users.unchanged, again.accounts.unchanged, again.calls), (3, 2, 0));
    assert_eq!(again.put_users, []);
}

#[test]
fn parts_that_are_missing_stay() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    filled(&storage);
    let before = state(&storage);
    let replaced = storage.replace(&Replacement::default(), false).unwrap();
    assert_eq!(replaced, Replaced::default());
    assert!(state(&storage) == before);
    let services = Some(Vec::new());
    let replaced =
        storage.replace(&Replacement { services, ..Replacement::default() }, false).unwrap();
    assert_eq!(replaced.services.removed, ["bob@a.com"]);
    assert_eq!(storage.user_count().unwrap(), 3);
}

#[test]
fn a_failure_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    filled(&storage);
    let before = state(&storage);
    let mut bad = replacement();
    // Two users with one login name: the database refuses the second one.
    let users = vec![user("dave", "4", Some("x")), user("mal", "5", Some("x"))];
    bad.users = Some(UserSet { users, realms: BTreeMap::new() });
    assert!(storage.replace(&bad, false).is_err());
    assert!(state(&storage) == before, "a part was stored");
}

/// A call that ended at `ended`, with a record of its own.
fn call_with(ended: u64, number: u32) -> StoredCall {
    StoredCall { record: format!("{{\"number\":{number}}}"), ..call(ended) }
}

#[test]
fn stored_records_are_read_once_for_each_time() {
    let mut calls: Vec<_> = (0..20_000).map(|number| call_with(7, number)).collect();
    calls.extend((0..100).map(|number| call_with(number, 1)));
    calls.push(call_with(7, 5));
    let mut looks = 0;
    let missing = missing(&calls, |ended| {
        looks += 1;
        let is_stored = ended == Instant::from_micros(7);
        Ok(is_stored.then(|| call_with(7, 3).record).into_iter().collect())
    });
    let missing = missing.unwrap();
    assert_eq!(looks, 100);
    // One was stored, and two are there twice.
    assert_eq!(missing.len(), calls.len() - 3);
    assert_eq!(missing[3].record, call_with(7, 4).record, "they keep their order");
}

#[test]
fn many_records_of_one_time_are_added_once() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    let calls: Vec<_> = (0..20_000).chain([5, 5]).map(|number| call_with(7, number)).collect();
    let data = Replacement { calls, ..Replacement::default() };
    assert_eq!(storage.replace(&data, true).unwrap().calls, 20_000);
    assert_eq!(storage.replace(&data, false).unwrap().calls, 20_000);
    assert_eq!(storage.replace(&data, false).unwrap().calls, 0);
}
