//! DTMF keys pressed in a call between barebell-phone and another phone are received.

use peers::pair::{CallPath, Pair};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event, Phone};

/// Presses keys one after another, each after the previous one was received.
fn press(here: &mut Phone, there: &mut Phone) {
    for key in ['1', '1', '#', '0'] {
        here.act(&Action::Press(key));
        there.wait_for(Event::Key(key));
    }
}

fn keys_are_received(other: Kind) {
    let mut pair = Pair::new(Barebell, other, CallPath::Direct);
    pair.connect();
    pair.hear();
    press(&mut pair.alice, &mut pair.bob);
    press(&mut pair.bob, &mut pair.alice);
    pair.end(false);
}

#[test]
fn baresip_and_barebell_phone_receive_keys() {
    keys_are_received(Baresip);
}

#[test]
fn linphone_and_barebell_phone_receive_keys() {
    keys_are_received(Linphone);
}

#[test]
fn twinkle_and_barebell_phone_receive_keys() {
    keys_are_received(Twinkle);
}
