//! The remote control of Firefox (Marionette): messages of JSON over TCP, each after its length.

use crate::process::wait_until;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

/// The preferences: media between ends on one host, and sound without a click. A page that may use
/// the microphone has candidates of loopback; without that, only of the default route.
const PREFERENCES: &str = "user_pref('marionette.port', 0);
user_pref('media.autoplay.default', 0);
user_pref('permissions.default.microphone', 1);
user_pref('media.peerconnection.ice.loopback', true);
user_pref('media.peerconnection.ice.obfuscate_host_addresses', false);
user_pref('datareporting.policy.dataSubmissionEnabled', false);
user_pref('app.update.enabled', false);
";

/// Creates the profile of a browser.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn write_profile(profile: &Path) -> io::Result<()> {
    fs::create_dir_all(profile)?;
    fs::write(profile.join("user.js"), PREFERENCES)
}

/// A session with a browser, which accepts any certificate until it is dropped.
#[derive(Debug)]
pub(crate) struct Marionette {
    stream: BufReader<TcpStream>,
    last: u64,
}

impl Marionette {
    /// Begins a session with the browser of this profile, once it listens.
    ///
    /// # Panics
    /// The browser does not listen in time, or refuses the session.
    pub(crate) fn connect(profile: &Path, mut check: impl FnMut()) -> Self {
        let stream = wait_until("Firefox to listen for its remote control", || {
            check();
            let port = fs::read_to_string(profile.join("MarionetteActivePort")).ok()?;
            TcpStream::connect((Ipv4Addr::LOCALHOST, port.trim().parse().ok()?)).ok()
        });
        let mut session = Self { stream: BufReader::new(stream), last: 0 };
        let _ = session.receive();
        session.call("WebDriver:NewSession", &json!({ "acceptInsecureCerts": true }));
        session
    }

    /// Opens the page at `url`.
    ///
    /// # Panics
    /// The browser refuses it.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("WebDriver:Navigate", &json!({ "url": url }));
    }

    fn call(&mut self, name: &str, parameters: &Value) {
        self.last += 1;
        let command = json!([0, self.last, name, parameters]).to_string();
        let stream = self.stream.get_mut();
        let sent = write!(stream, "{}:{command}", command.len());
        sent.unwrap_or_else(|error| panic!("Firefox does not accept {name}: {error}"));
        loop {
            let answer = self.receive();
            if answer[1] == self.last {
                assert!(answer[2].is_null(), "Firefox refuses {name}: {}", answer[2]);
                return;
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut length = Vec::new();
        self.stream.read_until(b':', &mut length).expect("Firefox answers");
        length.pop();
        let length = std::str::from_utf8(&length).ok().and_then(|length| length.parse().ok());
        let mut bytes = vec![0; length.expect("a message begins with its length")];
        self.stream.read_exact(&mut bytes).expect("Firefox sends whole messages");
        serde_json::from_slice(&bytes).expect("Firefox sends JSON")
    }
}
