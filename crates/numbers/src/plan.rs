//! The plan, and the route of a call.

use crate::class::{ClassId, ClassSet, Classes};
use crate::config::{PlanConfig, ServiceKind};
use crate::number::{Dialing, Form, digits};
use crate::pattern::PatternTable;
use crate::prefix::PrefixTable;
use crate::route::{Attempt, Caller, Outcome, Query, Refusal, Route, Service, Step, TrunkId};
use crate::usage::UsageLimits;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The plan of an office. The default one has no rules.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) domain: String,
    pub(crate) trunks: Vec<String>,
    pub(crate) dialing: Dialing,
    pub(crate) emergency: Vec<String>,
    pub(crate) emergency_trunks: Vec<TrunkId>,
    pub(crate) classes: Classes,
    pub(crate) default_rights: ClassSet,
    pub(crate) rights: PatternTable<ClassSet>,
    pub(crate) identities: PatternTable<Identity>,
    /// The rules for dialed numbers, and the own numbers of the office.
    pub(crate) rules: PrefixTable<Rule>,
    /// The rules for incoming calls of each trunk.
    pub(crate) did: Vec<PrefixTable<Rule>>,
    pub(crate) limits: UsageLimits,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) target: Target,
}

/// The destination of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Trunks(Vec<Use>),
    User(String),
    Group(String),
    Service(ServiceKind, Option<String>, Rewrite),
    Inside(Rewrite),
    Refuse,
}

/// A trunk, and the number for it.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) trunk: TrunkId,
    pub(crate) rewrite: Rewrite,
}

/// Digits removed and added.
#[derive(Clone, Debug)]
pub(crate) struct Rewrite {
    /// The length of the beginning that is removed.
    pub(crate) removed: usize,
    pub(crate) add: String,
}

impl Rewrite {
    fn apply(&self, number: &str) -> String {
        [&*self.add, number.get(self.removed..).unwrap_or_default()].concat()
    }
}

/// The number that users show outside.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) number: String,
    /// True if the name of the user follows.
    pub(crate) is_open: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self::new(&PlanConfig::default()).expect("the default values are valid")
    }
}

/// The user that calls through a trunk.
#[derive(Clone, Copy)]
struct Payer<'q> {
    user: &'q str,
    rights: ClassSet,
}

/// The steps of a decision.
type Steps = Vec<Step>;

impl Plan {
    /// The destination of a call, with the steps that lead to it.
    ///
    /// Emergency numbers of users come first: rights, rules and the state of trunks do not matter.
    #[must_use]
    pub fn route(&self, query: &Query<'_>) -> Route {
        let mut steps = Vec::new();
        let outcome = match query.caller {
            Caller::User(user) => self.outgoing(query, Some(user), &mut steps),
            Caller::Stranger => self.outgoing(query, None, &mut steps),
            Caller::Trunk(trunk) => self.incoming(query.dialed, trunk, &mut steps),
        };
        Route { outcome, steps }
    }

    /// The name of a trunk.
    #[must_use]
    pub fn trunk_name(&self, trunk: TrunkId) -> &str {
        self.trunks.get(usize::from(trunk.0)).map_or("unknown", String::as_str)
    }

    /// The trunk of a name.
    #[must_use]
    pub fn trunk_named(&self, name: &str) -> Option<TrunkId> {
        let index = self.trunks.iter().position(|trunk| trunk == name)?;
        u8::try_from(index).ok().map(TrunkId)
    }

    /// The name of a class.
    #[must_use]
    pub fn class_name(&self, class: ClassId) -> &str {
        self.classes.name(class)
    }

    /// The limits of use.
    #[must_use]
    pub fn limits(&self) -> &UsageLimits {
        &self.limits
    }

    /// The emergency number that `dialed` is: as it is, after the digits for an outside line, and
    /// with the own country code.
    #[must_use]
    pub fn emergency_number(&self, dialed: &str) -> Option<&str> {
        let outside = dialed.strip_prefix(&*self.dialing.outside).unwrap_or_default();
        let form = self.dialing.form(dialed);
        let is_it = |number: &&String| {
            dialed == **number
                || outside == **number
                || matches!(&form, Form::Global(global) if global.strip_prefix('+')
                    .and_then(|digits| digits.strip_prefix(&*self.dialing.country))
                    .is_some_and(|rest| !self.dialing.country.is_empty() && rest == **number))
        };
        self.emergency.iter().find(is_it).map(String::as_str)
    }

    /// The rules for the numbers of incoming calls: without digits for an outside line.
    pub(crate) fn incoming_dialing(&self) -> Dialing {
        Dialing { outside: String::new(), local: Vec::new(), ..self.dialing.clone() }
    }

    fn outgoing(&self, query: &Query<'_>, user: Option<&str>, steps: &mut Steps) -> Outcome {
        let dialed = digits(query.dialed);
        if let (Some(user), Some(dialed)) = (user, &dialed)
            && let Some(number) = self.emergency_number(dialed)
        {
            return self.emergency_call(number, user, query.unavailable, steps);
        }
        let rights = self.rights_of(user, steps);
        let Some(dialed) = dialed else {
            say(steps, "not a number: a user of this name".to_owned());
            return self.inside(Outcome::Name, "numbers", rights);
        };
        let number = match self.dialing.form(&dialed) {
            Form::Global(number) => {
                say(steps, format!("{dialed} is the E.164 number {number}"));
                number
            }
            Form::Bare(number) => {
                say(steps, format!("{number} is an internal number"));
                number
            }
            Form::Invalid(number) => {
                say(steps, format!("{number} is no E.164 number: a user of this name"));
                return self.inside(Outcome::Name, "numbers", rights);
            }
        };
        let Some((key, rule)) = self.rules.longest(&number) else {
            say(steps, "no rule: a user of this name".to_owned());
            return self.inside(Outcome::Name, "numbers", rights);
        };
        say(
            steps,
            match key == number {
                true => format!("{}: the rule of {key}", rule.name),
                false => format!("{}: {key} is its longest prefix with a rule", rule.name),
            },
        );
        match &rule.target {
            Target::Trunks(uses) => match user {
                Some(user) => {
                    let payer = Payer { user, rights };
                    self.through(query, payer, &number, rule, uses, steps)
                }
                None => refused(&rule.name, 403, "a stranger does not call through trunks"),
            },
            _ if user.is_none() => self.of_outsider(rule, &number, false, steps),
            _ => {
                let outcome = self.within(rule, &number, steps);
                self.inside(outcome, &rule.name, rights)
            }
        }
    }

    /// An emergency call: all its trunks, those that are down last.
    fn emergency_call(
        &self,
        number: &str,
        user: &str,
        unavailable: &dyn Fn(TrunkId) -> bool,
        steps: &mut Steps,
    ) -> Outcome {
        say(steps, format!("{number} is an emergency number: no right, rule or limit applies"));
        let (down, up): (Vec<_>, Vec<_>) =
            self.emergency_trunks.iter().copied().partition(|&trunk| unavailable(trunk));
        let attempts = up.iter().chain(&down).map(|&trunk| {
            let is_down = if down.contains(&trunk) { ", which is down" } else { "" };
            say(steps, format!("trunk {}{is_down}: {number}", self.trunk_name(trunk)));
            Attempt {
                trunk,
                number: number.to_owned(),
                identity: self.identity(user, trunk),
                class: ClassId::EMERGENCY,
            }
        });
        Outcome::Trunks(attempts.collect())
    }

    /// A call through the trunks of a rule.
    fn through(
        &self,
        query: &Query<'_>,
        Payer { user, rights }: Payer<'_>,
        number: &str,
        rule: &Rule,
        uses: &[Use],
        steps: &mut Steps,
    ) -> Outcome {
        let mut attempts = Vec::new();
        let mut refusal = None;
        for Use { trunk, rewrite } in uses {
            let (trunk, sent) = (*trunk, rewrite.apply(number));
            let name = self.trunk_name(trunk);
            if !sent.bytes().any(|byte| byte.is_ascii_digit()) {
                return refused(&rule.name, 484, "no digits remain for the provider");
            }
            let class = self.classes.of(&self.dialing, number, &sent);
            let class_name = self.class_name(class);
            if !rights.contains(class) {
                say(steps, format!("class {class_name}: {user} has no right to call it"));
                let text = format!("{user} has no right to call numbers of class {class_name}");
                refusal.get_or_insert((403, text));
                continue;
            }
            say(steps, format!("class {class_name}: {user} may call it"));
            if (query.unavailable)(trunk) {
                say(steps, format!("trunk {name} is down"));
                // Silence of a trunk is more useful to know than a right of another one.
                refusal = Some((503, "no trunk is available".to_owned()));
                continue;
            }
            say(steps, format!("trunk {name}: {sent}"));
            let identity = self.identity(user, trunk);
            attempts.push(Attempt { trunk, number: sent, identity, class });
        }
        match refusal {
            Some((status, text)) if attempts.is_empty() => refused(&rule.name, status, &text),
            _ => Outcome::Trunks(attempts),
        }
    }

    /// A call to a destination of the office.
    fn within(&self, rule: &Rule, number: &str, steps: &mut Steps) -> Outcome {
        match &rule.target {
            Target::Inside(rewrite) => {
                let extension = rewrite.apply(number);
                if extension.is_empty() {
                    return refused(&rule.name, 484, "no digits remain for an internal number");
                }
                // A rule that leads inside or outside again is not followed: no loops.
                let found = self.rules.longest(&extension).filter(|_| !extension.starts_with('+'));
                match found {
                    None => {
                        say(steps, format!("internal number {extension}: a user of this name"));
                        Outcome::User(extension)
                    }
                    Some((_, next)) => {
                        say(steps, format!("internal number {extension}: {}", next.name));
                        match &next.target {
                            Target::Inside(_) | Target::Trunks(_) => {
                                refused(&next.name, 403, "the call was already led inside")
                            }
                            _ => self.within(next, &extension, steps),
                        }
                    }
                }
            }
            Target::User(user) => {
                say(steps, format!("user {user}"));
                Outcome::User(user.clone())
            }
            Target::Group(group) => {
                say(steps, format!("group {group}"));
                Outcome::Group(group.clone())
            }
            Target::Service(kind, argument, rewrite) => {
                let rest = || argument.clone().unwrap_or_else(|| rewrite.apply(number));
                let service = service(*kind, rest);
                say(steps, format!("service {service}"));
                Outcome::Service(service)
            }
            Target::Refuse => refused(&rule.name, 403, "the rule refuses the call"),
            Target::Trunks(_) => refused(&rule.name, 403, "the rule leads outside"),
        }
    }

    /// A call of a trunk or a stranger. Services are reached only by a rule for incoming calls that
    /// names them.
    fn of_outsider(
        &self,
        rule: &Rule,
        number: &str,
        may_use_services: bool,
        steps: &mut Steps,
    ) -> Outcome {
        let is_named = matches!(rule.target, Target::Service(..)) && may_use_services;
        match self.within(rule, number, steps) {
            Outcome::Service(_) if !is_named => {
                refused(&rule.name, 403, "the service is for callers of the office")
            }
            outcome => outcome,
        }
    }

    /// An incoming call.
    fn incoming(&self, dialed: &[u8], trunk: TrunkId, steps: &mut Steps) -> Outcome {
        let name = self.trunk_name(trunk);
        let number = digits(dialed).filter(|number| !number.contains(['*', '#']));
        let number = number.unwrap_or_default();
        let global = match self.incoming_dialing().form(&number) {
            Form::Global(number) | Form::Bare(number) => number,
            Form::Invalid(_) => number.clone(),
        };
        // Providers also leave the `+` out.
        let with_plus = ["+", &number].concat();
        let candidates = [&global, &with_plus];
        let found = self.did.get(usize::from(trunk.0)).and_then(|table| {
            let found = candidates.into_iter().filter_map(|number| {
                let (key, rule) = table.longest(number)?;
                Some((number, key, rule))
            });
            // Of equal ones the first.
            found.rev().max_by_key(|(number, key, _)| (number == key, key.len()))
        });
        let Some((number, _, rule)) = found else {
            let text = format!("no did of trunk {name} has the number {number}");
            say(steps, text.clone());
            return refused("did", 404, &text);
        };
        say(steps, format!("trunk {name}, number {number}: {}", rule.name));
        self.of_outsider(rule, number, true, steps)
    }

    /// `outcome`, if the caller may call within the office.
    fn inside(&self, outcome: Outcome, rule: &str, rights: ClassSet) -> Outcome {
        match outcome {
            Outcome::Refused(_) => outcome,
            _ if rights.contains(ClassId::INTERNAL) => outcome,
            _ => refused(rule, 403, "the caller has no right to call within the office"),
        }
    }

    fn rights_of(&self, user: Option<&str>, steps: &mut Steps) -> ClassSet {
        let Some(user) = user else {
            let mut rights = ClassSet::default();
            rights.insert(ClassId::INTERNAL);
            return rights;
        };
        match self.rights.get(user) {
            Some((pattern, rights)) => {
                say(steps, format!("{user} has the rights of {pattern}"));
                *rights
            }
            None => {
                say(steps, format!("{user} has the default rights"));
                self.default_rights
            }
        }
    }

    /// The number that a user shows on a trunk: the configured one, else the own number of the
    /// user.
    fn identity(&self, user: &str, trunk: TrunkId) -> Option<String> {
        let name = user.split_once('@').map_or(user, |(name, _)| name);
        if let Some((_, identity)) = self.identities.get(user) {
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            return match identity.is_open {
                false => Some(identity.number.clone()),
                true if is_number => Some([&*identity.number, name].concat()),
                true => None,
            };
        }
        let table = self.did.get(usize::from(trunk.0))?;
        let mut own = table.numbers().filter(|(number, _)| number.starts_with('+'));
        own.find(|(_, rule)| matches!(&rule.target, Target::User(to) if self.is_user(to, user)))
            .map(|(number, _)| number.to_owned())
    }

    /// Returns true if `named`, with or without a domain, is `user`.
    fn is_user(&self, named: &str, user: &str) -> bool {
        if named.contains('@') {
            return named == user;
        }
        let (name, domain) = user.split_once('@').unwrap_or((user, ""));
        named == name && (self.domain.is_empty() || domain == self.domain)
    }
}

fn say(steps: &mut Steps, text: String) {
    steps.push(Step { text });
}

fn refused(rule: &str, status: u16, text: &str) -> Outcome {
    Outcome::Refused(Refusal { rule: rule.to_owned(), status, text: text.to_owned() })
}

fn service(kind: ServiceKind, argument: impl FnOnce() -> String) -> Service {
    match kind {
        ServiceKind::Voicemail => Service::Voicemail,
        ServiceKind::Mailbox => Service::Mailbox(argument()),
        ServiceKind::Conference => Service::Conference(argument()),
        ServiceKind::Pickup => Service::Pickup(argument()),
        ServiceKind::Announcement => Service::Announcement(argument()),
        ServiceKind::Music => Service::Music,
    }
}
