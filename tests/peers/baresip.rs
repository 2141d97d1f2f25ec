//! Driver of baresip through its control connection (module ctrl_tcp: JSON in netstrings).
//!
//! Its menu has `hold`, `resume` and `transfer`, but version 1.0.0 has no attended transfer.

use crate::folder::Folder;
use crate::phone::{Account, Action, Driver, Event, Srtp};
use crate::process::{Process, Program, create, wait_until};
use crate::tone::Recording;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use test_support::ports::free_ports;

const BARESIP: Program = Program { name: "baresip", packages: "baresip-core" };
/// The maximum length of a frame on the control connection.
const LONGEST_FRAME: usize = 1 << 20;

/// A running baresip and its control connection.
#[derive(Debug)]
pub(crate) struct Baresip {
    process: Process,
    control: TcpStream,
    /// The SIP port.
    port: u16,
    account: Account,
    folder: Folder,
}

impl Baresip {
    pub(crate) fn start(account: &Account) -> Self {
        let folder = Folder::new("baresip");
        let [sip, control, rtp] = [free_ports(2), free_ports(1), free_ports(8)];
        // SIP also uses the port after its own, for TLS.
        let config = format!(
            "poll_method epoll\n\
             sip_listen {address}:{sip}\n\
             audio_player aubridge,nil\n\
             audio_source ausine,{tone}\n\
             audio_alert aubridge,nil2\n\
             ausrc_srate 48000\n\
             ausrc_channels 2\n\
             audio_buffer 20-160\n\
             rtp_ports {rtp}-{rtp_end}\n\
             snd_path {folder}\n\
             module_path /usr/lib/baresip/modules\n\
             module g711.so\n\
             module srtp.so\n\
             module ausine.so\n\
             module aubridge.so\n\
             module sndfile.so\n\
             module_tmp uuid.so\n\
             module_tmp account.so\n\
             module_app ctrl_tcp.so\n\
             module_app menu.so\n\
             ctrl_tcp_listen 127.0.0.1:{control}\n\
             {dtls}{mwi}{issuers}",
            // Its modules of keys answer offers in the order of this file.
            dtls = match account.srtp {
                Srtp::Dtls => "module dtls_srtp.so\n",
                _ => "",
            },
            mwi = match account.options.as_str() {
                "mwi" => "module_app mwi.so\n",
                _ => "",
            },
            issuers = account
                .issuers
                .as_ref()
                .map_or_else(String::new, |file| { format!("sip_cafile {}\n", file.display()) }),
            address = account.address(),
            tone = account.tone,
            rtp_end = rtp + 7,
            folder = folder.path().display(),
        );
        folder.write("config", &config);
        // Without these files baresip would create example files and use them.
        folder.write("accounts", "");
        folder.write("contacts", "");
        create(&folder.join("events.log"));
        let mut command = account.command(BARESIP);
        // -s prints SIP messages. -n is required without a separate network interface.
        command.args(["-4", "-n", &account.address().to_string(), "-s", "-f"]).arg(folder.path());
        command.current_dir(folder.path());
        let mut process = Process::start(BARESIP, command, &folder.join("baresip.log"));
        let control = wait_until("the control connection of baresip", || {
            process.assert_running();
            let address = (Ipv4Addr::LOCALHOST, control).into();
            match &account.machine {
                None => TcpStream::connect(address).ok(),
                Some(machine) => machine.connect(address).ok(),
            }
        });
        let events = (control.try_clone(), File::create(folder.join("events.log")));
        if let (Ok(control), Ok(log)) = events {
            std::thread::spawn(move || copy_events(BufReader::new(control), log));
        }
        let mut phone = Self { process, control, port: sip, account: account.clone(), folder };
        if !account.has_server {
            phone.create_account();
            // baresip listens before its account exists, and then answers calls with 404.
            wait_until("baresip to know its account", || {
                let log = std::fs::read_to_string(phone.event_log()).unwrap_or_default();
                log.contains("reply: Creating UA").then_some(())
            });
        }
        phone
    }

    /// Creates the account. With a server baresip registers at once.
    fn create_account(&mut self) {
        let Account { user, password, server, transport, expires, srtp, .. } = &self.account;
        let encryption = match srtp {
            Srtp::Off => "",
            Srtp::Optional => ";mediaenc=srtp",
            Srtp::Required => ";mediaenc=srtp-mand",
            Srtp::Dtls => ";mediaenc=dtls_srtp",
            Srtp::Zrtp => panic!("baresip has no keys by ZRTP"),
        };
        let proxy = self.account.proxy.map(|proxy| format!(";outbound=\"sip:{proxy};lr\""));
        let proxy = proxy.unwrap_or_default();
        let account = match self.account.has_server {
            true => format!(
                "<sip:{user}@{server};transport={}>;auth_user={user};auth_pass={password};regint={expires}{proxy}",
                transport.name(),
            ),
            false => format!("<sip:{user}@{}:{}>;regint=0", self.account.address(), self.port),
        };
        self.command("uanew", &format!("{account};answermode=manual{encryption}"));
    }

    /// The newest recording of received (`dec`) or sent (`enc`) audio. Each call has a file, named
    /// after its start time.
    fn newest(&self, what: &str) -> Option<Recording> {
        let entries = std::fs::read_dir(self.folder.path()).ok()?;
        let files = entries.flatten().map(|entry| entry.path());
        let end = format!("-{what}.wav");
        Recording::read(&files.filter(|path| path.to_string_lossy().ends_with(&end)).max()?)
    }

    fn command(&mut self, command: &str, params: &str) {
        let frame = json!({ "command": command, "params": params }).to_string();
        let frame = format!("{}:{frame},", frame.len());
        if let Err(error) = self.control.write_all(frame.as_bytes()) {
            panic!("baresip did not accept the command {command}: {error}");
        }
    }
}

/// Writes a log line for each event and reply of the control connection.
fn copy_events(mut control: BufReader<TcpStream>, mut log: File) {
    while let Some(message) = read_frame(&mut control) {
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        let line = if message.get("event").is_some() {
            format!("{} {}\n", text("type"), text("param"))
        } else {
            format!("reply: {}\n", text("data").escape_debug())
        };
        if log.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_frame(control: &mut impl BufRead) -> Option<Value> {
    let mut length = Vec::new();
    control.take(8).read_until(b':', &mut length).ok()?;
    let length: usize = std::str::from_utf8(length.strip_suffix(b":")?).ok()?.parse().ok()?;
    let mut frame = vec![0; length.min(LONGEST_FRAME) + 1];
    control.read_exact(&mut frame).ok()?;
    serde_json::from_slice(frame.strip_suffix(b",")?).ok()
}

impl Driver for Baresip {
    fn act(&mut self, action: &Action) {
        match action {
            Action::Register => self.create_account(),
            Action::Unregister => {
                let Account { user, server, .. } = &self.account;
                let address_of_record = format!("sip:{user}@{server}");
                self.command("uadel", &address_of_record);
            }
            Action::Dial(uri) => self.command("dial", uri),
            Action::Answer => self.command("accept", ""),
            Action::Reject | Action::HangUp => self.command("hangup", ""),
            Action::AutoAnswer(on) => {
                self.command("answermode", if *on { "auto" } else { "manual" });
            }
            Action::Press(key) => self.command("sndcode", &key.to_string()),
            Action::Hold => self.command("hold", ""),
            Action::Resume => self.command("resume", ""),
            Action::Transfer(uri) => self.command("transfer", uri),
            Action::Consult(_) | Action::TransferToConsulted => {
                panic!("baresip 1.0.0 has no attended transfer")
            }
        }
    }

    fn event(&self, line: &str) -> Option<Event> {
        let mut words = line.split_whitespace();
        match words.next()? {
            "CALL_DTMF_START" => Some(Event::Key(words.next()?.chars().next()?)),
            "REGISTER_OK" => Some(Event::Registered),
            "REGISTER_FAIL" => Some(Event::RegistrationFailed),
            "UNREGISTERING" => Some(Event::Unregistered),
            "CALL_INCOMING" => Some(Event::Incoming),
            "CALL_RINGING" => Some(Event::Ringback),
            "CALL_ESTABLISHED" => Some(Event::Established),
            "CALL_CLOSED" => Some(Event::Ended),
            _ => None,
        }
    }

    fn recording(&self) -> Option<Recording> {
        self.newest("dec")
    }

    fn loudness(&self) -> Option<f64> {
        self.newest("enc")?.loudness_of(self.account.tone)
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn event_log(&self) -> PathBuf {
        self.folder.join("events.log")
    }

    fn sip_log(&self) -> PathBuf {
        self.folder.join("baresip.log")
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
