//! Checks a file of users from standard input.

use barebell_users::Reader;
use std::io::Read as _;

fn main() -> std::io::Result<()> {
    let mut text = Vec::new();
    match std::env::args().nth(1) {
        Some(path) => drop(std::fs::File::open(path)?.read_to_end(&mut text)?),
        None => text.extend_from_slice("alice:secret\nJürgen<4711>:secret\nbob\n".as_bytes()),
    }
    let mut reader = Reader::new("example.org", "example.org");
    let each = &mut |number, line: Result<barebell_users::Line<'_>, _>| match line {
        Ok(line) => println!("line {number}: {}", line.name),
        Err(error) => println!("line {number}: {error}"),
    };
    reader.read(&text, each);
    reader.end(each);
    Ok(())
}
