//! DNS look-ups on a thread of their own.

use crate::warnings;
use net::Dns;
use sip::Transport;
use sip::locate::{AddressFamilies, Destination, Target};
use sip_ua::Ticket;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The supported transports.
pub(crate) const TRANSPORTS: [Transport; 5] = Transport::ALL;

/// The origin of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The engine, for a request.
    Engine(Ticket),
    /// The phone, for the call with this number: the local address in the offer depends on the
    /// route.
    Call(u64),
}

/// Pending look-ups and their results.
pub(crate) struct Lookups {
    questions: Sender<(Asker, Destination)>,
    answers: Receiver<(Asker, Vec<Target>)>,
}

impl Lookups {
    /// Starts the thread, which writes to `waker` for each result.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(mut waker: UnixStream) -> std::io::Result<Self> {
        let (questions, asked) = channel::<(Asker, Destination)>();
        let (answered, answers) = channel();
        std::thread::Builder::new().name("lookups".into()).spawn(move || {
            let dns = Dns::new(TRANSPORTS.to_vec(), AddressFamilies::V4First, |text| {
                warnings::warn(text.to_owned());
            });
            while let Ok((asker, destination)) = asked.recv() {
                let targets = dns.locate_and_wait(destination).unwrap_or_default();
                if answered.send((asker, targets)).is_err() || waker.write_all(b"l").is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { questions, answers })
    }

    pub(crate) fn ask(&self, asker: Asker, destination: Destination) {
        // The thread ends only after this sender.
        let _ = self.questions.send((asker, destination));
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = (Asker, Vec<Target>)> + '_ {
        self.answers.try_iter()
    }
}
