//! The section `[numbers]` of the configuration: the numbering plan.

use super::hook;
use super::reader::{BadValue, Section};
use super::values::{any_array_of, at_least, some_duration, text, unknown, whole, word};
use crate::settings::Settings;
use numbers::usage::{Account, Limit};
use numbers::{
    DidConfig, Digits, IdentityConfig, LimitConfig, LocalForm, NamedPrefixes, Part, Place, Plan,
    PlanConfig, Range, RightsConfig, RuleConfig, ServiceKind, TargetConfig, TrunkUse,
};
use std::collections::HashMap;
use toml::Spanned;
use toml::de::DeValue;

/// The destinations that `to` can name.
const TARGETS: &str = "user:NAME, group:NAME, internal, refuse, voicemail, mailbox, mailbox:USER, \
    conference, conference:ROOM, pickup, pickup:USER, \
    announcement:NAME, music";

/// The places of values in the file, for the errors of the plan.
#[derive(Default)]
struct Places(HashMap<Place, usize>);

impl Places {
    /// Remembers the value of `key` as `place`; without that key the whole section.
    fn note(&mut self, section: &Section<'_, '_>, key: &str, place: Place) {
        self.0.insert(place, section.place_of(key).unwrap_or_else(|| section.start()));
    }

    /// Remembers the elements of the array `key`.
    fn note_each(&mut self, section: &Section<'_, '_>, key: &str, place: impl Fn(usize) -> Place) {
        let elements = section.places_in(key).into_iter().enumerate();
        self.0.extend(elements.map(|(index, at)| (place(index), at)));
    }
}

/// Reads the plan of an office with `trunks`, and checks it.
pub(super) fn read(top: &mut Section<'_, '_>, trunks: Vec<String>, settings: &mut Settings) {
    let (plan, decisions) = (&mut settings.numbers, &mut settings.decisions);
    top.section("numbers", |section| {
        section.section("hook", |section| hook::read(section, decisions));
        let mut places = Places::default();
        read_dialing(section, plan, &mut places);
        read_emergency(section, plan, &mut places);
        read_users(section, plan, &mut places);
        read_rules(section, plan, &mut places);
        read_limits(section, plan, &mut places);
        let whole = PlanConfig { trunks, ..plan.clone() };
        for error in Plan::new(&whole).err().into_iter().flatten() {
            let at = places.0.get(&error.place).copied().unwrap_or_else(|| section.start());
            section.report(at, error.text);
        }
    });
}

fn read_dialing(section: &mut Section<'_, '_>, plan: &mut PlanConfig, places: &mut Places) {
    let dialing = &mut plan.dialing;
    for (key, target, place) in [
        ("country", &mut dialing.country, Place::Country),
        ("international", &mut dialing.international, Place::International),
        ("national", &mut dialing.national, Place::National),
        ("outside", &mut dialing.outside, Place::Outside),
    ] {
        section.read(key, target, string);
        places.note(section, key, place);
    }
    section.tables("local", "[numbers.local]", |section| {
        section.require("digits", "a local form has no digits; expected digits = \"5-8\" or 7");
        section.require("add", "a local form has no add; expected one such as add = \"+4930\"");
        let (mut lengths, mut add) = (None, None);
        section.read_some("digits", &mut lengths, digits);
        section.read_some("add", &mut add, text);
        if let Some(((min, max), add)) = lengths.zip(add) {
            places.note(section, "add", Place::Local(dialing.local.len()));
            dialing.local.push(LocalForm { min, max, add });
        }
    });
}

fn read_emergency(section: &mut Section<'_, '_>, plan: &mut PlanConfig, places: &mut Places) {
    section.read_whole("emergency", &mut plan.emergency, any_array_of(text));
    places.note_each(section, "emergency", Place::Emergency);
    section.read_whole("emergency_trunks", &mut plan.emergency_trunks, any_array_of(text));
    places.note_each(section, "emergency_trunks", Place::EmergencyTrunk);
}

fn read_users(section: &mut Section<'_, '_>, plan: &mut PlanConfig, places: &mut Places) {
    section.tables("classes", "[numbers.classes]", |section| {
        section.require("name", "a class has no name; expected one such as name = \"premium\"");
        let (mut name, mut prefixes) = (String::new(), Vec::new());
        section.read("name", &mut name, class_name);
        section.read_whole("prefixes", &mut prefixes, any_array_of(text));
        let class = plan.classes.len();
        places.note_each(section, "prefixes", |index| Place::Class(class, index));
        plan.classes.push(NamedPrefixes { name, prefixes });
    });
    section.read_whole("default_rights", &mut plan.default_rights, any_array_of(text));
    places.note_each(section, "default_rights", Place::DefaultRight);
    section.tables("rights", "[numbers.rights]", |section| {
        section.require("users", "rights have no users; expected users = \"alice\" or \"1*\"");
        section.require("classes", "rights have no classes; expected classes = [\"internal\"]");
        let (mut users, mut classes) = (None, Vec::new());
        section.read_some("users", &mut users, text);
        section.read_whole("classes", &mut classes, any_array_of(text));
        if let Some(users) = users {
            places.note(section, "users", Place::Rights(plan.rights.len()));
            plan.rights.push(RightsConfig { users, classes });
        }
    });
    section.tables("identities", "[numbers.identities]", |section| {
        section.require("users", "an identity has no users; expected users = \"alice\" or \"1*\"");
        section.require("number", "an identity has no number; expected one as \"+493012345\"");
        let (mut users, mut number) = (None, None);
        section.read_some("users", &mut users, text);
        section.read_some("number", &mut number, text);
        if let Some((users, number)) = users.zip(number) {
            places.note(section, "number", Place::Identity(plan.identities.len()));
            plan.identities.push(IdentityConfig { users, number });
        }
    });
}

fn read_rules(section: &mut Section<'_, '_>, plan: &mut PlanConfig, places: &mut Places) {
    section.tables("rules", "[numbers.rules]", |section| {
        let index = plan.rules.len();
        let mut name = String::new();
        section.read("name", &mut name, text);
        let range = read_range(section);
        section.check(range.is_some(), &["name", "to", "trunks"], || {
            "a rule has no numbers; expected number = \"100\", or prefix = \"+49\"".to_owned()
        });
        let digits = read_digits(section);
        let mut trunks = None;
        section.read_whole("trunks", &mut trunks, |value| Ok(Some(uses(value)?)));
        let to = read_target(section);
        section.check(
            trunks.is_some() != to.is_some(),
            &["to", "trunks", "name", "prefix"],
            || "a rule has trunks or to; expected one of the two".to_owned(),
        );
        note_rule(section, places, if to.is_some() { "to" } else { "trunks" }, |part| {
            Place::Rule(index, part)
        });
        let target = trunks.map(TargetConfig::Trunks).or(to);
        if let Some((range, target)) = range.zip(target) {
            plan.rules.push(RuleConfig { name, range, digits, target });
        }
    });
    section.tables("did", "[numbers.did]", |section| {
        let index = plan.did.len();
        let (mut name, mut trunk) = (String::new(), None);
        section.read("name", &mut name, text);
        section.read_some("trunk", &mut trunk, text);
        let range = read_range(section).unwrap_or(Range::All);
        let digits = read_digits(section);
        section.require("to", "a did has no destination; expected one such as to = \"user:alice\"");
        let target = read_target(section);
        note_rule(section, places, "to", |part| Place::Did(index, part));
        if let Some(target) = target {
            plan.did.push(DidConfig { name, trunk, range, digits, target });
        }
    });
}

fn note_rule(
    section: &Section<'_, '_>,
    places: &mut Places,
    target: &str,
    place: impl Fn(Part) -> Place,
) {
    let range = if section.place_of("number").is_some() { "number" } else { "prefix" };
    let digits = if section.place_of("remove").is_some() { "remove" } else { "add" };
    for (key, part) in [
        ("name", Part::Name),
        ("trunk", Part::Trunk),
        (range, Part::Range),
        (digits, Part::Digits),
        (target, Part::Target),
    ] {
        places.note(section, key, place(part));
    }
}

fn read_range(section: &mut Section<'_, '_>) -> Option<Range> {
    let (mut number, mut prefix) = (None, None);
    section.read_some("number", &mut number, text);
    section.read_some("prefix", &mut prefix, text);
    section.check(number.is_none() || prefix.is_none(), &["prefix"], || {
        "number and prefix are both set; expected one of the two".to_owned()
    });
    number.map(Range::Number).or(prefix.map(Range::Prefix))
}

fn read_digits(section: &mut Section<'_, '_>) -> Digits {
    let mut digits = Digits::default();
    section.read("remove", &mut digits.remove, string);
    section.read("add", &mut digits.add, string);
    digits
}

fn read_target(section: &mut Section<'_, '_>) -> Option<TargetConfig> {
    let mut to = None;
    section.read_some("to", &mut to, |value| target(&text::<String>(value)?));
    to
}

fn read_limits(section: &mut Section<'_, '_>, plan: &mut PlanConfig, places: &mut Places) {
    let mut limits = Vec::new();
    section.tables("limits", "[numbers.limits]", |section| {
        let (mut users, mut trunk, mut class, mut strangers) = (None, None, None, None);
        section.read_some("users", &mut users, text);
        section.read_some("trunk", &mut trunk, text);
        section.read_some("class", &mut class, text);
        section.read_some("strangers", &mut strangers, strangers_of);
        let mut limit = Limit::default();
        section.read_some("calls", &mut limit.calls, whole());
        section.read_some("minutes", &mut limit.minutes, whole());
        section.read_some("duration", &mut limit.duration, |value| {
            Ok(u32::try_from(some_duration(value)?.as_secs()).unwrap_or(u32::MAX))
        });
        let accounts = [
            ("users", users.map(Account::User)),
            ("trunk", trunk.map(Account::Trunk)),
            ("class", class.map(Account::Class)),
            ("strangers", strangers),
        ];
        let mut accounts = accounts.into_iter().filter_map(|(key, it)| Some((key, it?)));
        let (first, second) = (accounts.next(), accounts.next());
        section.check(second.is_none() && first.is_some(), &["calls", "minutes", "users"], || {
            "a limit is for users, a trunk, a class or strangers; expected one of the four"
                .to_owned()
        });
        if let Some((key, account)) = first {
            places.note(section, key, Place::Limit(limits.len()));
            limits.push(LimitConfig { account, limit });
        }
    });
    if section.place_of("limits").is_some() {
        plan.limits = limits;
    }
}

/// Parses a text, which may be empty.
fn string(value: &DeValue<'_>) -> Result<String, String> {
    word(|text| Ok(text.to_owned()))(value)
}

/// Parses a number of digits, or a range of them such as `"5-8"`.
fn digits(value: &DeValue<'_>) -> Result<(usize, usize), String> {
    let Some(range) = value.as_str() else {
        return at_least(1)(value).map(|digits| (digits, digits));
    };
    let (min, max) = range.split_once('-').unwrap_or((range, range));
    min.parse().ok().zip(max.parse().ok()).ok_or_else(|| {
        format!("\"{range}\" is no number of digits; expected one such as 7 or \"5-8\"")
    })
}

/// Parses the strangers that a limit is for.
fn strangers_of(value: &DeValue<'_>) -> Result<Account, String> {
    word(|word| match word {
        "all" => Ok(Account::Strangers),
        "each" => Ok(Account::Stranger(String::new())),
        other => Err(unknown(other, "all, each")),
    })(value)
}

/// Parses the name of a class. It is shown in logs, and stored in lines.
fn class_name(value: &DeValue<'_>) -> Result<String, String> {
    let name: String = text(value)?;
    let is_one = name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_one.then_some(name).ok_or_else(|| {
        "expected a name of at most 64 letters, digits, hyphens and underscores".to_owned()
    })
}

/// Parses the trunks of a rule: names, or tables with digits of their own.
fn uses(array: &Spanned<DeValue<'_>>) -> Result<Vec<TrunkUse>, BadValue> {
    any_array_of(|value| {
        let Some(table) = value.as_table() else {
            return Ok(TrunkUse { trunk: text(value)?, digits: None });
        };
        let known = ["trunk", "remove", "add"];
        let wrong = "expected the name of a trunk, or { trunk = \"NAME\", remove = \"+\", add = \
            \"00\" }";
        if table.keys().any(|key| !known.contains(&&**key.get_ref())) {
            return Err(wrong.to_owned());
        }
        let get = |key: &str| table.get(key).map(|value| string(value.get_ref())).transpose();
        let trunk = get("trunk")?.ok_or_else(|| wrong.to_owned())?;
        let (remove, add) = (get("remove")?.unwrap_or_default(), get("add")?.unwrap_or_default());
        Ok(TrunkUse { trunk, digits: Some(Digits { remove, add }) })
    })(array)
}

/// Parses a destination.
fn target(to: &str) -> Result<TargetConfig, String> {
    let (kind, name) = match to.split_once(':') {
        Some((kind, name)) => (kind, Some(name.to_owned()).filter(|name| !name.is_empty())),
        None => (to, None),
    };
    let has_name = name.is_some();
    if has_name != to.contains(':') {
        return Err(format!("`{to}` ends after the colon; expected a name there"));
    }
    let service = |kind| Ok(TargetConfig::Service(kind, name.clone()));
    match (kind, has_name) {
        ("user", true) => Ok(TargetConfig::User(name.unwrap_or_default())),
        ("group", true) => Ok(TargetConfig::Group(name.unwrap_or_default())),
        ("internal", false) => Ok(TargetConfig::Inside),
        ("refuse", false) => Ok(TargetConfig::Refuse),
        ("voicemail", false) => service(ServiceKind::Voicemail),
        ("mailbox", _) => service(ServiceKind::Mailbox),
        ("conference", _) => service(ServiceKind::Conference),
        ("pickup", _) => service(ServiceKind::Pickup),
        ("announcement", true) => service(ServiceKind::Announcement),
        ("music", false) => service(ServiceKind::Music),
        _ => Err(unknown(to, TARGETS)),
    }
}
