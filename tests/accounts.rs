//! Users changed by SQL: in PostgreSQL, also while it is gone, and in the database of the server.

use peers::call::establish;
use peers::phone::{Action, Event, Kind};
use peers::postgres::{Postgres, SUBSCRIBER};
use peers::process::{Program, run, wait_until};
use peers::server::{DOMAIN, Options, ServerProcess, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport::Tcp;
use sip::digest::Ha1Set;
use test_support::agent::Agent;

const SQLITE3: Program = Program { name: "sqlite3", packages: "sqlite3" };

/// A server with the accounts of `postgres`, as its `role` sees them.
fn server(postgres: &Postgres, role: &str, more: &str) -> ServerProcess {
    let url = postgres.url(role);
    let configuration = format!("{TRUSTS_NOBODY}[accounts]\nurl = \"{url}\"\n{more}");
    // The database does not have this one.
    let users = [("left".to_owned(), "over".to_owned())];
    let options = Options { configuration: &configuration, users: &users, ..Options::default() };
    let server = ServerProcess::start(&options);
    server.wait_for_line("the users are those of postgresql://127.0.0.1/sip");
    server
}

/// The hashes of a password as the columns `ha1`, `ha1_sha256` and `ha1_sha512t256`.
fn hashes(name: &str, password: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let set = Ha1Set::new(name.as_bytes(), DOMAIN.as_bytes(), password.as_bytes());
    format!("'{}', '{}', '{}'", hex(&set.md5), hex(&set.sha256), hex(&set.sha512_256))
}

fn insert(postgres: &Postgres, name: &str, password: &str) {
    let hashes = hashes(name, password);
    postgres.sql(&format!(
        "INSERT INTO subscriber (username, domain, ha1, ha1_sha256, ha1_sha512t256)
         VALUES ('{name}', '{DOMAIN}', {hashes})"
    ));
}

/// The names of the users that the server knows.
fn users(server: &ServerProcess) -> Vec<String> {
    let rows = server.rows(&["user", "list", "--json"]);
    rows.iter().filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
}

fn wait_for_users(server: &ServerProcess, expected: &[&str]) {
    wait_until(&format!("the users {expected:?}"), || (users(server) == expected).then_some(()));
}

/// The status of the response to a REGISTER.
fn register(server: &ServerProcess, name: &str, password: &str) -> u16 {
    let mut phone = Agent::new(name, password, DOMAIN, server.address());
    phone.register_for(600).status().expect("it is a response")
}

#[test]
fn users_changed_by_sql_are_known_and_the_known_ones_go_on_without_the_database() {
    let mut postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    insert(&postgres, "alice", "one");
    // The password in clear serves where the hashes are missing.
    postgres.sql(&format!(
        "INSERT INTO subscriber (username, domain, password) VALUES ('bob', '{DOMAIN}', 'two')"
    ));
    let mut server = server(&postgres, "barebell", "");
    assert_eq!(users(&server), ["alice", "bob"]);
    assert_eq!((register(&server, "alice", "one"), register(&server, "bob", "two")), (200, 200));

    insert(&postgres, "carol", "three");
    wait_for_users(&server, &["alice", "bob", "carol"]);
    assert_eq!(register(&server, "carol", "three"), 200);
    assert_eq!(server.counter("users"), 3);
    let hashes = hashes("carol", "four");
    postgres.sql(&format!(
        "UPDATE subscriber SET (ha1, ha1_sha256, ha1_sha512t256) = ({hashes})
         WHERE username = 'carol'"
    ));
    let _ = server.wait_for_registrations("carol", 0);
    assert_eq!(
        (register(&server, "carol", "three"), register(&server, "carol", "four")),
        (401, 200)
    );
    postgres.sql("DELETE FROM subscriber WHERE username = 'carol'");
    wait_for_users(&server, &["alice", "bob"]);
    assert_eq!(register(&server, "carol", "four"), 401);

    postgres.crash();
    server.wait_for_line("the accounts in postgresql://127.0.0.1/sip cannot be read");
    assert_eq!(register(&server, "alice", "one"), 200);
    assert_eq!(register(&server, "alice", "wrong"), 401);
    assert_eq!(register(&server, "dave", "five"), 503, "it may have been added meanwhile");
    assert!(server.counter("unknown-for-now") >= 1);
    // After a restart the users are those that were copied.
    server.stop();
    server.restart();
    assert_eq!(register(&server, "alice", "one"), 200);
    assert_eq!(register(&server, "dave", "five"), 503);

    postgres.restart();
    insert(&postgres, "dave", "five");
    wait_for_users(&server, &["alice", "bob", "dave"]);
    assert_eq!(register(&server, "dave", "five"), 200);
    postgres.sql("TRUNCATE subscriber");
    wait_for_users(&server, &[]);
}

#[test]
fn commands_change_the_users_in_the_database_and_records_of_calls_are_copied_to_it() {
    let mut postgres = Postgres::start_with_certificate();
    postgres.sql(SUBSCRIBER);
    let issuer = postgres.certificate().display().to_string();
    let url = postgres.url_of("localhost", &format!("sslmode=verify-full&sslrootcert={issuer}"));
    let configuration = format!(
        "{TRUSTS_NOBODY}[accounts]\nurl = \"{url}\"\nrecords = true\n\
         [calls]\nmode = \"b2bua\"\n"
    );
    let options = Options { configuration: &configuration, ..Options::default() };
    let mut server = ServerProcess::start(&options);
    server.wait_for_line("the users are those of postgresql://localhost/sip");
    let file = server.data().join("more-users");
    let import = |lines: &str, server: &ServerProcess| {
        std::fs::write(&file, lines).expect("the file is written");
        server.run(&["user", "import", &file.display().to_string(), "--domain", DOMAIN])
    };
    let _ = import("alice:one\nbob:two\n", &server);
    let names = "SELECT username FROM subscriber ORDER BY username";
    assert_eq!(postgres.sql(names).split_whitespace().collect::<Vec<_>>(), ["alice", "bob"]);
    assert_eq!(register(&server, "alice", "one"), 200);
    let _ = import("alice:three\n", &server);
    assert_eq!(
        (register(&server, "alice", "one"), register(&server, "alice", "three")),
        (401, 200)
    );
    let _ = server.run(&["user", "remove", &format!("alice@{DOMAIN}")]);
    assert_eq!(postgres.sql(names).split_whitespace().collect::<Vec<_>>(), ["bob"]);
    assert_eq!(register(&server, "alice", "three"), 401);
    let _ = import("alice:one\n", &server);

    let agents = [("alice", "one"), ("bob", "two")].map(|(name, password)| {
        let mut agent = Agent::new(name, password, DOMAIN, server.address());
        assert_eq!(agent.register_for(600).status(), Some(200));
        agent
    });
    let [alice, bob] = agents;
    let (mut alice, mut bob) = establish(alice, bob);
    alice.pass(&mut bob, "BYE", "");
    let count = "SELECT count(*) FROM barebell_call WHERE record->>'call_id' <> ''";
    wait_until("the record in the database", || (postgres.sql(count).trim() == "1").then_some(()));

    // Without the database the second record waits, also over a restart.
    postgres.crash();
    server.wait_for_line("the accounts in postgresql://localhost/sip cannot be read");
    let (mut alice, mut bob) = establish(alice.agent, bob.agent);
    alice.pass(&mut bob, "BYE", "");
    server.wait_for_history(2);
    server.stop();
    server.restart();
    postgres.restart();
    wait_until("both records", || (postgres.sql(count).trim() == "2").then_some(()));
    assert_eq!(server.counter("uncopied-records"), 0);
}

#[test]
fn a_role_that_may_only_read_is_followed_by_polling() {
    let postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    postgres.add_role("reader");
    postgres.sql("GRANT SELECT ON subscriber TO reader");
    insert(&postgres, "alice", "one");
    let server = server(&postgres, "reader", "poll = \"1s\"\n");
    server.wait_for_line("may not create a trigger");
    assert_eq!(users(&server), ["alice"]);
    insert(&postgres, "bob", "two");
    wait_for_users(&server, &["alice", "bob"]);
    assert_eq!(register(&server, "bob", "two"), 200);
    postgres.sql("DELETE FROM subscriber WHERE username = 'alice'");
    wait_for_users(&server, &["bob"]);
}

#[test]
fn messages_for_phones_that_are_away_are_in_the_database_and_wait_beside_it_while_it_is_gone() {
    let mut postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    insert(&postgres, "alice", "one");
    insert(&postgres, "bob", "two");
    let mut server = server(&postgres, "barebell", "messages = true\n[messages]\nkeep = true\n");
    server.wait_for_line("the database of kept messages answers");
    let mut alice = Agent::new("alice", "one", DOMAIN, server.address());
    alice.register();
    let bob = server.uri("bob");
    let mut say = |text: &str| {
        let mut dialog = alice.dialog(&bob);
        alice.ask(&mut dialog, "MESSAGE", "", text);
        alice.response("MESSAGE", 202);
    };
    let kept = |postgres: &Postgres| {
        let rows = "SELECT convert_from(body, 'UTF8') FROM barebell_message ORDER BY id";
        postgres.sql(rows).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    say("first");
    assert_eq!(kept(&postgres), ["first"]);
    postgres.crash();
    say("second");
    assert_eq!(server.counter("messages-queued"), 1);
    server.stop();
    server.restart();
    say("third");
    postgres.restart();
    let all = ["first", "second", "third"];
    wait_until("all messages in the database", || (kept(&postgres) == all).then_some(()));
    let mut bob = Agent::new("bob", "two", DOMAIN, server.address());
    bob.register();
    for text in all {
        let message = bob.request("MESSAGE");
        assert_eq!(message.message().body(), text.as_bytes());
        let own = bob.dialog("sip:server");
        bob.answer(&message, &own, 200, "", "");
    }
    wait_until("no message in the database", || kept(&postgres).is_empty().then_some(()));
    assert_eq!(server.counter("messages-refused"), 0);
}

#[test]
fn a_message_is_delivered_by_one_of_two_servers_with_one_table() {
    let postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    for name in ["alice", "bob"] {
        insert(&postgres, name, PASSWORD);
    }
    let more = "messages = true\n[messages]\nkeep = true\n";
    let first = server(&postgres, "barebell", more);
    let mut alice = Agent::new("alice", PASSWORD, DOMAIN, first.address());
    alice.register();
    let mut say = |user: &str, text: &str| {
        let mut dialog = alice.dialog(&first.uri(user));
        alice.ask(&mut dialog, "MESSAGE", "", text);
        alice.response("MESSAGE", 202);
    };
    let texts = ["one", "two", "three"];
    texts.iter().for_each(|text| say("bob", text));
    let second = server(&postgres, "barebell", more);
    second.wait_for_line("the database of kept messages answers");
    let mut phones =
        [&first, &second].map(|server| Agent::new("bob", PASSWORD, DOMAIN, server.address()));
    phones[0].register();
    let mut message = phones[0].request("MESSAGE");
    phones[1].register();
    // The second server keeps it after it has looked for messages of bob.
    let mut other = Agent::new("alice", PASSWORD, DOMAIN, second.address());
    other.register();
    let mut dialog = other.dialog(&second.uri("bob"));
    assert_eq!(phones[1].register_for(0).status(), Some(200));
    other.ask(&mut dialog, "MESSAGE", "", "four");
    other.response("MESSAGE", 202);
    for text in ["one", "two", "three", "four"] {
        assert_eq!(message.message().body(), text.as_bytes());
        let own = phones[0].dialog("sip:server");
        phones[0].answer(&message, &own, 200, "", "");
        if text != "four" {
            message = phones[0].request("MESSAGE");
        }
    }
    first.wait_for_count("messages-delivered", 4);
    assert_eq!(second.counter("messages-delivered"), 0);
    assert!(phones[1].request_if_any("MESSAGE").is_none());
    assert_eq!(postgres.sql("SELECT count(*) FROM barebell_message").trim(), "0");
}

#[test]
fn a_database_that_hangs_holds_nothing_up() {
    let postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    for name in ["alice", "bob"] {
        insert(&postgres, name, PASSWORD);
    }
    let more = "records = true\nmessages = true\nvoicemail = true\n\
                [messages]\nkeep = true\n[calls]\nmode = \"b2bua\"\n\
                [media]\nports = \"33500-33599\"\n\
                [media_server]\nenabled = true\nmailboxes = [\"*\"]\n";
    let mut server = server(&postgres, "barebell", more);
    server.wait_for_line("the database of kept messages answers");
    let frozen = postgres.freeze();
    let mut alice = Agent::new("alice", PASSWORD, DOMAIN, server.address());
    alice.register();
    let mut dialog = alice.dialog(&server.uri("bob"));
    alice.ask(&mut dialog, "MESSAGE", "", "hello");
    alice.response("MESSAGE", 202);
    assert_eq!(server.counter("messages-queued"), 1);
    server.wait_for_line("cannot be read: the database has not answered for 15 s");
    assert_eq!(register(&server, "dave", "five"), 503, "it may have been added meanwhile");
    assert_eq!(server.rows(&["user", "list", "--json"]).len(), 2);
    // It ends and starts without the database, too.
    server.stop();
    server.restart();
    assert_eq!(register(&server, "bob", PASSWORD), 200);
    drop(frozen);
    insert(&postgres, "dave", "five");
    wait_for_users(&server, &["alice", "bob", "dave"]);
    assert_eq!(register(&server, "dave", "five"), 200);
}

#[test]
fn the_state_of_voice_messages_is_copied_to_the_database() {
    let mut postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    for name in ["alice", "bob"] {
        insert(&postgres, name, PASSWORD);
    }
    let url = postgres.url("barebell");
    let exchange = TestServer::with(
        &format!(
            "{TRUSTS_NOBODY}[accounts]\nurl = \"{url}\"\nvoicemail = true\n\
             [media]\nports = \"33400-33499\"\n\
             [media_server]\nenabled = true\nmailboxes = [\"*\"]\n"
        ),
        &[],
    );
    let server = &exchange.server;
    server.wait_for_line("the users are those of");
    server.wait_for_line("the state of voice messages is copied to");
    let mut alice = exchange.phone(Kind::Barebell, "alice", Tcp);
    alice.act(&Action::Dial(server.uri("voicemail-bob")));
    alice.wait_for(Event::Established);
    std::thread::sleep(std::time::Duration::from_secs(4));
    alice.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
    let rows = |postgres: &Postgres| {
        postgres.sql(
            "SELECT mailbox, caller, proved, heard, duration > '1 second',
                 now() - ended < '5 minutes' FROM barebell_voicemail",
        )
    };
    let expected = format!("bob@{DOMAIN}|alice@{DOMAIN}|t|f|t|t");
    wait_until("the message in the database", || {
        (rows(&postgres).trim() == expected).then_some(())
    });
    postgres.crash();
    let deleted = server.run(&["voicemail", "delete", "bob", "--all"]);
    assert!(deleted.contains("deleted 1 of"), "{deleted}");
    server.wait_for_count("voicemail-copy-failures", 1);
    postgres.restart();
    wait_until("no message in the database", || rows(&postgres).trim().is_empty().then_some(()));
}

#[test]
fn a_domain_that_is_an_address_has_users_in_the_database() {
    let postgres = Postgres::start();
    postgres.sql(SUBSCRIBER);
    let domain = "127.0.0.1";
    let ha1 = Ha1Set::new(b"alice", domain.as_bytes(), b"one").md5;
    let ha1: String = ha1.iter().map(|byte| format!("{byte:02x}")).collect();
    postgres.sql(&format!(
        "INSERT INTO subscriber (username, domain, ha1) VALUES ('alice', '{domain}', '{ha1}')"
    ));
    let url = postgres.url("barebell");
    let configuration = format!(
        "{TRUSTS_NOBODY}[authentication]\nalgorithms = [\"MD5\"]\n[accounts]\nurl = \"{url}\"\n"
    );
    let options = Options { configuration: &configuration, domain, ..Options::default() };
    let server = ServerProcess::start(&options);
    server.wait_for_line("the users are those of postgresql://127.0.0.1/sip: 1 new");
    let mut phone = Agent::new("alice", "one", domain, server.address());
    phone.register();
    postgres.sql("DELETE FROM subscriber");
    wait_for_users(&server, &[]);
    assert_eq!(phone.register_for(600).status(), Some(401));
}

/// Runs SQL in the database of the server, as another program.
fn sqlite(server: &ServerProcess, sql: &str) {
    let mut command = SQLITE3.command();
    command.arg(server.data().join("barebell.sqlite")).arg(".timeout 10000").arg(sql);
    let _ = run(SQLITE3, command);
}

#[test]
fn users_changed_by_sql_in_the_database_of_the_server_are_known() {
    let users_of_file = [("alice", "one"), ("bob", "two")];
    let users_of_file = users_of_file.map(|(name, word)| (name.to_owned(), word.to_owned()));
    let options =
        Options { configuration: TRUSTS_NOBODY, users: &users_of_file, ..Options::default() };
    let server = ServerProcess::start(&options);
    assert_eq!([register(&server, "alice", "one"), register(&server, "bob", "two")], [200, 200]);
    let values = hashes("carol", "three").replace('\'', "").replace(", ", "', X'");
    sqlite(
        &server,
        &format!(
            "INSERT INTO subscriber (domain, name, ha1_md5, ha1_sha256, ha1_sha512_256)
             VALUES ('{DOMAIN}', 'carol', X'{values}');
             DELETE FROM subscriber WHERE name = 'alice';
             INSERT INTO call_services VALUES
             ('{DOMAIN}', 'bob', NULL, NULL, NULL, NULL, 20000000, 1);"
        ),
    );
    server.wait_for_line("3 users were changed by SQL");
    wait_until("the end of the registration of alice", || {
        server.registrations_of("alice").is_empty().then_some(())
    });
    assert_eq!(users(&server), ["bob", "carol"]);
    assert_eq!(server.rows(&["status", "--json"])[0]["users"], 2);
    assert_eq!(register(&server, "carol", "three"), 200);
    let mut alice = Agent::new("alice", "one", DOMAIN, server.address());
    assert_ne!(alice.register_for(600).status(), Some(200));
    assert_eq!(server.registrations_of("bob").len(), 1);
    sqlite(&server, "UPDATE subscriber SET ha1_sha256 = zeroblob(3) WHERE name = 'carol'");
    server.wait_for_line("the row of carol@barebell.test is malformed and has no effect");
}
