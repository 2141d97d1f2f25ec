#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../libs/net/tests/records/body.rs"]
mod body;

fuzz_target!(|bytes: &[u8]| body::records(bytes));
