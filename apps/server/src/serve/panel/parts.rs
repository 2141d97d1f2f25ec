//! The parts of the server that the panel needs.

use crate::cli::Place;
use crate::serve::connections::CurrentTls;
use crate::serve::desk::Running;
use crate::serve::reload::ReadSettings;
use std::sync::Arc;
use store::Storage;

/// The parts of the server that the panel needs.
pub(crate) struct Parts {
    pub(crate) desk: Arc<Running>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) read_settings: ReadSettings,
    /// The flags with which other commands find the server.
    pub(crate) place: Place,
}
