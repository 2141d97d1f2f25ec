//! The services of the owner's media server: the calls to their names, and those to users with a
//! mailbox that are not registered. The INVITE goes to the media server on the internal flow of the
//! caller. Its first Route names the service, and the caller if it has proved its name: no other
//! party can write that line, since it is always the first.

#[cfg(feature = "office")]
use super::media_target::{add_referrer, deposit_target, mailbox_of, target};
#[cfg(feature = "office")]
use super::parking;
use super::pass::Pass;
use super::sender::Authorization;
#[cfg(feature = "office")]
use super::sender::{Claim, claim};
use super::target::Targets;
#[cfg(feature = "office")]
use super::token::Identity;
use crate::core::address_of_record::AddressOfRecord;
#[cfg(feature = "office")]
use crate::core::config::{Mode, State};
use crate::core::event::Env;
use crate::core::incoming::Incoming;
#[cfg(feature = "office")]
use crate::core::media_services::MediaService;
use crate::core::shared::Shared;
#[cfg(feature = "office")]
use alloc::vec::Vec;
use lock_api::RawMutex;
#[cfg(feature = "office")]
use sip::Method;
use sip::{Status, StatusLine};

/// A request to a user of a local domain, which may be a call to a service.
#[cfg_attr(not(feature = "office"), expect(dead_code, reason = "there are no services"))]
pub(super) struct NewCall<'c, 'm, R: RawMutex> {
    pub(super) shared: &'c Shared<R>,
    pub(super) incoming: &'c Incoming<'c, 'm>,
    /// The authorization by the pass of a call that comes from the B2BUA of the owner.
    pub(super) pass: Option<Pass>,
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
impl<R: RawMutex> NewCall<'_, '_, R> {
    /// Leads the call to the service with the name `called`: adds the media server to `targets`.
    /// Returns the called address-of-record; `None` if it is not the name of a service.
    pub(super) fn lead_to_service(
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
        if services.is_for_users(service) && caller.is_none() {
            return Some(Err(Refused::Stranger(Status::FORBIDDEN.with_reason("Only for Users"))));
        }
        let domain = &called.as_bytes()[called.name().len()..];
        let (service, name) = match service {
            MediaService::Echo => ("echo", Vec::new()),
            MediaService::Music => ("music", Vec::new()),
            MediaService::Announcement => ("announcement", rest.to_vec()),
            MediaService::Conference => ("conference", [rest, domain].concat()),
            MediaService::Park => ("park", called.as_bytes().to_vec()),
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
        let call = (self.uri, &self.incoming.flow);
        let mut target = target(service, &name, caller.as_ref(), call, env);
        if service == "park"
            && let Some(parker) = parking::parker(self.shared, &self.incoming.head.uri, env)
        {
            add_referrer(&mut target, &parker, self.uri);
        }
        targets.push(target);
        Some(Ok(called.clone()))
    }

    /// Leads the call to the mailbox of the user `called` without a phone: `status` is 480.
    ///
    /// # Errors
    /// `status`, if the user has no mailbox, or the request is no call.
    pub(super) fn lead_to_mailbox(
        &self,
        called: &AddressOfRecord,
        status: Status,
        targets: &mut Targets,
        env: &Env<'_>,
    ) -> Result<(), Status> {
        let services = &env.settings.config.media_services;
        // A pass that names a phone is for that phone only.
        let is_for_phone = self.pass.is_some_and(|pass| pass.only.is_some());
        if status != Status::TEMPORARILY_UNAVAILABLE
            || is_for_phone
            || !services.has_mailbox(called.name())
            || !self.is_new_call(env)
        {
            return Err(status);
        }
        let call = (self.uri, &self.incoming.flow);
        targets.push(deposit_target(called, self.caller(env).as_ref(), call, env));
        Ok(())
    }

    /// True if the request begins a call, and the media server can be reached.
    fn is_new_call(&self, env: &Env<'_>) -> bool {
        let (head, config) = (self.incoming.head, &env.settings.config);
        // It is reached only by tokens in Record-Route.
        head.method == Method::Invite
            && head.to.tag().is_none()
            && (config.mode, config.state) == (Mode::Proxy, State::Stateful)
            && config.record_route
    }

    /// The name that the caller has proved: to this server, or before to the B2BUA.
    pub(super) fn caller(&self, env: &Env<'_>) -> Option<AddressOfRecord> {
        let incoming = self.incoming;
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
