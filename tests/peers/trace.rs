//! Phones' logs, read as they grow, and the SIP messages in them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A growing log file, read by complete lines.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    read: u64,
}

impl Tail {
    /// Reads the file at `path`, which need not exist yet, from its beginning.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// The lines completed since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        let mut fresh = Vec::new();
        // A missing log has no lines.
        let _ = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut fresh)
        });
        let Some(end) = fresh.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        self.read += end as u64 + 1;
        String::from_utf8_lossy(&fresh[..end]).lines().map(str::to_owned).collect()
    }
}

/// The status codes of sent and received responses to `method` in a log of SIP messages, in order.
#[must_use]
pub fn statuses(log: &Path, method: &str) -> Vec<u16> {
    let bytes = std::fs::read(log).unwrap_or_default();
    statuses_in(&String::from_utf8_lossy(&bytes), method)
}

/// The `algorithm` of each set of credentials in a log of SIP messages; `None` if absent.
#[must_use]
pub fn credential_algorithms(log: &Path) -> Vec<Option<String>> {
    let bytes = std::fs::read(log).unwrap_or_default();
    credential_algorithms_in(&String::from_utf8_lossy(&bytes))
}

fn credential_algorithms_in(text: &str) -> Vec<Option<String>> {
    let fields = text.lines().filter_map(|line| {
        line.strip_prefix("Authorization:").or_else(|| line.strip_prefix("Proxy-Authorization:"))
    });
    let algorithm = |field: &str| {
        let value = field.split(',').find_map(|part| part.trim().strip_prefix("algorithm="))?;
        Some(value.trim_matches('"').to_owned())
    };
    fields.map(algorithm).collect()
}

fn statuses_in(text: &str, method: &str) -> Vec<u16> {
    let (mut found, mut status) = (Vec::new(), None::<u16>);
    for line in text.lines() {
        // A prefix such as a colour code belongs to the log.
        if let Some((_, rest)) = line.split_once("SIP/2.0 ")
            && let Some(code) = rest.get(..3)
            && !line.starts_with("Via")
        {
            status = code.parse().ok();
        } else if let Some(value) = line.strip_prefix("CSeq:") {
            if value.split_whitespace().nth(1) == Some(method) {
                found.extend(status);
            }
            status = None;
        } else if line.trim().is_empty() {
            status = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026 message received [300] bytes:
SIP/2.0 401 Unauthorized\r
Via: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bK1\r
CSeq: 7 REGISTER\r
Content-Length: 0\r
\r
INVITE sip:bob@127.0.0.1 SIP/2.0\r
Via: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bK2\r
CSeq: 8 INVITE\r
\r
\x1b[32mSIP/2.0 180 Ringing\r
CSeq: 8 INVITE\r
\r
SIP/2.0 486 Busy Here\r
CSeq: 8 INVITE\r
";

    #[test]
    fn responses_to_a_method_are_found() {
        assert_eq!(statuses_in(LOG, "INVITE"), [180, 486]);
        assert_eq!(statuses_in(LOG, "REGISTER"), [401]);
        assert_eq!(statuses_in(LOG, "BYE"), [0; 0]);
    }

    #[test]
    fn algorithms_of_credentials_are_found() {
        let log = "\
WWW-Authenticate: Digest realm=\"a\", algorithm=MD5\r
Authorization:  Digest realm=\"a\", algorithm=SHA-256, response=\"0\"\r
Proxy-Authorization: Digest realm=\"a\"\r
";
        assert_eq!(credential_algorithms_in(log), [Some("SHA-256".to_owned()), None]);
    }

    #[test]
    fn complete_lines_are_returned_once() {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let path = folder.path().join("a.log");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.lines(), [""; 0]);
        std::fs::write(&path, "one\ntw").expect("the file can be written");
        assert_eq!(tail.lines(), ["one"]);
        std::fs::write(&path, "one\ntwo\n").expect("the file can be written");
        assert_eq!(tail.lines(), ["two"]);
        assert_eq!(tail.lines(), [""; 0]);
    }
}
