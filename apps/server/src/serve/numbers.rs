//! The numbering plan beside the engine, for all threads.

use crate::output::printable;
use numbers::{Attempt, Outcome, Plan, Query, Service};
use parking_lot::RwLock;
use sip_server::config::Config;
use sip_server::{
    Caller, Dialed, DialedRefusal, MediaService, MediaServices, Numbers, TrunkAttempt, TrunkId,
    Trunks,
};
use std::sync::Arc;

/// The status of a call to a service that this server does not have.
const NOT_IMPLEMENTED: u16 = 501;

/// The plan, which a reload replaces, and the trunks that it leads to.
pub(crate) struct SharedPlan {
    present: RwLock<Arc<Present>>,
    trunks: Arc<dyn Trunks>,
}

#[derive(Default)]
struct Present {
    /// `None` without numbers in the configuration.
    plan: Option<Plan>,
    /// The domain of users that the plan names without one.
    domain: String,
    /// The services of the media server.
    services: MediaServices,
    /// The characters before a user name that pick up a call. Empty for none.
    pickup: String,
}

impl SharedPlan {
    /// No plan yet, beside these `trunks`.
    pub(crate) fn new(trunks: Arc<dyn Trunks>) -> Self {
        Self { present: RwLock::default(), trunks }
    }

    /// Replaces the plan. Users without a domain in it are those of the default one of `config`,
    /// which names the services, too.
    pub(super) fn replace(&self, plan: Option<Plan>, config: &Config) {
        let domain = config.domains.first().map_or("", |domain| &domain.name).to_owned();
        let services = config.media_services.clone();
        let pickup = config.watching.pickup.clone();
        *self.present.write() = Arc::new(Present { plan, domain, services, pickup });
    }
}

impl Present {
    /// The address-of-record of the user or group `name`.
    fn address_of(&self, name: &str) -> Vec<u8> {
        match name.contains('@') {
            true => name.into(),
            false => format!("{name}@{}", self.domain).into_bytes(),
        }
    }

    /// The user part of a service, if the server has it.
    fn name_of(&self, service: &Service) -> Option<String> {
        let named = |wanted| {
            let mut names = self.services.names.iter();
            names.find(|(_, known)| *known == wanted).map(|(name, _)| name.as_str())
        };
        let local = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
        let with = |service, rest: &str| Some(named(service)?.to_owned() + &local(rest));
        match service {
            Service::Voicemail => with(MediaService::Retrieval, ""),
            Service::Mailbox(user) => with(MediaService::Deposit, user),
            Service::Conference(room) => with(MediaService::Conference, room),
            Service::Announcement(name) => with(MediaService::Announcement, name),
            Service::Music => with(MediaService::Music, ""),
            Service::Pickup(user) if !self.pickup.is_empty() && !user.is_empty() => {
                Some(self.pickup.clone() + &local(user))
            }
            Service::Pickup(_) => None,
        }
    }
}

impl Numbers for SharedPlan {
    fn route(&self, dialed: &[u8], caller: Caller<'_>) -> Dialed {
        let present = Arc::clone(&self.present.read());
        let Some(plan) = &present.plan else { return Dialed::Name };
        let caller = match caller {
            Caller::User(name) => {
                std::str::from_utf8(name).map_or(numbers::Caller::Stranger, numbers::Caller::User)
            }
            Caller::Trunk(TrunkId(number)) => numbers::Caller::Trunk(numbers::TrunkId(number)),
            Caller::Stranger => numbers::Caller::Stranger,
        };
        let unavailable = |trunk: numbers::TrunkId| self.trunks.target(TrunkId(trunk.0)).is_none();
        let query = Query { dialed, caller, unavailable: &unavailable };
        let payer = match caller {
            numbers::Caller::User(user) => Some(user.to_owned()),
            numbers::Caller::Trunk(_) | numbers::Caller::Stranger => None,
        };
        let attempt = |Attempt { trunk, number, identity, class }| TrunkAttempt {
            trunk: TrunkId(trunk.0),
            number,
            identity,
            is_emergency: class == numbers::ClassId::EMERGENCY,
            payer: payer.clone(),
            class: Some(plan.class_name(class).to_owned()),
            stranger: None,
        };
        match plan.route(&query).outcome {
            Outcome::Name => Dialed::Name,
            Outcome::User(name) | Outcome::Group(name) => Dialed::User(present.address_of(&name)),
            Outcome::Trunks(attempts) => {
                Dialed::Trunks(attempts.into_iter().map(attempt).collect())
            }
            Outcome::Service(service) => match present.name_of(&service) {
                Some(name) => Dialed::User(present.address_of(&name)),
                None => Dialed::Refused(DialedRefusal {
                    status: NOT_IMPLEMENTED,
                    words: format!("This Server Has No {service:?}").into(),
                }),
            },
            Outcome::Refused(refusal) => Dialed::Refused(DialedRefusal {
                status: refusal.status,
                words: printable(&format!("{}: {}", refusal.rule, refusal.text)).into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numbers::{PlanConfig, Range, RuleConfig, TargetConfig, TrunkUse};
    use sip_server::config::Domain;
    use sip_server::{Flow, TrunkTarget};

    /// A trunk with a target, and one without.
    struct OneUp;

    impl Trunks for OneUp {
        fn target(&self, trunk: TrunkId) -> Option<TrunkTarget> {
            let (local, remote) = (([127, 0, 0, 1], 5060).into(), ([127, 0, 0, 2], 5060).into());
            let transport = sip::Transport::Udp;
            let target = TrunkTarget { transport, remote, local, name: "up".into() };
            (trunk == TrunkId(0)).then_some(target)
        }

        fn of_request(&self, _: &Flow, _: &[u8]) -> Option<TrunkId> {
            None
        }
    }

    #[test]
    fn the_decisions_of_the_plan_are_those_for_the_proxy() {
        let shared = SharedPlan::new(Arc::new(OneUp));
        let alice = Caller::User(b"alice@office.test");
        assert_eq!(shared.route(b"+49301", alice), Dialed::Name, "without a plan");
        let trunk = |name: &str| TrunkUse { trunk: name.to_owned(), digits: None };
        let rule = |name: &str, prefix: &str, target| RuleConfig {
            name: name.to_owned(),
            range: Range::Prefix(prefix.to_owned()),
            digits: numbers::Digits::default(),
            target,
        };
        let config = PlanConfig {
            domain: "office.test".to_owned(),
            trunks: vec!["up".to_owned(), "down".to_owned()],
            dialing: numbers::Dialing { country: "49".to_owned(), ..PlanConfig::default().dialing },
            rules: vec![
                rule("out", "+49", TargetConfig::Trunks(vec![trunk("down"), trunk("up")])),
                rule("desk", "20", TargetConfig::User("bob".to_owned())),
                rule("music", "21", TargetConfig::Service(numbers::ServiceKind::Music, None)),
            ],
            ..PlanConfig::default()
        };
        let domain = Domain { name: "office.test".to_owned(), aliases: Vec::new() };
        let mut served = Config { domains: vec![domain], ..Config::default() };
        let plan = || Some(Plan::new(&config).expect("a plan"));
        served.media_services.names.push(("notes".to_owned(), MediaService::Music));
        shared.replace(plan(), &served);
        assert_eq!(shared.route(b"21", alice), Dialed::User(b"notes@office.test".to_vec()));
        served.media_services.names.clear();
        shared.replace(plan(), &served);
        let Dialed::Trunks(attempts) = shared.route(b"+49301", alice) else { panic!("no trunk") };
        let [attempt] = &attempts[..] else { panic!("{attempts:?}") };
        assert_eq!((attempt.trunk, attempt.number.as_str()), (TrunkId(0), "+49301"));
        assert!(!attempt.is_emergency);
        assert_eq!(attempt.payer.as_deref(), Some("alice@office.test"));
        assert_eq!(attempt.class.as_deref(), Some("national"));
        let Dialed::Trunks(attempts) = shared.route(b"1-1-2", alice) else { panic!("no trunk") };
        assert!(attempts.iter().all(|attempt| attempt.is_emergency));
        assert_eq!(shared.route(b"20", alice), Dialed::User(b"bob@office.test".to_vec()));
        for (dialed, caller, expected) in [
            (&b"21"[..], alice, 501),
            (b"+49301", Caller::Stranger, 403),
            (b"+49301", Caller::Trunk(TrunkId(0)), 404),
        ] {
            let Dialed::Refused(refusal) = shared.route(dialed, caller) else {
                panic!("{dialed:?} {caller:?}")
            };
            assert_eq!(refusal.status, expected, "{refusal:?}");
        }
    }
}
