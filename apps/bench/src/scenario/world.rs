//! The state that all calls of a scenario share.

use super::counts::Counts;
use super::fields::Fields;
use super::recording::Recording;
use super::script::Script;
use super::shared::Shared;
use super::value::{Scope, Value, Variable};
use sip::{Duration, Instant};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// The options of a scenario for its messages and times.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) service: String,
    /// The transport in capitals.
    pub(crate) transport: String,
    /// True if messages may be lost and are retransmitted.
    pub(crate) is_lossy: bool,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) remote_host: String,
    pub(crate) media: SocketAddr,
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    pub(crate) pause: Duration,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) base_cseq: u32,
    pub(crate) invite_retransmissions: u32,
    pub(crate) other_retransmissions: u32,
    /// Requests within calls that the scenario does not expect are answered: INFO, NOTIFY,
    /// OPTIONS, UPDATE.
    pub(crate) answers_others: bool,
    /// Calls that failed are ended by BYE or CANCEL.
    pub(crate) ends_failed: bool,
    /// The number of users, if calls are those of users.
    pub(crate) users: Option<usize>,
    /// Distinguishes the calls of this run from those of others.
    pub(crate) stamp: u32,
}

/// The destination of a message: the address and, for a connection, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) connection: Option<(u32, u32)>,
}

/// An order of a call, by its number, for its media.
#[derive(Clone, Debug)]
pub(super) struct MediaCommand {
    pub(super) call: u64,
    pub(super) order: MediaOrder,
}

#[derive(Clone, Debug)]
pub(super) enum MediaOrder {
    /// Sends a recording to an address, this number of times; `None` for no end.
    Play {
        recording: Arc<Recording>,
        rounds: Option<u32>,
        to: Option<SocketAddr>,
    },
    Pause,
    Resume,
    Stop,
}

/// The state that all calls share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) script: Script,
    pub(super) settings: Settings,
    pub(super) files: Vec<Fields>,
    pub(super) globals: Vec<Value>,
    /// The variables of each user.
    pub(super) users: Vec<Vec<Value>>,
    pub(super) scopes: Vec<Scope>,
    pub(super) rng: fastrand::Rng,
    pub(super) counts: Counts,
    /// Messages to send.
    pub(super) out: Vec<(Peer, Vec<u8>)>,
    pub(super) media: Vec<MediaCommand>,
    /// Lines for the log, and true for those to standard error.
    pub(super) log: Vec<(bool, Vec<u8>)>,
    /// The keys of `[dynamic_id]`.
    pub(super) dynamic_id: u64,
    /// Set by the scenario: no more calls, or no calls at all.
    pub(super) is_stopping: bool,
    pub(super) is_stopped: bool,
    pub(super) start: Instant,
    /// Call-IDs of calls that have ended, and their order.
    pub(super) ended: Ended,
    /// The state of all workers.
    pub(super) shared: Arc<Shared>,
}

/// The Call-IDs of the last calls that ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    ids: BTreeSet<Vec<u8>>,
    order: std::collections::VecDeque<Vec<u8>>,
}

/// The number of ended calls that are remembered.
const REMEMBERED: usize = 16_384;

impl Ended {
    pub(super) fn add(&mut self, id: Vec<u8>) {
        if self.ids.insert(id.clone()) {
            self.order.push_back(id);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(super) fn has(&self, id: &[u8]) -> bool {
        self.ids.contains(id)
    }
}

impl World {
    pub(super) fn new(script: Script, settings: Settings, seed: u64, start: Instant) -> Self {
        let mut counts = Counts::default();
        counts.steps = script
            .steps
            .iter()
            .map(|step| super::counts::StepCounts {
                label: step.label.clone(),
                is_spaced: step.is_spaced,
                ..Default::default()
            })
            .collect();
        let scopes: Vec<_> = script.names.scopes().collect();
        let users = vec![vec![Value::Unset; scopes.len()]; settings.users.unwrap_or_default()];
        Self {
            files: script.names.files.clone(),
            globals: vec![Value::Unset; scopes.len()],
            users,
            scopes,
            script,
            settings,
            rng: fastrand::Rng::with_seed(seed),
            counts,
            out: Vec::new(),
            media: Vec::new(),
            log: Vec::new(),
            dynamic_id: 0,
            is_stopping: false,
            is_stopped: false,
            start,
            ended: Ended::default(),
            shared: Arc::default(),
        }
    }

    /// Returns the variable that is not one of the call, or `None`.
    pub(super) fn shared(&mut self, user: Option<usize>, variable: Variable) -> Option<&mut Value> {
        match self.scopes.get(variable.0)? {
            Scope::Call => None,
            Scope::Global => self.globals.get_mut(variable.0),
            Scope::User => match user {
                Some(user) => self.users.get_mut(user)?.get_mut(variable.0),
                None => self.globals.get_mut(variable.0),
            },
        }
    }
}
