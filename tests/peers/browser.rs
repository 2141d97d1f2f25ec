//! A headless browser with a test page (`tests/browsers`) that reports events.

use crate::firefox::Marionette;
use crate::folder::Folder;
use crate::process::{Process, Program, run, wait_until};
use crate::pulse::Pulse;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const CHROMIUM: Program = Program { name: "chromium", packages: "chromium" };
const FIREFOX: Program = Program { name: "firefox-esr", packages: "firefox-esr" };
/// The tone of the microphone of PulseAudio in Hz. The page sends that of an oscillator.
const UNHEARD_TONE: u32 = 400;
const OPENSSL: Program = Program { name: "openssl", packages: "openssl" };

/// A web server for the page.
#[derive(Debug)]
pub struct Page {
    port: u16,
    said: Arc<Mutex<Vec<String>>>,
    commands: Arc<Mutex<VecDeque<String>>>,
}

impl Page {
    /// Starts the server with the page bundled by `./test`.
    ///
    /// # Panics
    /// The page was not bundled.
    #[must_use]
    pub fn serve() -> Self {
        let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/browsers/page.js");
        let bundle = std::env::var_os("BAREBELL_PAGE").map_or(default.into(), PathBuf::from);
        let script = std::fs::read(&bundle).unwrap_or_else(|error| {
            panic!("{}: {error}; ./test bundles it, by tests/browsers/bundle", bundle.display())
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port can be bound");
        let port = listener.local_addr().expect("the socket is bound").port();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let commands = Arc::<Mutex<VecDeque<String>>>::default();
        let (heard, next) = (Arc::clone(&said), Arc::clone(&commands));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &script, &heard, &next);
            }
        });
        Self { port, said, commands }
    }

    /// The origin of the page.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The address of the page with these settings.
    fn url(&self, settings: &[(&str, &str)]) -> String {
        let query = settings.iter().map(|(name, value)| format!("{name}={value}"));
        format!("{}/?{}", self.origin(), query.collect::<Vec<_>>().join("&"))
    }

    /// The reports so far.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        self.said.lock().clone()
    }
}

/// Answers one request.
fn serve(
    mut stream: TcpStream,
    script: &[u8],
    said: &Mutex<Vec<String>>,
    commands: &Mutex<VecDeque<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut command = String::new();
    let (kind, content) = match first.split(' ').nth(1).unwrap_or_default() {
        "/page.js" => ("text/javascript", script),
        "/said" => {
            said.lock().push(String::from_utf8_lossy(&body).into_owned());
            ("text/plain", &b""[..])
        }
        "/next" => {
            command.extend(commands.lock().pop_front());
            ("text/plain", command.as_bytes())
        }
        _ => ("text/html", &b"<!doctype html><script src=/page.js></script>"[..]),
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    )?;
    stream.write_all(content)
}

/// A browser that shows the page.
#[derive(Debug)]
pub struct Browser {
    process: Process,
    page: Page,
    /// The session of Firefox, which accepts the certificate of the server, and its loudspeaker.
    _firefox: Option<(Marionette, Pulse)>,
    _folder: Folder,
}

impl Browser {
    /// Opens `page` with these settings, in a browser that trusts `certificate`.
    ///
    /// # Panics
    /// The certificate cannot be read.
    #[must_use]
    pub fn open(page: Page, settings: &[(&str, &str)], certificate: &Path) -> Self {
        let folder = Folder::new("browser");
        let mut command = CHROMIUM.command();
        command.args(arguments(&folder, certificate)).arg(page.url(settings));
        let process = Process::start(CHROMIUM, command, &folder.join("chromium.log"));
        Self { process, page, _firefox: None, _folder: folder }
    }

    /// True if Firefox is installed.
    #[must_use]
    pub fn has_firefox() -> bool {
        FIREFOX.command().arg("--version").output().is_ok()
    }

    /// As [`Browser::open`], in Firefox, which accepts any certificate.
    ///
    /// # Panics
    /// Firefox does not start.
    #[must_use]
    pub fn open_firefox(page: Page, settings: &[(&str, &str)]) -> Self {
        let folder = Folder::new("firefox");
        let profile = folder.join("profile");
        let mut command = FIREFOX.command();
        command.args(["--headless", "--marionette", "--no-remote", "--profile"]).arg(&profile);
        // Web Audio of Firefox stays suspended without a loudspeaker.
        let sound = Pulse::start(&folder, UNHEARD_TONE);
        command.env("HOME", folder.join("home")).env("PULSE_SERVER", sound.server());
        let preferences = crate::firefox::write_profile(&profile);
        preferences.expect("the profile can be written");
        let mut process = Process::start(FIREFOX, command, &folder.join("firefox.log"));
        let mut session = Marionette::connect(&profile, || process.assert_running());
        session.open(&page.url(settings));
        Self { process, page, _firefox: Some((session, sound)), _folder: folder }
    }

    /// Waits until the page has reported `what`.
    ///
    /// # Panics
    /// The page does not report it in time, or reports an error.
    pub fn wait_for(&mut self, what: &str) {
        self.wait_for_after(what, 0);
    }

    /// As [`Browser::wait_for`], after the first `since` reports.
    ///
    /// # Panics
    /// As for [`Browser::wait_for`].
    pub fn wait_for_after(&mut self, what: &str, since: usize) {
        wait_until(&format!("the page to report \"{what}\""), || {
            self.process.assert_running();
            let said = self.page.said();
            assert!(!said.iter().any(|line| line.starts_with("error")), "{said:?}");
            said.iter().skip(since).any(|line| line == what).then_some(())
        });
    }
}

impl Browser {
    /// Gives the page a command.
    pub fn command(&self, text: &str) {
        self.page.commands.lock().push_back(text.to_owned());
    }

    /// The number of reports so far.
    #[must_use]
    pub fn reports(&self) -> usize {
        self.page.said().len()
    }

    /// Waits until the page hears a tone, and reports that after the first `since` reports.
    ///
    /// # Panics
    /// The page does not hear it in time.
    pub fn wait_until_it_hears(&mut self, hertz: u32, since: usize) {
        let is_near = |line: &String| {
            let heard = line.strip_prefix("hears ").and_then(|heard| heard.parse::<u32>().ok());
            heard.is_some_and(|heard| heard.abs_diff(hertz) <= 8)
        };
        let page = &self.page;
        wait_until(&format!("the page to hear {hertz} Hz"), || {
            page.said().iter().skip(since).any(is_near).then_some(())
        });
    }
}

/// The arguments of a headless browser with its profile in `folder`, which trusts `certificate`.
pub(crate) fn arguments(folder: &Folder, certificate: &Path) -> Vec<String> {
    let fixed = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        // The server is on the same host, and the page plays sound without a click.
        "--disable-features=WebRtcHideLocalIpsWithMdns",
        "--allow-loopback-in-peer-connection",
        "--autoplay-policy=no-user-gesture-required",
    ];
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let trust = format!("--ignore-certificate-errors-spki-list={}", key_of(certificate));
    fixed.map(str::to_owned).into_iter().chain([profile, trust]).collect()
}

/// The SHA-256 of the public key of a certificate, in base64.
fn key_of(certificate: &Path) -> String {
    let mut command = Command::new("sh");
    let script = "openssl x509 -in \"$1\" -noout -pubkey | openssl pkey -pubin -outform der | \
                  openssl dgst -sha256 -binary | openssl base64";
    command.args(["-c", script, "sh"]).arg(certificate);
    run(OPENSSL, command).trim().to_owned()
}
