//! `barebell route`: the destination of a number by the numbering plan, without a call.

use crate::access::Access;
use crate::admin::ask::Ask;
use crate::admin::{Request, UserFound};
use crate::cli::RouteFlags;
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::remote::Remote;
use crate::settings::Settings;
use numbers::{Attempt, Caller, Outcome, Plan, Query, Refusal, Route, Service, TrunkId};
use serde::Serialize;
use serde_json::Value;
use sip_server::{Config, MediaService, Watch};

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
    fn of(led: &'r Led, plan: &'r Plan) -> Self {
        let outcome = match led {
            Led::ByPlan(outcome) => outcome,
            Led::ToMediaServer { service, argument } => {
                let argument = argument.as_deref();
                return Self::Service { service, argument };
            }
        };
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

/// A call that is led.
enum Led {
    /// By the plan, or to a name of the house.
    ByPlan(Outcome),
    /// To a service of the media server.
    ToMediaServer { service: &'static str, argument: Option<String> },
}

/// The names of the house, which calls by name go to, and those that a number leads to.
struct House<'h> {
    config: &'h Config,
    /// The default domain.
    domain: &'h str,
    is_user: &'h dyn Fn(&str) -> Option<bool>,
}

impl House<'_> {
    /// The destination of a call by `caller` to `number`, for which the plan has the `outcome`.
    fn lead(&self, outcome: Outcome, number: &str, caller: Caller<'_>) -> Led {
        let name = match &outcome {
            Outcome::Name => number,
            Outcome::User(name) => name,
            _ => return Led::ByPlan(outcome),
        };
        let watching = &self.config.watching;
        let picked_up = name.strip_prefix(&watching.pickup).filter(|user| {
            let has_pickup = !watching.pickup.is_empty() && watching.calls == Watch::Calls;
            has_pickup && !user.is_empty() && matches!(caller, Caller::User(_))
        });
        if let Some(user) = picked_up {
            return Led::ByPlan(Outcome::Service(Service::Pickup(user.to_owned())));
        }
        let address = match name.contains('@') {
            true => name.to_owned(),
            false => format!("{name}@{}", self.domain),
        };
        let local = address.split('@').next().unwrap_or_default();
        if let Some((service, rest)) = self.config.media_services.find(local.as_bytes()) {
            let domain = &address[local.len()..];
            let rest = String::from_utf8_lossy(rest);
            return self.lead_to_media_server(service, (local, &rest, domain), caller);
        }
        Led::ByPlan(if self.config.groups.iter().any(|group| group.name == address) {
            Outcome::Group(name.to_owned())
        } else {
            match (self.is_user)(&address) {
                Some(true) => Outcome::User(name.to_owned()),
                Some(false) => {
                    let text = format!("there is neither a user nor a group {address}");
                    refused("users", 404, text)
                }
                None => outcome,
            }
        })
    }

    /// The destination of a call by `caller` to `service`. Its name is `name`, which ends in
    /// `rest`, in `domain`, which begins with `@`.
    fn lead_to_media_server(
        &self,
        service: MediaService,
        (name, rest, domain): (&str, &str, &str),
        caller: Caller<'_>,
    ) -> Led {
        let services = &self.config.media_services;
        if services.is_for_users(service) && !matches!(caller, Caller::User(_)) {
            let text = format!("only users may call {name}");
            return Led::ByPlan(refused("media_server", 403, text));
        }
        let has_mailbox = |address: &str| {
            let user = address.split('@').next().unwrap_or_default();
            services.has_mailbox(user.as_bytes()) && (self.is_user)(address) != Some(false)
        };
        let mailbox = match (service, caller) {
            (MediaService::Deposit, _) => Some([rest, domain].concat()),
            (MediaService::Retrieval, Caller::User(user)) => Some(user.to_owned()),
            _ => None,
        };
        if let Some(user) = mailbox.filter(|user| !has_mailbox(user)) {
            let text = format!("{user} has no mailbox");
            return Led::ByPlan(refused("media_server", 404, text));
        }
        let (service, argument) = match service {
            MediaService::Echo => ("echo", None),
            MediaService::Music => ("music", None),
            MediaService::Announcement => ("announcement", Some(rest.to_owned())),
            MediaService::Conference => ("conference", Some(rest.to_owned())),
            MediaService::Deposit => ("mailbox", Some(rest.to_owned())),
            MediaService::Retrieval => ("voicemail", None),
            MediaService::Park => match name.strip_suffix('0') {
                Some(slots) => ("free_slot", Some(format!("{slots}1 to {slots}9"))),
                None => ("slot", Some(name.to_owned())),
            },
        };
        Led::ToMediaServer { service, argument }
    }
}

fn refused(rule: &str, status: u16, text: String) -> Outcome {
    Outcome::Refused(Refusal { rule: rule.to_owned(), status, text })
}

/// Prints the route of a number.
///
/// # Errors
/// [`Failure::Found`] if the call would be refused, or another failure if the configuration or a
/// flag cannot be used.
pub(crate) fn run(flags: &RouteFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.place.remote.is_used() {
        return elsewhere(flags, out);
    }
    let is_user = |name: &str| {
        let access = Access::open_existing(&flags.place).ok().flatten()?;
        let found: UserFound = access.ask(&Request::FindUser { name: name.to_owned() }).ok()?;
        Some(found.is_known)
    };
    let settings = Access::place_of_server(&flags.place).settings()?;
    run_with(&settings, flags, &is_user, out)
}

/// Prints the route of a number at a server elsewhere.
fn elsewhere(flags: &RouteFlags, out: &mut Out) -> Result<(), Failure> {
    if !flags.trunk_down.is_empty() {
        return Err(Failure::message(
            "--trunk-down is not possible with --server: the HTTP API takes all trunks as working",
        ));
    }
    let path = format!("/routes/{}", panel::encoded(&flags.number));
    let [from, trunk] = [&flags.from, &flags.trunk].map(|it| it.as_deref().unwrap_or_default());
    let route = Remote::of(&flags.place)?.object(&path, &[("from", from), ("trunk", trunk)])?;
    let texts = |name: &str| {
        let texts = route[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    match flags.json {
        true => out.json(&route)?,
        false => {
            let caller = route["caller"].as_str().unwrap_or_default();
            show(caller, &flags.number, &texts("steps"), &texts("lines"), out)?;
        }
    }
    match route["outcome"].as_str() {
        Some("refused") => Err(Failure::Found),
        _ => Ok(()),
    }
}

/// Prints the steps and the destination of a number.
fn show(
    caller: &str,
    number: &str,
    steps: &[impl AsRef<str>],
    lines: &[String],
    out: &mut Out,
) -> Result<(), Failure> {
    out.line(&printable(&format!("{caller} calls {number}")))?;
    for (number, step) in (1..).zip(steps) {
        out.line(&printable(&format!("{number:>3}. {}", step.as_ref())))?;
    }
    lines.iter().try_for_each(|line| out.line(&printable(line.trim_end())))
}

/// Prints the route of a number by `settings`. `is_user` tells if there is a user `name@domain`;
/// `None` if that is not known.
///
/// # Errors
/// See [`run`].
pub(crate) fn run_with(
    settings: &Settings,
    flags: &RouteFlags,
    is_user: &dyn Fn(&str) -> Option<bool>,
    out: &mut Out,
) -> Result<(), Failure> {
    let config = settings.engine_config();
    let domain = config.domains.first().map_or("", |domain| domain.name.as_str());
    let plan = settings.plan(domain)?;
    let trunk = |name: &String| {
        plan.trunk_named(name).ok_or_else(|| {
            let known: Vec<_> = settings.trunks.iter().map(|trunk| trunk.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Failure::message(format!(
                "the trunk `{name}` is unknown; the configuration has: {known}"
            ))
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
    let led = House { config: &config, domain, is_user }.lead(outcome, &flags.number, caller);
    let destination = Destination::of(&led, &plan);
    let caller = match caller {
        Caller::User(user) => user.to_owned(),
        Caller::Trunk(trunk) => format!("trunk {}", plan.trunk_name(trunk)),
        Caller::Stranger => "a stranger".to_owned(),
    };
    let steps: Vec<_> = steps.iter().map(|step| step.text.as_str()).collect();
    let (number, lines) = (&flags.number, destination.lines());
    match flags.json {
        true => out.json(&Shown { number, caller: &caller, steps, lines, destination })?,
        false => show(&caller, number, &steps, &lines, out)?,
    }
    match led {
        Led::ByPlan(Outcome::Refused(_)) => Err(Failure::Found),
        _ => Ok(()),
    }
}
