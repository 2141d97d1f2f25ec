//! Calls are put on hold and taken up again, by either side, at a server that takes nobody's word.

use peers::exchange::Exchange;
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event, Phone};
use peers::transport::Transport::{self, Tcp, Udp};

/// One of them puts the call on hold, so that the other one hears nothing, and takes it up again.
fn hold_and_resume(holder: &mut Phone, held: &mut Phone) {
    holder.act_and_wait_for_ok(&Action::Hold, "INVITE");
    // linphone goes on to play its file to whom it holds; baresip and Twinkle play nothing then,
    // ours does.
    if (holder.kind, held.kind) != (Linphone, Barebell) {
        held.wait_until_it_hears_no_more(holder.account.tone);
    }
    holder.act_and_wait_for_ok(&Action::Resume, "INVITE");
    held.wait_until_it_hears_more(holder.account.tone);
    holder.wait_until_it_hears_more(held.account.tone);
    for phone in [holder, held] {
        let failed: Vec<_> =
            phone.statuses("INVITE").into_iter().filter(|&status| status > 407).collect();
        assert!(failed.is_empty(), "{phone}: {failed:?} to INVITE");
    }
}

/// Alice calls bob, and both put the call on hold, one after the other.
fn both_hold(from: (Kind, Transport), to: (Kind, Transport)) {
    let exchange = Exchange::that_trusts_nobody();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    exchange.connect(&mut alice, &mut bob);

    hold_and_resume(&mut alice, &mut bob);
    hold_and_resume(&mut bob, &mut alice);

    alice.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
    bob.wait_for(Event::Ended);
}

#[test]
fn baresip_and_linphone_hold_and_resume() {
    both_hold((Baresip, Udp), (Linphone, Udp));
}

#[test]
fn linphone_and_twinkle_hold_and_resume() {
    both_hold((Linphone, Tcp), (Twinkle, Udp));
}

#[test]
fn twinkle_and_baresip_hold_and_resume() {
    both_hold((Twinkle, Udp), (Baresip, Tcp));
}

#[test]
fn ours_and_baresip_hold_and_resume() {
    both_hold((Barebell, Tcp), (Baresip, Udp));
}

#[test]
fn ours_and_linphone_hold_and_resume() {
    both_hold((Barebell, Tcp), (Linphone, Udp));
}

#[test]
fn ours_and_twinkle_hold_and_resume() {
    both_hold((Barebell, Tcp), (Twinkle, Udp));
}
