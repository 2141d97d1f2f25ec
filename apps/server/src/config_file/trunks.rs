//! The sections `[[trunks]]` of the configuration, and `[[trunks.accounts]]` in them.

use super::reader::Section;
use super::values;
use crate::domains;
use crate::trunks::{
    AccountPassword, CallerIdentity, MAX_ACCOUNTS, MAX_TRUNKS, Server, TrunkAccount, TrunkSettings,
};
use relay::Keying;
use sip::Transport;
use sip::locate::Host;
use sip_server::TrunkMedia;
use sip_server::config::{Config, Mode, Relaying, State};
use std::path::PathBuf;
use toml::de::DeValue;
use trunk::Password;
use values::{at_least, flag, networks, text, word};

/// The longest name of a trunk, in bytes.
const MAX_NAME: usize = 64;

/// Reads all trunks into `trunks`. `engine` is the configuration of the proxy that they need.
pub(super) fn read(top: &mut Section<'_, '_>, engine: &Config, trunks: &mut Vec<TrunkSettings>) {
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    top.tables("trunks", "[trunks]", |section| {
        let trunk = read_trunk(section);
        let has_relay = engine.relaying != Relaying::Off;
        section.check(
            has_relay || trunk.media == TrunkMedia::default(),
            &["srtp", "codecs"],
            || "srtp and codecs of a trunk need media.relay = \"needed\" or \"all\"".to_owned(),
        );
        section.check(is_usable && engine.record_route, &["name"], || {
            "trunks need mode = \"proxy\", state = \"stateful\" and record_route = true".to_owned()
        });
        section.check(trunks.len() < MAX_TRUNKS, &["name"], || {
            format!("there are more than {MAX_TRUNKS} trunks")
        });
        let is_known = trunks.iter().any(|other| other.name == trunk.name);
        section.check(!is_known, &["name"], || {
            format!("the trunk `{}` is repeated; each needs a name of its own", trunk.name)
        });
        trunks.push(trunk);
    });
}

fn read_trunk(section: &mut Section<'_, '_>) -> TrunkSettings {
    let nowhere = Server { host: Host::Name(String::new()), port: None };
    let mut trunk = TrunkSettings::new(String::new(), nowhere);
    section.require("name", "a trunk has no name; expected one such as name = \"provider\"");
    section.require(
        "host",
        "a trunk has no host; expected the domain or address of the provider, such as host = \
         \"sip.provider.example\"",
    );
    section.read("name", &mut trunk.name, word(name));
    section.read("host", &mut trunk.host, word(host));
    let mut port = None;
    section.read_some("port", &mut port, at_least(1));
    let has_two = port.is_some() && trunk.host.port.is_some();
    section.check(!has_two, &["port"], || {
        "the port stands in host, too; expected one of the two".to_owned()
    });
    trunk.host.port = trunk.host.port.or(port);
    section.read_some("transport", &mut trunk.transport, word(transport));
    section.read_some("proxy", &mut trunk.proxy, word(host));
    section.tables("accounts", "[trunks.accounts]", |section| {
        let account = read_account(section);
        section.check(trunk.accounts.len() < MAX_ACCOUNTS, &["user"], || {
            format!("a trunk has more than {MAX_ACCOUNTS} accounts")
        });
        let is_same =
            |other: &TrunkAccount| (&other.user, &other.domain) == (&account.user, &account.domain);
        section.check(!trunk.accounts.iter().any(is_same), &["user"], || {
            format!("the account `{}` is repeated; remove one", account.user)
        });
        trunk.accounts.push(account);
    });
    section.read("register", &mut trunk.registers, flag);
    section.check(!trunk.registers || !trunk.accounts.is_empty(), &["register"], || {
        "register = true needs accounts, those that register".to_owned()
    });
    section.read("expires", &mut trunk.expires, values::duration);
    section.check((60..=86_400).contains(&trunk.expires.as_secs()), &["expires"], || {
        "expected a duration from 60s to 1day".to_owned()
    });
    section.read_whole("sources", &mut trunk.sources, networks());
    section.read("probe_interval", &mut trunk.probe, values::check_interval);
    section.read_some("max_calls", &mut trunk.max_calls, at_least(1));
    section.read("trusted", &mut trunk.is_trusted, flag);
    section.read("identity", &mut trunk.identity, word(identity));
    section.read("prefix", &mut trunk.prefix, word(digits));
    section.read_some("srtp", &mut trunk.media.keying, word(srtp));
    let codecs = values::any_array_of(word(values::codec));
    section.read_whole("codecs", &mut trunk.media.codecs, codecs);
    // Keys in clear would protect nothing.
    let has_keys = !matches!(trunk.media.keying, None | Some(Keying::Clear));
    section.check(!has_keys || trunk.transport == Some(Transport::Tls), &["srtp"], || {
        "srtp = \"offered\" and \"required\" need transport = \"tls\": the keys are in the messages"
            .to_owned()
    });
    trunk
}

fn read_account(section: &mut Section<'_, '_>) -> TrunkAccount {
    let mut account =
        TrunkAccount { user: String::new(), auth_name: None, password: None, domain: None };
    section.require("user", "an account has no user; expected user = \"4930123456\" or the like");
    section.read("user", &mut account.user, word(user));
    section.read_some("auth_name", &mut account.auth_name, values::header_text);
    let (mut password, mut file) = (None, None);
    section.read_some("password", &mut password, text::<String>);
    section.read_some("password_file", &mut file, text::<PathBuf>);
    section.check(password.is_none() || file.is_none(), &["password_file"], || {
        "password and password_file are both set; expected one of the two".to_owned()
    });
    let password = password.map(|text| AccountPassword::Plain(Password::new(&text)));
    account.password = password.or(file.map(AccountPassword::File));
    section.read_some("domain", &mut account.domain, word(domains::canonical));
    account
}

/// Parses the name of a trunk.
fn name(text: &str) -> Result<String, String> {
    let is_one = (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_one.then(|| text.to_owned()).ok_or_else(|| {
        format!(
            "\"{text}\" is no name of a trunk; expected at most {MAX_NAME} letters, digits, \
             hyphens, underscores and dots"
        )
    })
}

/// Parses a domain or an address, with or without a port.
fn host(text: &str) -> Result<Server, String> {
    let wrong = || {
        format!(
            "\"{text}\" is no server; expected a domain or an address, and perhaps a port, such \
             as \"sip.provider.example\", \"192.0.2.1:5080\" or \"[2001:db8::1]:5080\""
        )
    };
    let is_plain_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_plain_v6 && !text.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
            (host, Some(port))
        }
        _ => (text, None),
    };
    let host = Host::parse(host.as_bytes()).map_err(|_| wrong())?;
    Ok(Server { host, port })
}

fn transport(name: &str) -> Result<Transport, String> {
    match name {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        "tls" => Ok(Transport::Tls),
        _ => Err(values::unknown(name, "udp, tcp, tls")),
    }
}

/// Parses the user part of an address-of-record, without escapes.
fn user(text: &str) -> Result<String, String> {
    let is_one = (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"@:;%?".contains(&byte));
    is_one.then(|| text.to_owned()).ok_or_else(|| {
        format!("\"{text}\" is no user; expected a number or a name such as \"4930123456\"")
    })
}

fn srtp(name: &str) -> Result<Keying, String> {
    match name {
        "off" => Ok(Keying::Clear),
        "offered" => Ok(Keying::Optional),
        "required" => Ok(Keying::Required),
        _ => Err(values::unknown(name, "off, offered, required")),
    }
}

fn identity(name: &str) -> Result<CallerIdentity, String> {
    match name {
        "account" => Ok(CallerIdentity::Account),
        "caller" => Ok(CallerIdentity::Caller),
        _ => Err(values::unknown(name, "account, caller")),
    }
}

/// Parses the digits in front of a number.
fn digits(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_one = digits.len() <= 15
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b"*#".contains(&byte));
    is_one
        .then(|| text.to_owned())
        .ok_or_else(|| format!("\"{text}\" is no prefix; expected at most 15 digits"))
}

/// The password files in the value of `trunks`, with the place of each name.
pub(super) fn password_files<'v>(
    trunks: &'v DeValue<'_>,
) -> impl Iterator<Item = &'v toml::Spanned<DeValue<'v>>> {
    let accounts = trunks
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|trunk| trunk.get_ref().as_table()?.get("accounts")?.get_ref().as_array());
    let account = |value: &'v toml::Spanned<DeValue<'v>>| value.get_ref().as_table();
    accounts.flatten().filter_map(account).filter_map(|table| table.get("password_file"))
}
