//! A plan built from its values, with all errors of them.

use crate::class::{ClassSet, Classes};
use crate::config::{
    Digits, LimitConfig, Part, Place, PlanConfig, PlanError, Range, TargetConfig, TrunkUse,
};
use crate::number::{Dialing, Form, LocalForm, digits};
use crate::pattern::{PatternFault, PatternTable};
use crate::plan::{Identity, Plan, Rewrite, Rule, Target, Use};
use crate::prefix::PrefixTable;
use crate::route::TrunkId;
use crate::usage::{Account, UsageLimits};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The maximum number of digits of a country code.
const MAX_COUNTRY: usize = 3;

impl Plan {
    /// Builds a plan. Its routes do not depend on the order of the rules.
    ///
    /// # Errors
    /// All errors found; each names its rule.
    pub fn new(config: &PlanConfig) -> Result<Self, Vec<PlanError>> {
        let mut builder = Builder { config, errors: Vec::new() };
        let plan = builder.build();
        if builder.errors.is_empty() { Ok(plan) } else { Err(builder.errors) }
    }
}

/// The values, and the errors found so far.
struct Builder<'c> {
    config: &'c PlanConfig,
    errors: Vec<PlanError>,
}

impl Builder<'_> {
    fn build(&mut self) -> Plan {
        self.check_dialing();
        let classes = self.classes();
        let default_rights = self.set(&classes, &self.config.default_rights, Place::DefaultRight);
        let mut rights = PatternTable::default();
        for (index, one) in self.config.rights.iter().enumerate() {
            let set = self.set(&classes, &one.classes, |_| Place::Rights(index));
            self.insert(&mut rights, &one.users, set, Place::Rights(index));
        }
        let mut identities = PatternTable::default();
        for (index, one) in self.config.identities.iter().enumerate() {
            let place = Place::Identity(index);
            if let Some(identity) = self.identity(&one.number, place) {
                self.insert(&mut identities, &one.users, identity, place);
            }
        }
        let emergency = self.emergency();
        let emergency_trunks = self.emergency_trunks();
        let limits = self.limits(&classes);
        let mut plan = Plan {
            domain: self.config.domain.clone(),
            trunks: self.config.trunks.clone(),
            dialing: self.config.dialing.clone(),
            emergency,
            emergency_trunks,
            classes,
            default_rights,
            rights,
            identities,
            rules: PrefixTable::default(),
            did: self.config.trunks.iter().map(|_| PrefixTable::default()).collect(),
            limits,
        };
        self.add_rules(&mut plan);
        self.add_did(&mut plan);
        plan
    }

    fn error(&mut self, place: Place, text: String) {
        self.errors.push(PlanError { place, text });
    }

    fn check_dialing(&mut self) {
        let Dialing { country, international, national, outside, local } = &self.config.dialing;
        let is_code = country.len() <= MAX_COUNTRY && !country.starts_with('0');
        if !(is_digits(country) && is_code) {
            let text =
                format!("`{country}` is no country code; expected one to three digits as 49");
            self.error(Place::Country, text);
        }
        let prefixes = [
            (Place::International, "international", international),
            (Place::National, "national", national),
            (Place::Outside, "outside", outside),
        ];
        for (place, name, prefix) in prefixes {
            if !is_digits(prefix) {
                self.error(place, format!("{name}: `{prefix}` has other characters than digits"));
            }
            let needs_country = place != Place::Outside;
            if needs_country && !prefix.is_empty() && country.is_empty() {
                let text = format!("{name} needs country, the country code that it belongs to");
                self.error(place, text);
            }
        }
        if international == national && !national.is_empty() {
            let text = format!("`{national}` is the prefix of international numbers, too");
            self.error(Place::National, text);
        }
        for (index, form) in local.iter().enumerate() {
            let place = Place::Local(index);
            if form.min == 0 || form.min > form.max {
                let text = format!("`{}-{}` is no range of lengths", form.min, form.max);
                self.error(place, text);
            }
            if !is_global_prefix(&form.add) {
                let text = format!("`{}` is no beginning of an E.164 number, as +4930", form.add);
                self.error(place, text);
            }
            let overlaps = |other: &LocalForm| other.min <= form.max && form.min <= other.max;
            if local[..index].iter().any(overlaps) {
                let text = format!(
                    "the lengths {}-{} overlap those of another local form",
                    form.min, form.max
                );
                self.error(place, text);
            }
        }
    }

    fn classes(&mut self) -> Classes {
        let mut classes = Classes::new(&self.config.dialing.country);
        let mut known: Vec<String> = Vec::new();
        for (index, one) in self.config.classes.iter().enumerate() {
            let Some(class) = classes.add(&one.name) else {
                let text = format!("class `{}`: there are too many classes", one.name);
                self.error(Place::Class(index, 0), text);
                continue;
            };
            for (number, prefix) in one.prefixes.iter().enumerate() {
                let place = Place::Class(index, number);
                let name = format!("class `{}`", one.name);
                let Some(key) = self.prefix_key(place, &name, prefix) else { continue };
                if known.contains(&key) {
                    self.error(place, format!("{name}: {key} belongs to another class, too"));
                }
                classes.set(key.clone(), class);
                known.push(key);
            }
        }
        classes
    }

    fn set(
        &mut self,
        classes: &Classes,
        names: &[String],
        place: impl Fn(usize) -> Place,
    ) -> ClassSet {
        let mut set = ClassSet::default();
        for (index, name) in names.iter().enumerate() {
            match classes.named(name) {
                Some(class) => set.insert(class),
                None => {
                    let known = classes.names().join(", ");
                    let text = format!("class `{name}` is unknown; expected one of: {known}");
                    self.error(place(index), text);
                }
            }
        }
        set
    }

    fn insert<T>(&mut self, table: &mut PatternTable<T>, users: &str, value: T, place: Place) {
        match table.insert(users, value) {
            Ok(()) => {}
            Err(PatternFault::Repeated) => {
                self.error(place, format!("`{users}` is repeated; remove one"));
            }
            Err(PatternFault::Form) => {
                let text = format!(
                    "`{users}` is no pattern of users; expected one as alice, alice@example.org, \
                     1* or *@example.org"
                );
                self.error(place, text);
            }
        }
    }

    fn limits(&mut self, classes: &Classes) -> UsageLimits {
        let mut limits = UsageLimits::default();
        for (index, LimitConfig { account, limit }) in self.config.limits.iter().enumerate() {
            let place = Place::Limit(index);
            match account {
                Account::User(users) => self.insert(&mut limits.users, users, *limit, place),
                Account::Trunk(trunk) => {
                    self.trunk(trunk, place, "limit");
                }
                Account::Class(class) => {
                    self.set(classes, core::slice::from_ref(class), |_| place);
                }
                Account::Strangers => limits.strangers = *limit,
                Account::Stranger(_) => limits.each_stranger = *limit,
            }
            if !matches!(account, Account::User(_))
                && limits.others.insert(account.clone(), *limit).is_some()
            {
                self.error(place, format!("the limit of {account} is repeated; remove one"));
            }
        }
        limits
    }

    fn identity(&mut self, number: &str, place: Place) -> Option<Identity> {
        let (start, is_open) = match number.strip_suffix('*') {
            Some(start) => (start, true),
            None => (number, false),
        };
        let form = self.config.dialing.form(start);
        if start.starts_with('+') && form == Form::Global(start.to_owned()) {
            return Some(Identity { number: start.to_owned(), is_open });
        }
        let text =
            format!("`{number}` is no E.164 number; expected one as +493012345 or +4930123*");
        self.error(place, text);
        None
    }

    fn emergency(&mut self) -> Vec<String> {
        let mut numbers = Vec::new();
        for (index, number) in self.config.emergency.iter().enumerate() {
            if number.is_empty() || !is_digits(number) {
                let text = format!("emergency number `{number}`: expected digits, as 112");
                self.error(Place::Emergency(index), text);
            } else if numbers.contains(number) {
                let text = format!("emergency number {number} is repeated; remove one");
                self.error(Place::Emergency(index), text);
            } else {
                numbers.push(number.clone());
            }
        }
        // Without a trunk the digits may be those of a phone.
        if self.config.trunks.is_empty() { Vec::new() } else { numbers }
    }

    fn emergency_trunks(&mut self) -> Vec<TrunkId> {
        let named = &self.config.emergency_trunks;
        if named.is_empty() {
            return (0..self.config.trunks.len()).filter_map(trunk_id).collect();
        }
        let mut trunks = Vec::new();
        for (index, name) in named.iter().enumerate() {
            trunks.extend(self.trunk(name, Place::EmergencyTrunk(index), "emergency calls"));
        }
        trunks
    }

    fn trunk(&mut self, name: &str, place: Place, user: &str) -> Option<TrunkId> {
        let index = self.config.trunks.iter().position(|trunk| trunk == name);
        let found = index.and_then(trunk_id);
        if found.is_none() {
            let known = match self.config.trunks.is_empty() {
                true => "add it to [[trunks]]".to_owned(),
                false => format!("expected one of: {}", self.config.trunks.join(", ")),
            };
            self.error(place, format!("{user}: trunk `{name}` is unknown; {known}"));
        }
        found
    }

    fn add_rules(&mut self, plan: &mut Plan) {
        let mut names: Vec<String> = Vec::new();
        for (index, rule) in self.config.rules.iter().enumerate() {
            let at = |part| Place::Rule(index, part);
            let name = rule_name("rule", &rule.name, &rule.range);
            let key = match &rule.range {
                Range::Number(number) => {
                    self.number_key(at(Part::Range), &name, number, &self.config.dialing)
                }
                Range::Prefix(prefix) => self.prefix_key(at(Part::Range), &name, prefix),
                Range::All => {
                    let text = format!("{name}: expected a number or a prefix, as +");
                    self.error(at(Part::Range), text);
                    None
                }
            };
            let Some(key) = key else { continue };
            let is_whole = matches!(rule.range, Range::Number(_));
            if is_whole && plan.emergency_number(&key).is_some() {
                let text = format!("{name}: {key} is an emergency number, which no rule changes");
                self.error(at(Part::Range), text);
            }
            let target = self.target(&rule.target, &rule.digits, &key, &name, &at);
            let Some(target) = target else { continue };
            if names.contains(&name) {
                self.error(at(Part::Name), format!("{name} is repeated; expected another name"));
            }
            names.push(name.clone());
            let built = Rule { name: name.clone(), target };
            if let Some(former) = plan.rules.insert(key.clone(), is_whole, built) {
                let text = format!("{name}: {key} is already that of {}", former.name);
                self.error(at(Part::Range), text);
            }
        }
    }

    fn add_did(&mut self, plan: &mut Plan) {
        // Those of all trunks come first, and are replaced by those of one. Inside of the office
        // the own number leads to the destination for the first trunk.
        let mut order: Vec<usize> = (0..self.config.did.len()).collect();
        order.sort_by_key(|&index| self.config.did[index].trunk.is_some());
        let mut known: Vec<(Option<TrunkId>, String, bool)> = Vec::new();
        let mut own: Vec<(Option<TrunkId>, String, bool, Rule)> = Vec::new();
        for index in order {
            let did = &self.config.did[index];
            let at = |part| Place::Did(index, part);
            let kind = match &did.trunk {
                Some(trunk) => format!("did of {trunk}"),
                None => "did".to_owned(),
            };
            let name = rule_name(&kind, &did.name, &did.range);
            let trunk = match &did.trunk {
                Some(trunk) => match self.trunk(trunk, at(Part::Trunk), &name) {
                    Some(trunk) => Some(trunk),
                    None => continue,
                },
                None => None,
            };
            let incoming = plan.incoming_dialing();
            let key = match &did.range {
                Range::Number(number) => self.number_key(at(Part::Range), &name, number, &incoming),
                Range::Prefix(prefix) => self.prefix_key(at(Part::Range), &name, prefix),
                Range::All => Some(String::new()),
            };
            let Some(key) = key else { continue };
            let is_whole = matches!(did.range, Range::Number(_));
            if matches!(did.target, TargetConfig::Trunks(_)) {
                let text = format!("{name}: an incoming call does not leave through a trunk");
                self.error(at(Part::Target), text);
                continue;
            }
            let target = self.target(&did.target, &did.digits, &key, &name, &at);
            let Some(target) = target else { continue };
            let entry = (trunk, key.clone(), is_whole);
            if known.contains(&entry) {
                let text = format!("{name}: `{key}` is already that of another did");
                self.error(at(Part::Range), text);
            }
            known.push(entry);
            let rule = Rule { name, target };
            for (place, table) in plan.did.iter_mut().enumerate() {
                if trunk.is_none() || trunk == trunk_id(place) {
                    table.insert(key.clone(), is_whole, rule.clone());
                }
            }
            if key.len() > 1 && key.starts_with('+') {
                if plan.rules.contains(&key, is_whole) {
                    let text = format!("{}: {key} is that of a rule, too", rule.name);
                    self.error(at(Part::Range), text);
                }
                own.push((trunk, key, is_whole, rule));
            }
        }
        own.sort_by_key(|(trunk, ..)| *trunk);
        for (_, key, is_whole, rule) in own {
            if !plan.rules.contains(&key, is_whole) {
                plan.rules.insert(key, is_whole, rule);
            }
        }
    }

    /// The key of a whole number.
    fn number_key(
        &mut self,
        place: Place,
        name: &str,
        number: &str,
        dialing: &Dialing,
    ) -> Option<String> {
        match digits(number.as_bytes()).map(|number| dialing.form(&number)) {
            Some(Form::Global(key) | Form::Bare(key)) => Some(key),
            Some(Form::Invalid(_)) | None => {
                let text = format!(
                    "{name}: `{number}` is no number; expected digits, as 100, or an E.164 number, \
                     as +493012345"
                );
                self.error(place, text);
                None
            }
        }
    }

    /// The key of a beginning of numbers. One that is converted when it is dialed would never be
    /// found.
    fn prefix_key(&mut self, place: Place, name: &str, prefix: &str) -> Option<String> {
        let dialing = Dialing { local: Vec::new(), ..self.config.dialing.clone() };
        let converted = [
            (&dialing.international, "+".to_owned()),
            (&dialing.national, ["+", &dialing.country].concat()),
        ];
        let converted = converted.into_iter().find_map(|(code, global)| {
            let is_it =
                !code.is_empty() && prefix == [dialing.outside.as_str(), code.as_str()].concat();
            is_it.then_some(global)
        });
        let key = match converted {
            Some(global) => Err(Some(global)),
            None if prefix == "+" => Ok(prefix.to_owned()),
            None => match digits(prefix.as_bytes()).map(|digits| dialing.form(&digits)) {
                Some(Form::Global(global)) if global != prefix => Err(Some(global)),
                Some(Form::Global(key) | Form::Bare(key)) if key == prefix => Ok(key),
                _ => Err(None),
            },
        };
        match key {
            Ok(key) => return Some(key),
            Err(Some(global)) => self.error(
                place,
                format!(
                    "{name}: numbers with the prefix {prefix} are converted before rules are \
                     looked up; write {global}"
                ),
            ),
            Err(None) => self.error(
                place,
                format!(
                    "{name}: `{prefix}` is no prefix; expected digits, as 2 or *97, or the \
                     beginning of an E.164 number, as +49"
                ),
            ),
        }
        None
    }

    fn target(
        &mut self,
        target: &TargetConfig,
        digits: &Digits,
        key: &str,
        name: &str,
        at: &dyn Fn(Part) -> Place,
    ) -> Option<Target> {
        let rewrite = self.rewrite(digits, key, name, at(Part::Digits));
        let to_named = |named: &String| (!named.is_empty()).then(|| named.clone());
        let missing = |what: &str| format!("{name}: expected the name of a {what}");
        let built = match target {
            TargetConfig::Trunks(uses) => {
                let mut built = Vec::new();
                for TrunkUse { trunk, digits: own } in uses {
                    let trunk = self.trunk(trunk, at(Part::Target), name);
                    let rewrite = match own {
                        Some(own) => self.rewrite(own, key, name, at(Part::Target)),
                        None => rewrite.clone(),
                    };
                    built.extend(trunk.zip(rewrite).map(|(trunk, rewrite)| Use { trunk, rewrite }));
                }
                if uses.is_empty() {
                    self.error(at(Part::Target), format!("{name}: expected at least one trunk"));
                }
                Target::Trunks(built)
            }
            TargetConfig::User(user) => match to_named(user) {
                Some(user) => Target::User(user),
                None => {
                    self.error(at(Part::Target), missing("user"));
                    return None;
                }
            },
            TargetConfig::Group(group) => match to_named(group) {
                Some(group) => Target::Group(group),
                None => {
                    self.error(at(Part::Target), missing("group"));
                    return None;
                }
            },
            TargetConfig::Service(kind, argument) => {
                Target::Service(*kind, argument.clone(), rewrite.clone()?)
            }
            TargetConfig::Inside => Target::Inside(rewrite.clone()?),
            TargetConfig::Refuse => Target::Refuse,
        };
        rewrite.map(|_| built)
    }

    fn rewrite(&mut self, digits: &Digits, key: &str, name: &str, place: Place) -> Option<Rewrite> {
        let Digits { remove, add } = digits;
        if !key.starts_with(&**remove) {
            let text = format!(
                "{name}: remove `{remove}` is not a beginning of {key}; expected one of its \
                 beginnings"
            );
            self.error(place, text);
            return None;
        }
        let tail = add.strip_prefix('+').unwrap_or(add);
        if !tail.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'*' | b'#')) {
            let text = format!("{name}: add `{add}` has other characters than digits, * # and +");
            self.error(place, text);
            return None;
        }
        Some(Rewrite { removed: remove.len(), add: add.clone() })
    }
}

/// The name of a rule: its own, or one made of its numbers.
fn rule_name(kind: &str, name: &str, range: &Range) -> String {
    match (name.is_empty(), range) {
        (false, _) => name.to_owned(),
        (true, Range::Number(number)) => format!("{kind} {number}"),
        (true, Range::Prefix(prefix)) => format!("{kind} {prefix}*"),
        (true, Range::All) => format!("{kind} default"),
    }
}

fn trunk_id(index: usize) -> Option<TrunkId> {
    u8::try_from(index).ok().map(TrunkId)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_global_prefix(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    matches!(digits.as_bytes().first(), Some(b'1'..=b'9')) && is_digits(digits)
}
