//! Status queries of the console host by UDP: one line in, one line of JSON out. They change
//! nothing.

use alloc::string::String;
use core::fmt::Write;
use sip_server::Timing;

/// The names of the time from receiving a message's frame to sending the last frame for it, and of
/// the time for a relayed packet that is rewritten in its frame.
const FRAMES: [&str; 2] = ["total", "rewrite"];

/// Answers `question` with the timings of the steps, in the format of `barebell status --json`.
pub(super) fn answer(
    question: &[u8],
    steps: impl Iterator<Item = (&'static str, Timing)>,
    frames: [Timing; 2],
) -> String {
    if question.trim_ascii() != b"timings" {
        return "{\"error\":\"expected the line: timings\"}\n".into();
    }
    let mut line = String::from("{\"timings\":{");
    for (at, (name, Timing { count, nanoseconds })) in
        steps.chain(FRAMES.into_iter().zip(frames)).enumerate()
    {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ =
            write!(line, "{comma}\"{name}\":{{\"count\":{count},\"nanoseconds\":{nanoseconds}}}");
    }
    line.push_str("}}\n");
    line
}
