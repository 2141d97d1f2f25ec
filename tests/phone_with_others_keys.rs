//! Keys that are pressed in a call between our phone and another are heard at the other end.

use peers::pair::{Pair, Way};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event, Phone};

/// Presses keys one after the other, each when the one before has been heard.
fn press(here: &mut Phone, there: &mut Phone) {
    for key in ['1', '1', '#', '0'] {
        here.act(&Action::Press(key));
        there.wait_for(Event::Key(key));
    }
}

fn keys_are_heard(other: Kind) {
    let mut pair = Pair::new(Barebell, other, Way::Direct);
    pair.connect();
    pair.hear();
    press(&mut pair.alice, &mut pair.bob);
    press(&mut pair.bob, &mut pair.alice);
    pair.end(false);
}

#[test]
fn baresip_and_ours_hear_keys() {
    keys_are_heard(Baresip);
}

#[test]
fn linphone_and_ours_hear_keys() {
    keys_are_heard(Linphone);
}

#[test]
fn twinkle_and_ours_hear_keys() {
    keys_are_heard(Twinkle);
}
