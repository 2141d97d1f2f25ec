//! PostgreSQL, as the database of accounts.

use crate::folder::Folder;
use crate::process::{Process, Program, run, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::ports::free_ports;

const POSTGRES: Program = Program { name: "postgres", packages: "postgresql" };
const SETPRIV: Program = Program { name: "setpriv", packages: "util-linux" };

/// The table of OpenSIPS, as far as it concerns accounts.
pub const SUBSCRIBER: &str = "CREATE TABLE subscriber (
    id serial PRIMARY KEY,
    username varchar(64) NOT NULL DEFAULT '',
    domain varchar(64) NOT NULL DEFAULT '',
    password varchar(25) NOT NULL DEFAULT '',
    ha1 varchar(64) NOT NULL DEFAULT '',
    ha1_sha256 varchar(64) NOT NULL DEFAULT '',
    ha1_sha512t256 varchar(64) NOT NULL DEFAULT '',
    UNIQUE (username, domain)
)";

/// The files of the certificate and its key in the folder.
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// A running database server on loopback. It is killed on drop.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    folder: Folder,
    programs: PathBuf,
    port: u16,
    has_certificate: bool,
}

impl Postgres {
    /// Starts a server with the database `sip`. Its owner is the role `barebell`, without a
    /// password.
    ///
    /// # Panics
    /// The server cannot be started.
    #[must_use]
    pub fn start() -> Self {
        Self::start_in(Folder::new("postgres"), false)
    }

    /// Starts a server with TLS and a certificate for `localhost` only.
    ///
    /// # Panics
    /// The server cannot be started.
    #[must_use]
    pub fn start_with_certificate() -> Self {
        let folder = Folder::new("postgres");
        let names = vec!["localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate is made");
        folder.write(CERTIFICATE, &made.cert.pem());
        folder.write(KEY, &made.signing_key.serialize_pem());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.join(KEY), mode).expect("the key is a file");
        Self::start_in(folder, true)
    }

    fn start_in(folder: Folder, has_certificate: bool) -> Self {
        let (port, programs) = (free_ports(1), programs());
        if is_root() {
            let mut chown = Command::new("chown");
            chown.args(["-R", "postgres"]).arg(folder.path());
            let _ = run(Program { name: "chown", packages: "coreutils" }, chown);
        }
        let mut initdb = as_owner(&programs.join("initdb"));
        initdb.args(["--auth=trust", "--username=admin", "--no-sync", "--encoding=UTF8"]);
        initdb.arg("-D").arg(folder.join("data"));
        let _ = run(POSTGRES, initdb);
        let process = serve(&programs, &folder, port, has_certificate);
        let mut postgres = Self { process, folder, programs, port, has_certificate };
        postgres.wait_until_it_listens();
        postgres.sql_in("postgres", "admin", "CREATE ROLE barebell LOGIN");
        postgres.sql_in("postgres", "admin", "CREATE DATABASE sip OWNER barebell");
        postgres
    }

    /// The URI of the database for `role`.
    #[must_use]
    pub fn url(&self, role: &str) -> String {
        format!("postgresql://{role}@127.0.0.1:{}/sip?sslmode=disable", self.port)
    }

    /// The URI of the database for the role `barebell` at `host`, with the parameters `query`.
    #[must_use]
    pub fn url_of(&self, host: &str, query: &str) -> String {
        format!("postgresql://barebell@{host}:{}/sip?{query}", self.port)
    }

    /// The file of the certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.join(CERTIFICATE)
    }

    /// Executes `sql` in the database as its owner. Returns the rows.
    ///
    /// # Panics
    /// It fails.
    pub fn sql(&self, sql: &str) -> String {
        self.sql_in("sip", "barebell", sql)
    }

    /// Creates a role without a password and without rights.
    ///
    /// # Panics
    /// It fails.
    pub fn add_role(&self, name: &str) {
        self.sql_in("postgres", "admin", &format!("CREATE ROLE {name} LOGIN"));
    }

    fn sql_in(&self, database: &str, role: &str, sql: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", role, "-d", database]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-q", "-A", "-t", "-X", "-c", sql]);
        run(POSTGRES, psql)
    }

    /// Kills the server, as in a crash.
    pub fn crash(&mut self) {
        self.process.kill();
    }

    /// Starts the killed server again.
    ///
    /// # Panics
    /// It does not listen.
    pub fn restart(&mut self) {
        let _ = std::fs::remove_file(self.folder.join("data/postmaster.pid"));
        self.process = serve(&self.programs, &self.folder, self.port, self.has_certificate);
        self.wait_until_it_listens();
    }

    /// Stops all processes of the server until the returned value is dropped, as on a machine that
    /// hangs: the system still takes connections and bytes, and nothing answers.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        let parent = self.process.id().cast_signed();
        let mut frozen = Frozen(Vec::new());
        frozen.add(parent);
        // The stopped parent starts no others.
        children(parent).into_iter().for_each(|child| frozen.add(child));
        frozen
    }

    fn wait_until_it_listens(&mut self) {
        wait_until("PostgreSQL listens", || {
            self.process.assert_running();
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            ready.status().ok().filter(std::process::ExitStatus::success)
        });
    }
}

/// The stopped processes of a server, which go on when this is dropped.
#[derive(Debug)]
pub struct Frozen(Vec<Pid>);

impl Frozen {
    fn add(&mut self, process: i32) {
        let process = Pid::from_raw(process);
        // A process may have ended meanwhile.
        if kill(process, Signal::SIGSTOP).is_ok() {
            self.0.push(process);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.0 {
            let _ = kill(*process, Signal::SIGCONT);
        }
    }
}

/// The child processes of `parent`.
fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_parent = processes.filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let is_child = fields.split_whitespace().nth(1)?.parse() == Ok(parent);
        is_child.then(|| process.file_name().to_string_lossy().parse().ok()).flatten()
    });
    of_parent.collect()
}

fn serve(programs: &Path, folder: &Folder, port: u16, has_certificate: bool) -> Process {
    let mut command = as_owner(&programs.join("postgres"));
    command.arg("-D").arg(folder.join("data"));
    command.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    command.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
    if has_certificate {
        for (name, file) in [("ssl_cert_file", CERTIFICATE), ("ssl_key_file", KEY)] {
            command.arg("-c").arg(format!("{name}={}", folder.join(file).display()));
        }
        command.args(["-c", "ssl=on"]);
    }
    Process::start(POSTGRES, command, &folder.join("postgres.log"))
}

/// A command that runs `program` as the user that owns the database: it refuses to run as root.
fn as_owner(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = SETPRIV.command();
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The folder of the newest programs of PostgreSQL. Debian has them in none of `PATH`.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path().join("bin")).max();
    newest
        .unwrap_or_else(|| panic!("PostgreSQL is missing; install it: apt-get install postgresql"))
}
