//! nginx, Caddy and HAProxy with the configuration of `docs/configuration.md`, word for word, or
//! with the line for Forwarded (RFC 7239) that it names. They use the ports 443, 5061 and 8080, and
//! so need a network of their own.

use crate::apart::hide;
use net::tls::make_self_signed;
use peers::folder::Folder;
use peers::process::{Process, Program, wait_until};
use peers::transport::Transport::Tcp;
use sip::stream::websocket::ClientField;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../docs/configuration.md");
/// The folder of certificates in the examples.
const CERTIFICATES: &str = "/etc/ssl";

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nginx,
    Caddy,
    Haproxy,
}

/// A running proxy. It is killed on drop.
#[derive(Debug)]
pub(crate) struct WebProxy {
    _process: Process,
    _folder: Folder,
}

impl Kind {
    const fn program(self) -> Program {
        let name = match self {
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Haproxy => "haproxy",
        };
        Program { name, packages: name }
    }

    /// The example: the block of the page in the language of this proxy.
    fn example(self) -> &'static str {
        let start = format!("```{}\n", self.program().name);
        let (_, block) = PAGE.split_once(&start).expect("the page has an example");
        block.split("```").next().unwrap_or_default()
    }

    /// The line of the example that writes X-Forwarded-For, and the one that the page names to
    /// write Forwarded instead. `None` if the page names no such line.
    const fn header_lines(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nginx => Some((
                "proxy_set_header X-Forwarded-For $remote_addr;",
                r#"proxy_set_header Forwarded "for=\"$remote_addr\"";"#,
            )),
            Self::Haproxy => Some((
                "http-request set-header X-Forwarded-For %[src]",
                r#"http-request set-header Forwarded "for=\"%[src]\"""#,
            )),
            Self::Caddy => None,
        }
    }

    /// The configuration: the example, which writes `field`, with lines around it that all sites
    /// have in common.
    fn configuration(self, field: ClientField, folder: &Path) -> String {
        let mut example = self.example().to_owned();
        if field == ClientField::Forwarded {
            let (before, after) = self.header_lines().expect("the page names a line");
            assert!(PAGE.contains(after) && example.contains(before), "{self:?}");
            example = example.replace(before, after);
        }
        let folder = folder.display();
        match self {
            Self::Nginx => {
                let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
                    .concat();
                format!(
                    "daemon off;\nuser root;\npid {folder}/pid;\nevents {{}}\n\
                     http {{\naccess_log off;\n{paths}{example}}}\n"
                )
            }
            // Its certificate is that of an issuer of its own.
            Self::Caddy => {
                let options = "admin off\nlocal_certs\nskip_install_trust\n";
                format!("{{\n{options}}}\n{example}")
            }
            Self::Haproxy => example,
        }
    }

    fn command(self, folder: &Folder) -> Command {
        let (mut command, file) = (self.program().command(), folder.join("configuration"));
        match self {
            Self::Nginx => command.args(["-e", "stderr", "-c"]).arg(file),
            Self::Caddy => command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file),
            Self::Haproxy => command.args(["-db", "-f"]).arg(file),
        };
        command.env("HOME", folder.path()).env_remove("XDG_DATA_HOME");
        command
    }
}

impl WebProxy {
    /// Starts a proxy that names its clients in `field`, and waits until it listens.
    ///
    /// # Panics
    /// The proxy cannot be started.
    pub(crate) fn start(kind: Kind, field: ClientField) -> Self {
        let folder = Folder::new(kind.program().name);
        hide(CERTIFICATES);
        let path = |suffix: &str| Path::new(CERTIFICATES).join(format!("sip.example.com{suffix}"));
        let (chain, key) = (path(".pem"), path(".key"));
        let made = make_self_signed(&["sip.example.com".to_owned()], &chain, &key);
        made.expect("the certificate can be created");
        // HAProxy reads the key from the file of the certificate, and nginx accepts that file.
        let both = [&chain, &key].map(|file| std::fs::read_to_string(file).expect("a file"));
        std::fs::write(&chain, both.concat()).expect("the file can be written");
        folder.write("configuration", &kind.configuration(field, folder.path()));
        let log = folder.join("proxy.log");
        let mut process = Process::start(kind.program(), kind.command(&folder), &log);
        wait_until("the proxy listens", || {
            process.assert_running();
            Tcp.is_listening(Ipv4Addr::UNSPECIFIED, 443).then_some(())
        });
        Self { _process: process, _folder: folder }
    }
}
