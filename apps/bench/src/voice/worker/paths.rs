//! The media paths of callers as in browsers, until their media begin.

use super::Worker;
use crate::voice::air::Air;
use crate::voice::end::End;
use crate::voice::web::WebKeys;
use sip::Instant;

impl Worker {
    /// Begins the checks and the handshake of a caller that was answered.
    pub(super) fn begin_path(&mut self, end: &mut End, index: usize, now: Instant) {
        let (Some(web), Some(identity)) = (&mut end.web, &self.identity) else { return };
        let peer = end.call.session().and_then(|session| session.stream().keying.dtls());
        let begun = match (peer, &end.answer) {
            (Some(peer), Some(answer)) => web.begin(answer, peer, identity, now),
            _ => Err("the answer has no keys by DTLS".to_owned()),
        };
        match begun {
            Ok(()) => self.paths.push((index, end.serial)),
            Err(reason) => self.fail(end.is_measured, &reason),
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

    /// Advances one path. Returns false once the handshake is over.
    fn drive_path(&mut self, end: &mut End, index: usize, now: Instant) -> bool {
        self.air.check(end, now);
        let Some(web) = &mut end.web else { return false };
        let Air { outbox, found, .. } = &mut self.air;
        let socket = &end.socket;
        let driven = web.drive(|to, datagram| Air::transmit(outbox, found, socket, to, datagram));
        let keys = match driven {
            Ok(None) => return !end.is_hung_up,
            Ok(Some(keys)) => WebKeys::new(keys).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match keys {
            Ok(keys) => {
                if let Some(answered) = web.answered.filter(|_| end.is_measured) {
                    self.air.found.media.handshakes.record(now.since(answered));
                }
                end.keys = Some(keys);
                self.settle_line(end, now);
                self.begin_audio(end, index);
            }
            Err(reason) => self.fail(end.is_measured, &reason),
        }
        false
    }
}
