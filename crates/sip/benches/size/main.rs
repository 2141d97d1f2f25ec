//! The cost of parsers and comparisons as a function of the length of their input. A byte of a long
//! text must not cost much more than one of a short text, or an attacker could exploit it.
//!
//! ```text
//! cargo bench -p barebell-sip --bench size
//!     each parser with its most expensive shape
//! cargo bench -p barebell-sip --bench size -- all
//!     with all shapes
//! ```
//!
//! Valgrind counts instructions, so the load of the machine does not change the figures. The
//! benchmark fails if a byte of a long text costs more than [`TOLERANCE`] times one of a short
//! text.

mod shapes;
mod subjects;

use shapes::Shape;
use std::hint::black_box;
use std::process::ExitCode;
use subjects::Subject;

/// The length of a short text in bytes.
const SHORT: usize = 4 << 10;
/// The length of a long text in bytes: close to the maximum length of a message.
const LONG: usize = 63 << 10;
/// The maximum ratio of the cost per byte of a long and a short text.
const TOLERANCE: f64 = 3.0;

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match wanted.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [instructions::PERFORM] => {
            perform();
            ExitCode::SUCCESS
        }
        ["all"] => report(true),
        _ => report(false),
    }
}

/// All subjects with all shapes.
fn cases() -> impl Iterator<Item = (&'static Subject, Shape)> {
    subjects::ALL.iter().flat_map(|subject| Shape::all().map(move |shape| (subject, shape)))
}

/// Runs every case once, under Valgrind.
fn perform() {
    for (subject, shape) in cases() {
        for size in [SHORT, LONG] {
            let text = [subject.before.as_bytes(), &shape.text(size), subject.after.as_bytes()];
            counted(subject.work, &text.concat());
        }
    }
}

/// The measured function, one case per call.
#[inline(never)]
fn counted(work: fn(&[u8]), text: &[u8]) {
    work(black_box(text));
}

/// The cost of a case.
struct Row {
    subject: &'static Subject,
    shape: Shape,
    /// Instructions per byte.
    short: f64,
    long: f64,
}

impl Row {
    fn grows(&self) -> bool {
        self.long > TOLERANCE * self.short
    }
}

/// Counts, and prints the requested rows and the failed ones.
fn report(is_all_wanted: bool) -> ExitCode {
    let counts = match instructions::count("size::counted", 2 * cases().count()) {
        Ok(counts) => counts,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let rows: Vec<Row> = cases()
        .zip(counts.as_chunks().0)
        .map(|((subject, shape), &[short, long])| Row {
            subject,
            shape,
            short: short as f64 / SHORT as f64,
            long: long as f64 / LONG as f64,
        })
        .collect();
    let sizes = [SHORT, LONG].map(|size| format!("{} KiB", size >> 10));
    println!("{:28} {:42} {:>9} {:>9}", "instructions per byte", "", sizes[0], sizes[1]);
    for of_one in rows.chunk_by(|one, other| one.subject.name == other.subject.name) {
        let dearest = of_one.iter().max_by(|one, other| one.long.total_cmp(&other.long));
        for row in of_one {
            let is_dearest = dearest.is_some_and(|dearest| std::ptr::eq(row, dearest));
            if !(is_all_wanted || is_dearest || row.grows()) {
                continue;
            }
            let Row { subject, shape, short, long } = row;
            let mark = if row.grows() { "  grows" } else { "" };
            let shape = shape.to_string();
            println!("{:28} {shape:42} {short:9.2} {long:9.2}{mark}", subject.name);
        }
    }
    if rows.iter().any(Row::grows) {
        eprintln!("a byte of a long text costs more than {TOLERANCE} times one of a short text");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
