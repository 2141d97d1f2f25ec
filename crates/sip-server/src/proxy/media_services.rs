//! The services of the owner's media server: the calls to their names, and those to users with a
//! mailbox that are not registered. The INVITE goes to the media server on the internal flow of the
//! caller. Its first Route names the service, and the caller if it has proved its name: no other
//! party can write that line, since it is always the first.

use super::authorization::{Asked, Authorization};
use super::target::{Target, Targets};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::next_hop::NextHop;
use crate::core::shared::Shared;
use lock_api::RawMutex;
use sip::{Endpoint, Status, StatusLine};

/// A request to a user of a local domain, which may be a call to a service.
#[cfg_attr(not(feature = "office"), expect(dead_code, reason = "there are no services"))]
pub(super) struct NewCall<'c, 'm, R: RawMutex> {
    pub(super) shared: &'c Shared<R>,
    pub(super) asked: &'c Asked<'c, 'm>,
    /// The request URI.
    pub(super) uri: &'c [u8],
    pub(super) authorization: &'c Authorization,
}

/// The reason for which a call gets no service.
#[cfg_attr(not(feature = "office"), expect(dead_code, reason = "there are no services"))]
pub(super) enum Refused {
    /// The service does not have the user or room that the call names.
    Unknown(Status),
    /// The caller has to authenticate.
    Stranger(StatusLine<'static>),
}

/// True if the target is the media server.
pub(super) fn is_target(target: &Target) -> bool {
    cfg!(feature = "office")
        && matches!(
            &target.next_hop,
            NextHop::Flow(flow) if flow.endpoint() == Some(Endpoint::MediaServer)
        )
}

#[cfg(feature = "office")]
pub(super) use office::forward_target;

#[cfg(not(feature = "office"))]
impl<R: RawMutex> NewCall<'_, '_, R> {
    pub(super) fn lead_to_service(
        &self,
        _: &AddressOfRecord,
        _: &mut Targets,
        _: &Env<'_>,
    ) -> Option<Result<AddressOfRecord, Refused>> {
        None
    }

    pub(super) fn lead_to_mailbox(
        &self,
        _: &AddressOfRecord,
        status: Status,
        _: &mut Targets,
        _: &Env<'_>,
    ) -> Result<(), Status> {
        Err(status)
    }
}

#[cfg(feature = "office")]
mod office {
    use super::*;
    use crate::core::config::{Mode, State};
    use crate::core::flow::Flow;
    use crate::core::media_services::MediaService;
    use crate::proxy::authorization::{Claim, claim};
    use crate::proxy::numbers::uri_of;
    use crate::proxy::token::Identity;
    use alloc::vec::Vec;
    use sip::uri::escape_param;
    use sip::{Encode, Method};
    use smallvec::SmallVec;

    impl<R: RawMutex> NewCall<'_, '_, R> {
        /// Leads the call to the service with the name `called`: adds the media server to `targets`.
        /// Returns the called address-of-record; `None` if it is not the name of a service.
        pub(in crate::proxy) fn lead_to_service(
            &self,
            called: &AddressOfRecord,
            targets: &mut Targets,
            env: &Env<'_>,
        ) -> Option<Result<AddressOfRecord, Refused>> {
            let services = &env.settings.config.media_services;
            if services.names.is_empty() || !self.is_new_call(env) {
                return None;
            }
            let (service, rest) = services.find(called.name())?;
            let caller = self.caller(env);
            let is_for_users = match service {
                MediaService::Echo | MediaService::Retrieval => true,
                MediaService::Conference => !services.open_conferences,
                MediaService::Music | MediaService::Announcement | MediaService::Deposit => false,
            };
            if is_for_users && caller.is_none() {
                return Some(Err(Refused::Stranger(
                    Status::FORBIDDEN.with_reason("Only for Users"),
                )));
            }
            let domain = &called.as_bytes()[called.name().len()..];
            let (service, name) = match service {
                MediaService::Echo => ("echo", Vec::new()),
                MediaService::Music => ("music", Vec::new()),
                MediaService::Announcement => ("announcement", rest.to_vec()),
                MediaService::Conference => ("conference", [rest, domain].concat()),
                MediaService::Deposit => {
                    let Some(mailbox) = mailbox_of(self.shared, rest, domain, env) else {
                        return Some(Err(Refused::Unknown(Status::NOT_FOUND)));
                    };
                    ("deposit", mailbox)
                }
                MediaService::Retrieval => match &caller {
                    Some(user) if services.has_mailbox(user.name()) => {
                        ("retrieval", user.as_bytes().to_vec())
                    }
                    _ => return Some(Err(Refused::Unknown(Status::NOT_FOUND))),
                },
            };
            targets.clear();
            let call = (self.uri, &self.asked.incoming.flow);
            targets.push(target(service, &name, caller.as_ref(), call, env));
            Some(Ok(called.clone()))
        }

        /// Leads the call to the mailbox of the user `called` without a phone: `status` is 480.
        ///
        /// # Errors
        /// `status`, if the user has no mailbox, or the request is no call.
        pub(in crate::proxy) fn lead_to_mailbox(
            &self,
            called: &AddressOfRecord,
            status: Status,
            targets: &mut Targets,
            env: &Env<'_>,
        ) -> Result<(), Status> {
            let services = &env.settings.config.media_services;
            // A pass that names a phone is for that phone only.
            let is_for_phone = self.asked.pass.is_some_and(|pass| pass.only.is_some());
            if status != Status::TEMPORARILY_UNAVAILABLE
                || is_for_phone
                || !services.has_mailbox(called.name())
                || !self.is_new_call(env)
            {
                return Err(status);
            }
            let call = (self.uri, &self.asked.incoming.flow);
            targets.push(deposit_target(called, self.caller(env).as_ref(), call, env));
            Ok(())
        }

        /// True if the request begins a call, and the media server can be reached.
        fn is_new_call(&self, env: &Env<'_>) -> bool {
            let (head, config) = (self.asked.incoming.head, &env.settings.config);
            // It is reached only by tokens in Record-Route.
            head.method == Method::Invite
                && head.to.tag().is_none()
                && (config.mode, config.state) == (Mode::Proxy, State::Stateful)
                && config.record_route
        }

        /// The name that the caller has proved: to this server, or before to the B2BUA.
        fn caller(&self, env: &Env<'_>) -> Option<AddressOfRecord> {
            let incoming = self.asked.incoming;
            match self.authorization {
                Authorization::User(user) => Some(user.clone()),
                Authorization::Dialog(identity) if incoming.flow.is_internal() => {
                    match claim(self.shared, &incoming.head.from_uri, env) {
                        Claim::User(user, _)
                            if Identity::new(&env.keys.token, user.as_bytes()) == *identity =>
                        {
                            Some(user)
                        }
                        _ => None,
                    }
                }
                _ => None,
            }
        }
    }

    /// The media server as the target of a call on `flow` that `forwarder` forwards to `name`, if
    /// that is the `user@domain` of a service for all callers. The service with the messages of a
    /// user takes one for the forwarder.
    pub(in crate::proxy) fn forward_target<R: RawMutex>(
        shared: &Shared<R>,
        name: &[u8],
        forwarder: Option<&[u8]>,
        flow: &Flow,
        env: &Env<'_>,
    ) -> Option<Target> {
        let services = &env.settings.config.media_services;
        let at = name.iter().rposition(|byte| *byte == b'@')?;
        let (user, domain) = name.split_at(at);
        let (service, rest) = services.find(user)?;
        let (service, named) = match service {
            MediaService::Music => ("music", Vec::new()),
            MediaService::Announcement => ("announcement", rest.to_vec()),
            MediaService::Conference if services.open_conferences => {
                ("conference", [rest, domain].concat())
            }
            MediaService::Deposit => ("deposit", mailbox_of(shared, rest, domain, env)?),
            MediaService::Retrieval => {
                let forwarder = forwarder?;
                let at = forwarder.iter().rposition(|byte| *byte == b'@')?;
                let (user, domain) = forwarder.split_at(at);
                ("deposit", mailbox_of(shared, user, domain, env)?)
            }
            MediaService::Echo | MediaService::Conference => return None,
        };
        Some(target(service, &named, None, (&uri_of(name), flow), env))
    }

    /// The mailbox of the user `name` at `domain`, which begins with `@`. `None` without such a
    /// user, or for one that has no mailbox.
    fn mailbox_of<R: RawMutex>(
        shared: &Shared<R>,
        name: &[u8],
        domain: &[u8],
        env: &Env<'_>,
    ) -> Option<Vec<u8>> {
        let domain = core::str::from_utf8(domain.strip_prefix(b"@")?).ok()?;
        let user = shared.location.address_of_record(name, domain);
        let is_there = shared.location.look_up(&user, |found| found.is_some());
        let has_mailbox = env.settings.config.media_services.has_mailbox(user.name());
        (is_there && has_mailbox).then(|| user.as_bytes().to_vec())
    }

    /// The media server as the target of a call to `uri` that arrived on `flow`, for a message to
    /// `mailbox`. `caller` is the address-of-record that the caller has proved.
    fn deposit_target(
        mailbox: &AddressOfRecord,
        caller: Option<&AddressOfRecord>,
        call: (&[u8], &Flow),
        env: &Env<'_>,
    ) -> Target {
        target("deposit", mailbox.as_bytes(), caller, call, env)
    }

    fn target(
        service: &str,
        name: &[u8],
        caller: Option<&AddressOfRecord>,
        (uri, flow): (&[u8], &Flow),
        env: &Env<'_>,
    ) -> Target {
        let mut path = Vec::new();
        ("<sip:", service, "@media-server.invalid;lr").encode(&mut path);
        if !name.is_empty() {
            (";name=", &*escape_param(name)).encode(&mut path);
        }
        if let Some(caller) = caller {
            (";caller=", &*escape_param(caller.as_bytes())).encode(&mut path);
        }
        path.push(b'>');
        Target {
            uri: SmallVec::from_slice(uri),
            path,
            next_hop: NextHop::Flow(flow.internal_to(Endpoint::MediaServer)),
            q: 1000,
            flow_bound: true,
            origin: env.settings.scope_of(flow),
            is_registered: false,
            keying: None,
            takes_digits: false,
            detour: None,
            flows: None,
            retargeted: None,
            takeover: None,
        }
    }
}
