//! Random calls of phones through the B2BUA of a server: answered, refused, cancelled, held and
//! transferred ones, and ones with a phone that is killed, at either end. At the end no call, port,
//! descriptor or memory of the server is left of them, and each has the record that it should have.
//!
//! `call-soak [SECONDS]` prints the resources of the server as it goes, and fails otherwise.

mod group;
mod records;

use group::Group;
use peers::process::Process;
use peers::resources::Resources;
use peers::server::{Options, ServerProcess, TRUSTS_NOBODY};
use records::Book;
use std::env;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::ports::free_ports;

/// The number of ports of the relay.
const PORTS: u16 = 200;
/// The groups that call at the same time, of three phones each.
const GROUPS: usize = 4;
/// The groups with users. A group in which a step fails is replaced by another one.
const ALL_GROUPS: usize = 24;
/// The time after which the memory of the server has its size, if there is as much.
const WARM: Duration = Duration::from_secs(300);
/// The growth after that which is no leak, in bytes: caches of the allocator and of the database.
const SLACK: u64 = 4 << 20;
/// The longest time that something of a call is left: the longest time of ringing, and the
/// transactions after it.
const LONGEST: Duration = Duration::from_secs(400);
/// The length of a run in which calls with two dead phones ring until the server ends them.
const LONG: Duration = Duration::from_secs(1200);
/// The pause between two lines of resources.
const PAUSE: Duration = Duration::from_secs(20);

/// The counters of the server that are printed.
const COUNTERS: [&str; 8] = [
    "b2bua-calls",
    "b2bua-limit",
    "b2bua-share",
    "relay-refused",
    "overload-refused",
    "rate-limited",
    "transaction-limit",
    "lost-records",
];

/// The calls so far.
#[derive(Default)]
struct Run {
    groups: AtomicUsize,
    scenes: AtomicUsize,
    failures: AtomicUsize,
    books: Mutex<Vec<Book>>,
}

impl Run {
    /// Has groups call one after the other until `end`: the next one if a step of one fails.
    fn call(&self, server: &ServerProcess, end: Instant, is_long: bool) {
        while Instant::now() < end {
            let number = self.groups.fetch_add(1, Ordering::Relaxed);
            assert!(number < ALL_GROUPS, "too many groups have failed");
            let mut book = Book::new(number);
            let group = catch_unwind(AssertUnwindSafe(|| Group::new(server, number, is_long)));
            let mut group = group.ok();
            while let Some(calling) = group.take().filter(|_| Instant::now() < end) {
                // The phones of a group that fails keep their logs.
                let acted = catch_unwind(AssertUnwindSafe(|| calling.act()));
                let (left, placed) = acted.ok().unzip();
                group = left;
                match placed {
                    Some(placed) => book.placed.extend(placed),
                    None => {
                        book.is_complete = false;
                        self.failures.fetch_add(1, Ordering::Relaxed);
                    }
                }
                self.scenes.fetch_add(1, Ordering::Relaxed);
            }
            self.books.lock().expect("no thread panics with the lock").push(book);
        }
    }
}

/// The resources of a server that has started, once it opens no more descriptors.
fn at_rest(server: &ServerProcess, ports: &Range<u16>) -> Resources {
    loop {
        let first = Resources::of(server, ports);
        thread::sleep(Duration::from_secs(2));
        let second = Resources::of(server, ports);
        if first.descriptors == second.descriptors {
            return second;
        }
    }
}

/// Waits until nothing of the calls is left in the server, which had the resources `before`.
/// Returns its resources then.
fn settled(server: &ServerProcess, ports: &Range<u16>, before: Resources) -> Resources {
    let end = Instant::now() + LONGEST;
    loop {
        let now = Resources::of(server, ports);
        let calls = server.rows(&["calls", "--json"]);
        let transactions = server.counter("transactions");
        // A connection of a phone that has ended is closed a moment later.
        let is_open = now.ports > 0 || now.descriptors > before.descriptors;
        if !is_open && calls.is_empty() && transactions == 0 {
            return now;
        }
        assert!(
            Instant::now() < end,
            "{calls:?}, {transactions} transactions, {now:?} left of {before:?}"
        );
        thread::sleep(Duration::from_secs(2));
    }
}

/// The CPU time of a process in seconds.
fn cpu(process: &Process) -> f64 {
    process.cpu().as_secs_f64()
}

fn main() {
    let seconds = env::args().nth(1).map_or(60, |text| text.parse().expect("a number of seconds"));
    let time = Duration::from_secs(seconds);
    let users: Vec<_> = (0..ALL_GROUPS)
        .flat_map(group::users)
        .map(|name| (name, peers::test_server::PASSWORD.to_owned()))
        .collect();
    let first = free_ports(PORTS);
    let ports = first..first + PORTS;
    let media = format!(
        "ports = \"{}-{}\"\ntimeout = \"10s\"\ntranscode = [\"GSM\", \"PCMU\"]\nrecords_size = \"1GiB\"\n",
        ports.start,
        ports.end - 1
    );
    // The messages that are kept for `barebell trace` would hide the growth of other memory.
    let configuration = format!(
        "[registrar]\nmin_expires = \"5s\"\n{TRUSTS_NOBODY}[calls]\nmode = \"b2bua\"\n\
         [trace]\nmemory = 0\n[media]\n{media}"
    );
    let options =
        Options { arguments: &[], configuration: &configuration, users: &users, domain: "" };
    let server = ServerProcess::start(&options);
    let (before, started) = (at_rest(&server, &ports), Instant::now());
    println!("before the calls: {before:?}");
    let (run, end) = (Run::default(), started + time);
    let mut warm = before;
    thread::scope(|scope| {
        let groups: Vec<_> =
            (0..GROUPS).map(|_| scope.spawn(|| run.call(&server, end, time >= LONG))).collect();
        let mut next = started;
        while !groups.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(500));
            if Instant::now() < next {
                continue;
            }
            next += PAUSE;
            let now = Resources::of(&server, &ports);
            let scenes = run.scenes.load(Ordering::Relaxed);
            println!("{:5.0} s, {scenes} scenes: {now:?}", started.elapsed().as_secs_f64());
            if started.elapsed() <= WARM.max(time / 2) {
                warm = now;
            }
        }
    });
    let after = settled(&server, &ports, before);
    println!("after the calls: {after:?}, {:.1} s of CPU time", cpu(server.process()));
    for name in COUNTERS {
        println!("{name}: {}", server.counter(name));
    }
    let books = run.books.into_inner().expect("no thread panics with the lock");
    let faults = records::compare(&server, &books);
    faults.iter().for_each(|fault| println!("{fault}"));
    let placed: usize = books.iter().map(|book| book.placed.len()).sum();
    let failures = run.failures.into_inner();
    println!("{placed} calls, {failures} failed scenes, {} wrong records", faults.len());
    assert_eq!(server.counter("relay-refused"), 0);
    assert_eq!(server.counter("lost-records"), 0);
    assert!(after.resident <= warm.resident + SLACK, "{warm:?}, then {after:?}");
    assert!(faults.is_empty(), "records are wrong");
    assert_eq!(failures, 0, "scenes have failed");
}
