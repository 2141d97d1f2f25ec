//! The call services of users, as commands change them.

use super::error::Error;
use super::names::{Identity, identify};
use crate::domains;
use serde::{Deserialize, Serialize};
use sip::Duration;
use sip_server::CallServices;
use sip_server::config::Domain;
use store::Users;

/// A kind of forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForwardKind {
    /// All calls
    Always,
    /// Calls that a phone of the user answers busy
    Busy,
    /// Calls that no phone answers in time
    NoAnswer,
    /// Calls that reach no phone
    Unreachable,
    /// All of them
    All,
}

/// A change of the call services of a user. `None` changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceChange {
    /// The forwards to remove, before others are set.
    pub(crate) off: Option<ForwardKind>,
    /// The new targets: `name`, or `name@domain`.
    pub(crate) always: Option<String>,
    pub(crate) busy: Option<String>,
    pub(crate) no_answer: Option<String>,
    pub(crate) unreachable: Option<String>,
    /// The time before the forward on no answer, in milliseconds.
    pub(crate) after: Option<u64>,
    pub(crate) do_not_disturb: Option<bool>,
}

/// The call services of a user, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServicesRow {
    /// The SIP URI of the user.
    pub(crate) uri: String,
    #[serde(flatten)]
    pub(crate) services: Services,
    /// The targets that are no users. They may be groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unknown: Vec<String>,
    /// False if the request changed nothing.
    #[serde(default)]
    pub(crate) changed: bool,
}

/// The targets of forwards as `name@domain`, and do not disturb.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Services {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) always: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) busy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_answer: Option<String>,
    /// The time before the forward on no answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreachable: Option<String>,
    pub(crate) do_not_disturb: bool,
}

impl From<&CallServices> for Services {
    fn from(services: &CallServices) -> Self {
        let after = services.no_answer_after.as_millis();
        Self {
            always: services.always.clone(),
            busy: services.busy.clone(),
            no_answer: services.no_answer.clone(),
            after: services.no_answer.is_some().then_some(after),
            unreachable: services.unreachable.clone(),
            do_not_disturb: services.do_not_disturb,
        }
    }
}

impl Services {
    /// True if calls go to the phones of the user only.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The services in words, such as `busy to carol@example.com`, or an empty text.
    pub(crate) fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.do_not_disturb {
            words.push("do not disturb".to_owned());
        }
        let seconds = self.after.unwrap_or_default() as f64 / 1000.0;
        for (kind, target) in
            [("always", &self.always), ("busy", &self.busy), ("unreachable", &self.unreachable)]
        {
            words.extend(target.as_ref().map(|target| format!("{kind} to {target}")));
        }
        words.extend(
            self.no_answer.as_ref().map(|it| format!("no answer after {seconds} s to {it}")),
        );
        words.join(", ")
    }
}

/// Changes the call services of the user `identity`. `served` are the domains of the server.
/// Returns the services that hold from now on, and true if they were others before.
///
/// # Errors
/// [`Error`] if the user does not exist, a target or the time is invalid, or the storage fails.
pub(crate) fn change(
    storage: &dyn Users,
    identity: &Identity,
    change: &ServiceChange,
    served: &[Domain],
) -> Result<(CallServices, bool), Error> {
    let before = of(storage, identity)?;
    let mut services = before.clone();
    let is_off = |kind| change.off == Some(kind) || change.off == Some(ForwardKind::All);
    for (kind, target, new) in [
        (ForwardKind::Always, &mut services.always, &change.always),
        (ForwardKind::Busy, &mut services.busy, &change.busy),
        (ForwardKind::NoAnswer, &mut services.no_answer, &change.no_answer),
        (ForwardKind::Unreachable, &mut services.unreachable, &change.unreachable),
    ] {
        if is_off(kind) {
            *target = None;
        }
        if let Some(new) = new {
            *target = Some(target_of(new, identity, served)?);
        }
    }
    if let Some(after) = change.after {
        let after = Duration::from_millis(after);
        if !(CallServices::MIN_RINGING..=CallServices::MAX_RINGING).contains(&after) {
            return Err(Error::BadTime);
        }
        if services.no_answer.is_none() {
            return Err(Error::NoForward);
        }
        services.no_answer_after = after;
    }
    if services.no_answer.is_none() {
        services.no_answer_after = CallServices::DEFAULT_RINGING;
    }
    services.do_not_disturb = change.do_not_disturb.unwrap_or(services.do_not_disturb);
    let is_changed = services != before;
    let is_user = match is_changed {
        true => storage.put_services(&identity.name, &identity.domain, &services)?,
        false => storage.has_user(&identity.name, &identity.domain)?,
    };
    match is_user {
        true => Ok((services, is_changed)),
        false => Err(Error::NoUser(identity.uri())),
    }
}

/// The stored call services of a user.
fn of(storage: &dyn Users, identity: &Identity) -> Result<CallServices, Error> {
    let mut found = CallServices::default();
    storage.services(Some(&identity.domain), &mut |stored| {
        if stored.name == identity.name {
            found = stored.services;
        }
    })?;
    Ok(found)
}

/// The targets of `services` that are no users.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(crate) fn unknown_targets(
    storage: &dyn Users,
    services: &CallServices,
) -> Result<Vec<String>, Error> {
    let CallServices { always, busy, no_answer, unreachable, .. } = services;
    let mut unknown = Vec::new();
    for target in [always, busy, no_answer, unreachable].into_iter().flatten() {
        let (name, domain) = target.rsplit_once('@').unwrap_or((target, ""));
        if !unknown.contains(target) && !storage.has_user(name, domain)? {
            unknown.push(target.clone());
        }
    }
    Ok(unknown)
}

/// The target `written` of a forward of the user `identity`, as `name@domain`.
fn target_of(written: &str, identity: &Identity, served: &[Domain]) -> Result<String, Error> {
    let flag = (!written.contains('@')).then_some(identity.domain.as_str());
    let target = identify(written, flag, served)?;
    if target == *identity {
        return Err(Error::ForwardToItself(target.uri()));
    }
    if domains::find(served, &target.domain).is_none() && target.domain != identity.domain {
        return Err(Error::UnservedTarget {
            target: target.uri(),
            served: served.iter().map(|domain| domain.name.clone()).collect(),
        });
    }
    Ok(format!("{}@{}", target.name, target.domain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::add;
    use crate::storage::tests::open;

    fn identity(name: &str, domain: &str) -> Identity {
        Identity { name: name.to_owned(), domain: domain.to_owned() }
    }

    fn served() -> [Domain; 2] {
        ["a.com", "b.com"]
            .map(|name| Domain { name: name.to_owned(), aliases: vec![format!("sip.{name}")] })
    }

    #[test]
    fn forwards_are_set_and_removed_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let alice = identity("alice", "a.com");
        add(&storage, &alice, "1", None).unwrap();
        let set = |one: ServiceChange| {
            let (services, is_changed) = change(&storage, &alice, &one, &served()).unwrap();
            (Services::from(&services).in_words(), is_changed)
        };
        let changed = |words: &str| (words.to_owned(), true);
        let some = |text: &str| Some(text.to_owned());
        let busy = ServiceChange { busy: some("bob"), ..ServiceChange::default() };
        assert_eq!(set(busy), changed("busy to bob@a.com"));
        let others = ServiceChange {
            no_answer: some("sip:carol@sip.b.com"),
            after: Some(7500),
            do_not_disturb: Some(true),
            ..ServiceChange::default()
        };
        let all = "do not disturb, busy to bob@a.com, no answer after 7.5 s to carol@b.com";
        assert_eq!(set(others), changed(all));
        assert_eq!(set(ServiceChange::default()), (all.to_owned(), false));
        let off = |kind| ServiceChange { off: Some(kind), ..ServiceChange::default() };
        assert_eq!(set(off(ForwardKind::NoAnswer)), changed("do not disturb, busy to bob@a.com"));
        let always = ServiceChange { always: some("dave"), ..off(ForwardKind::All) };
        assert_eq!(set(always), changed("do not disturb, always to dave@a.com"));
        let quiet = ServiceChange { do_not_disturb: Some(false), ..off(ForwardKind::All) };
        assert_eq!(set(quiet), changed(""));
    }

    #[test]
    fn bad_forwards_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let alice = identity("alice", "a.com");
        add(&storage, &alice, "1", None).unwrap();
        let to = |target: &str| ServiceChange {
            always: Some(target.to_owned()),
            ..ServiceChange::default()
        };
        let set = |user: &Identity, one: ServiceChange| change(&storage, user, &one, &served());
        assert!(matches!(set(&alice, to("alice")), Err(Error::ForwardToItself(_))));
        assert!(matches!(set(&alice, to("alice@sip.a.com")), Err(Error::ForwardToItself(_))));
        assert!(matches!(set(&alice, to("bob@else.com")), Err(Error::UnservedTarget { .. })));
        assert!(matches!(set(&alice, to("a b")), Err(Error::BadName(_))));
        let nobody = identity("bob", "a.com");
        for one in [to("carol"), ServiceChange::default()] {
            assert!(matches!(set(&nobody, one), Err(Error::NoUser(_))));
        }
        let after = |after| ServiceChange { after: Some(after), ..ServiceChange::default() };
        assert!(matches!(set(&alice, after(20_000)), Err(Error::NoForward)));
        for bad in [0, 999, 180_001] {
            let change = ServiceChange { no_answer: Some("bob".to_owned()), ..after(bad) };
            assert!(matches!(set(&alice, change), Err(Error::BadTime)), "{bad}");
        }
        assert!(of(&storage, &alice).unwrap().is_empty());
        let (known, _) = set(&alice, to("bob")).unwrap();
        assert_eq!(unknown_targets(&storage, &known).unwrap(), ["bob@a.com"]);
        add(&storage, &identity("bob", "a.com"), "1", None).unwrap();
        assert_eq!(unknown_targets(&storage, &known).unwrap(), [""; 0]);
    }
}
