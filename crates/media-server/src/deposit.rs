//! The recording of a message: a greeting, a beep, and the message, which ends by silence, by a
//! key, by its maximum duration, or with the call.

use crate::event::{Ask, Recording, Reply};
use crate::player::Player;
use crate::sounds::{GREETING, RATE, Sounds};
use crate::step::{Asks, Step};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use media::audio_meter::AudioMeter;

/// The key that ends the greeting, and then the message.
const END_KEY: char = '#';
/// The shortest audio that is kept as a message.
const SHORTEST: Duration = Duration::from_millis(300);

/// The recording of a message.
pub(crate) struct Deposit {
    mailbox: String,
    recording: Recording,
    state: State,
    player: Player,
    meter: AudioMeter,
    /// The maximum number of samples.
    most: usize,
    /// The silence that ends the message.
    silence: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Beep,
    Recording,
    /// The owner stores the message.
    Keeping,
    /// The result is played.
    Result,
    Over,
}

impl Deposit {
    /// The recording of a message for `mailbox`, of at most `longest`.
    pub(crate) fn new(
        mailbox: String,
        (caller, is_proved): (&str, bool),
        longest: Duration,
        silence: Duration,
        sounds: &Sounds,
    ) -> Self {
        let mut player = Player::new(RATE);
        player.pause(200);
        if !sounds.play(&own_greeting(&mailbox), &mut player) {
            sounds.play(GREETING, &mut player);
        }
        Self {
            mailbox,
            recording: Recording { caller: caller.into(), is_proved, samples: Vec::new() },
            state: State::Greeting,
            player,
            meter: AudioMeter::default(),
            most: (longest.as_millis() * u128::from(RATE) / 1000) as usize,
            silence,
        }
    }

    /// The mailbox.
    pub(crate) fn mailbox(&self) -> &str {
        &self.mailbox
    }

    /// Processes 20 ms. Returns true if the call is over.
    pub(crate) fn step(&mut self, step: Step<'_>) -> bool {
        if self.state == State::Recording {
            self.record(step.heard);
        }
        self.player.fill(step.heard.len(), step.out);
        match self.state {
            State::Greeting if self.player.is_done() => {
                self.player.tone(1000.0, 400);
                self.state = State::Beep;
            }
            State::Beep if self.player.is_done() => self.state = State::Recording,
            State::Recording if self.is_complete() => self.finish(step.asks),
            State::Result if self.player.is_done() => self.state = State::Over,
            _ => {}
        }
        self.state == State::Over
    }

    fn record(&mut self, heard: &[i16]) {
        let samples = &mut self.recording.samples;
        let room = self.most.saturating_sub(samples.len());
        samples.extend_from_slice(&heard[..heard.len().min(room)]);
        self.meter.hear(RATE, heard);
    }

    fn is_complete(&self) -> bool {
        self.recording.samples.len() >= self.most || self.meter.silence().now >= self.silence
    }

    pub(crate) fn press(&mut self, key: char) {
        match self.state {
            State::Greeting if key == END_KEY => self.player.stop(),
            // The next step ends the recording.
            State::Recording if key == END_KEY => self.most = 0,
            _ => {}
        }
    }

    /// Hands the message to the owner. Without audio the call is over.
    fn finish(&mut self, asks: &mut Asks) {
        self.state = match self.take() {
            Some(ask) => {
                asks.push((self.mailbox.clone(), ask));
                State::Keeping
            }
            None => State::Over,
        };
    }

    /// Takes the message, without the silence at its end.
    fn take(&mut self) -> Option<Ask> {
        if self.meter.audio().longest < SHORTEST {
            return None;
        }
        let mut recording = core::mem::replace(
            &mut self.recording,
            Recording { caller: String::new(), is_proved: false, samples: Vec::new() },
        );
        let silent = self.meter.silence().now.as_millis() as usize * RATE as usize / 1000;
        let length = recording.samples.len();
        recording.samples.truncate(length.saturating_sub(silent));
        recording.samples.shrink_to_fit();
        Some(Ask::Keep(recording))
    }

    pub(crate) fn on_reply(&mut self, reply: &Reply) {
        if self.state == State::Keeping {
            match reply {
                Reply::Done(true) => self.player.tone(660.0, 120).tone(880.0, 200),
                _ => self.player.failure(),
            };
            self.state = State::Result;
        }
    }

    /// Keeps the message of a caller that hangs up.
    pub(crate) fn end(&mut self, asks: &mut Asks) {
        if self.state == State::Recording {
            self.finish(asks);
        }
    }
}

/// The name of the greeting of one user.
fn own_greeting(mailbox: &str) -> String {
    [GREETING, "-", mailbox].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::tone::{Tone, amplitude_of};
    use std::vec;

    const FRAME: usize = RATE as usize / 50;

    struct Call {
        deposit: Deposit,
        sent: Vec<i16>,
        asks: Asks,
        is_over: bool,
    }

    impl Call {
        fn new(sounds: &Sounds) -> Self {
            let longest = Duration::from_secs(10);
            let silence = Duration::from_secs(2);
            let caller = ("alice@example.com", true);
            let deposit = Deposit::new("bob@example.com".into(), caller, longest, silence, sounds);
            Self { deposit, sent: Vec::new(), asks: Vec::new(), is_over: false }
        }

        fn hear(&mut self, samples: &[i16]) {
            for heard in samples.chunks(FRAME) {
                let (sounds, out, asks) = (&Sounds::default(), &mut self.sent, &mut self.asks);
                let step = Step { heard, mix: None, sounds, out, asks };
                self.is_over |= self.deposit.step(step);
            }
        }

        fn hear_tone(&mut self, millis: usize) {
            let mut tone = Vec::new();
            Tone::new(440.0, RATE, 8000).fill(RATE as usize * millis / 1000, &mut tone);
            self.hear(&tone);
        }

        fn hear_silence(&mut self, millis: usize) {
            self.hear(&vec![0; RATE as usize * millis / 1000]);
        }

        fn recording(&mut self) -> Option<Recording> {
            match self.asks.pop()? {
                (mailbox, Ask::Keep(recording)) if mailbox == "bob@example.com" => Some(recording),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_message_after_the_beep_is_kept_without_the_silence_at_its_end() {
        let mut call = Call::new(&Sounds::default());
        call.hear_silence(600);
        assert!(amplitude_of(1000.0, RATE, &call.sent[RATE as usize / 4..][..2400]) > 3000.0);
        call.hear_silence(40);
        call.hear_tone(3000);
        assert_eq!(call.recording(), None);
        call.hear_silence(2200);
        let recording = call.recording().expect("a message");
        assert_eq!((&*recording.caller, recording.is_proved), ("alice@example.com", true));
        let seconds = recording.samples.len() as f64 / f64::from(RATE);
        assert!((2.9..3.3).contains(&seconds), "{seconds}");
        assert!(amplitude_of(440.0, RATE, &recording.samples) > 7000.0);
        assert!(!call.is_over);
        call.deposit.on_reply(&Reply::Done(true));
        call.hear_silence(1000);
        assert!(call.is_over);
    }

    #[test]
    fn a_message_ends_by_its_key_its_duration_and_the_end_of_the_call() {
        let begin = || {
            let mut call = Call::new(&Sounds::default());
            call.hear_silence(640);
            call.hear_tone(1000);
            call
        };
        let mut by_key = begin();
        by_key.deposit.press('5');
        by_key.hear_tone(20);
        assert_eq!(by_key.recording(), None);
        by_key.deposit.press(END_KEY);
        by_key.hear_silence(20);
        assert!(by_key.recording().is_some());
        let mut by_duration = begin();
        by_duration.hear_tone(60_000);
        let recording = by_duration.recording().expect("a message");
        assert_eq!(recording.samples.len(), 10 * RATE as usize);
        assert_eq!(by_duration.recording(), None);
        let mut by_end = begin();
        let Call { deposit, asks, .. } = &mut by_end;
        deposit.end(asks);
        deposit.end(asks);
        assert!(by_end.recording().is_some());
        assert_eq!(by_end.recording(), None);
    }

    #[test]
    fn a_caller_without_a_word_leaves_no_message() {
        let mut call = Call::new(&Sounds::default());
        call.hear_silence(640);
        call.hear_tone(100);
        call.hear_silence(3000);
        assert_eq!(call.recording(), None);
        assert!(call.is_over);
        let mut in_greeting = Call::new(&Sounds::default());
        in_greeting.hear_tone(400);
        let Call { deposit, asks, .. } = &mut in_greeting;
        deposit.end(asks);
        assert_eq!(in_greeting.recording(), None);
    }

    #[test]
    fn a_failed_storage_is_told_by_other_tones() {
        let mut call = Call::new(&Sounds::default());
        call.hear_silence(640);
        call.hear_tone(1000);
        call.hear_silence(2200);
        call.recording().expect("a message");
        call.sent.clear();
        call.deposit.on_reply(&Reply::Done(false));
        call.hear_silence(1000);
        assert!(amplitude_of(480.0, RATE, &call.sent) > 1500.0);
    }

    #[test]
    fn the_greeting_of_the_user_has_precedence_and_a_key_skips_it() {
        let mut sounds = Sounds::default();
        for (name, hertz) in [("greeting", 300.0), ("greeting-bob@example.com", 500.0)] {
            let mut samples = Vec::new();
            Tone::new(hertz, RATE, 8000).fill(10 * RATE as usize, &mut samples);
            sounds.add(name, RATE, &samples);
            let mut call = Call::new(&sounds);
            call.hear_silence(1000);
            assert!(amplitude_of(hertz, RATE, &call.sent[2000..]) > 6000.0, "{name}");
            call.deposit.press(END_KEY);
            call.sent.clear();
            call.hear_silence(420);
            assert!(amplitude_of(1000.0, RATE, &call.sent) > 3000.0, "{name}");
        }
    }
}
