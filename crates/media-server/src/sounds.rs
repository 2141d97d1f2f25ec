//! The sounds of the operator, and the tones in place of missing ones.

use crate::player::Player;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use media::Resampler;

/// The sample rate of sounds and messages in hertz.
pub const RATE: u32 = 8000;

/// The greeting before a message is recorded. That of one user is `greeting-USER@DOMAIN`.
pub(crate) const GREETING: &str = "greeting";
/// The mailbox is empty.
pub(crate) const NO_MESSAGES: &str = "no-messages";
/// The keys of the mailbox, after a message.
pub(crate) const MENU: &str = "menu";
/// The message is deleted.
pub(crate) const DELETED: &str = "deleted";
/// There are no more messages.
pub(crate) const END: &str = "end-of-messages";
/// The music on hold.
pub(crate) const MUSIC: &str = "music";

/// The notes of the music without a sound of the operator, in hertz.
const NOTES: [f64; 8] = [261.6, 329.6, 392.0, 523.3, 392.0, 329.6, 293.7, 392.0];

/// The sounds of the operator, by name.
#[derive(Clone, Debug, Default)]
pub struct Sounds(BTreeMap<String, Arc<[i16]>>);

impl Sounds {
    /// Adds the sound `name` with a sample rate of `rate` hertz.
    pub fn add(&mut self, name: &str, rate: u32, samples: &[i16]) {
        let mut converted = Vec::new();
        Resampler::new(rate, RATE).resample(samples, &mut converted);
        self.0.insert(name.into(), converted.into());
    }

    /// The names and the durations in samples at [`RATE`].
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, samples)| (name.as_str(), samples.len()))
    }

    /// True if there is a sound `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Appends the sound `name` to the player. Returns false without such a sound.
    pub(crate) fn play(&self, name: &str, player: &mut Player) -> bool {
        match self.0.get(name) {
            Some(samples) => {
                player.samples(Arc::clone(samples));
                true
            }
            None => false,
        }
    }

    /// Appends the sound `name`, or else the tones for it.
    pub(crate) fn play_or_tones(&self, name: &str, player: &mut Player) {
        if self.play(name, player) {
            return;
        }
        match name {
            // A falling third, and a rising one.
            NO_MESSAGES | END => player.tone(660.0, 150).tone(550.0, 150).tone(440.0, 300),
            MENU => player.tone(880.0, 80).pause(80).tone(880.0, 80),
            DELETED => player.tone(880.0, 100).tone(440.0, 100),
            MUSIC => {
                for note in NOTES {
                    player.tone(note, 450).pause(50);
                }
                player
            }
            _ => player,
        };
    }
}
