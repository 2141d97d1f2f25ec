//! Files of SIP users, and the rules for their names and passwords.
//!
//! A line of a file is `name:password` or `name<authentication name>:password`, or gives a digest
//! hash in place of the password: `name:realm:algorithm:HA1`, with one line for each algorithm. The
//! text is UTF-8, with or without a byte order mark. Empty lines and lines that begin with `#` are
//! ignored.
//!
//! ```
//! use barebell_users::{Credentials, Reader};
//!
//! let mut reader = Reader::new("example.org", "example.org");
//! let mut names = Vec::new();
//! let each = &mut |number, line: Result<barebell_users::Line<'_>, _>| match line {
//!     Ok(line) => names.push(line.name.to_owned()),
//!     Err(error) => panic!("line {number}: {error}"),
//! };
//! reader.read(b"# users\nalice:secret\nbob<47", each);
//! reader.read(b"11>:secret", each);
//! reader.end(each);
//! assert_eq!(names, ["alice", "bob"]);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod line;
mod name;
mod reader;

pub use line::{Credentials, Line, LineError, MAX_LINE};
pub use name::{MAX_NAME, NameError, check_auth_name, check_name, is_password};
pub use reader::Reader;
pub use sip::digest::Algorithm;
