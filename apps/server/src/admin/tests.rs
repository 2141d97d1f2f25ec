use super::ask::Ask;
use super::client::Client;
use super::desk::Desk;
use super::limited_use::LimitedUse;
use super::server::Server;
use super::stopped::Stopped;
use super::trunk::Trunk;
use super::*;
use crate::backup::{Line, Report};
use crate::failure::Failure;
use crate::storage::tests::open;
use crate::trace::Tracer;
use crate::why::Refusals;
use notifier::Messages;
use parking_lot::Mutex;
use sip_server::CallServices;
use sip_server::config::Domain;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use store::postgres::CopiedUsers;
use store::sqlite::Sqlite;
use store::{Error, PanelData, Replaced, Storage, User, Users};

/// A server that records the calls.
struct Fake {
    data: PathBuf,
    storage: Sqlite,
    told: Mutex<Vec<String>>,
}

impl Fake {
    fn new(directory: &Path) -> Arc<Self> {
        let (data, storage) = (directory.to_owned(), open(directory));
        Arc::new(Self { data, storage, told: Mutex::default() })
    }
}

fn domains() -> Vec<Domain> {
    let domain =
        |name: &str, alias: &str| Domain { name: name.to_owned(), aliases: vec![alias.to_owned()] };
    vec![domain("a.com", "192.0.2.1"), domain("b.com", "192.0.2.2")]
}

impl Desk for Fake {
    fn storage(&self) -> &dyn Storage {
        &self.storage
    }

    fn data(&self) -> &Path {
        &self.data
    }

    fn config_file(&self) -> Option<&Path> {
        None
    }

    fn copied_users(&self) -> Result<Option<CopiedUsers<'_>>, Error> {
        Ok(None)
    }

    fn condition(&self) -> Result<Condition, Error> {
        let counters = BTreeMap::from([("requests".to_owned(), 7)]);
        let status = Status { mode: "proxy".to_owned(), users: 3, counters, ..Status::default() };
        Ok(Condition::Running(Box::new(status)))
    }

    fn domains(&self) -> Vec<Domain> {
        domains()
    }

    fn registrations(&self, each: &mut dyn FnMut(Registration) -> bool) -> Result<(), Error> {
        let row = |i| Registration {
            address_of_record: format!("user{i}@a.com"),
            contact: "sip:phone@192.0.2.9".to_owned(),
            flow: "udp:192.0.2.9:5060".to_owned(),
            expires_in: 60,
            q: 1000,
            user_agent: String::new(),
        };
        let taken = (0..100_000).take_while(|i| each(row(*i))).count();
        self.told.lock().push(format!("{taken} rows"));
        Ok(())
    }

    fn end_registration(
        &self,
        name: &str,
        domain: &str,
        contact: Option<&str>,
    ) -> Result<Vec<Registration>, String> {
        Err(format!("no registration of {name}@{domain} at {contact:?}"))
    }

    fn calls(&self) -> Vec<Call> {
        Vec::new()
    }

    fn limits(&self) -> Vec<LimitedUse> {
        Vec::new()
    }

    fn trunks(&self) -> Vec<Trunk> {
        Vec::new()
    }

    fn messages(&self, _: &str, counts: Option<Messages>) -> Result<Messages, String> {
        Ok(counts.unwrap_or_default())
    }

    fn end_call(&self, id: &str) -> Result<CallEnded, String> {
        Err(format!("no call {id}"))
    }

    fn tracer(&self) -> Result<&Tracer, String> {
        Err("no tracer".to_owned())
    }

    fn refusals(&self) -> Result<&Refusals, String> {
        Err("no refusals".to_owned())
    }

    fn call_id(&self, id: &str) -> String {
        id.to_owned()
    }

    fn drain(&self, drains: bool) -> Result<Drained, String> {
        self.told.lock().push(format!("drain {drains}"));
        Ok(Drained { draining: drains, calls: 2, transactions: 5 })
    }

    fn users_added(&self, users: &[User]) {
        self.told.lock().extend(users.iter().map(|user| format!("+{}@{}", user.name, user.domain)));
    }

    fn users_moved(&self, from: &str, to: &str) -> Result<(), Error> {
        self.told.lock().push(format!("{from} to {to}"));
        Ok(())
    }

    fn services_changed(&self, name: &str, domain: &str, services: CallServices) {
        let busy = services.busy.unwrap_or_default();
        self.told.lock().push(format!("{name}@{domain}: {busy}"));
    }

    fn user_removed(&self, name: &str, domain: &str) {
        self.told.lock().push(format!("-{name}@{domain}"));
    }

    fn restored(&self, replaced: &Replaced, has_users: bool) -> Result<(), Error> {
        let Replaced { put_users, removed_users, .. } = replaced;
        let told = format!("restored {has_users}: {} {}", put_users.len(), removed_users.len());
        self.told.lock().push(told);
        Ok(())
    }
}

struct Rig {
    directory: tempfile::TempDir,
    desk: Arc<Fake>,
    _server: Server,
}

impl Rig {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let desk = Fake::new(directory.path());
        let server = Server::start(directory.path(), desk.clone()).unwrap();
        Self { directory, desk, _server: server }
    }

    fn client(&self) -> Client {
        Client::connect(self.directory.path()).unwrap().unwrap()
    }

    fn raw(&self) -> UnixStream {
        UnixStream::connect(crate::data_dir::control_socket(self.directory.path())).unwrap()
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.desk.told.lock())
    }
}

fn add(name: &str) -> Request {
    Request::AddUser {
        name: name.to_owned(),
        domain: None,
        password: "secret".to_owned(),
        auth_name: None,
    }
}

fn import(domain: &str, length: usize) -> Request {
    let (domain, length) = (Some(domain.to_owned()), length as u64);
    Request::ImportUsers { domain, length, dry_run: false }
}

fn text<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result.unwrap_err() {
        Failure::Message(text) => text,
        failure => panic!("{failure:?}"),
    }
}

fn socket_mode(directory: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    crate::data_dir::control_socket(directory).metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn the_status_comes_through() {
    let rig = Rig::new();
    let condition: Condition = rig.client().ask(&Request::Status).unwrap();
    assert_eq!(condition, rig.desk.condition().unwrap());
    assert_eq!(socket_mode(rig.directory.path()), 0o600);
}

#[test]
fn a_change_of_users_is_stored_and_passed_to_the_engine() {
    let rig = Rig::new();
    let stored: UsersStored = rig.client().ask(&add("alice@192.0.2.2")).unwrap();
    let expected = UsersStored {
        added: 1,
        changed: 0,
        unchanged: 0,
        uri: Some("sip:alice@b.com".to_owned()),
        domain: "b.com".to_owned(),
        served: true,
        mistakes: Vec::new(),
        mistake_count: 0,
    };
    assert_eq!(stored, expected);
    let stored: UsersStored = rig.client().ask(&add("alice@b.com")).unwrap();
    assert_eq!((stored.added, stored.changed, stored.unchanged), (0, 0, 1));
    let file = b"bob:1\ncarol:2\n";
    let stored: UsersStored =
        rig.client().ask_with(&import("elsewhere.com", file.len()), file).unwrap();
    assert_eq!((stored.added, stored.served), (2, false));
    let remove = Request::RemoveUser { name: "alice".to_owned(), domain: Some("b.com".to_owned()) };
    let removed: UserRemoved = rig.client().ask(&remove).unwrap();
    assert_eq!(removed.uri, "sip:alice@b.com");
    let told = [
        "+alice@b.com",
        "+alice@b.com",
        "+bob@elsewhere.com",
        "+carol@elsewhere.com",
        "-alice@b.com",
    ];
    assert_eq!(rig.told(), told);
    let names: Vec<_> = users(rig.client()).into_iter().map(|user| user.name).collect();
    assert_eq!(names, ["bob", "carol"]);
}

#[test]
fn failed_commands_are_answered_and_do_not_reach_the_engine() {
    let rig = Rig::new();
    let error = text(rig.client().ask::<UsersStored>(&add("alice")));
    assert!(error.contains("a.com, b.com"), "{error}");
    let remove = Request::RemoveUser { name: "bob@a.com".to_owned(), domain: None };
    let error = text(rig.client().ask::<UserRemoved>(&remove));
    assert!(error.contains("no user sip:bob@a.com"), "{error}");
    // Rejected before it is read, while the client still sends.
    let file = b"bob:1\n".repeat(500_000);
    let length = file.len() as u64;
    let request = Request::ImportUsers { domain: None, length, dry_run: false };
    let error = text(rig.client().ask_with::<UsersStored>(&request, &file));
    assert!(error.contains("is not given"), "{error}");
    assert!(rig.told().is_empty());
    assert_eq!(rig.desk.storage.user_count().unwrap(), 0);
}

#[test]
fn an_import_that_is_cut_short_imports_nothing() {
    let rig = Rig::new();
    let mut stream = rig.raw();
    let mut bytes = serde_json::to_vec(&import("a.com", 100)).unwrap();
    bytes.extend_from_slice(b"\nalice:1\nbob:sec");
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("the command ended 85 bytes early"), "{answer}");
    assert_eq!(rig.desk.storage.user_count().unwrap(), 0);
    assert!(rig.told().is_empty());
}

#[test]
fn invalid_requests_are_answered_with_an_error() {
    let rig = Rig::new();
    for bytes in
        [&b"\n"[..], b"GET / HTTP/1.1\r\n", b"{\"request\":\"nonsense\"}\n", &[b'x'; 70_000]]
    {
        let mut stream = rig.raw();
        // The server may close before it has read all input.
        let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("{\"error\":\"the server does not know"), "{answer}");
    }
    assert!(rig.client().ask::<Condition>(&Request::Status).is_ok());
}

#[test]
fn a_closed_client_ends_the_listing() {
    let rig = Rig::new();
    let mut rows = 0;
    let result = rig.client().list(&Request::Registrations, &mut |_: Registration| {
        rows += 1;
        if rows == 10 { Err(Failure::OutputClosed) } else { Ok(()) }
    });
    assert!(matches!(result, Err(Failure::OutputClosed)));
    let mut rows = 0;
    rig.client()
        .list(&Request::Registrations, &mut |_: Registration| {
            rows += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, 100_000);
}

#[test]
fn a_socket_without_a_listener_means_no_server() {
    let rig = Rig::new();
    let Rig { directory, _server: server, .. } = rig;
    drop(server);
    assert!(Client::connect(directory.path()).unwrap().is_none());
    let socket = crate::data_dir::control_socket(directory.path());
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    assert!(Client::connect(directory.path()).unwrap().is_none());
}

#[test]
fn a_server_that_stands_still_is_not_waited_for_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let socket = crate::data_dir::control_socket(directory.path());
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let connect = || Client::connect_within(std::time::Duration::from_millis(20), directory.path());
    let client = connect().unwrap().unwrap();
    let error = text(client.ask::<Condition>(&Request::Status));
    assert!(error.contains("has not answered for 20ms"), "{error}");
    // The queue of connections is full.
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match connect() {
            Ok(client) => waiting.push(client),
            Err(error) => break error.to_string(),
        }
        assert!(waiting.len() < 10_000, "there is no end of it");
    };
    assert!(error.contains("has not answered for 20ms"), "{error}");
}

#[test]
fn a_socket_left_by_a_crash_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let socket = crate::data_dir::control_socket(directory.path());
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let _server = Server::start(directory.path(), Fake::new(directory.path())).unwrap();
    assert!(Client::connect(directory.path()).unwrap().is_some());
}

#[test]
fn further_clients_are_asked_to_retry() {
    let rig = Rig::new();
    let idle: Vec<_> = (0..server::MAX_CLIENTS).map(|_| rig.raw()).collect();
    let mut stream = rig.raw();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("try again in a moment"), "{answer}");
    drop(idle);
}

fn users(asked: impl Ask) -> Vec<UserRow> {
    let mut users = Vec::new();
    asked
        .list(&Request::Users { domain: None }, &mut |user| {
            users.push(user);
            Ok(())
        })
        .unwrap();
    users
}

#[test]
fn a_server_that_does_not_run_answers_alike() {
    let rig = Rig::new();
    let directory = tempfile::tempdir().unwrap();
    let stopped = || Stopped {
        data: directory.path().to_owned(),
        storage: Box::new(open(directory.path())),
        config_file: None,
        domains: domains(),
        accounts: None,
    };
    let file = b"bob:1\ncarol:2\n";
    let requests = [
        (add("alice@192.0.2.2"), &b""[..]),
        (add("alice@b.com"), b""),
        (add("alice"), b""),
        (import("elsewhere.com", file.len()), file),
    ];
    for (request, file) in requests {
        let asked = stopped().ask_with::<UsersStored>(&request, file).map_err(|e| e.to_string());
        let running = rig.client().ask_with(&request, file).map_err(|e| e.to_string());
        assert_eq!(asked, running, "{request:?}");
    }
    assert_eq!(users(stopped()), users(rig.client()));
    let condition: Condition = stopped().ask(&Request::Status).unwrap();
    let status = StoppedStatus {
        users: 3,
        unserved: BTreeMap::from([("elsewhere.com".to_owned(), 2)]),
        domains: vec!["a.com".to_owned(), "b.com".to_owned()],
        ..StoppedStatus::new(directory.path())
    };
    assert_eq!(condition, Condition::Stopped(status));
}

/// The lines of a backup.
fn backup(asked: impl Ask) -> Vec<u8> {
    let mut bytes = Vec::new();
    let request = Request::Backup { with: vec![Part::Records] };
    asked
        .list(&request, &mut |line: Line| {
            bytes.extend(line.0.bytes().chain(*b"\n"));
            Ok(())
        })
        .unwrap();
    bytes
}

#[test]
fn a_backup_of_one_server_is_restored_at_another_one() {
    let rig = Rig::new();
    for name in ["alice@a.com", "bob@b.com"] {
        let _: UsersStored = rig.client().ask(&add(name)).unwrap();
    }
    let saved = backup(rig.client());
    let other = Rig::new();
    let _: UsersStored = other.client().ask(&add("carol@a.com")).unwrap();
    let restore = |dry_run| Request::Restore { parts: vec![], dry_run, length: saved.len() as u64 };
    other.told();
    let trial: Report = other.client().ask_with(&restore(true), &saved).unwrap();
    assert_eq!(users(other.client())[0].name, "carol", "a trial changes nothing");
    assert_eq!(other.told(), [""; 0]);
    let report: Report = other.client().ask_with(&restore(false), &saved).unwrap();
    assert_eq!(Report { dry_run: false, ..trial }, report);
    let changes = report.users.unwrap();
    assert_eq!(
        (changes.added.count, &changes.removed.first[..]),
        (2, &["carol@a.com".to_owned()][..])
    );
    assert_eq!(users(other.client()), users(rig.client()));
    assert_eq!(other.told(), ["restored true: 2 1"]);
    let actions = other.desk.storage.panel_actions(i64::MAX, 9).unwrap();
    assert_eq!((actions.len(), &*actions[0].1.action), (1, "restore backup"));
    // A file that is cut, and one that is longer than any that is read.
    let half = &saved[..saved.len() / 2];
    let request = Request::Restore { parts: vec![], dry_run: false, length: half.len() as u64 };
    let error = text(other.client().ask_with::<Report>(&request, half));
    assert!(error.contains("the backup cannot be used: line"), "{error}");
    assert_eq!(users(other.client()), users(rig.client()));
    let request = Request::Restore { parts: vec![], dry_run: false, length: u64::MAX };
    let error = text(other.client().ask_with::<Report>(&request, b""));
    assert!(error.contains("are read"), "{error}");
}
