//! The playing of the messages of a mailbox: as many short tones as there are new messages, then
//! the messages, with a menu of keys.

use crate::event::{Ask, MessageId, Reply, Summary};
use crate::player::Player;
use crate::sounds::{DELETED, END, MENU, NO_MESSAGES, RATE, Sounds};
use crate::step::{Asks, Step};
use alloc::string::String;
use alloc::vec::Vec;

/// The message is played again.
const REPEAT: char = '1';
/// The next message is played.
const NEXT: char = '2';
/// The message is deleted.
const DELETE: char = '3';
/// The call ends.
const LEAVE: char = '#';
/// The maximum number of tones for new messages.
const MOST_TONES: usize = 9;
/// The number of ticks of 20 ms until the menu is played again, and the number of times.
const PATIENCE: (u32, u32) = (500, 3);

/// The playing of messages.
pub(crate) struct Retrieval {
    mailbox: String,
    messages: Vec<Summary>,
    /// The place of the current message.
    current: usize,
    state: State,
    player: Player,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The list is not requested yet.
    New,
    /// The reply of the owner is awaited.
    Listing,
    /// The number of messages is played.
    Announcing,
    Loading,
    Playing,
    /// A key is awaited: the ticks so far, and the number of times that the menu was played.
    Menu(u32, u32),
    Deleting(MessageId),
    /// The last sound is played.
    Leaving,
}

impl Retrieval {
    /// The playing of the messages of `mailbox`.
    pub(crate) const fn new(mailbox: String) -> Self {
        let player = Player::new(RATE);
        Self { mailbox, messages: Vec::new(), current: 0, state: State::New, player }
    }

    /// Processes 20 ms. Returns true if the call is over.
    pub(crate) fn step(&mut self, step: Step<'_>) -> bool {
        if self.state == State::New {
            self.ask(Ask::List, step.asks);
            self.state = State::Listing;
        }
        self.player.fill(step.heard.len(), step.out);
        if !self.player.is_done() {
            return false;
        }
        match self.state {
            State::Announcing => self.load(step.sounds, step.asks),
            State::Playing => {
                self.note_heard(step.asks);
                self.show_menu(1, step.sounds);
            }
            State::Menu(ticks, shown) if ticks < PATIENCE.0 => {
                self.state = State::Menu(ticks + 1, shown);
            }
            State::Menu(_, shown) if shown < PATIENCE.1 => self.show_menu(shown + 1, step.sounds),
            State::Menu(..) | State::Leaving => return true,
            State::New | State::Listing | State::Loading | State::Deleting(_) => {}
        }
        false
    }

    pub(crate) fn press(&mut self, key: char, sounds: &Sounds, asks: &mut Asks) {
        if key == LEAVE {
            self.player.stop();
            self.state = State::Leaving;
            return;
        }
        match (self.state, key) {
            (State::Announcing, _) => {
                self.player.stop();
                self.load(sounds, asks);
            }
            (State::Playing | State::Menu(..), REPEAT) => {
                self.player.stop();
                self.load(sounds, asks);
            }
            (State::Playing | State::Menu(..), NEXT) => {
                self.player.stop();
                self.note_heard(asks);
                self.current += 1;
                self.load(sounds, asks);
            }
            (State::Playing | State::Menu(..), DELETE) => {
                self.player.stop();
                if let Some(message) = self.messages.get(self.current) {
                    let id = message.id;
                    self.ask(Ask::Delete(id), asks);
                    self.state = State::Deleting(id);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn on_reply(&mut self, reply: Reply, sounds: &Sounds, asks: &mut Asks) {
        match (self.state, reply) {
            (State::Listing, Reply::Listed(messages)) => {
                self.messages = messages;
                self.announce(sounds);
            }
            (State::Loading, Reply::Loaded(Some(samples))) => {
                self.player.pause(200).samples(samples);
                self.state = State::Playing;
            }
            (State::Loading, Reply::Loaded(None)) => {
                self.player.failure();
                self.state = State::Menu(0, 1);
            }
            (State::Deleting(id), Reply::Done(true)) => {
                self.messages.retain(|message| message.id != id);
                sounds.play_or_tones(DELETED, &mut self.player);
                self.load(sounds, asks);
            }
            (State::Deleting(_), Reply::Done(false)) => {
                self.player.failure();
                self.state = State::Menu(0, 1);
            }
            _ => {}
        }
    }

    fn announce(&mut self, sounds: &Sounds) {
        self.player.pause(300);
        if self.messages.is_empty() {
            sounds.play_or_tones(NO_MESSAGES, &mut self.player);
            self.state = State::Leaving;
            return;
        }
        let new = self.messages.iter().filter(|message| !message.is_heard).count();
        for _ in 0..new.min(MOST_TONES) {
            self.player.tone(700.0, 150).pause(150);
        }
        self.player.pause(300);
        self.state = State::Announcing;
    }

    /// Requests the current message. After the last one the call ends.
    fn load(&mut self, sounds: &Sounds, asks: &mut Asks) {
        match self.messages.get(self.current) {
            Some(message) => {
                let id = message.id;
                self.ask(Ask::Load(id), asks);
                self.state = State::Loading;
            }
            None => {
                sounds.play_or_tones(END, &mut self.player);
                self.state = State::Leaving;
            }
        }
    }

    fn show_menu(&mut self, shown: u32, sounds: &Sounds) {
        self.player.pause(300);
        sounds.play_or_tones(MENU, &mut self.player);
        self.state = State::Menu(0, shown);
    }

    /// Notes that the current message was heard.
    fn note_heard(&mut self, asks: &mut Asks) {
        if let Some(message) = self.messages.get_mut(self.current).filter(|it| !it.is_heard) {
            message.is_heard = true;
            let id = message.id;
            self.ask(Ask::MarkHeard(id), asks);
        }
    }

    fn ask(&self, ask: Ask, asks: &mut Asks) {
        asks.push((self.mailbox.clone(), ask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use media::tone::{Tone, amplitude_of};

    const FRAME: usize = RATE as usize / 50;

    /// A caller, and an owner with messages: tones of 500 ms at 100 times their number in hertz.
    struct Call {
        retrieval: Retrieval,
        messages: Vec<Summary>,
        asks: Asks,
        sent: Vec<i16>,
        is_over: bool,
    }

    impl Call {
        fn new(messages: &[(MessageId, bool)]) -> Self {
            let summary =
                |(id, is_heard): &(MessageId, bool)| Summary { id: *id, is_heard: *is_heard };
            Self {
                retrieval: Retrieval::new("bob@example.com".into()),
                messages: messages.iter().map(summary).collect(),
                asks: Vec::new(),
                sent: Vec::new(),
                is_over: false,
            }
        }

        fn pass(&mut self, millis: usize) {
            for _ in 0..millis / 20 {
                let (sounds, out, asks) = (&Sounds::default(), &mut self.sent, &mut self.asks);
                let step = Step { heard: &[0; FRAME], mix: None, sounds, out, asks };
                self.is_over |= self.retrieval.step(step);
                self.serve();
            }
        }

        fn press(&mut self, key: char) {
            self.retrieval.press(key, &Sounds::default(), &mut self.asks);
            self.sent.clear();
            self.serve();
        }

        fn serve(&mut self) {
            while !self.asks.is_empty() {
                let (mailbox, ask) = self.asks.remove(0);
                assert_eq!(mailbox, "bob@example.com");
                let reply = match ask {
                    Ask::List => Reply::Listed(self.messages.clone()),
                    Ask::Load(id) => {
                        let mut tone = Vec::new();
                        Tone::new(100.0 * id as f64, RATE, 8000).fill(25 * FRAME, &mut tone);
                        Reply::Loaded(Some(Arc::from(tone)))
                    }
                    Ask::Delete(id) => {
                        self.messages.retain(|message| message.id != id);
                        Reply::Done(true)
                    }
                    Ask::MarkHeard(id) => {
                        let mut messages = self.messages.iter_mut();
                        messages.find(|it| it.id == id).expect("a message").is_heard = true;
                        continue;
                    }
                    Ask::Keep(_) => panic!("a retrieval stores nothing"),
                };
                self.retrieval.on_reply(reply, &Sounds::default(), &mut self.asks);
            }
        }

        /// True if the tone of a message was sent since the last key.
        fn has_played(&self, id: MessageId) -> bool {
            self.sent
                .windows(10 * FRAME)
                .step_by(FRAME)
                .any(|window| amplitude_of(100.0 * id as f64, RATE, window) > 7000.0)
        }
    }

    #[test]
    fn messages_are_played_repeated_skipped_and_deleted() {
        let mut call = Call::new(&[(11, false), (13, false), (5, true)]);
        call.pass(3000);
        assert!(call.has_played(11) && !call.has_played(13));
        assert!(call.messages[0].is_heard && !call.messages[1].is_heard);
        call.press(REPEAT);
        call.pass(2000);
        assert!(call.has_played(11) && !call.has_played(13));
        call.press(NEXT);
        call.pass(100);
        call.press(DELETE);
        call.pass(2000);
        assert!(call.has_played(5));
        let ids: Vec<_> = call.messages.iter().map(|message| message.id).collect();
        assert_eq!(ids, [11, 5]);
        call.press(NEXT);
        assert!(!call.is_over);
        call.pass(2000);
        assert!(call.is_over);
    }

    #[test]
    fn an_empty_mailbox_and_a_caller_without_a_key_end_the_call() {
        let mut empty = Call::new(&[]);
        empty.pass(3000);
        assert!(empty.is_over);
        let mut patient = Call::new(&[(11, false)]);
        patient.pass(25_000);
        assert!(!patient.is_over);
        patient.pass(20_000);
        assert!(patient.is_over);
        let mut leaving = Call::new(&[(11, false)]);
        leaving.pass(1000);
        leaving.press(LEAVE);
        leaving.pass(40);
        assert!(leaving.is_over);
    }

    #[test]
    fn a_message_that_cannot_be_read_or_deleted_is_told() {
        let mut retrieval = Retrieval::new("b@d".into());
        let (sounds, mut asks) = (Sounds::default(), Vec::new());
        let step = |retrieval: &mut Retrieval, asks: &mut Asks, count: usize| {
            let mut out = Vec::new();
            for _ in 0..count {
                let (sounds, out) = (&sounds, &mut out);
                retrieval.step(Step { heard: &[0; FRAME], mix: None, sounds, out, asks });
            }
            amplitude_of(480.0, RATE, &out)
        };
        step(&mut retrieval, &mut asks, 1);
        let messages = Vec::from([Summary { id: 1, is_heard: true }]);
        retrieval.on_reply(Reply::Listed(messages), &sounds, &mut asks);
        step(&mut retrieval, &mut asks, 50);
        retrieval.on_reply(Reply::Loaded(None), &sounds, &mut asks);
        assert!(step(&mut retrieval, &mut asks, 50) > 1000.0);
        retrieval.press(DELETE, &sounds, &mut asks);
        assert_eq!(asks.pop(), Some(("b@d".into(), Ask::Delete(1))));
        retrieval.on_reply(Reply::Done(false), &sounds, &mut asks);
        assert!(step(&mut retrieval, &mut asks, 50) > 1000.0);
    }
}
