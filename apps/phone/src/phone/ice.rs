//! The events of ICE.

use super::Phone;
use crate::call::Stage;
use crate::outcome::Outcome;
use crate::report::PhoneEvent;
use ice_agent::{Event, Path};

impl Phone {
    /// Reports the events of ICE. A call ends if no way to the peer works, or no longer.
    pub(super) fn look_at_ice(&mut self) {
        if self.ice.is_none() {
            return;
        }
        let mut found = Vec::new();
        for (&number, call) in &mut self.calls {
            let is_talking = call.stage == Stage::Talking;
            let Some(leg) = &mut call.leg else { continue };
            found.extend(
                std::iter::from_fn(|| leg.next_ice_event())
                    .map(|event| (number, is_talking, event)),
            );
        }
        for (number, is_talking, event) in found {
            self.on_ice(number, is_talking, event);
        }
        let spare = self.spare.as_mut().and_then(|spare| spare.ice.as_mut());
        let failed = spare.and_then(|ice| ice.next_event());
        if let Some(Event::RelayFailed { server, error }) = failed {
            self.warn_of_turn(server, &error.to_string());
        }
    }

    fn on_ice(&mut self, number: u64, is_talking: bool, event: Event) {
        let end = |text: &str| Some(Outcome::NoRoute(text.to_owned()));
        let outcome = match event {
            Event::Selected(Path { remote, server, .. }) => {
                let server = server.map(|index| self.turn_name(index));
                let remote = remote.to_string();
                self.tell(PhoneEvent::Path { call: number, remote, turn: server });
                None
            }
            Event::Failed if is_talking => end(
                "no way to the other end: all checks of ICE have failed; a TURN server may help",
            ),
            Event::ConsentEnded => end("the other end no longer answers the checks of ICE"),
            Event::RelayFailed { server, error } => {
                self.warn_of_turn(server, &error.to_string());
                None
            }
            _ => None,
        };
        if let Some(outcome) = outcome {
            // The call may have ended already.
            let _ = self.hang_up(number);
            self.end(number, outcome);
        }
    }

    fn turn_name(&self, index: usize) -> String {
        let server = self.ice.as_ref().and_then(|ice| ice.turn.get(index));
        server.map(|(server, _)| server.address.to_string()).unwrap_or_default()
    }

    fn warn_of_turn(&self, index: usize, cause: &str) {
        crate::warnings::warn(format!("TURN server {}: {cause}", self.turn_name(index)));
    }
}
