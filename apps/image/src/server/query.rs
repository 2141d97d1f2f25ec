//! What the console host may ask by UDP: a line in, a line of JSON out. Nothing is changed by it.

use alloc::string::String;
use core::fmt::Write;
use sip_server::Timing;

/// The name of the time from the frame that brought a message to the last one that was sent.
const TOTAL: &str = "total";

/// Answers `question` with how long the steps of row A11 took, as `barebell status --json` says it.
pub(super) fn answer(
    question: &[u8],
    steps: impl Iterator<Item = (&'static str, Timing)>,
    total: Timing,
) -> String {
    if question.trim_ascii() != b"timings" {
        return "{\"error\":\"expected the line: timings\"}\n".into();
    }
    let mut line = String::from("{\"timings\":{");
    for (at, (name, Timing { count, nanoseconds })) in steps.chain([(TOTAL, total)]).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string never fails.
        let _ =
            write!(line, "{comma}\"{name}\":{{\"count\":{count},\"nanoseconds\":{nanoseconds}}}");
    }
    line.push_str("}}\n");
    line
}
