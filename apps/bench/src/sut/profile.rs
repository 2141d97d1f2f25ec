//! Profiles: files that describe the start of a system. `docs/benchmarks/profiles.md` describes the
//! form.

use super::error::SutError;
use super::wanted::{DOMAIN, Mode, Wanted};
use net::tls::make_self_signed;
use nix::sys::signal::Signal;
use serde::Deserialize;
use sip::Transport;
use sip::digest::{Ha1Set, Hex};
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::thread;

/// Names and texts of the built-in profiles, and of their files.
const BUILT_IN: [(&str, &str); 6] = [
    ("barebell.toml", include_str!("../../profiles/barebell.toml")),
    ("barebell-relay.toml", include_str!("../../profiles/barebell-relay.toml")),
    ("baresip.toml", include_str!("../../profiles/baresip.toml")),
    ("kamailio.toml", include_str!("../../profiles/kamailio.toml")),
    ("kamailio.cfg", include_str!("../../profiles/kamailio.cfg")),
    ("rtpengine.toml", include_str!("../../profiles/rtpengine.toml")),
];

/// Returns the text of the built-in profile `name`.
pub(super) fn built_in(name: &str) -> Option<&'static str> {
    built_in_file(&format!("{name}.toml"))
}

fn built_in_file(name: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|(file, _)| *file == name).map(|(_, text)| text)
}

/// The profile of a system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    /// The name in the reports.
    pub(super) name: String,
    /// The remedy if the program is missing.
    #[serde(default)]
    install: String,
    /// The program, searched as documented, and its arguments.
    command: Vec<String>,
    /// The command that prints the version.
    #[serde(default)]
    version: Vec<String>,
    /// The command that prints the counters and the times of processing steps as JSON.
    #[serde(default)]
    timings: Vec<String>,
    /// Commands that are run in order before the start.
    #[serde(default)]
    prepare: Vec<Vec<String>>,
    /// Programs that are started before the command, and belong to the system.
    #[serde(default)]
    beside: Vec<Beside>,
    /// Further arguments, by condition.
    arguments: BTreeMap<Condition, Vec<String>>,
    /// Files that the system needs.
    #[serde(default)]
    files: Vec<Template>,
    /// The form of its file of users.
    #[serde(default)]
    users: UserFile,
    /// Its address, if it runs on a machine of its own.
    #[serde(default)]
    pub(super) target: Option<SocketAddr>,
    /// The signal that stops it, by default `TERM`.
    #[serde(default)]
    stop: Option<String>,
    /// The output that shows that it is ready; without it, OPTIONS is sent.
    #[serde(default)]
    ready_text: Option<String>,
    /// Remarks on its configuration.
    #[serde(default)]
    pub(super) remarks: Vec<String>,
    /// The path of the profile; `None` for a built-in one.
    #[serde(skip)]
    path: Option<PathBuf>,
}

/// The condition of further arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Condition {
    Stateful,
    Stateless,
    Redirect,
    Authentication,
    NoAuthentication,
    Udp,
    Tcp,
    Tls,
    Ws,
    Wss,
}

impl Condition {
    fn name(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
            Self::Redirect => "redirect",
            Self::Authentication => "authentication",
            Self::NoAuthentication => "no_authentication",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    const fn of(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp,
            Transport::Tls => Self::Tls,
            Transport::Ws => Self::Ws,
            Transport::Wss => Self::Wss,
            _ => Self::Udp,
        }
    }
}

/// A program that runs beside the command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    /// The program, searched like that of the command, and its arguments.
    command: Vec<String>,
    /// The remedy if the program is missing.
    #[serde(default)]
    install: String,
    /// The output that shows that it is ready for the next program.
    #[serde(default)]
    ready_text: Option<String>,
}

/// A file that is written before the start, in the system's own folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Template {
    path: String,
    /// Its text.
    text: Option<String>,
    /// A file beside the profile with its text.
    template: Option<String>,
}

/// The form of the file of users.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UserFile {
    path: String,
    /// The header line.
    head: Option<String>,
    /// The line of each user.
    line: String,
}

impl Default for UserFile {
    fn default() -> Self {
        Self { path: "users".to_owned(), head: None, line: "{name}:{password}".to_owned() }
    }
}

/// The complete steps of starting a system.
#[derive(Debug)]
pub(super) struct Plan {
    /// The programs beside the command, each with the output that shows that it is ready.
    pub(super) beside: Vec<(Vec<String>, Option<String>)>,
    pub(super) command: Vec<String>,
    pub(super) version: Vec<String>,
    /// The command that prints counters and timings; empty without one.
    pub(super) timings: Vec<String>,
    pub(super) prepare: Vec<Vec<String>>,
    pub(super) stop: Signal,
    pub(super) ready_text: Option<String>,
}

impl Profile {
    /// Loads the built-in profile `name`, or the one in the file `name`.
    pub(super) fn load(name: &str) -> Result<Self, SutError> {
        let path = PathBuf::from(name);
        let wrong = |reason: String| SutError::Profile(path.clone(), reason);
        let (text, file) = match built_in(name) {
            Some(text) => (text.to_owned(), None),
            None => {
                let text = fs::read_to_string(&path);
                (text.map_err(|error| wrong(error.to_string()))?, Some(path.clone()))
            }
        };
        let mut profile: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        profile.path = file;
        let beside = profile.beside.iter().map(|beside| &beside.command);
        for command in profile.prepare.iter().chain(beside).chain([&profile.command]) {
            if command.first().is_none_or(String::is_empty) {
                return Err(wrong("a command is empty".to_owned()));
            }
        }
        for path in profile.files.iter().map(|file| &file.path).chain([&profile.users.path]) {
            if Path::new(path).components().any(|part| !matches!(part, Component::Normal(_))) {
                return Err(wrong(format!(
                    "the path '{path}' leads out of the system's own folder"
                )));
            }
        }
        profile.signal()?;
        Ok(profile)
    }

    fn signal(&self) -> Result<Signal, SutError> {
        let name = self.stop.as_deref().unwrap_or("TERM");
        Signal::from_str(&format!("SIG{name}")).map_err(|_| {
            let reason = format!("stop = \"{name}\" is no signal; expected one such as \"TERM\"");
            SutError::Profile(self.path.clone().unwrap_or_default(), reason)
        })
    }

    /// Returns the directory of relative paths in the profile.
    fn directory(&self) -> Option<&Path> {
        Some(self.path.as_ref()?.parent().unwrap_or(Path::new("")))
    }

    /// Writes the files of the system into `folder`, and returns the plan of its start at `target`.
    /// Its parts reach each other at the port `inner`.
    pub(super) fn plan(
        &self,
        wanted: &Wanted<'_>,
        target: SocketAddr,
        inner: u16,
        folder: &Path,
    ) -> Result<Plan, SutError> {
        let program = self.program(&self.command[0], &self.install)?;
        let authentication = match wanted.authentication {
            true => Condition::Authentication,
            false => Condition::NoAuthentication,
        };
        let mode = match wanted.mode {
            Mode::Stateful => Condition::Stateful,
            Mode::Stateless => Condition::Stateless,
            Mode::Redirect => Condition::Redirect,
        };
        let transport = Condition::of(wanted.transport);
        let mut arguments = self.command[1..].to_vec();
        for condition in [mode, authentication, transport] {
            match self.arguments.get(&condition) {
                Some(more) => arguments.extend_from_slice(more),
                // UDP is always enabled.
                None if condition == Condition::Udp => {}
                None => {
                    let what = format!("has no [arguments] {}", condition.name());
                    return Err(SutError::Cannot(self.name.clone(), what));
                }
            }
        }
        let workers = wanted.workers.map_or_else(thread::available_parallelism, |workers| {
            std::num::NonZero::new(workers).ok_or_else(|| io::Error::other("zero workers"))
        });
        let address = match target {
            SocketAddr::V4(target) => target.ip().to_string(),
            SocketAddr::V6(target) => format!("[{}]", target.ip()),
        };
        // The number of bits for the number of users, between 1024 and 16 million.
        let bits = usize::BITS - wanted.users.len().leading_zeros();
        let in_folder = |path: &str| folder.join(path).display().to_string();
        let [certificate, key] = ["tls-certificate.pem", "tls-key.pem"].map(in_folder);
        if wanted.transport.is_secure() {
            let made = make_self_signed(&[DOMAIN.to_owned()], certificate.as_ref(), key.as_ref());
            made.map_err(|error| SutError::Cannot(self.name.clone(), error.to_string()))?;
        }
        let values = [
            ("program", program.display().to_string()),
            ("folder", folder.display().to_string()),
            ("users_file", in_folder(&self.users.path)),
            ("users_bits", bits.clamp(10, 24).to_string()),
            ("address", address),
            ("port", target.port().to_string()),
            ("inner_port", inner.to_string()),
            ("certificate", certificate.clone()),
            ("key", key.clone()),
            ("domain", DOMAIN.to_owned()),
            ("workers", workers.map_or(1, usize::from).to_string()),
            ("mode", wanted.mode.name().to_owned()),
            ("authentication", if wanted.authentication { "on" } else { "off" }.to_owned()),
            ("transport", wanted.transport.uri_name().to_owned()),
            ("timings", wanted.timings.to_string()),
            ("max_wait", if wanted.retransmits { "100ms" } else { "0s" }.to_owned()),
        ];
        let fill = |text: &str| fill(text, &values);
        let fill_all = |texts: &[String]| texts.iter().map(|text| fill(text)).collect::<Vec<_>>();
        for file in &self.files {
            self.write(&in_folder(&file.path), &fill(&self.text(file)?))?;
        }
        self.write_users(&in_folder(&self.users.path), wanted)?;
        let mut command = vec![program.display().to_string()];
        command.extend(fill_all(&arguments));
        let beside = self.beside.iter().map(|beside| {
            let program = self.program(&beside.command[0], &beside.install)?;
            let mut command = vec![program.display().to_string()];
            command.extend(fill_all(&beside.command[1..]));
            Ok((command, beside.ready_text.clone()))
        });
        Ok(Plan {
            beside: beside.collect::<Result<_, SutError>>()?,
            command,
            version: fill_all(&self.version),
            timings: fill_all(&self.timings),
            prepare: self.prepare.iter().map(|command| fill_all(command)).collect(),
            stop: self.signal()?,
            ready_text: self.ready_text.clone(),
        })
    }

    fn text(&self, file: &Template) -> Result<String, SutError> {
        let wrong = |reason| {
            let path = self.path.clone().unwrap_or_else(|| PathBuf::from(&self.name));
            SutError::Profile(path, reason)
        };
        match (&file.text, &file.template, self.directory()) {
            (Some(text), None, _) => Ok(text.clone()),
            (None, Some(template), Some(directory)) => {
                let path = directory.join(template);
                fs::read_to_string(&path).map_err(|e| wrong(format!("{}: {e}", path.display())))
            }
            (None, Some(template), None) => built_in_file(template)
                .map(str::to_owned)
                .ok_or_else(|| wrong(format!("no template {template}"))),
            _ => Err(wrong(format!("file '{}' needs a text or a template", file.path))),
        }
    }

    fn write(&self, path: &str, text: &str) -> Result<(), SutError> {
        let write = || {
            fs::create_dir_all(Path::new(path).parent().unwrap_or(Path::new("")))?;
            fs::write(path, text)
        };
        write().map_err(|error| SutError::Io(format!("cannot write {path}"), error))
    }

    fn write_users(&self, path: &str, wanted: &Wanted<'_>) -> Result<(), SutError> {
        self.write(path, "")?;
        let needs_hash = self.users.line.contains("{ha1}");
        let write = || {
            let mut file = BufWriter::new(File::create(path)?);
            if let Some(head) = &self.users.head {
                writeln!(file, "{head}")?;
            }
            for (name, password) in wanted.users.iter() {
                let ha1 = if needs_hash {
                    let set = Ha1Set::new(name.as_bytes(), DOMAIN.as_bytes(), password.as_bytes());
                    Hex::new(&set.md5).to_string()
                } else {
                    String::new()
                };
                let values = [
                    ("name", name),
                    ("password", password),
                    ("ha1", ha1),
                    ("domain", DOMAIN.to_owned()),
                ];
                writeln!(file, "{}", fill(&self.users.line, &values))?;
            }
            file.flush()
        };
        write().map_err(|error| SutError::Io(format!("cannot write {path}"), error))
    }

    /// Checks that its programs are installed.
    ///
    /// # Errors
    /// [`SutError::Missing`] if one is not.
    pub(super) fn check(&self) -> Result<(), SutError> {
        self.program(&self.command[0], &self.install)?;
        for beside in &self.beside {
            self.program(&beside.command[0], &beside.install)?;
        }
        Ok(())
    }

    /// Returns the path of the program `name`: that of `NAME_BIN` in the environment, else a file
    /// beside this program, else one in `PATH`. A name with a slash is relative to the profile's
    /// folder.
    fn program(&self, name: &str, install: &str) -> Result<PathBuf, SutError> {
        let missing = || SutError::Missing(name.to_owned(), install.to_owned());
        if name.contains('/') {
            let path = self.directory().unwrap_or(Path::new("")).join(name);
            return fs::canonicalize(path).ok().and_then(existing).ok_or_else(missing);
        }
        find(name).ok_or_else(missing)
    }

    /// Sets the program to `path`.
    #[cfg(test)]
    pub(super) fn with_program(mut self, path: &Path) -> Self {
        self.command[0] = path.display().to_string();
        self
    }
}

/// Returns the path of the program `name`: that of `NAME_BIN` in the environment, else a file
/// beside this program, else one in `PATH`.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(format!("{}_BIN", name.to_uppercase().replace('-', "_"))) {
        return existing(PathBuf::from(path));
    }
    let own = env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian installs servers there, and PATH of a user other than root does not contain it.
    let folders = own.into_iter().chain(env::split_paths(&path)).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).find_map(existing)
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

/// Returns `text` with the values of `{names}`. Other braces are kept.
fn fill(text: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find('{') {
        let (before, after) = rest.split_at(begin);
        filled.push_str(before);
        let known = values.iter().find_map(|(name, value)| {
            let rest = after[1..].strip_prefix(name)?.strip_prefix('}')?;
            Some((value, rest))
        });
        match known {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = &after[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Users;

    fn wanted(users: &Users, mode: Mode) -> Wanted<'_> {
        Wanted {
            mode,
            authentication: true,
            users,
            address: "127.0.0.1".parse().expect("an address"),
            transport: Transport::Udp,
            workers: Some(3),
            namespace: None,
            timings: false,
            retransmits: true,
        }
    }

    #[test]
    fn braces_are_filled() {
        let values = [("name", "{line}".to_owned()), ("line", "x".to_owned())];
        assert_eq!(fill("{name}{line} {other} { {{line}} {", &values), "{line}x {other} { {x} {");
    }

    #[test]
    fn a_profile_of_ones_own_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("server"), "").expect("a file");
        fs::write(path("conf"), "at {address}:{port} { keep }\n").expect("a file");
        fs::write(
            path("own.toml"),
            r#"
            name = "own"
            command = ["./server", "{port}"]
            version = ["{program}", "-V"]
            prepare = [["cat", "{users_file}"]]
            stop = "INT"
            ready_text = "ready"
            [[beside]]
            command = ["./server", "--relay", "{inner_port}"]
            ready_text = "relays"
            [arguments]
            stateful = ["--workers={workers}"]
            authentication = ["{mode}", "{authentication}", "{transport}", "{domain}", "{users_bits}"]
            [[files]]
            path = "etc/conf"
            template = "conf"
            [users]
            path = "etc/passwords"
            head = "head"
            line = "{name}@{domain} {ha1} {password}"
            "#,
        )
        .expect("a file");
        let profile = Profile::load(&path("own.toml").display().to_string()).expect("a profile");
        let users = Users::from_pattern("u{}:p{}", 2).expect("users");
        let run = tempfile::tempdir().expect("a folder");
        let target = "[::1]:5070".parse().expect("an address");
        let plan = profile
            .plan(&wanted(&users, Mode::Stateful), target, 5071, run.path())
            .expect("a plan");
        let program = fs::canonicalize(path("server")).expect("a path").display().to_string();
        let expected = ["5070", "--workers=3", "stateful", "on", "udp", DOMAIN, "10"];
        assert_eq!(plan.command[0], program);
        assert_eq!(plan.command[1..], expected);
        assert_eq!(plan.version, [program.as_str(), "-V"]);
        let relay = [program.as_str(), "--relay", "5071"].map(str::to_owned).to_vec();
        assert_eq!(plan.beside, [(relay, Some("relays".to_owned()))]);
        let users_file = run.path().join("etc/passwords");
        assert_eq!(plan.prepare, [["cat".to_owned(), users_file.display().to_string()]]);
        assert_eq!((plan.stop, plan.ready_text.as_deref()), (Signal::SIGINT, Some("ready")));
        let conf = fs::read_to_string(run.path().join("etc/conf")).expect("a file");
        assert_eq!(conf, "at [::1]:5070 { keep }\n");
        // MD5 of u0:bench.example:p0 and of u1:bench.example:p1.
        let users = fs::read_to_string(users_file).expect("a file");
        assert_eq!(
            users,
            "head\nu0@bench.example ef4e47454a0e32a57cb322645f5fad96 p0\nu1@bench.example 14942b264d33265164246344980d1c4b p1\n"
        );
    }

    #[test]
    fn missing_parts_of_a_profile_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("own.toml");
        let load = |text: &str| {
            fs::write(&file, text).expect("a file");
            Profile::load(&file.display().to_string())
        };
        for (text, reason) in [
            ("", "missing field"),
            ("name = \"own\"\ncommand = [\"x\"]\narguments = {}\nport = 1", "unknown field `port`"),
            ("name = \"own\"\ncommand = []\narguments = {}", "a command is empty"),
            ("name = \"own\"\ncommand = [\"x\"]\narguments = {}\nstop = \"X\"", "is no signal"),
            (
                "name = \"own\"\ncommand = [\"x\"]\narguments = {}\nfiles = [{ path = \"../x\" }]",
                "leads out of",
            ),
        ] {
            let said =
                load(text).map(|_| ()).map_err(|error| error.to_string()).expect_err("an error");
            assert!(said.contains(reason), "{said}");
        }
        let text = "name = \"own\"\ncommand = [\"no-such\"]\ninstall = \"do this\"\narguments = {}";
        let users = Users::from_pattern("u{}:p{}", 2).expect("users");
        let target = "127.0.0.1:5070".parse().expect("an address");
        let plan = |text: &str| {
            let profile = load(text).expect("a profile");
            let plan = profile.plan(&wanted(&users, Mode::Redirect), target, 5071, folder.path());
            plan.map(|_| ()).expect_err("an error").to_string()
        };
        assert_eq!(plan(text), "no-such is missing; do this");
        assert_eq!(
            plan(&text.replace("no-such", "sh")),
            "the profile of own has no [arguments] redirect"
        );
    }

    #[test]
    fn our_own_profiles_are_complete() {
        let all = ["barebell", "barebell-relay", "kamailio", "rtpengine", "baresip"];
        for (index, name) in all.into_iter().enumerate() {
            let profile = Profile::load(name).expect("a profile");
            assert_eq!(profile.name, name);
            for file in &profile.files {
                profile.text(file).expect("a text");
            }
            // The last two are the media relay and the B2BUA behind Kamailio.
            for mode in if index < 3 { &Mode::ALL[..] } else { &[Mode::Stateful] } {
                assert!(profile.arguments.keys().any(|key| key.name() == mode.name()));
            }
        }
    }
}
