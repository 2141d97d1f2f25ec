//! Look-ups in the DNS, on a thread of their own.

use net::Dns;
use sip::Transport;
use sip::locate::{Destination, Families, Target};
use sip_ua::Ticket;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The transports that this phone sends on.
const TRANSPORTS: [Transport; 1] = [Transport::Udp];

/// What is looked up, and what was found.
pub(crate) struct Lookups {
    questions: Sender<(Ticket, Destination)>,
    answers: Receiver<(Ticket, Vec<Target>)>,
}

/// The system's resolver.
pub(crate) fn resolver() -> Dns {
    Dns::new(TRANSPORTS.to_vec(), Families::V4First, |text| eprintln!("barebell-phone: {text}"))
}

impl Lookups {
    /// Starts the thread, which writes to `waker` when there is an answer.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(mut waker: UnixStream) -> std::io::Result<Self> {
        let (questions, asked) = channel::<(Ticket, Destination)>();
        let (answered, answers) = channel();
        std::thread::Builder::new().name("lookups".into()).spawn(move || {
            let dns = resolver();
            while let Ok((ticket, destination)) = asked.recv() {
                let targets = dns.locate_and_wait(destination).unwrap_or_default();
                if answered.send((ticket, targets)).is_err() || waker.write_all(b"l").is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { questions, answers })
    }

    pub(crate) fn ask(&self, ticket: Ticket, destination: Destination) {
        // The thread ends only after this.
        let _ = self.questions.send((ticket, destination));
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = (Ticket, Vec<Target>)> + '_ {
        self.answers.try_iter()
    }
}
