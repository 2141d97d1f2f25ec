//! The program of a call: it hears the caller, takes keys, and speaks.

use crate::deposit::Deposit;
use crate::event::Reply;
use crate::player::Player;
use crate::retrieval::Retrieval;
use crate::room::Member;
use crate::slot::Waiting;
use crate::sounds::{MUSIC, RATE, Sounds};
use crate::step::{Asks, Step};
use alloc::boxed::Box;

/// The program of a call.
pub(crate) enum Program {
    /// The sound of the caller returns.
    Echo,
    /// A sound is played once.
    Announcement(Player),
    /// Music is played without an end.
    Music(Player),
    /// A conference room.
    Room(Member),
    /// A slot: the call waits for another one.
    Slot(Box<Waiting>),
    /// A message is recorded.
    Deposit(Box<Deposit>),
    /// The messages of a mailbox are played.
    Retrieval(Retrieval),
}

impl Program {
    /// The sample rate in hertz, for a session with samples of `session` hertz.
    pub(crate) const fn rate(&self, session: u32) -> u32 {
        match self {
            Self::Echo => session,
            Self::Room(_) | Self::Slot(_) => crate::room::RATE,
            _ => RATE,
        }
    }

    /// Processes 20 ms. Returns true if the call is over.
    pub(crate) fn step(&mut self, step: Step<'_>) -> bool {
        let count = step.heard.len();
        match self {
            Self::Echo => {
                step.out.extend_from_slice(step.heard);
                false
            }
            Self::Announcement(player) => {
                player.fill(count, step.out);
                player.is_done()
            }
            Self::Music(player) => {
                if player.is_done() {
                    step.sounds.play_or_tones(MUSIC, player);
                }
                player.fill(count, step.out);
                false
            }
            Self::Room(member) => {
                member.step(step);
                false
            }
            Self::Slot(waiting) => {
                waiting.step(step);
                false
            }
            Self::Deposit(deposit) => deposit.step(step),
            Self::Retrieval(retrieval) => retrieval.step(step),
        }
    }

    /// Takes a key of the caller.
    pub(crate) fn press(&mut self, key: char, sounds: &Sounds, asks: &mut Asks) {
        match self {
            Self::Echo | Self::Announcement(_) | Self::Music(_) | Self::Slot(_) => {}
            Self::Room(member) => member.press(key),
            Self::Deposit(deposit) => deposit.press(key),
            Self::Retrieval(retrieval) => retrieval.press(key, sounds, asks),
        }
    }

    /// Takes the reply to a request.
    pub(crate) fn on_reply(&mut self, reply: Reply, sounds: &Sounds, asks: &mut Asks) {
        match self {
            Self::Deposit(deposit) => deposit.on_reply(&reply),
            Self::Retrieval(retrieval) => retrieval.on_reply(reply, sounds, asks),
            Self::Echo | Self::Announcement(_) | Self::Music(_) | Self::Room(_) | Self::Slot(_) => {
            }
        }
    }

    /// Ends the program, since the call has ended.
    pub(crate) fn end(&mut self, asks: &mut Asks) {
        if let Self::Deposit(deposit) = self {
            deposit.end(asks);
        }
    }
}
