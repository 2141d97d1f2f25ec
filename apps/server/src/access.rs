//! The access of commands to a server: through its socket while it runs, otherwise through its
//! stored data; through its HTTP API if it is elsewhere.

use crate::admin::ask::Ask;
use crate::admin::client::Client;
use crate::admin::sink::Row;
use crate::admin::stopped::Stopped;
use crate::admin::{Condition, Request};
use crate::cli::Place;
use crate::data_dir::DataDir;
use crate::domains::{self, Host};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::served_domains::remembered_domains;
use crate::settings::Settings;
use crate::storage;

/// The server of a command.
pub(crate) enum Access {
    /// A running server.
    Running(Client),
    /// The data of a stopped server.
    Stopped(Stopped),
    /// A server elsewhere.
    Elsewhere(Remote),
}

impl Access {
    /// Opens the data in `place`. Creates the directory if it does not exist.
    ///
    /// # Errors
    /// [`Failure`] if the data cannot be accessed.
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        if place.remote.is_used() {
            return Ok(Self::Elsewhere(Remote::of(place)?));
        }
        Self::of(place, &place.settings()?)
    }

    /// Like [`Access::open`]. Returns `None` if the directory does not exist.
    ///
    /// # Errors
    /// [`Failure`] if the data cannot be accessed.
    pub(crate) fn open_existing(place: &Place) -> Result<Option<Self>, Failure> {
        if place.remote.is_used() {
            return Self::open(place).map(Some);
        }
        let settings = place.settings()?;
        if settings.data()?.exists() { Self::of(place, &settings).map(Some) } else { Ok(None) }
    }

    /// Returns `place` with the configuration of the server that runs with its data, if it names
    /// none.
    pub(crate) fn place_of_server(place: &Place) -> Place {
        let mut place = place.clone();
        if place.config.is_none()
            && let Ok(Some(access @ Self::Running(_))) = Self::open_existing(&place)
            && let Ok(Condition::Running(status)) = access.ask(&Request::Status)
        {
            place.config = status.config;
        }
        place
    }

    /// Returns true if a server answers, here or elsewhere.
    pub(crate) const fn is_of_server(&self) -> bool {
        matches!(self, Self::Running(_) | Self::Elsewhere(_))
    }

    fn of(place: &Place, settings: &Settings) -> Result<Self, Failure> {
        let data = settings.data()?;
        let directory = match DataDir::open(&data, || Client::connect(&data))? {
            Ok(directory) => directory,
            Err(client) => return Ok(Self::Running(client)),
        };
        let storage = Box::new(storage::open(directory)?);
        let remembered = match place.config {
            Some(_) => None,
            None => remembered_domains(&*storage)?,
        };
        let served = || {
            let mut domains = domains::served(&settings.engine.domains, &Host::this());
            if settings.engine.domains.is_empty() {
                // The served domain is not known, so each name is taken literally.
                domains.iter_mut().for_each(|domain| domain.aliases.clear());
            }
            domains
        };
        let domains = remembered.unwrap_or_else(served);
        let accounts = settings.accounts.as_ref().map(|accounts| accounts.place.clone());
        let config_file = place.config.clone();
        Ok(Self::Stopped(Stopped { data, storage, config_file, domains, accounts }))
    }
}

impl Ask for Access {
    fn ask_each<T: Row>(
        self,
        request: &Request,
        file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Running(client) => client.ask_each(request, file, each),
            Self::Stopped(stopped) => stopped.ask_each(request, file, each),
            Self::Elsewhere(remote) => remote.ask_each(request, file, each),
        }
    }
}
