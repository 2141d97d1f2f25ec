//! The log of a storage.

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An irregularity that does not stop the server.
    Warning,
    /// A failed operation.
    Error,
}

/// The receiver of log lines.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Logs a line. Its kind is for a limit by kind; its text is made only if it is logged.
    pub write: fn(Severity, kind: &'static str, text: &dyn Fn() -> String),
}

impl Log {
    pub(crate) fn warn(self, kind: &'static str, text: impl Fn() -> String) {
        (self.write)(Severity::Warning, kind, &text);
    }

    pub(crate) fn error(self, kind: &'static str, text: impl Fn() -> String) {
        (self.write)(Severity::Error, kind, &text);
    }
}
