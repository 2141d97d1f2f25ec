//! Certificates of the running server: it reads files again, and renews certificates of an ACME
//! issuer in time.

use super::connections::CurrentTls;
use crate::acme::{AcmeSettings, obtain};
use crate::failure::{Failure, during};
use crate::log;
use crate::settings::Settings;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::{AbortHandle, JoinSet, spawn_local};
use tokio::time::sleep;

/// The interval of checks of the wall clock, which may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// The pause after a failed order. Each further failure doubles it. Issuers count failures, and
/// block clients that go on.
const FIRST_PAUSE: Duration = Duration::from_secs(300);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The renewal of certificates.
pub(super) struct Renewal {
    data: PathBuf,
    tls: Arc<CurrentTls>,
    /// The present settings.
    settings: RefCell<Settings>,
    /// The task that waits for the time of renewal.
    keeping: Cell<Option<AbortHandle>>,
    /// The task of the order under way.
    asking: Cell<Option<AbortHandle>>,
}

impl Renewal {
    /// Renews the certificates of `tls`, with the files in the directory `data`.
    pub(super) fn new(data: PathBuf, tls: Arc<CurrentTls>, settings: Settings) -> Rc<Self> {
        let (keeping, asking) = (Cell::new(None), Cell::new(None));
        Rc::new(Self { data, tls, settings: RefCell::new(settings), keeping, asking })
    }

    /// Reads the certificates again, and renews them as `settings` say from now on. Must be called
    /// on a `LocalSet`.
    ///
    /// # Errors
    /// [`Failure`] if they cannot be read. The former ones stay in use.
    pub(super) fn renew(self: &Rc<Self>, settings: &Settings) -> Result<(), Failure> {
        self.settings.replace(settings.clone());
        let read = self.read();
        self.keep();
        read
    }

    /// Starts the renewal by an issuer, as the settings say. Must be called on a `LocalSet`.
    pub(super) fn keep(self: &Rc<Self>) {
        let wanted = self.settings.borrow().tls.acme.clone();
        // An order under way is aborted and begins anew: it may be stuck.
        let asking = self.asking.take();
        self.keeping.take().into_iter().chain(asking).for_each(|task| task.abort());
        self.tls.prove(Vec::new());
        let Some(wanted) = wanted else { return };
        let renewal = Rc::clone(self);
        let task = spawn_local(async move { renewal.ask_in_time(&wanted).await });
        self.keeping.set(Some(task.abort_handle()));
    }

    fn read(&self) -> Result<(), Failure> {
        let settings = self.settings.borrow();
        let tls = settings.open_tls(&self.data, self.tls.server().as_ref())?;
        if let Some(tls) = &tls {
            log::info("tls", || tls.remark());
            tls.advice().into_iter().for_each(|advice| log::info("tls", || advice.to_owned()));
        }
        self.tls.replace(tls, &settings);
        Ok(())
    }

    async fn ask_in_time(&self, wanted: &AcmeSettings) {
        let mut pause = FIRST_PAUSE;
        loop {
            let left = wanted.due(&self.data).duration_since(SystemTime::now()).unwrap_or_default();
            if !left.is_zero() {
                sleep(left.min(LOOK_AGAIN)).await;
                continue;
            }
            log::info("acme", || format!("asking for {wanted}"));
            let Err(failure) = self.ask(wanted).await else {
                self.show().await;
                pause = FIRST_PAUSE;
                continue;
            };
            log::warn("acme", || {
                let pause = humantime::format_duration(pause);
                format!(
                    "{wanted} could not be obtained: {failure}; the next attempt is in {pause}, \
                     or at once on SIGHUP"
                )
            });
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn ask(&self, wanted: &AcmeSettings) -> Result<(), Failure> {
        if self.tls.server().is_none() {
            return Err(Failure::message("nothing listens for TLS"));
        }
        let (asked, data, tls) = (wanted.clone(), self.data.clone(), Arc::clone(&self.tls));
        // A task of its own, because the library panics at some invalid responses of an issuer.
        let mut task = JoinSet::new();
        let asks = async move { obtain(&asked, &data, |proofs| tls.prove(proofs)).await };
        let asking = task.spawn_local(asks);
        self.asking.set(Some(asking));
        let obtained = task.join_next().await;
        self.asking.take();
        self.tls.prove(Vec::new());
        match obtained {
            Some(Ok(obtained)) => obtained,
            Some(Err(error)) => Err(error).map_err(during("its answer is not understood")),
            None => Err(Failure::message("it was not queried")),
        }
    }

    /// Uses the new certificate, once all others can be read, too.
    async fn show(&self) {
        while let Err(failure) = self.read() {
            log::warn("acme", || format!("the new certificate is not used yet: {failure}"));
            sleep(FIRST_PAUSE).await;
        }
    }
}
