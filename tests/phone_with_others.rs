//! Our phone and others call one another, directly, through the server, and through Kamailio.

use peers::pair::{Pair, Way};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};

/// One call in each direction, in which each hears the other; either hangs up.
fn talks(other: Kind, way: Way) {
    for (from, to) in [(Barebell, other), (other, Barebell)] {
        let mut pair = Pair::new(from, to, way);
        pair.connect();
        pair.hear();
        pair.end(from == Barebell);
    }
}

#[test]
fn baresip_directly() {
    talks(Baresip, Way::Direct);
}

#[test]
fn linphone_directly() {
    talks(Linphone, Way::Direct);
}

#[test]
fn twinkle_directly() {
    talks(Twinkle, Way::Direct);
}

#[test]
fn baresip_through_the_server() {
    talks(Baresip, Way::Server);
}

#[test]
fn linphone_through_the_server() {
    talks(Linphone, Way::Server);
}

#[test]
fn twinkle_through_the_server() {
    talks(Twinkle, Way::Server);
}

#[test]
fn baresip_through_kamailio() {
    talks(Baresip, Way::Kamailio);
}
