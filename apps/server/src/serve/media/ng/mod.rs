//! The NG protocol: another proxy, such as Kamailio, has the media of its calls relayed.
//!
//! The calls have a relay of their own, so that the Call-IDs of the proxy and of this server do not
//! meet. The ports are those of `[media]`.

mod describe;
mod fault;
mod ignored;
mod report;
mod surroundings;
mod thread;

#[cfg(test)]
mod tests;

pub(in crate::serve) use thread::{Ng, NgThread};

use crate::log;
use crate::ng::NgSettings;
use describe::{Description, describe};
use fault::Fault;
use ng::{Command, Duplicates, FlagCounts, Options, Request, Response};
use relay::{CallReport, Calls, Selection};
use sip_server::Party;
use std::net::SocketAddr;
use surroundings::Surroundings;

/// The front end: a datagram becomes a command of the relay, and its result a datagram.
struct Front {
    settings: NgSettings,
    duplicates: Duplicates,
    counts: Counts,
}

/// Counts of datagrams, and of the flags without an effect.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Requests of permitted clients, without their repetitions.
    requests: u64,
    /// Requests that were answered again.
    repeated: u64,
    /// Requests that were answered with an error.
    refused: u64,
    /// Datagrams of other sources, and those without a cookie. They get no answer.
    dropped: u64,
    flags: FlagCounts,
}

/// The identification of calls in a request.
#[derive(Clone, Copy, Debug)]
struct Key<'a> {
    call_id: &'a [u8],
    tags: [Option<&'a [u8]>; 2],
    branch: Option<&'a [u8]>,
}

impl Front {
    fn new(settings: NgSettings) -> Self {
        let duplicates = Duplicates::new(Default::default());
        Self { settings, duplicates, counts: Counts::default() }
    }

    const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Processes a datagram, and writes the answer to `out`. Returns false if it gets no answer.
    fn receive(
        &mut self,
        surroundings: &Surroundings<'_>,
        source: SocketAddr,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        if !self.settings.clients.iter().any(|network| network.contains(source.ip())) {
            self.counts.dropped += 1;
            log::warn("ng-stranger", || {
                format!("a request of {source} is ignored: it is not one of media.ng_clients")
            });
            return false;
        }
        if let Some(response) = self.duplicates.response(surroundings.now, source, datagram) {
            self.counts.repeated += 1;
            out.extend_from_slice(response);
            return true;
        }
        match Request::parse(datagram) {
            Ok(request) => {
                self.counts.requests += 1;
                self.respond(surroundings, source, request, out);
            }
            Err(error) if error.respond(out) => {
                self.counts.requests += 1;
                self.refuse(source, &error.to_string());
            }
            Err(_) => {
                self.counts.dropped += 1;
                return false;
            }
        }
        self.duplicates.store(surroundings.now, source, datagram, out);
        true
    }

    fn respond(
        &mut self,
        surroundings: &Surroundings<'_>,
        source: SocketAddr,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let Request { cookie, command, mut options } = request;
        let result = self.execute(surroundings, source, (cookie, command), &mut options, out);
        self.count_flags(source, &mut options, matches!(command, Command::Delete { .. }));
        if let Err(fault) = result {
            self.refuse(source, &fault.to_string());
            fault.write(options.supports_load_limit, cookie, out);
        }
    }

    /// Executes a command, and writes the response of its success.
    fn execute(
        &self,
        surroundings: &Surroundings<'_>,
        source: SocketAddr,
        (cookie, command): (&[u8], Command<'_>),
        options: &mut Options<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (calls, interfaces) = (surroundings.calls, &self.settings.interfaces[..]);
        let branch = options.via_branch.map(str::as_bytes);
        match command {
            Command::Ping => Response::Pong.write(cookie, out),
            Command::Offer { call_id, from_tag, to_tag, sdp } => {
                let tags = [from_tag, to_tag.unwrap_or_default()];
                let description = Description { call_id, tags, sdp, is_offer: true, source };
                let sdp = describe(surroundings, interfaces, &description, options)?;
                Response::Sdp(sdp.as_bytes()).write(cookie, out);
            }
            Command::Answer { call_id, from_tag, to_tag, sdp } => {
                let tags = [to_tag, from_tag];
                let description = Description { call_id, tags, sdp, is_offer: false, source };
                let sdp = describe(surroundings, interfaces, &description, options)?;
                Response::Sdp(sdp.as_bytes()).write(cookie, out);
            }
            Command::Delete { call_id, from_tag, to_tag } => {
                let key = Key { call_id, tags: [from_tag, to_tag], branch };
                let ended = calls.end_all(call_id, key.selection(calls));
                if !ended.is_empty() {
                    write_report(&ended, surroundings, cookie, out);
                    if let Some((call, by)) = whole(ended, from_tag) {
                        (surroundings.ended)(call, by);
                    }
                } else if options.fatal {
                    return Err(Fault::UnknownCall);
                } else {
                    Response::Warning(&Fault::UnknownCall.to_string()).write(cookie, out);
                }
            }
            Command::Query { call_id, from_tag, to_tag } => {
                let key = Key { call_id, tags: [from_tag, to_tag], branch };
                let reports = calls.reports_of(call_id, key.selection(calls));
                if reports.is_empty() {
                    return Err(Fault::UnknownCall);
                }
                write_report(&reports, surroundings, cookie, out);
            }
            Command::List { limit } => {
                let mut ids: Vec<_> = calls.reports().into_iter().map(|it| it.call_id).collect();
                ids.sort_unstable();
                ids.dedup();
                let ids: Vec<_> = ids.iter().take(limit).map(|id| &**id).collect();
                Response::Calls(&ids).write(cookie, out);
            }
        }
        Ok(())
    }

    /// Counts the flags without an effect, and logs each that is new.
    fn count_flags(&mut self, source: SocketAddr, options: &mut Options<'_>, is_deletion: bool) {
        ignored::push(options, is_deletion);
        self.counts.flags.add(&options.unrecognized, |flag| {
            log::warn("ng-flag", || format!("the flag {flag} of {source} has no effect"));
        });
    }

    fn refuse(&mut self, source: SocketAddr, fault: &str) {
        self.counts.refused += 1;
        log::warn("ng", || format!("a request of {source} is refused: {fault}"));
    }
}

/// The call of the `branches` that a request with this From tag has ended, and the party that has
/// ended it. `None` if it goes on by other branches.
fn whole(branches: Vec<CallReport>, tag: Option<&[u8]>) -> Option<(CallReport, Party)> {
    let is_over = branches.iter().any(|branch| branch.is_last);
    let call = branches.into_iter().filter(|_| is_over).reduce(|one, other| {
        match other.answered.is_some() {
            true => other.merged(one),
            false => one.merged(other),
        }
    })?;
    let by = match tag {
        Some(tag) if *tag == *call.caller_tag => Party::Caller,
        Some(tag) if *tag == *call.callee_tag => Party::Callee,
        _ => Party::Server,
    };
    Some((call, by))
}

fn write_report(
    calls: &[CallReport],
    surroundings: &Surroundings<'_>,
    cookie: &[u8],
    out: &mut Vec<u8>,
) {
    report::with_report(calls, surroundings, |report| Response::Call(report).write(cookie, out));
}

impl<'a> Key<'a> {
    /// The branch of this key, if the call has it. A request within a dialog may name the branch
    /// of its own transaction: then the tags decide.
    fn selection(&self, calls: &dyn Calls) -> Selection<'a> {
        if let Some(id) = self.branch {
            let branch = Selection::Branch(id);
            if !calls.reports_of(self.call_id, branch).is_empty() {
                return branch;
            }
        }
        match self.tags {
            [Some(one), Some(other)] => Selection::Dialog([one, other]),
            [Some(tag), None] | [None, Some(tag)] => Selection::Tag(tag),
            [None, None] => Selection::All,
        }
    }
}
