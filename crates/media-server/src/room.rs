//! Conference rooms: each member hears the sum of the others.

use crate::player::Player;
use crate::step::{Mix, Step};
use alloc::string::String;
use alloc::vec::Vec;

/// The sample rate of rooms in hertz.
pub(crate) const RATE: u32 = 16_000;
/// The samples of 20 ms.
pub(crate) const FRAME: usize = RATE as usize / 50;
/// The key that mutes a member, and ends that.
const MUTE: char = '*';

/// A room.
pub(crate) struct Room {
    /// The number of members.
    pub(crate) members: usize,
    /// The tones that all members hear.
    chime: Player,
    mix: Mix,
}

impl Room {
    /// A room without members.
    pub(crate) const fn new() -> Self {
        Self { members: 0, chime: Player::new(RATE), mix: Mix(Vec::new()) }
    }

    /// Adds a member. All members hear a tone.
    pub(crate) fn join(&mut self) {
        self.members += 1;
        self.ring([523.3, 784.0]);
    }

    /// Removes a member. Returns false if it was the last one.
    pub(crate) fn leave(&mut self) -> bool {
        self.members = self.members.saturating_sub(1);
        self.ring([784.0, 523.3]);
        self.members > 0
    }

    /// Plays two tones to all members, unless earlier ones are being played.
    fn ring(&mut self, tones: [f64; 2]) {
        if self.chime.is_done() {
            tones.into_iter().for_each(|hertz| _ = self.chime.tone(hertz, 100));
        }
    }

    /// Begins the sum of the next 20 ms.
    pub(crate) fn begin(&mut self) {
        let mut tones = Vec::with_capacity(FRAME);
        self.chime.fill(FRAME, &mut tones);
        self.mix.0.clear();
        self.mix.0.extend(tones.iter().map(|sample| i32::from(*sample)));
    }

    /// Adds the sound of a member.
    pub(crate) fn add(&mut self, heard: &[i16]) {
        for (sum, sample) in self.mix.0.iter_mut().zip(heard) {
            *sum += i32::from(*sample);
        }
    }

    /// The mixed sound of all members in the present frame.
    pub(crate) const fn mix(&self) -> &Mix {
        &self.mix
    }
}

/// The call of a member.
pub(crate) struct Member {
    /// The name of the room.
    pub(crate) room: String,
    /// True if the others do not hear this member.
    pub(crate) is_muted: bool,
    player: Player,
}

impl Member {
    /// A member of `room`.
    pub(crate) const fn new(room: String) -> Self {
        Self { room, is_muted: false, player: Player::new(RATE) }
    }

    /// Appends the sound of the others, and the tones for this member, to the output.
    pub(crate) fn step(&mut self, step: Step<'_>) {
        let Step { heard, mix, out, .. } = step;
        let start = out.len();
        self.player.fill(heard.len(), out);
        let Some(Mix(sum)) = mix else { return };
        for (at, sample) in out[start..].iter_mut().enumerate() {
            let own = if self.is_muted { 0 } else { heard.get(at).copied().unwrap_or_default() };
            let others = sum.get(at).copied().unwrap_or_default() - i32::from(own);
            let all = others + i32::from(*sample);
            *sample = all.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        }
    }

    pub(crate) fn press(&mut self, key: char) {
        if key == MUTE {
            self.is_muted = !self.is_muted;
            let [first, second] = if self.is_muted { [660.0, 440.0] } else { [440.0, 660.0] };
            self.player.tone(first, 100).tone(second, 100);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sounds::Sounds;
    use std::vec;

    /// The sound for each member after 20 ms of the samples `said`.
    fn hear(room: &mut Room, members: &mut [Member], said: &[i16]) -> Vec<i16> {
        room.begin();
        for (member, said) in members.iter().zip(said) {
            if !member.is_muted {
                room.add(&[*said; FRAME]);
            }
        }
        let each = members.iter_mut().zip(said).map(|(member, said)| {
            let (mut out, sounds) = (Vec::new(), &Sounds::default());
            let (heard, mix, asks) = (&[*said; FRAME], Some(room.mix()), &mut Vec::new());
            member.step(Step { heard, mix, sounds, out: &mut out, asks });
            assert_eq!(out.len(), FRAME);
            out[FRAME - 1]
        });
        each.collect()
    }

    #[test]
    fn each_member_hears_the_sum_of_the_others() {
        let mut room = Room::new();
        let mut members = [(); 3].map(|()| Member::new("a".into()));
        members.iter().for_each(|_| room.join());
        // The tones of the members that join.
        for _ in 0..30 {
            hear(&mut room, &mut members, &[0; 3]);
        }
        assert_eq!(hear(&mut room, &mut members, &[1, 20, 300]), [320, 301, 21]);
        let loud = i16::MAX;
        assert_eq!(hear(&mut room, &mut members, &[loud, loud, -loud]), [0, 0, loud]);
        members[1].press(MUTE);
        for _ in 0..10 {
            hear(&mut room, &mut members, &[0; 3]);
        }
        assert_eq!(hear(&mut room, &mut members, &[1, 20, 300]), [300, 301, 1]);
        members[1].press(MUTE);
        for _ in 0..10 {
            hear(&mut room, &mut members, &[0; 3]);
        }
        assert_eq!(hear(&mut room, &mut members, &[1, 20, 300]), [320, 301, 21]);
    }

    #[test]
    fn a_room_ends_with_its_last_member() {
        let mut room = Room::new();
        room.join();
        room.join();
        assert_eq!(vec![room.leave(), room.leave()], [true, false]);
    }
}
