//! Parsers of the values in a configuration.

use super::reader::BadValue;
use crate::certificates::Files;
use crate::domains;
use crate::listen::Listen;
use crate::media::RecordsPlace;
use net::Origins;
use relay::{Codec, PortRange, PortRangeError};
use sip::Duration;
use sip::digest::Algorithm;
use sip::stream::websocket::ClientField;
use sip_server::config::{Domain, Joining, MediaKeys, Mode, Network, Relaying, Speaker, State};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use store::Sync;
use stun::TurnUri;
use toml::Spanned;
use toml::de::DeValue;
use ureq::http::Uri;

/// Parses a mode.
///
/// # Errors
/// A message with the valid names.
pub(crate) fn mode(name: &str) -> Result<Mode, String> {
    match name {
        "proxy" => Ok(Mode::Proxy),
        "redirect" => Ok(Mode::Redirect),
        "registrar" => Ok(Mode::Registrar),
        _ => Err(unknown(name, "proxy, redirect, registrar")),
    }
}

/// Parses `stateful` or `stateless`.
///
/// # Errors
/// A message with the valid names.
pub(crate) fn state(name: &str) -> Result<State, String> {
    match name {
        "stateful" => Ok(State::Stateful),
        "stateless" => Ok(State::Stateless),
        _ => Err(unknown(name, "stateful, stateless")),
    }
}

/// Parses the name of the header field for the addresses of clients, which proxies add.
///
/// # Errors
/// A message with the valid names.
pub(crate) fn client_field(name: &str) -> Result<ClientField, String> {
    let fields = [ClientField::XForwardedFor, ClientField::Forwarded];
    let found = fields.into_iter().find(|field| field.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| unknown(name, "X-Forwarded-For, Forwarded"))
}

/// Parses the URI of a TURN server.
pub(super) fn turn_uri(text: &str) -> Result<String, String> {
    match text.parse::<TurnUri>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("`{text}` is {error}")),
    }
}

/// Parses `on` or `off`.
///
/// # Errors
/// A message with the valid names.
pub(crate) fn on_off(name: &str) -> Result<bool, String> {
    match name {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(unknown(name, "on, off")),
    }
}

/// Parses the name of a rule for the calls that are relayed.
pub(super) fn relaying(name: &str) -> Result<Relaying, String> {
    match name {
        "needed" => Ok(Relaying::Needed),
        "all" => Ok(Relaying::All),
        "off" => Ok(Relaying::Off),
        _ => Err(unknown(name, "needed, all, off")),
    }
}

/// Parses the name of a rule for the calls that go through the B2BUA.
pub(super) fn joining(name: &str) -> Result<Joining, String> {
    match name {
        "proxy" => Ok(Joining::Off),
        "needed" => Ok(Joining::Needed),
        "b2bua" => Ok(Joining::All),
        _ => Err(unknown(name, "needed, b2bua, proxy")),
    }
}

/// Parses the name of a rule for the SRTP keys of relayed calls.
pub(super) fn media_keys(name: &str) -> Result<MediaKeys, String> {
    match name {
        "passed" => Ok(MediaKeys::Passed),
        "converted" => Ok(MediaKeys::Converted),
        "offered" => Ok(MediaKeys::Offered),
        "required" => Ok(MediaKeys::Required),
        _ => Err(unknown(name, "passed, converted, offered, required")),
    }
}

/// Parses the name of a codec that the media relay converts.
pub(super) fn codec(name: &str) -> Result<Codec, String> {
    let found = Codec::ALL.iter().find(|codec| codec.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Codec::ALL.iter().map(|codec| codec.name()).collect();
        unknown(name, &names.join(", "))
    })
}

/// Parses the ports of the media relay.
pub(super) fn ports(range: &str) -> Result<PortRange, String> {
    range.parse().map_err(|error: PortRangeError| error.to_string())
}

/// Parses the time at which registrations survive a power loss.
///
/// # Errors
/// A message with the valid values.
pub(crate) fn sync(text: &str) -> Result<Sync, String> {
    match text {
        "always" => Ok(Sync::Always),
        "never" => Ok(Sync::Never),
        _ => match humantime::parse_duration(text) {
            Ok(interval) if !interval.is_zero() => Ok(Sync::Every(interval)),
            _ => Err(unknown(text, "always, never, or an interval such as 1s")),
        },
    }
}

/// Formats a duration in the syntax of the file.
pub(super) fn show(duration: Duration) -> String {
    humantime::format_duration(duration.into()).to_string()
}

/// A parser of a string, with `parse` for its content.
pub(super) fn word<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| match value.as_str() {
        Some(text) => parse(text),
        None => Err(wrong_type(value, "a string")),
    }
}

/// Parses a non-empty string.
pub(super) fn text<T: From<String>>(value: &DeValue<'_>) -> Result<T, String> {
    word(|text| match text {
        "" => Err("expected a text that is not empty; leave the key out for the default".into()),
        text => Ok(T::from(text.to_owned())),
    })(value)
}

/// Parses a domain in the public DNS, with a dot in it.
pub(super) fn domain_of_dns(text: &str) -> Result<String, String> {
    let name = domains::canonical(text)?;
    let is_one = name.contains('.') && name.parse::<IpAddr>().is_err() && !name.starts_with('[');
    is_one.then_some(name).ok_or_else(|| {
        format!(
            "\"{text}\" is no domain that an issuer knows; expected one such as \"sip.example.com\""
        )
    })
}

/// Parses the name of a SIP method, which is case-sensitive (RFC 3261 section 7.1).
pub(super) fn method(value: &DeValue<'_>) -> Result<String, String> {
    word(|text| {
        let is_one = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        is_one
            .then(|| text.to_owned())
            .ok_or_else(|| format!("\"{text}\" is no method; expected one such as \"NOTIFY\""))
    })(value)
}

/// Parses an address with a port.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("\"{text}\" is no address with a port; expected one such as \"127.0.0.1:8080\"")
    })
}

/// Parses a mail address, without `mailto:`.
pub(super) fn mail(text: &str) -> Result<String, String> {
    let is_one = matches!(text.split_once('@'), Some((user, domain)) if !user.is_empty()
        && !domain.is_empty() && !text.contains([':', ' ']));
    is_one.then(|| text.to_owned()).ok_or_else(|| {
        format!("\"{text}\" is no mail address; expected one such as \"ops@example.com\"")
    })
}

/// Parses an HTTPS URL.
pub(super) fn https(text: &str) -> Result<String, String> {
    match text.parse::<Uri>() {
        Ok(uri) if uri.scheme_str() == Some("https") && uri.host() != Some("") => {
            Ok(text.to_owned())
        }
        _ => Err(format!("\"{text}\" is no issuer; expected a URL that begins with https://")),
    }
}

/// Parses text for a header field. It may be empty.
pub(super) fn header_text(value: &DeValue<'_>) -> Result<String, String> {
    word(|text| {
        if text.len() <= 100 && text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            Ok(text.to_owned())
        } else {
            Err("expected at most 100 printable ASCII characters".to_owned())
        }
    })(value)
}

pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wrong_type(value, "true or false"))
}

/// A parser of a whole number in the range of `T`.
pub(super) fn whole<T: TryFrom<u64>>() -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    at_least(0)
}

/// A parser of a whole number from `least` on, in the range of `T`.
pub(super) fn at_least<T: TryFrom<u64>>(least: u64) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let number = value
            .as_integer()
            .ok_or_else(|| wrong_type(value, &format!("a whole number from {least} on")))?;
        u64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .filter(|&number| number >= least)
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                let number = number.as_str();
                format!("{number} is out of range; expected a whole number from {least} on")
            })
    }
}

/// Parses a size such as `"512MiB"`, in bytes.
pub(super) fn memory(value: &DeValue<'_>) -> Result<usize, String> {
    const EXPECTED: &str = "a size such as \"512MiB\" or \"2GiB\", at least 1MiB";
    let Some(text) = value.as_str() else { return Err(wrong_type(value, EXPECTED)) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(format!("\"{text}\" is no size; expected {EXPECTED}")),
    };
    let number = number.parse::<usize>().ok().filter(|&number| number > 0);
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("\"{text}\" is out of range; expected {EXPECTED}"))
}

/// Parses a size like [`memory`], or 0.
pub(super) fn memory_or_none(value: &DeValue<'_>) -> Result<usize, String> {
    match value.as_integer().is_some_and(|number| number.as_str() == "0") {
        true => Ok(0),
        false => memory(value).map_err(|error| format!("{error}, or 0")),
    }
}

/// Parses a bandwidth such as `"100Mbit"`, in bytes a second.
pub(super) fn bandwidth(value: &DeValue<'_>) -> Result<u64, String> {
    const EXPECTED: &str = "a bandwidth in bits a second such as \"100Mbit\" or \"1Gbit\"";
    let Some(text) = value.as_str() else { return Err(wrong_type(value, EXPECTED)) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let bytes = match unit {
        "kbit" => 1_000 / 8,
        "Mbit" => 1_000_000 / 8,
        "Gbit" => 1_000_000_000 / 8,
        _ => return Err(format!("\"{text}\" is no bandwidth; expected {EXPECTED}")),
    };
    let number = number.parse::<u64>().ok().filter(|&number| number > 0);
    number
        .and_then(|number| number.checked_mul(bytes))
        .ok_or_else(|| format!("\"{text}\" is out of range; expected {EXPECTED}"))
}

/// Parses the place of the call records: true, false, or a path.
pub(super) fn records(value: &DeValue<'_>) -> Result<RecordsPlace, String> {
    match (value.as_bool(), value.as_str()) {
        (Some(true), _) => Ok(RecordsPlace::Data),
        (Some(false), _) => Ok(RecordsPlace::Off),
        (_, Some(path)) if Path::new(path).is_absolute() => Ok(RecordsPlace::File(path.into())),
        (_, Some(path)) => Err(format!("`{path}` is no path that begins with /")),
        _ => Err(wrong_type(value, "true, false, or the path of a file")),
    }
}

/// Parses the time that records of calls are kept for: a duration, or false.
pub(super) fn history(value: &DeValue<'_>) -> Result<Option<std::time::Duration>, String> {
    match value.as_bool() {
        Some(false) => Ok(None),
        Some(true) => Err("expected a duration such as \"90d\", or false".to_owned()),
        None => {
            some_duration(value).map(|it| Some(std::time::Duration::from_micros(it.as_micros())))
        }
    }
}

/// Parses a session interval. RFC 4028 section 4 allows none of less than 90 seconds.
pub(super) fn session_interval(value: &DeValue<'_>) -> Result<Duration, String> {
    let interval = duration(value)?;
    if (90..=86_400).contains(&interval.as_secs()) {
        Ok(interval)
    } else {
        Err("expected a duration from 90s to 1day".to_owned())
    }
}

/// Parses the interval in which the legs of calls are checked: a duration, or false.
pub(super) fn check_interval(value: &DeValue<'_>) -> Result<Option<Duration>, String> {
    const EXPECTED: &str = "expected a duration from 10s to 1day, or false";
    match value.as_bool() {
        Some(false) => Ok(None),
        Some(true) => Err(EXPECTED.to_owned()),
        None => Some(duration(value)?)
            .filter(|interval| (10..=86_400).contains(&interval.as_secs()))
            .map(Some)
            .ok_or_else(|| EXPECTED.to_owned()),
    }
}

/// Parses a duration such as `"30s"`, `"5m"`, `"500ms"`, or a whole number of seconds.
pub(super) fn duration(value: &DeValue<'_>) -> Result<Duration, String> {
    const EXPECTED: &str = "a duration such as \"30s\", \"5m\" or \"500ms\", or whole seconds";
    if let Some(text) = value.as_str() {
        return humantime::parse_duration(text)
            .ok()
            .and_then(|duration| u64::try_from(duration.as_micros()).ok())
            .map(Duration::from_micros)
            .ok_or_else(|| format!("\"{text}\" is no duration; expected {EXPECTED}"));
    }
    match value {
        DeValue::Integer(_) => whole()(value).map(Duration::from_secs),
        _ => Err(wrong_type(value, EXPECTED)),
    }
}

/// Parses a duration other than zero.
pub(super) fn some_duration(value: &DeValue<'_>) -> Result<Duration, String> {
    match duration(value)? {
        Duration::ZERO => Err("expected a duration longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses the listening addresses, and checks that they do not collide.
pub(super) fn listens(array: &Spanned<DeValue<'_>>) -> Result<Vec<Listen>, BadValue> {
    let found: Vec<Listen> = array_of(word(str::parse))(array)?;
    for (value, (index, listen)) in elements(array)?.zip(found.iter().enumerate()) {
        if let Some(other) = found[..index].iter().find(|other| other.collides_with(listen)) {
            return Err(BadValue {
                place: Some(value.span()),
                text: format!(
                    "{other} and {listen} cannot both have TCP port {}; expected another port",
                    listen.address.port()
                ),
            });
        }
    }
    Ok(found)
}

/// A parser of an array of address ranges. It may be empty.
pub(super) fn networks<'i>() -> impl Fn(&Spanned<DeValue<'i>>) -> Result<Vec<Network>, BadValue> {
    any_array_of(word(network))
}

/// Parses the trusted networks, and the users that some of them may speak for: address ranges, or
/// tables `{ network = "192.0.2.10", speaks_for = ["+49*"] }`.
pub(super) fn trusted(
    array: &Spanned<DeValue<'_>>,
) -> Result<(Vec<Network>, Vec<Speaker>), BadValue> {
    const EXPECTED: &str = "expected a range of addresses, or { network = \"192.0.2.10\", \
        speaks_for = [\"+49*\", \"100\"] }";
    let (mut networks, mut speakers) = (Vec::new(), Vec::new());
    for value in elements(array)? {
        let at_value = |text: String| BadValue { place: Some(value.span()), text };
        let network = match value.get_ref().as_table() {
            None => word(network)(value.get_ref()).map_err(at_value)?,
            Some(table) => {
                let known = (table.get("network"), table.get("speaks_for"));
                let ((Some(range), Some(names)), 2) = (known, table.len()) else {
                    return Err(at_value(EXPECTED.to_owned()));
                };
                let network = word(network)(range.get_ref()).map_err(at_value)?;
                let names = array_of(text)(names)?;
                speakers.push(Speaker { network, names });
                network
            }
        };
        if networks.contains(&network) {
            return Err(at_value("this value is repeated; remove one".to_owned()));
        }
        networks.push(network);
    }
    Ok((networks, speakers))
}

/// Parses an address range such as `192.0.2.0/24`, or a single address.
fn network(text: &str) -> Result<Network, String> {
    let expected = || {
        format!(
            "`{text}` is no range of addresses; expected one such as 192.0.2.0/24, \
             2001:db8::/32 or 192.0.2.1"
        )
    };
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| expected())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        Some(prefix) => prefix.parse().ok().filter(|&bits| bits <= most).ok_or_else(expected)?,
        None => most,
    };
    Ok(Network { address, prefix })
}

/// A parser of a non-empty array without duplicates.
pub(super) fn array_of<'i, T: PartialEq>(
    parse: impl Fn(&DeValue<'i>) -> Result<T, String>,
) -> impl Fn(&Spanned<DeValue<'i>>) -> Result<Vec<T>, BadValue> {
    let parse = any_array_of(parse);
    move |array| {
        let found = parse(array)?;
        if found.is_empty() {
            return Err("expected at least one value; leave the key out for the default"
                .to_owned()
                .into());
        }
        Ok(found)
    }
}

/// A parser of an array without duplicates. It may be empty.
pub(super) fn any_array_of<'i, T: PartialEq>(
    parse: impl Fn(&DeValue<'i>) -> Result<T, String>,
) -> impl Fn(&Spanned<DeValue<'i>>) -> Result<Vec<T>, BadValue> {
    move |array| {
        let mut found = Vec::new();
        for value in elements(array)? {
            let at_value = |text| BadValue { place: Some(value.span()), text };
            let parsed = parse(value.get_ref()).map_err(at_value)?;
            if found.contains(&parsed) {
                return Err(at_value("this value is repeated; remove one".to_owned()));
            }
            found.push(parsed);
        }
        Ok(found)
    }
}

pub(super) fn algorithms(array: &Spanned<DeValue<'_>>) -> Result<Vec<Algorithm>, BadValue> {
    array_of(word(|name| {
        Algorithm::parse(name.as_bytes())
            .ok_or_else(|| unknown(name, &Algorithm::ALL.map(Algorithm::name).join(", ")))
    }))(array)
}

/// Parses domains: names, or tables `{ name = "example.com", aliases = ["sip.example.com"] }`.
pub(super) fn domains(array: &Spanned<DeValue<'_>>) -> Result<Vec<Domain>, BadValue> {
    let mut found: Vec<Domain> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut name_at = |value: &Spanned<DeValue<'_>>| {
        let at_value = |text| BadValue { place: Some(value.span()), text };
        let name = word(domains::canonical)(value.get_ref()).map_err(at_value)?;
        if names.contains(&name) {
            return Err(at_value(format!("`{name}` is repeated; a domain or alias has one place")));
        }
        names.push(name.clone());
        Ok(name)
    };
    for value in elements(array)? {
        let Some(table) = value.get_ref().as_table() else {
            found.push(Domain { name: name_at(value)?, aliases: Vec::new() });
            continue;
        };
        if let Some(key) = table.keys().find(|key| !["name", "aliases"].contains(&&**key.get_ref()))
        {
            let text = format!("unknown key `{}`; expected name, aliases", key.get_ref());
            return Err(BadValue { place: Some(key.span()), text });
        }
        let name = table.get("name").ok_or_else(|| BadValue {
            place: Some(value.span()),
            text: "a domain has no name; expected { name = \"example.com\", aliases = [...] }"
                .to_owned(),
        })?;
        let name = name_at(name)?;
        let mut aliases = Vec::new();
        if let Some(array) = table.get("aliases") {
            for alias in elements(array)? {
                aliases.push(name_at(alias)?);
            }
        }
        found.push(Domain { name, aliases });
    }
    Ok(found)
}

/// Parses certificates with their keys: tables `{ chain = "FILE", key = "FILE" }`.
pub(super) fn certificates(array: &Spanned<DeValue<'_>>) -> Result<Vec<Files>, BadValue> {
    let files_of = |value: &Spanned<DeValue<'_>>| {
        let wrong = |text: String| BadValue { place: Some(value.span()), text };
        let expected = || {
            "expected { chain = \"FILE\", key = \"FILE\" }, the certificate with its chain, and \
             its key"
                .to_owned()
        };
        let table = value.get_ref().as_table().ok_or_else(|| wrong(expected()))?;
        let file = |key: &str| {
            let value = table.get(key).filter(|_| table.len() == 2);
            text::<PathBuf>(value.ok_or_else(|| wrong(expected()))?.get_ref()).map_err(wrong)
        };
        Ok(Files { chain: file("chain")?, key: file("key")? })
    };
    elements(array)?.map(files_of).collect()
}

/// Parses the web origins that may use WebSocket. An empty array means those of the host that is
/// called, `*` means all.
pub(super) fn origins(array: &Spanned<DeValue<'_>>) -> Result<Origins, BadValue> {
    let origin = |text: &str| match text {
        "*" => Ok(text.to_owned()),
        _ if text.contains("://") && !text.ends_with('/') => Ok(text.to_owned()),
        _ => Err(format!(
            "`{text}` is no origin; expected scheme and host, such as \"https://phone.example.org\", \
             or \"*\" for all"
        )),
    };
    let named: Vec<String> = any_array_of(word(origin))(array)?;
    Ok(match named.is_empty() {
        true => Origins::SameHost,
        false if named.iter().any(|origin| origin == "*") => Origins::Any,
        false => Origins::Named(named),
    })
}

fn elements<'v, 'i>(
    array: &'v Spanned<DeValue<'i>>,
) -> Result<impl Iterator<Item = &'v Spanned<DeValue<'i>>>, BadValue> {
    array.get_ref().as_array().map(|array| array.iter()).ok_or_else(|| BadValue {
        place: Some(array.span()),
        text: wrong_type(array.get_ref(), "an array, in brackets"),
    })
}

fn wrong_type(value: &DeValue<'_>, expected: &str) -> String {
    format!("this is of type {}; expected {expected}", value.type_str())
}

pub(super) fn unknown(name: &str, expected: &str) -> String {
    format!("`{name}` is unknown; expected one of: {expected}")
}
