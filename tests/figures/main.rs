//! Measures barebell-phone, baresip, linphone, Twinkle and sipx-cli, as described in
//! docs/benchmarks/phone.md: `phone-figures FOLDER PART...`. Each part writes a table to the file
//! `PART.md` in FOLDER. `docs/benchmarks/phone` runs it.

mod bare;
mod caller;
mod calls;
mod capture;
mod memory;
mod quality;
mod script;
mod table;
mod timer;

use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, parts)) = arguments.split_first().filter(|(_, parts)| !parts.is_empty())
    else {
        eprintln!("usage: phone-figures FOLDER quality|realtime|calls|script|memory|bare...");
        std::process::exit(2);
    };
    let folder = Path::new(folder);
    for part in parts {
        match part.as_str() {
            "quality" => quality::measure(folder),
            "realtime" => quality::measure_realtime(folder),
            "calls" => calls::measure(folder),
            "script" => script::measure(folder),
            "memory" => memory::measure(folder),
            "bare" => bare::measure(folder),
            other => {
                eprintln!("{other}: expected quality, realtime, calls, script, memory or bare");
                std::process::exit(2);
            }
        }
    }
}

/// A number from an environment variable, for shorter runs.
fn setting(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}
