//! The [`Desk`] of a stopped server, on its stored data.

use super::ask::Ask;
use super::desk::Desk;
use super::limited_use::LimitedUse;
use super::sink::{Row, Sink};
use super::trunk::Trunk;
use super::{Call, CallEnded, Condition, Drained, Registration, Request, StoppedStatus, commands};
use crate::failure::Failure;
use crate::trace::Tracer;
use crate::why::Refusals;
use net::wall_clock;
use notifier::Messages;
use sip_server::CallServices;
use sip_server::config::Domain;
use std::any::Any;
use std::path::{Path, PathBuf};
use store::postgres::{AccountsPlace, CopiedUsers};
use store::{Error, Replaced, Storage, User};

/// The data of a stopped server.
pub(crate) struct Stopped {
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The storage in that directory.
    pub(crate) storage: Box<dyn Storage>,
    /// The configuration file, if the command names one.
    pub(crate) config_file: Option<PathBuf>,
    /// The domains that the server would serve.
    pub(crate) domains: Vec<Domain>,
    /// The database of accounts that the configuration names.
    pub(crate) accounts: Option<AccountsPlace>,
}

impl Stopped {
    fn not_running(&self) -> String {
        format!("no server runs with the data in {}", self.data.display())
    }
}

impl Desk for Stopped {
    fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    fn data(&self) -> &Path {
        &self.data
    }

    fn config_file(&self) -> Option<&Path> {
        self.config_file.as_deref()
    }

    fn copied_users(&self) -> Result<Option<CopiedUsers<'_>>, Error> {
        let Some(place) = &self.accounts else { return Ok(None) };
        let key = self.storage.secret()?;
        Ok(Some(CopiedUsers { copy: &*self.storage, place, key }))
    }

    fn condition(&self) -> Result<Condition, Error> {
        let domains: Vec<String> = self.domains.iter().map(|domain| domain.name.clone()).collect();
        let served: Vec<&str> = domains.iter().map(String::as_str).collect();
        let mut status = StoppedStatus {
            users: self.storage.user_count()?,
            unserved: self.storage.domains(&served)?,
            domains,
            ..StoppedStatus::new(&self.data)
        };
        let mut last = String::new();
        self.registrations(&mut |registration| {
            status.contacts += 1;
            if registration.address_of_record != last {
                status.registered += 1;
                last = registration.address_of_record;
            }
            true
        })?;
        Ok(Condition::Stopped(status))
    }

    fn domains(&self) -> Vec<Domain> {
        self.domains.clone()
    }

    fn registrations(&self, each: &mut dyn FnMut(Registration) -> bool) -> Result<(), Error> {
        let now = wall_clock();
        let mut goes_on = true;
        self.storage.restore(now, &mut |record| {
            for binding in record.bindings().flatten().filter(|binding| binding.expires > now) {
                goes_on = goes_on && each(Registration::new(&record, &binding, now));
            }
        })?;
        Ok(())
    }

    fn end_registration(
        &self,
        _: &str,
        _: &str,
        _: Option<&str>,
    ) -> Result<Vec<Registration>, String> {
        Err(self.not_running())
    }

    fn calls(&self) -> Vec<Call> {
        Vec::new()
    }

    fn limits(&self) -> Vec<LimitedUse> {
        Vec::new()
    }

    fn trunks(&self) -> Vec<Trunk> {
        Vec::new()
    }

    fn end_call(&self, _: &str) -> Result<CallEnded, String> {
        Err(self.not_running())
    }

    fn messages(&self, _: &str, _: Option<Messages>) -> Result<Messages, String> {
        Err(self.not_running())
    }

    fn tracer(&self) -> Result<&Tracer, String> {
        Err(self.not_running())
    }

    fn refusals(&self) -> Result<&Refusals, String> {
        Err(self.not_running())
    }

    fn call_id(&self, id: &str) -> String {
        id.to_owned()
    }

    fn drain(&self, _: bool) -> Result<Drained, String> {
        Err(self.not_running())
    }

    // The server loads the stored users at its next start.
    fn users_added(&self, _: &[User]) {}

    fn users_moved(&self, _: &str, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn services_changed(&self, _: &str, _: &str, _: CallServices) {}

    fn user_removed(&self, _: &str, _: &str) {}

    fn restored(&self, _: &Replaced, _: bool) -> Result<(), Error> {
        Ok(())
    }
}

impl Ask for Stopped {
    fn ask_each<T: Row>(
        self,
        request: &Request,
        mut file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        commands::answer(&self, request, &mut file, &mut Rows(each))
    }
}

/// Passes rows to a caller within this program.
struct Rows<'e, T>(&'e mut dyn FnMut(T) -> Result<(), Failure>);

impl<T: Row> Sink for Rows<'_, T> {
    type Error = Failure;

    fn row<R: Row>(&mut self, row: R) -> Result<(), Failure> {
        let row: Box<dyn Any> = Box::new(row);
        let row = row.downcast().map_err(|_| Failure::message("the answer is of another kind"))?;
        (self.0)(*row)
    }

    fn end(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn error(&mut self, text: &str) -> Result<(), Failure> {
        Err(Failure::message(text))
    }
}
