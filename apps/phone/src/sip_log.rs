//! The file that SIP messages are kept in, as they are sent and received.

use sip::Flow;
use sip_ua::Transmit;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// A file that messages are appended to. Who else is on the machine cannot read it: there are keys in it.
pub(crate) struct SipLog {
    /// `None` after a failure, such as a full disk.
    file: Option<File>,
}

impl SipLog {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// Why it cannot be written, in words.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file =
            file.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        Ok(Self { file: Some(file) })
    }

    /// Appends a message of ours.
    pub(crate) fn sent(&mut self, transmit: &Transmit) {
        self.write("sent to", &transmit.flow, &transmit.bytes);
    }

    /// Appends a message of somebody else's.
    pub(crate) fn received(&mut self, flow: &Flow, bytes: &[u8]) {
        self.write("received from", flow, bytes);
    }

    fn write(&mut self, how: &str, flow: &Flow, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        // What only keeps a way open is no message.
        if bytes.trim_ascii().is_empty() {
            return;
        }
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let (transport, remote) = (flow.transport.uri_name(), flow.remote);
        let mut text = format!("{time} {how} {transport}:{remote}\n").into_bytes();
        text.extend_from_slice(bytes);
        text.extend_from_slice(b"\n\n");
        if let Err(error) = file.write_all(&text) {
            eprintln!("barebell-phone: the SIP log ends here: {error}");
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;

    #[test]
    fn messages_stand_with_who_was_at_the_other_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sip.log");
        let remote = "192.0.2.1:5060".parse().unwrap();
        let flow = Flow { transport: Transport::Udp, local: remote, remote, connection: None };
        let mut log = SipLog::open(&path).unwrap();
        log.sent(&Transmit { flow, bytes: b"BYE sip:a SIP/2.0\r\n\r\n".to_vec() });
        log.received(&flow, b"\r\n\r\n");
        log.received(&flow, b"SIP/2.0 200 OK\r\n\r\n");
        let text = std::fs::read_to_string(&path).unwrap();
        let (first, second) = text.split_once("BYE sip:a SIP/2.0\r\n\r\n\n\n").unwrap();
        assert!(first.ends_with("Z sent to udp:192.0.2.1:5060\n"), "{first}");
        assert!(second.ends_with("Z received from udp:192.0.2.1:5060\nSIP/2.0 200 OK\r\n\r\n\n\n"));
        assert_eq!(second.matches("received").count(), 1, "{second}");
    }
}
