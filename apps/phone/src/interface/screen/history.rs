//! The call history of this run.

use super::text::duration;
use crate::report::PhoneEvent;
use sip::HeaderName;
use sip::header::NameAddr;
use std::time::SystemTime;

/// The URI and the name of the caller, from the From of an INVITE.
fn caller(from: &str) -> (String, String) {
    let Ok(named) = NameAddr::parse(HeaderName::From, from.as_bytes()) else {
        return (from.to_owned(), from.to_owned());
    };
    let uri = String::from_utf8_lossy(named.uri_bytes).into_owned();
    let name = String::from_utf8_lossy(named.display_name);
    match name.trim_matches(['"', ' ']) {
        "" => (uri.clone(), uri),
        name => (uri.clone(), format!("{name} <{uri}>")),
    }
}

/// Maximum number of calls kept.
const MAX: usize = 1000;

/// A call in the history.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) call: u64,
    /// The remote end, by its URI and by its name if it has one.
    pub(super) uri: String,
    pub(super) party: String,
    pub(super) is_incoming: bool,
    pub(super) at: SystemTime,
    /// Duration in seconds and cause; `None` while the call is not over.
    pub(super) end: Option<(Option<f64>, String)>,
}

impl Record {
    /// Duration and cause as text.
    pub(super) fn story(&self) -> String {
        match &self.end {
            None => "now".to_owned(),
            Some((Some(seconds), how)) => format!("{}  {how}", duration(seconds.round() as u64)),
            Some((None, how)) => format!("no answer  {how}"),
        }
    }
}

/// The call history, the newest first.
#[derive(Debug, Default)]
pub(super) struct History {
    records: Vec<Record>,
}

impl History {
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(super) fn of(&self, call: u64) -> Option<&Record> {
        self.records.iter().find(|record| record.call == call)
    }

    pub(super) fn hear(&mut self, told: &PhoneEvent) {
        match told {
            PhoneEvent::Calling { call, to } => self.begin(*call, to, false, None),
            PhoneEvent::Following { by, to, .. } => self.begin(*by, to, false, None),
            PhoneEvent::Incoming { call, from, .. } => self.begin(*call, from, true, None),
            PhoneEvent::Refused { call, from, cause } => {
                self.begin(*call, from, true, Some((None, cause.clone())));
            }
            PhoneEvent::Ended { call, cause, seconds, .. } => {
                let record = self.records.iter_mut().find(|record| record.call == *call);
                if let Some(record) = record {
                    // The party is shown beside it.
                    let how = cause.strip_prefix(&record.party).unwrap_or(cause).trim_start();
                    record.end = Some((*seconds, how.to_owned()));
                }
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        call: u64,
        party: &str,
        is_incoming: bool,
        end: Option<(Option<f64>, String)>,
    ) {
        let (uri, party) = match is_incoming {
            true => caller(party),
            false => (party.to_owned(), party.to_owned()),
        };
        let at = SystemTime::now();
        self.records.insert(0, Record { call, uri, party, is_incoming, at, end });
        self.records.truncate(MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ended;
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn calls_are_remembered_with_their_ends() {
        let mut history = History::default();
        let from = "\"B <x>\" <sip:bob@192.0.2.1;x=1>;tag=1".to_owned();
        history.hear(&PhoneEvent::Calling {
            call: 1,
            to: "sip:carol@example.org;transport=tcp".into(),
        });
        history.hear(&PhoneEvent::Incoming { call: 2, from: from.clone(), account: None });
        history.hear(&PhoneEvent::Refused { call: 3, from, cause: "no codec".into() });
        history.hear(&ended(2, "hung up here", Some(61.2), Outcome::Done));
        let records = history.records();
        assert!(records[0].story().starts_with("no answer  no codec"), "{records:?}");
        assert!(records[1].story().starts_with("01:01  hung up here"), "{records:?}");
        assert!(records[2].story().starts_with("now"), "{records:?}");
        let uris = [2, 1].map(|place| records[place].uri.as_str());
        assert_eq!(uris, ["sip:carol@example.org;transport=tcp", "sip:bob@192.0.2.1;x=1"]);
        assert_eq!(records[1].party, "B <x> <sip:bob@192.0.2.1;x=1>");
        assert_eq!(caller("\u{1b}").0, "\u{1b}");
    }
}
