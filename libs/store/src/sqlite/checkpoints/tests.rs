use super::*;
use crate::Registrations;
use crate::sqlite::journal::write;
use crate::sqlite::tests::open;
use sip::Transport;
use sip_server::Flow;
use sip_server::journal_record::{self as record, StoredBinding};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const WORKERS: usize = 2;
const NOW: sip::Instant = sip::Instant::from_micros(1_700_000_000_000_000);
const LATER: sip::Instant = sip::Instant::from_micros(4_000_000_000_000_000);

fn registered(user: &str, sequence: u64, expires: sip::Instant) -> Vec<u8> {
    let address = ([192, 0, 2, 1], 5060).into();
    let flow =
        Flow { transport: Transport::Udp, local: address, remote: address, connection: None };
    let binding = StoredBinding {
        contact: b"sip:phone@192.0.2.1",
        path: b"",
        instance: b"",
        call_id: 1,
        cseq: 1,
        q: 1000,
        reg_id: 0,
        expires,
        flow,
        flow_bound: true,
        agent: b"Phone 1.0",
    };
    let mut bytes = Vec::new();
    record::write(&mut bytes, sequence, user.as_bytes(), [binding].into_iter());
    bytes
}

fn gone(user: &str, sequence: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::write(&mut bytes, sequence, user.as_bytes(), std::iter::empty());
    bytes
}

/// The restored addresses-of-record, with the sequence numbers of their records.
fn restored(storage: &Sqlite) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let restored = storage
        .restore(NOW, &mut |record| {
            let user = String::from_utf8(record.address_of_record.to_vec()).unwrap();
            assert!(found.insert(user, record.sequence).is_none());
        })
        .unwrap();
    assert_eq!(restored.addresses_of_record, found.len() as u64);
    assert!(found.values().all(|&sequence| sequence <= restored.sequence));
    found
}

fn expected(users: &[(&str, u64)]) -> BTreeMap<String, u64> {
    users.iter().map(|&(user, sequence)| (user.to_owned(), sequence)).collect()
}

fn shared(path: &Path) -> Shared {
    Shared::new(Arc::new(open(path)), Sync::Never, WORKERS).unwrap()
}

fn rows(storage: &Sqlite) -> i64 {
    let database = storage.database.lock();
    database.query_row("SELECT count(*) FROM binding", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_crash_after_any_step_of_a_checkpoint_loses_nothing() {
    for steps in 0..=4 {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared(directory.path());
        shared.append(0, &registered("alice", 1, LATER)).unwrap();
        shared.checkpoint().unwrap();
        shared
            .append(0, &[registered("bob", 2, LATER), registered("eve", 3, LATER)].concat())
            .unwrap();
        shared.append(0, &[registered("alice", 4, LATER), gone("eve", 5)].concat()).unwrap();
        if steps >= 1 {
            let old = shared.rotate().unwrap();
            shared.append(0, &registered("bob", 6, LATER)).unwrap();
            if steps >= 2 {
                shared.storage.fold(&old).unwrap();
            }
            if steps >= 3 {
                put_away(&old, &[], shared.log()).unwrap();
            }
        }
        if steps >= 4 {
            shared.checkpoint().unwrap();
        }
        drop(shared);
        let storage = open(directory.path());
        let bob = if steps == 0 { 2 } else { 6 };
        assert_eq!(restored(&storage), expected(&[("alice", 4), ("bob", bob)]), "{steps} steps");
        assert_eq!(restored(&storage), expected(&[("alice", 4), ("bob", bob)]), "{steps} steps");
    }
}

#[test]
fn the_highest_sequence_counts_in_whatever_order_records_come() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    shared
        .append(0, &[registered("alice", 9, LATER), registered("alice", 7, LATER)].concat())
        .unwrap();
    shared.checkpoint().unwrap();
    shared.append(0, &registered("alice", 8, LATER)).unwrap();
    shared.append(0, &[gone("bob", 12), registered("bob", 11, LATER)].concat()).unwrap();
    shared.checkpoint().unwrap();
    assert_eq!(restored(&shared.storage), expected(&[("alice", 9)]));
}

#[test]
fn an_older_record_of_another_worker_restores_no_removed_binding() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    shared.append(1, &registered("bob", 4, LATER)).unwrap();
    shared.append(0, &gone("bob", 6)).unwrap();
    shared.checkpoint().unwrap();
    assert_eq!(restored(&shared.storage), expected(&[]));
    shared.append(1, &registered("bob", 5, LATER)).unwrap();
    let old = shared.rotate().unwrap();
    for _ in 0..4 {
        shared.storage.fold(&old).unwrap();
        assert_eq!(rows(&shared.storage), 1);
    }
    put_away(&old, &[], shared.log()).unwrap();
    shared.append(0, &registered("alice", 7, LATER)).unwrap();
    shared.checkpoint().unwrap();
    assert_eq!(rows(&shared.storage), 1, "bob is to be forgotten by now");
    assert_eq!(restored(&shared.storage), expected(&[("alice", 7)]));
}

#[test]
fn expired_bindings_are_not_restored_and_deleted_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    shared.append(0, &registered("old", 1, NOW)).unwrap();
    shared.append(0, &registered("alice", 2, LATER)).unwrap();
    assert!(shared.checkpoint().is_ok());
    assert_eq!(restored(&shared.storage), expected(&[("alice", 2)]));
    assert_eq!(rows(&shared.storage), 2, "an older record may come");
    shared.storage.purge(LATER).unwrap();
    assert_eq!(rows(&shared.storage), 1);
    for sequence in 3..6 {
        shared.append(0, &registered("carol", sequence, LATER)).unwrap();
        shared.checkpoint().unwrap();
    }
    assert_eq!(rows(&shared.storage), 1, "carol alone");
}

/// The restored contacts of Alice.
fn contacts(storage: &Sqlite) -> Vec<String> {
    let mut found = Vec::new();
    storage
        .restore(NOW, &mut |record| {
            let all = record.bindings().map(|binding| binding.unwrap().contact.to_vec());
            found.extend(all.map(|contact| String::from_utf8(contact).unwrap()));
        })
        .unwrap();
    found
}

/// Records of earlier versions contain all bindings, those of this version only the changes.
#[test]
fn changes_are_taken_in_after_records_of_earlier_versions_and_in_any_order() {
    let first = registered("alice", 1, LATER);
    let whole = record::read(&first).next().unwrap().unwrap();
    let Some(Ok(record::Entry::Binding { id, binding, .. })) = whole.entries().nth(1) else {
        panic!("a binding")
    };
    let change = |sequence, removed: &[u64], added: &[(u64, &'static str)]| {
        let mut bytes = Vec::new();
        let added = added
            .iter()
            .map(|&(id, contact)| (id, StoredBinding { contact: contact.as_bytes(), ..binding }));
        record::write_change(&mut bytes, sequence, b"alice", removed.iter().copied(), added);
        bytes
    };
    let changes = [
        change(2, &[], &[(1_001_002, "sip:two")]),
        change(3, &[id], &[(1_001_003, "sip:three")]),
        change(4, &[1_001_003], &[]),
    ];
    // The number of changes before the first checkpoint, and their order.
    for split in 0..=3 {
        for order in [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 0, 2]] {
            let directory = tempfile::tempdir().unwrap();
            let shared = shared(directory.path());
            shared.append(0, &first).unwrap();
            for (place, &number) in order.iter().enumerate() {
                if place == split {
                    shared.checkpoint().unwrap();
                }
                shared.append(place % 2, &changes[number]).unwrap();
            }
            shared.checkpoint().unwrap();
            assert_eq!(contacts(&shared.storage), ["sip:two"], "{split} {order:?}");
            assert_eq!(restored(&shared.storage), expected(&[("alice", 4)]));
            // A removal is remembered no longer than a late file can exist.
            for sequence in 5..8 {
                let user = format!("user{sequence}");
                shared.append(0, &registered(&user, sequence, LATER)).unwrap();
                shared.checkpoint().unwrap();
            }
            shared.append(0, &change(9, &[], &[(1_001_009, "sip:nine")])).unwrap();
            shared.checkpoint().unwrap();
            let length: i64 = shared
                .storage
                .database()
                .query_row(
                    "SELECT length(record) FROM binding WHERE address_of_record = CAST('alice' AS BLOB)",
                    [],
                    |row| row.get(0),
                )
                .unwrap();
            let whole = change(9, &[], &[(1_001_002, "sip:two"), (1_001_009, "sip:nine")]).len();
            assert_eq!(usize::try_from(length).unwrap(), whole);
        }
    }
}

#[test]
fn files_of_more_workers_and_of_one_for_all_are_taken_in() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Arc::new(open(directory.path()));
    let shared = Shared::new(storage, Sync::Never, 12).unwrap();
    for worker in 0..12 {
        let user = format!("user{worker}");
        shared.append(worker, &registered(&user, worker as u64, LATER)).unwrap();
    }
    drop(shared);
    let for_all = File::create(directory.path().join("journal-00000000000000000007")).unwrap();
    write(&for_all, &registered("user3", 20, LATER)).unwrap();
    let storage = open(directory.path());
    let all = (0..12).map(|user| (format!("user{user}"), if user == 3 { 20 } else { user }));
    assert_eq!(restored(&storage), all.collect());
    assert!(files(directory.path()).unwrap().is_empty());
    assert!(generation_after(storage) > 7);
}

/// The number of the next generation on `storage`.
fn generation_after(storage: Sqlite) -> u64 {
    *Shared::new(Arc::new(storage), Sync::Never, WORKERS).unwrap().number.lock()
}

#[test]
fn files_of_an_attempt_that_failed_are_taken_for_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    shared.append(1, &registered("alice", 1, LATER)).unwrap();
    let in_the_way = path(directory.path(), *shared.number.lock() + 1, 1);
    std::fs::create_dir(&in_the_way).unwrap();
    assert!(shared.checkpoint().is_err());
    shared.append(0, &registered("bob", 2, LATER)).unwrap();
    std::fs::remove_dir(&in_the_way).unwrap();
    shared.checkpoint().unwrap();
    shared.append(1, &registered("alice", 3, LATER)).unwrap();
    shared.checkpoint().unwrap();
    assert_eq!(restored(&shared.storage), expected(&[("alice", 3), ("bob", 2)]));
}

#[test]
fn a_damaged_file_is_kept_and_its_valid_records_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    for (sequence, user) in [(1, "alice"), (2, "bob"), (3, "carol")] {
        shared.append(0, &registered(user, sequence, LATER)).unwrap();
    }
    shared.append(1, &registered("dave", 4, LATER)).unwrap();
    let path = path(directory.path(), *shared.number.lock(), 0);
    drop(shared);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let all = expected(&[("alice", 1), ("carol", 3), ("dave", 4)]);
    assert_eq!(restored(&open(directory.path())), all);
    let names = directory.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let name = path.file_name().unwrap().to_str().unwrap();
    let kept: Vec<_> = names
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(std::fs::read(&kept[0]).unwrap(), bytes);
    // It is not read again, and does no harm.
    assert_eq!(restored(&open(directory.path())), all);
    assert!(kept[0].exists() && !path.exists());
}

#[test]
fn file_numbers_go_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = shared(directory.path());
    first.append(0, &gone("bob", 1)).unwrap();
    first.checkpoint().unwrap();
    let number = *first.number.lock();
    drop(first);
    files(directory.path()).unwrap().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let second = shared(directory.path());
    assert!(*second.number.lock() >= number);
}

#[test]
fn an_append_that_fails_is_an_error_until_there_is_a_new_file() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    shared.append(0, &registered("alice", 1, LATER)).unwrap();
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    shared.files[0].lock().replace(full);
    assert_eq!(
        shared.append(0, &registered("bob", 2, LATER)).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    assert!(shared.append(0, &registered("bob", 3, LATER)).is_err());
    assert!(shared.health().is_refusing);
    shared.append(1, &registered("carol", 1, LATER)).unwrap();
    assert!(!shared.health().is_refusing);
    shared.checkpoint().unwrap();
    shared.append(0, &registered("bob", 4, LATER)).unwrap();
    shared.checkpoint().unwrap();
    assert_eq!(restored(&shared.storage), expected(&[("alice", 1), ("bob", 4), ("carol", 1)]));
}

#[test]
fn a_journal_that_ends_leaves_everything_in_the_database() {
    for sync in [Sync::Always, Sync::Every(Duration::from_millis(1)), Sync::Never] {
        let directory = tempfile::tempdir().unwrap();
        let storage = Arc::new(open(directory.path()));
        let journal = JournalFiles::start(Arc::clone(&storage), sync, WORKERS).unwrap();
        journal.append(0, &registered("alice", 1, LATER)).unwrap();
        journal.append(0, &[]).unwrap();
        drop(journal);
        assert_eq!(rows(&storage), 1);
        for file in files(directory.path()).unwrap() {
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
    }
}

#[test]
fn threads_append_while_checkpoints_are_taken() {
    const THREADS: u64 = 4;
    const APPENDS: u64 = 400;
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path());
    let running = AtomicBool::new(true);
    thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            while running.load(Ordering::SeqCst) {
                shared.checkpoint().unwrap();
            }
        });
        let appenders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shared = &shared;
                scope.spawn(move || {
                    for i in 0..APPENDS {
                        let user = format!("user{}", i % 7);
                        shared
                            .append(
                                thread as usize,
                                &registered(&user, i * THREADS + thread, LATER),
                            )
                            .unwrap();
                    }
                })
            })
            .collect();
        for appender in appenders {
            appender.join().unwrap();
        }
        running.store(false, Ordering::SeqCst);
        checkpoints.join().unwrap();
    });
    shared.checkpoint().unwrap();
    let last = |user: u64| (0..APPENDS).rfind(|i| i % 7 == user).unwrap() * THREADS + THREADS - 1;
    let all: BTreeMap<_, _> = (0..7).map(|user| (format!("user{user}"), last(user))).collect();
    assert_eq!(restored(&shared.storage), all);
}

/// The environment variable with the directory of the child process in the test below.
const CHILD: &str = "BAREBELL_TEST_JOURNAL";

fn append_until_killed(directory: &Path) {
    let shared = shared(directory);
    let before = restored(&shared.storage).into_values().max().unwrap_or(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                shared.checkpoint().unwrap();
            }
        });
        for sequence in before + 1.. {
            let user = format!("user{}", sequence % 50);
            // The records of a user are in the files of all workers.
            let worker = (sequence / 50) as usize % WORKERS;
            shared.append(worker, &registered(&user, sequence, LATER)).unwrap();
            println!("\nstored {sequence}");
        }
    });
}

#[test]
fn appended_records_survive_kill_9() {
    if let Some(directory) = std::env::var_os(CHILD) {
        append_until_killed(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let mut stored = BTreeMap::new();
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg(
                concat!(module_path!(), "::appended_records_survive_kill_9")
                    .split_once("::")
                    .unwrap()
                    .1,
            )
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut sequences = lines.filter_map(|line| line.strip_prefix("stored ")?.parse().ok());
        let mut note = |sequence: u64| {
            stored.insert(format!("user{}", sequence % 50), sequence);
        };
        (&mut sequences).take(round * 300).for_each(&mut note);
        child.kill().unwrap();
        sequences.for_each(&mut note);
        child.wait().unwrap();
        assert_eq!(stored.len(), 50, "the child ended early");
        let restored = restored(&open(directory.path()));
        for (user, sequence) in &stored {
            let found = restored.get(user).copied();
            assert!(found >= Some(*sequence), "{user}: {sequence} was stored, {found:?} is there");
        }
    }
}
