//! The accounts of a PostgreSQL database, without a server.

use peers::postgres::{Postgres, SUBSCRIBER};
use sip::Instant;
use sip::digest::Ha1Set;
use sip_server::{AuthName, Logins};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::postgres::{
    Accounts, AccountsPlace, CallsCopy, CopiedUsers, MessageTable, VoicemailCopy,
};
use store::sqlite::Sqlite;
use store::{
    Change, KeptMessage, KeptMessages, Log, MessageLimits, Oldest, StoredCall, User, Users,
    VoiceMessage,
};

const KEY: [u8; 32] = [7; 32];

/// The table of Kamailio.
const KAMAILIO: &str = "CREATE TABLE kamailio (
    id serial PRIMARY KEY NOT NULL,
    username varchar(64) DEFAULT '' NOT NULL,
    domain varchar(64) DEFAULT '' NOT NULL,
    password varchar(64) DEFAULT '' NOT NULL,
    ha1 varchar(128) DEFAULT '' NOT NULL,
    ha1b varchar(128) DEFAULT '' NOT NULL,
    CONSTRAINT subscriber_account_idx UNIQUE (username, domain)
)";

/// The table of docs/configuration.md.
const OWN: &str = "CREATE TABLE own (
    username text NOT NULL,
    domain text NOT NULL,
    ha1 text NOT NULL DEFAULT '',
    ha1_sha256 text NOT NULL DEFAULT '',
    ha1_sha512t256 text NOT NULL DEFAULT '',
    PRIMARY KEY (username, domain)
)";

fn place(url: String) -> AccountsPlace {
    AccountsPlace { url, password_file: None, table: "subscriber".to_owned() }
}

fn sqlite(folder: &Path) -> Sqlite {
    let log = Log { write: |_, _, text| eprintln!("{}", text()) };
    Sqlite::open(Box::new(folder.to_owned()), log).expect("the storage is opened")
}

fn user(name: &str, password: &str) -> User {
    let ha1 = |login: &str| Ha1Set::new(login.as_bytes(), b"a.com", password.as_bytes());
    let by_address = Some(ha1(&format!("{name}@a.com")));
    let logins = Logins { by_name: ha1(name), by_address, by_auth_name: None };
    User { name: name.to_owned(), domain: Arc::from("a.com"), logins }
}

/// The users of the table.
fn read(place: &AccountsPlace) -> Vec<User> {
    let mut accounts = Accounts::connect(place, KEY).expect("the database is there");
    let mut rows = accounts.users().expect("the table is read");
    std::iter::from_fn(|| rows.read().expect("a row is read")).collect()
}

/// The users of the copy.
fn copied(storage: &Sqlite) -> Vec<User> {
    let mut users = Vec::new();
    let mut each = |user| {
        users.push(user);
        true
    };
    storage.users(None, &mut each).expect("the users are read");
    users
}

/// Connects, and returns true if the connection has TLS.
fn connects_with_tls(postgres: &Postgres, host: &str, query: &str) -> Result<bool, String> {
    let place = place(postgres.url_of(host, query));
    let accounts = Accounts::connect(&place, KEY).map_err(|error| error.to_string())?;
    let rows = postgres.sql(
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = 'barebell'",
    );
    drop(accounts);
    Ok(rows.trim() == "t")
}

#[test]
fn the_certificate_is_verified_as_the_uri_says() {
    let postgres = Postgres::start_with_certificate();
    postgres.sql(SUBSCRIBER);
    let connects = |host: &str, query: &str| connects_with_tls(&postgres, host, query);
    assert_eq!(connects("localhost", "sslmode=disable"), Ok(false));
    for query in ["", "sslmode=prefer", "sslmode=require"] {
        assert_eq!(connects("127.0.0.1", query), Ok(true), "{query}");
    }
    let issuer = postgres.certificate().display().to_string();
    let verified = format!("sslmode=verify-full&sslrootcert={issuer}");
    assert_eq!(connects("localhost", &verified), Ok(true));
    let error = connects("127.0.0.1", &verified).unwrap_err();
    assert!(error.contains("invalid peer certificate"), "another name: {error}");
    let error = connects("localhost", "sslmode=verify-full").unwrap_err();
    assert!(error.contains("name a file with the issuer as sslrootcert"), "{error}");
    let error = connects("localhost", "sslmode=verify-full&sslrootcert=/none.pem").unwrap_err();
    assert!(error.contains("sslrootcert: /none.pem"), "{error}");
}

#[test]
fn a_database_without_tls_is_used_only_if_the_uri_allows_it() {
    let postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    assert_eq!(connects_with_tls(&postgres, "127.0.0.1", "sslmode=prefer"), Ok(false));
    for mode in ["require", "verify-full"] {
        let error = connects_with_tls(&postgres, "127.0.0.1", &format!("sslmode={mode}"));
        let error = error.unwrap_err();
        assert!(error.contains("server does not support TLS"), "{error}");
    }
}

#[test]
fn users_are_changed_in_the_tables_of_opensips_kamailio_and_our_own() {
    let postgres = Postgres::start();
    for (table, definition) in [("subscriber", SUBSCRIBER), ("kamailio", KAMAILIO), ("own", OWN)] {
        postgres.sql(definition);
        let url = postgres.url("barebell");
        let place = AccountsPlace { url, password_file: None, table: table.to_owned() };
        let folder = tempfile::tempdir().expect("a folder");
        let storage = sqlite(folder.path());
        let users = CopiedUsers { copy: &storage, place: &place, key: KEY };
        // The same user with another case of the domain, and a password in clear.
        let has_password = table != "own";
        if has_password {
            postgres.sql(&format!(
                "INSERT INTO {table} (username, domain, password) VALUES ('alice', 'A.com', 'old')"
            ));
        }
        let names = ["alice", "bob", "carol"];
        let mut all: Vec<_> = names.map(|name| user(name, "one")).into();
        // Of two with one name the later one is stored.
        all.insert(0, user("bob", "zero"));
        let change = users.put_users(&all).expect("users are stored");
        let changed = u64::from(has_password);
        assert_eq!(change, Change { added: 3 - changed, changed, unchanged: 0 }, "{table}");
        assert_eq!(read(&place), copied(&storage), "{table}");
        let has = |name: &str, password: &str| {
            let found = read(&place).into_iter().find(|it| it.name == name);
            found.is_some_and(|it| it.logins.by_name.md5 == user(name, password).logins.by_name.md5)
        };
        assert!(has("alice", "one") && has("bob", "one"), "{table}");
        if has_password {
            let left = format!("SELECT count(*) FROM {table} WHERE password <> ''");
            assert_eq!(postgres.sql(&left).trim(), "0");
        }
        let change = users.put_users(&[user("bob", "two"), user("carol", "one")]);
        assert_eq!(change.expect("stored"), Change { added: 0, changed: 1, unchanged: 1 });
        assert!(has("bob", "two"), "{table}");
        assert!(users.remove_user("alice", "a.com").expect("removed"), "{table}");
        assert!(!users.remove_user("alice", "a.com").expect("tried"), "{table}");
        assert_eq!(read(&place), copied(&storage), "{table}");
        assert_eq!(copied(&storage).len(), 2, "{table}");
    }
}

#[test]
fn a_change_that_the_database_refuses_changes_nothing() {
    let mut postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    postgres.sql("CREATE TABLE clear (username text, domain text, password text)");
    postgres.add_role("reader");
    postgres.sql("GRANT SELECT ON subscriber TO reader");
    let folder = tempfile::tempdir().expect("a folder");
    let storage = sqlite(folder.path());
    let refused = |role: &str, table: &str, user: User| {
        let url = postgres.url(role);
        let place = AccountsPlace { url, password_file: None, table: table.to_owned() };
        let users = CopiedUsers { copy: &storage, place: &place, key: KEY };
        users.put_users(&[user]).expect_err("it is refused").to_string()
    };
    let text = refused("reader", "subscriber", user("alice", "one"));
    assert!(text.contains("permission denied for table subscriber"), "{text}");
    let text = refused("barebell", "clear", user("alice", "one"));
    assert!(text.contains("the table clear has no column ha1"), "{text}");
    let mut named = user("alice", "one");
    let ha1 = named.logins.by_name.clone();
    named.logins.by_auth_name = Some(Box::new(AuthName { name: b"x".as_slice().into(), ha1 }));
    let text = refused("barebell", "subscriber", named);
    assert!(text.contains("leave out that of alice"), "{text}");
    let text = refused("barebell", "subscriber", user(&"a".repeat(65), "one"));
    assert!(text.contains("too long"), "{text}");
    assert_eq!(copied(&storage), []);
    assert_eq!(postgres.sql("SELECT count(*) FROM subscriber").trim(), "0");
    postgres.crash();
    let place = place(postgres.url("barebell"));
    let users = CopiedUsers { copy: &storage, place: &place, key: KEY };
    assert!(users.put_users(&[user("alice", "one")]).is_err());
    assert!(users.remove_user("alice", "a.com").is_err());
    assert_eq!(copied(&storage), []);
}

#[test]
fn records_of_calls_are_copied_once() {
    let postgres = Postgres::start();
    let place = place(postgres.url("barebell"));
    let call = |id: i64, caller: &str, record: &str| {
        let parties = [caller.to_owned(), "bob@a.com".to_owned()];
        let ended = Instant::from_micros(1_700_000_000_000_000 + id.unsigned_abs());
        let (is_failed, record) = (id == 2, record.to_owned());
        (id, StoredCall { ended, parties, led_to: None, number_of: None, is_failed, record })
    };
    let mut copy = CallsCopy::connect(&place, "one").expect("the table is created");
    assert_eq!(copy.last().expect("it is read"), None);
    let calls = [call(1, "alice@a.com", "{\"reason\":\"x\"}"), call(2, "carol@a.com", "{}")];
    assert_eq!(copy.put(&calls).expect("copied"), 0);
    // The end of a transaction was not seen.
    assert_eq!(copy.put(&calls).expect("copied"), 0);
    // Content of an attacker: a NUL, and what is no record.
    let hostile = [
        call(3, "a\0b@a.com", "{\"caller\":\"a\\u0000b\"}"),
        call(4, "alice@a.com", "{\"caller\":"),
        call(5, "alice@a.com", "{}"),
    ];
    assert_eq!(copy.put(&hostile).expect("copied"), 1);
    assert_eq!(copy.last().expect("it is read"), Some(5));
    let mut other = CallsCopy::connect(&place, "two").expect("the table is there");
    assert_eq!(other.last().expect("it is read"), None);
    assert_eq!(other.put(&[call(1, "dave@a.com", "{}")]).expect("copied"), 0);
    let rows = postgres.sql(
        "SELECT server, id, caller, failed, extract(microseconds FROM ended)::bigint % 1000
         FROM barebell_call ORDER BY server, id",
    );
    let rows: Vec<_> = rows.lines().collect();
    assert_eq!(
        rows,
        [
            "one|1|alice@a.com|f|1",
            "one|2|carol@a.com|t|2",
            "one|3|a\u{fffd}b@a.com|f|3",
            "one|5|alice@a.com|f|5",
            "two|1|dave@a.com|f|1"
        ]
    );
    let reason = "SELECT record->>'reason' FROM barebell_call WHERE id = 1 AND server = 'one'";
    let reason = postgres.sql(reason);
    assert_eq!(reason.trim(), "x");
}

/// The messages of the database, for the server `name`.
fn messages(postgres: &Postgres, name: &str) -> MessageTable {
    MessageTable::new(place(postgres.url("barebell")), name.to_owned())
}

fn message(second: u64, body: &[u8]) -> KeptMessage {
    KeptMessage {
        received: Instant::from_micros(1_700_000_000_000_007 + second * 1_000_000),
        sender: b"<sip:alice@a.com>".to_vec(),
        content_type: b"text/plain".to_vec(),
        body: body.to_vec(),
        is_proved: true,
    }
}

#[test]
fn kept_messages_come_back_in_order_within_limits_and_are_stored_once() {
    let mut postgres = Postgres::start();
    let table = messages(&postgres, "one");
    let limits = MessageLimits { of_user: 2, all: 3 };
    let keep = |user: &str, second, body: &[u8]| {
        table.keep_message(user, &message(second, body), limits).expect("an answer")
    };
    // Any bytes are kept.
    assert!(keep("bob@a.com", 1, b"one\0\xff"));
    assert!(keep("bob@a.com", 1, b"one\0\xff"), "it is there already");
    assert!(keep("bob@a.com", 2, b"two"));
    assert!(!keep("bob@a.com", 3, b"three"), "the limit of the user");
    assert!(keep("carol@a.com", 4, b"four"));
    assert!(!keep("dave@a.com", 5, b"five"), "the limit in all");
    let mut users = table.users_with_messages().expect("users");
    users.sort();
    assert_eq!(users, ["bob@a.com", "carol@a.com"]);
    let oldest = || table.oldest_message("bob@a.com").expect("an answer");
    let Oldest::Message { id, message: first } = oldest() else { panic!("no message") };
    assert_eq!(first, message(1, b"one\0\xff"));
    table.delete_message(id).expect("deleted");
    assert!(matches!(oldest(), Oldest::Message { message: it, .. } if it == message(2, b"two")));
    let third = Instant::from_micros(1_700_000_003_000_000);
    assert_eq!(table.purge_messages(third).expect("deleted"), 1);
    assert_eq!(oldest(), Oldest::None);
    // It connects again after an error, and adds columns that an older table lacks.
    postgres.sql("ALTER TABLE barebell_message DROP claimed_by, DROP claimed_until, DROP proved");
    postgres.crash();
    assert!(table.users_with_messages().is_err());
    postgres.restart();
    assert_eq!(table.users_with_messages().expect("users"), ["carol@a.com"]);
    let text = "SELECT convert_from(body, 'UTF8') FROM barebell_message";
    assert_eq!(postgres.sql(text).trim(), "four");
}

#[test]
fn unproved_messages_get_a_quarter_of_the_limits() {
    let postgres = Postgres::start();
    let table = messages(&postgres, "one");
    let limits = MessageLimits { of_user: 8, all: 12 };
    let mut second = 0;
    let mut keep = |user: &str, is_proved| {
        second += 1;
        let message = KeptMessage { is_proved, ..message(second, b"x") };
        table.keep_message(user, &message, limits).expect("an answer")
    };
    assert_eq!([(); 3].map(|()| keep("bob@a.com", false)), [true, true, false], "of the user");
    assert_eq!([(); 2].map(|()| keep("carol@a.com", false)), [true, false], "in all");
    let kept = [true, true, true, true, true, true, false];
    assert_eq!([(); 7].map(|()| keep("bob@a.com", true)), kept);
    let Oldest::Message { message, .. } = table.oldest_message("bob@a.com").expect("an answer")
    else {
        panic!("no message")
    };
    assert!(!message.is_proved);
}

#[test]
fn one_of_two_servers_claims_a_message_until_it_is_delivered_or_the_claim_ends() {
    const BOB: &str = "bob@a.com";
    let postgres = Postgres::start();
    let tables = &["one", "two"].map(|name| messages(&postgres, name));
    let limits = MessageLimits { of_user: 99, all: 99 };
    let oldest = |table: &MessageTable| table.oldest_message(BOB).expect("an answer");
    for round in 0..20 {
        for body in [b"first", b"other"] {
            assert!(tables[0].keep_message(BOB, &message(round, body), limits).expect("kept"));
        }
        // Both ask at the same moment.
        let found = std::thread::scope(|scope| {
            let threads = [0, 1].map(|at| scope.spawn(move || oldest(&tables[at])));
            threads.map(|thread| thread.join().expect("an answer"))
        });
        let (winner, id) = match found {
            [Oldest::Message { id, .. }, Oldest::Claimed] => (0, id),
            [Oldest::Claimed, Oldest::Message { id, .. }] => (1, id),
            found => panic!("{found:?}"),
        };
        // A delivery that failed is repeated by the server with the claim only.
        assert!(matches!(oldest(&tables[winner]), Oldest::Message { id: it, .. } if it == id));
        assert_eq!(oldest(&tables[1 - winner]), Oldest::Claimed);
        tables[winner].delete_message(id).expect("deleted");
        let Oldest::Message { id, message } = oldest(&tables[1 - winner]) else {
            panic!("the next one was not claimed")
        };
        assert_eq!(message.body, b"other");
        assert_eq!(oldest(&tables[winner]), Oldest::Claimed);
        postgres.sql("UPDATE barebell_message SET claimed_until = now() - interval '1 second'");
        assert!(matches!(oldest(&tables[winner]), Oldest::Message { id: it, .. } if it == id));
        tables[winner].delete_message(id).expect("deleted");
        assert_eq!(oldest(&tables[1 - winner]), Oldest::None);
    }
}

#[test]
fn a_database_that_hangs_is_given_up_and_used_again() {
    let postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    let place = place(postgres.url("barebell"));
    let mut accounts = Accounts::connect(&place, KEY).expect("the database is there");
    let mut calls = CallsCopy::connect(&place, "one").expect("the database is there");
    let mut voicemail = VoicemailCopy::connect(&place, "one").expect("the database is there");
    let kept = messages(&postgres, "one");
    assert_eq!(kept.users_with_messages().expect("users"), Vec::<String>::new());
    let frozen = postgres.freeze();
    let turn = Duration::from_millis(1);
    let failures = std::thread::scope(|scope| {
        let threads = [
            scope.spawn(|| accounts.changes(turn).map(drop).unwrap_err().to_string()),
            scope.spawn(|| calls.last().unwrap_err().to_string()),
            scope.spawn(|| voicemail.all().unwrap_err().to_string()),
            scope.spawn(|| kept.users_with_messages().unwrap_err().to_string()),
            // A new connection.
            scope.spawn(|| place.examine().unwrap_err().to_string()),
        ];
        threads.map(|thread| thread.join().expect("the wait ends"))
    });
    for failure in failures {
        assert!(failure.contains("the database has not answered for 1"), "{failure}");
    }
    drop(frozen);
    place.examine().expect("the database answers");
    assert_eq!(kept.users_with_messages().expect("users"), Vec::<String>::new());
}

#[test]
fn the_state_of_voice_messages_is_added_changed_and_removed() {
    let postgres = Postgres::start();
    let place = place(postgres.url("barebell"));
    let mut copy = VoicemailCopy::connect(&place, "one").expect("the table is created");
    assert!(copy.all().expect("it is read").is_empty());
    let message = |id: i64, is_heard| VoiceMessage {
        mailbox: "bob@a.com".to_owned(),
        id,
        caller: "a\0lice@a.com".to_owned(),
        is_proved: true,
        ended: Instant::from_micros(1_700_000_000_000_000),
        duration: Duration::from_millis(2500),
        is_heard,
    };
    copy.change(&[], &[message(1, false), message(2, false)]).expect("added");
    copy.change(&[("bob@a.com".to_owned(), 1)], &[message(2, true)]).expect("changed");
    let mut other = VoicemailCopy::connect(&place, "two").expect("the table is there");
    assert!(other.all().expect("it is read").is_empty());
    other.change(&[], &[message(2, false)]).expect("added");
    let all = copy.all().expect("it is read");
    assert_eq!(all["bob@a.com"].iter().collect::<Vec<_>>(), [(&2, &true)]);
    let rows = postgres.sql(
        "SELECT server, mailbox, id, caller, extract(epoch FROM duration)::float, heard
         FROM barebell_voicemail ORDER BY server",
    );
    let rows: Vec<_> = rows.lines().collect();
    assert_eq!(
        rows,
        ["one|bob@a.com|2|a\u{fffd}lice@a.com|2.5|t", "two|bob@a.com|2|a\u{fffd}lice@a.com|2.5|f"]
    );
}
