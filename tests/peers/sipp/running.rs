//! A running SIPp instance and its statistics.

use super::LIMIT;
use crate::folder::Folder;
use crate::process::Process;
use std::collections::HashMap;
use std::process::ExitStatus;

/// A running SIPp instance. It is killed on drop.
#[derive(Debug)]
pub struct Running {
    scenario: &'static str,
    calls: usize,
    process: Process,
    status: Option<ExitStatus>,
    folder: Folder,
}

impl Running {
    pub(super) fn new(
        scenario: &'static str,
        calls: usize,
        folder: Folder,
        process: Process,
    ) -> Self {
        Self { scenario, calls, process, status: None, folder }
    }

    /// Panics with SIPp's report if it has ended.
    pub(super) fn assert_started(&mut self) {
        self.status = self.process.ended();
        assert!(self.status.is_none(), "SIPp does not start\n{}", self.report());
    }

    /// Waits for the end of SIPp.
    ///
    /// # Panics
    /// A call failed, an unexpected message arrived, or many messages were retransmitted. The panic
    /// message contains SIPp's report.
    pub fn finish(mut self) {
        self.succeed();
        // A busy machine may cause some retransmissions. If every message is retransmitted, the
        // transactions do not match.
        let repeated = self.repeated();
        assert!(
            repeated <= self.calls as u64 / 5,
            "{}: {repeated} messages in {} calls were retransmitted\n{}",
            self.scenario,
            self.calls,
            self.report()
        );
    }

    /// As [`Running::finish`], but accepts retransmissions, for a server that was down for a while
    /// or has short timers.
    ///
    /// # Panics
    /// The cases of [`Running::finish`], except for retransmissions.
    pub fn finish_with_repeats(mut self) {
        self.succeed();
    }

    fn succeed(&mut self) {
        // SIPp should end normally and write its report.
        self.status = self.process.wait(LIMIT * 2);
        assert!(self.status.is_some(), "SIPp does not end\n{}", self.report());
        let totals = self.totals();
        let total = |name: &str| totals.get(&format!("{name}(C)")).copied().unwrap_or(u64::MAX);
        let faults: Vec<String> = ["FailedCall", "OutOfCallMsgs", "DeadCallMsgs", "FatalErrors"]
            .into_iter()
            .filter(|name| total(name) != 0)
            .map(|name| format!("{name} {}", total(name)))
            .collect();
        let succeeded = total("SuccessfulCall");
        assert!(
            self.status.is_some_and(|status| status.success())
                && faults.is_empty()
                && succeeded == self.calls as u64,
            "{}: {succeeded} of {} calls succeeded; {}\n{}",
            self.scenario,
            self.calls,
            faults.join(", "),
            self.report()
        );
    }

    /// The lines written by log actions of the scenario so far, without an incomplete last line.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let text = self.read("seen");
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(str::to_owned).collect()
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last line of the statistics file, by column.
    fn totals(&self) -> HashMap<String, u64> {
        last_line(&self.read("statistics"))
    }

    /// The number of retransmissions sent or received.
    fn repeated(&self) -> u64 {
        let file = format!("{}_{}_counts.csv", self.scenario, self.process.id());
        let counts = last_line(&self.read(&file));
        assert!(!counts.is_empty(), "SIPp wrote no {file}");
        counts.iter().filter(|(name, _)| name.ends_with("_Retrans")).map(|(_, count)| count).sum()
    }

    /// The errors of SIPp, and its counters of each message of the scenario.
    fn report(&self) -> String {
        let errors: String = self.read("errors").chars().take(3000).collect();
        let screen = self.read("screen");
        let messages = screen.split("Messages  Retrans").nth(1).unwrap_or(&screen);
        let messages = messages.split("-- Test Terminated").next().unwrap_or_default();
        format!("{:?}\n{errors}\n{messages}", self.status)
    }
}

/// The numbers in the last line of a semicolon-separated file, by the names in its first line.
fn last_line(text: &str) -> HashMap<String, u64> {
    let (Some(names), Some(values)) = (text.lines().next(), text.lines().last()) else {
        return HashMap::new();
    };
    let values = values.split(';').map(|value| value.trim().parse().ok());
    names
        .split(';')
        .zip(values)
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}
