//! The memory of the process while records of calls are stored. It is alone in this program.

use sip::Instant;
use store::sqlite::Sqlite;
use store::{CallRecords, Log, StoredCall};

/// The records that are stored at once.
const BATCH: u64 = 500;

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn call(number: u64) -> StoredCall {
    StoredCall {
        ended: Instant::from_micros(number),
        parties: [format!("caller{number}@h"), format!("callee{number}@h")],
        led_to: None,
        number_of: None,
        is_failed: false,
        record: format!("{number:01000}"),
    }
}

#[test]
fn stored_records_are_not_kept_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log { write: |_, _, text| eprintln!("{}", text()) };
    let storage = Sqlite::open(Box::new(directory.path().to_owned()), log).unwrap();
    let put = |batch: u64| {
        let calls: Vec<_> = (batch * BATCH..(batch + 1) * BATCH).map(call).collect();
        storage.put_calls(&calls).unwrap();
    };
    put(0);
    let before = resident();
    (1..40).for_each(put);
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for 20 MB of records");
}
