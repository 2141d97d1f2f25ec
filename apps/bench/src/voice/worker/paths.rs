//! The media paths of ends as in browsers, until their media begin.

use super::Worker;
use crate::voice::air::Air;
use crate::voice::end::{CALLER, End};
use crate::voice::web::WebKeys;
use sip::Instant;

impl Worker {
    /// Begins the checks and the handshake of an end at the answer of its call.
    pub(super) fn begin_path(&mut self, end: &mut End, index: usize, now: Instant) {
        let (Some(web), Some(identity)) = (&mut end.web, &self.identity) else { return };
        let peer = end.call.session().and_then(|session| session.stream().keying.dtls());
        let begun = match (peer, &end.description) {
            (Some(peer), Some(theirs)) => web.begin(theirs, peer, identity, now),
            _ => Err("the other end has no keys by DTLS".to_owned()),
        };
        match begun {
            Ok(()) => self.paths.push((index, end.serial)),
            Err(reason) => self.fail_path(end, &reason),
        }
    }

    /// Records the failure of a path. The call of a callee fails at its caller: its audio does not
    /// come back.
    fn fail_path(&mut self, end: &End, reason: &str) {
        self.air.found.media.handshakes_failed += u64::from(self.air.is_measuring);
        match end.side {
            CALLER => self.fail(end.is_measured, reason),
            _ => {
                self.air.found.first_failure.get_or_insert_with(|| reason.to_owned());
            }
        }
    }

    /// Advances the checks and the handshakes that have not ended.
    pub(super) fn drive_paths(&mut self, now: Instant) {
        let mut paths = std::mem::take(&mut self.paths);
        paths.retain(|&(index, serial)| {
            let Some(mut end) = self.take_end(index, serial) else { return false };
            let goes_on = self.drive_path(&mut end, index, now);
            self.ends[index] = Some(end);
            goes_on
        });
        self.paths.append(&mut paths);
    }

    /// Advances one path. Returns false once the handshake is over. It is over for the other end,
    /// too, when media arrive: until then its last messages are repeated.
    fn drive_path(&mut self, end: &mut End, index: usize, now: Instant) -> bool {
        self.air.check(end, now);
        let Some(web) = &mut end.web else { return false };
        let Air { outbox, found, .. } = &mut self.air;
        let socket = &end.socket;
        let driven = web.drive(|to, datagram| Air::transmit(outbox, found, socket, to, datagram));
        let keys = match driven {
            Ok(None) => {
                let has_media = end.line.as_ref().is_some_and(|line| line.last_arrival().is_some());
                return !end.is_hung_up && !has_media;
            }
            Ok(Some(keys)) => WebKeys::new(keys).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match keys {
            Ok(keys) => {
                // The rate counts the handshakes that end in the measured time, of whatever call.
                if let Some(answered) = web.answered.filter(|_| self.air.is_measuring) {
                    self.air.found.media.handshakes.record(now.since(answered));
                }
                end.keys = Some(keys);
                self.settle_line(end, now);
                self.begin_audio(end, index);
                true
            }
            Err(reason) => {
                self.fail_path(end, &reason);
                false
            }
        }
    }
}
