#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../apps/image/tests/parsers/body.rs"]
mod body;

fuzz_target!(|bytes: &[u8]| body::parsers(bytes));
