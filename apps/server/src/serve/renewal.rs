//! Certificates while the server runs: those in files are read again, and those of an issuer are
//! got in time.

use super::connections::CurrentTls;
use crate::acme::{AcmeSettings, obtain};
use crate::failure::Failure;
use crate::log;
use crate::settings::Settings;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::sleep;

/// How often the wall clock is looked at, which may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// How long an issuer is left alone after it gave none; doubled with each further time. Issuers
/// count failures, and end with those who ask on and on.
const FIRST_PAUSE: Duration = Duration::from_secs(300);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(12 * 3600);

/// Who renews certificates.
pub(super) struct Renewal {
    data: PathBuf,
    tls: Arc<CurrentTls>,
    keeping: Cell<Option<AbortHandle>>,
}

impl Renewal {
    /// Renews what `tls` shows, with the files in the directory `data`.
    pub(super) fn new(data: PathBuf, tls: Arc<CurrentTls>) -> Rc<Self> {
        Rc::new(Self { data, tls, keeping: Cell::new(None) })
    }

    /// Reads certificates again, and asks an issuer as `settings` want it from now on. To be called
    /// on a `LocalSet`.
    ///
    /// # Errors
    /// When they cannot be used: those of before are shown on.
    pub(super) fn renew(self: &Rc<Self>, settings: &Settings) -> Result<(), Failure> {
        self.read(settings)?;
        self.keep(settings);
        Ok(())
    }

    /// Has an issuer asked in time, as `settings` want it from now on. To be called on a
    /// `LocalSet`.
    pub(super) fn keep(self: &Rc<Self>, settings: &Settings) {
        if let Some(before) = self.keeping.take() {
            before.abort();
        }
        let Some(wanted) = settings.tls.acme.clone() else { return };
        let (renewal, settings) = (Rc::clone(self), settings.clone());
        let task = spawn_local(async move { renewal.ask_in_time(&wanted, &settings).await });
        self.keeping.set(Some(task.abort_handle()));
    }

    fn read(&self, settings: &Settings) -> Result<(), Failure> {
        let tls = settings.open_tls(&self.data, self.tls.server().as_ref())?;
        if let Some(tls) = &tls {
            log::info("tls", || tls.remark());
        }
        self.tls.replace(tls, settings.origins.clone());
        Ok(())
    }

    async fn ask_in_time(&self, wanted: &AcmeSettings, settings: &Settings) {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(left) = self.time_left(wanted) {
                sleep(left.min(LOOK_AGAIN)).await;
                continue;
            }
            log::info("acme", || format!("asking for {wanted}"));
            match self.ask(wanted, settings).await {
                Ok(()) => pause = FIRST_PAUSE,
                Err(failure) => {
                    log::warn("acme", || {
                        let pause = humantime::format_duration(pause);
                        format!(
                            "{wanted} is not to be had: {failure}; it is asked again in {pause}, \
                             or at once on SIGHUP"
                        )
                    });
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// How long the certificate that was issued does.
    fn time_left(&self, wanted: &AcmeSettings) -> Option<Duration> {
        let left = wanted.due(&self.data).duration_since(SystemTime::now()).ok()?;
        (!left.is_zero()).then_some(left)
    }

    async fn ask(&self, wanted: &AcmeSettings, settings: &Settings) -> Result<(), Failure> {
        let no_tls = || Failure::said("nothing listens for TLS");
        let server = self.tls.server().ok_or_else(no_tls)?;
        let prove = |proofs| self.tls.set_server(server.proving(proofs));
        let obtained = obtain(wanted, &self.data, prove).await;
        self.tls.set_server(server);
        obtained?;
        self.read(settings)?;
        // Otherwise it would be asked for again and again.
        let left = self.time_left(wanted);
        left.map(drop).ok_or_else(|| {
            Failure::said(
                "what was issued is not for all of them, or not for now: look at the clock",
            )
        })
    }
}
