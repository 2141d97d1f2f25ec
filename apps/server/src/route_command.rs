//! `barebell route`: the destination of a number by the numbering plan, without a call.

use crate::cli::RouteFlags;
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::settings::Settings;
use numbers::{Attempt, Caller, Outcome, Plan, Query, Refusal, Route, Service, TrunkId};
use serde::Serialize;

/// A route as JSON.
#[derive(Serialize)]
struct Shown<'r> {
    number: &'r str,
    caller: &'r str,
    steps: Vec<&'r str>,
    /// The destination in words.
    lines: Vec<String>,
    #[serde(flatten)]
    destination: Destination<'r>,
}

/// The destination of a route as JSON.
#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Destination<'r> {
    Name,
    User { user: &'r str },
    Group { group: &'r str },
    Service { service: &'static str, argument: Option<&'r str> },
    Trunks { attempts: Vec<ShownAttempt<'r>> },
    Refused { rule: &'r str, status: u16, reason: &'r str },
}

/// A call through a trunk as JSON.
#[derive(Serialize)]
struct ShownAttempt<'r> {
    trunk: &'r str,
    number: &'r str,
    class: &'r str,
    identity: Option<&'r str>,
}

impl<'r> Destination<'r> {
    fn of(outcome: &'r Outcome, plan: &'r Plan) -> Self {
        match outcome {
            Outcome::Name => Self::Name,
            Outcome::User(user) => Self::User { user },
            Outcome::Group(group) => Self::Group { group },
            Outcome::Service(service) => {
                let (service, argument) = words(service);
                Self::Service { service, argument }
            }
            Outcome::Trunks(attempts) => {
                let shown = |attempt: &'r Attempt| ShownAttempt {
                    trunk: plan.trunk_name(attempt.trunk),
                    number: &attempt.number,
                    class: plan.class_name(attempt.class),
                    identity: attempt.identity.as_deref(),
                };
                Self::Trunks { attempts: attempts.iter().map(shown).collect() }
            }
            Outcome::Refused(Refusal { rule, status, text }) => {
                Self::Refused { rule, status: *status, reason: text }
            }
        }
    }

    /// The lines of the destination.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Name => {
                vec!["a user of this name, if there is one: the plan does not apply".to_owned()]
            }
            Self::User { user } => vec![format!("user {user}")],
            Self::Group { group } => vec![format!("group {group}")],
            Self::Service { service, argument } => {
                vec![format!("service {service} {}", argument.unwrap_or_default())]
            }
            Self::Trunks { attempts } => {
                let line = |ShownAttempt { trunk, number, class, identity }: &ShownAttempt<'_>| {
                    let identity = identity.unwrap_or("that of the trunk");
                    format!(
                        "trunk {trunk}: {number}, class {class}, number of the caller {identity}"
                    )
                };
                attempts.iter().map(line).collect()
            }
            Self::Refused { rule, status, reason } => {
                vec![format!("refused by {rule} with {status}: {reason}")]
            }
        }
    }
}

/// The name of a service, and its argument.
fn words(service: &Service) -> (&'static str, Option<&str>) {
    match service {
        Service::Voicemail => ("voicemail", None),
        Service::Mailbox(user) => ("mailbox", Some(user)),
        Service::Conference(room) => ("conference", Some(room)),
        Service::Pickup(user) => ("pickup", Some(user)),
        Service::Announcement(name) => ("announcement", Some(name)),
        Service::Music => ("music", None),
    }
}

/// Prints the route of a number.
///
/// # Errors
/// [`Failure::Found`] if the call would be refused, or another failure if the configuration or a
/// flag cannot be used.
pub(crate) fn run(flags: &RouteFlags, out: &mut Out) -> Result<(), Failure> {
    run_with(&flags.place.settings()?, flags, out)
}

/// Prints the route of a number by `settings`.
///
/// # Errors
/// See [`run`].
pub(crate) fn run_with(
    settings: &Settings,
    flags: &RouteFlags,
    out: &mut Out,
) -> Result<(), Failure> {
    let domains = settings.engine_config().domains;
    let domain = domains.first().map_or("", |domain| domain.name.as_str());
    let plan = settings.plan(domain)?;
    let trunk = |name: &String| {
        plan.trunk_named(name).ok_or_else(|| {
            let known: Vec<_> = settings.trunks.iter().map(|trunk| trunk.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Failure::said(format!("the trunk `{name}` is unknown; the configuration has: {known}"))
        })
    };
    let down: Vec<TrunkId> = flags.trunk_down.iter().map(trunk).collect::<Result<_, _>>()?;
    let user = flags.from.as_ref().map(|user| match user.contains('@') {
        true => user.clone(),
        false => format!("{user}@{domain}"),
    });
    let caller = match (&user, &flags.trunk) {
        (Some(user), _) => Caller::User(user),
        (None, Some(name)) => Caller::Trunk(trunk(name)?),
        (None, None) => Caller::Stranger,
    };
    let unavailable = |trunk| down.contains(&trunk);
    let query = Query { dialed: flags.number.as_bytes(), caller, unavailable: &unavailable };
    let Route { outcome, steps } = plan.route(&query);
    let destination = Destination::of(&outcome, &plan);
    let caller = match caller {
        Caller::User(user) => user.to_owned(),
        Caller::Trunk(trunk) => format!("trunk {}", plan.trunk_name(trunk)),
        Caller::Stranger => "a stranger".to_owned(),
    };
    if flags.json {
        let steps = steps.iter().map(|step| step.text.as_str()).collect();
        let lines = destination.lines();
        let number = &flags.number;
        out.json(&Shown { number, caller: &caller, steps, lines, destination })?;
    } else {
        out.line(&printable(&format!("{caller} calls {}", flags.number)))?;
        for (number, step) in (1..).zip(&steps) {
            out.line(&printable(&format!("{number:>3}. {}", step.text)))?;
        }
        for line in destination.lines() {
            out.line(&printable(line.trim_end()))?;
        }
    }
    match outcome {
        Outcome::Refused(_) => Err(Failure::Found),
        _ => Ok(()),
    }
}
