//! The cost of the single steps of SRTP.

use crate::peers::{Ours, Packet, Peer};
use crate::{ROUNDS, measure, median, nanos};
use barebell_srtp::{MasterKey, Policy, Receiver, Sender, Suite};
use std::hint::black_box;

/// The median time of one call of `work` in `COUNT` calls, in nanoseconds.
pub(crate) fn time(mut work: impl FnMut()) -> f64 {
    const COUNT: usize = 1000;
    let round = |_| nanos(COUNT, || (0..COUNT).for_each(|_| work()));
    let mut figures: Vec<f64> = (0..ROUNDS).map(round).collect();
    median(&mut figures)
}

fn costs(policy: Policy) -> [f64; 3] {
    let mut peers: [Box<dyn Peer>; 1] = [Box::new(Ours::new(&policy, 1))];
    measure(&mut peers, &[0])[0]
}

pub(crate) fn print() {
    println!("\nns for the steps of protecting and unprotecting a packet\n");
    println!(
        "| suite | derivation of all keys | encryption | decryption | authentication | its check | replay check | header |"
    );
    println!("| --- {}|", "| --: ".repeat(7));
    let suites = Suite::ALL.into_iter().filter(|suite| !suite.is_aead());
    for suite in suites {
        let whole = Policy::new(suite);
        let [mut plain, mut bare] = [whole.clone(), whole.clone()];
        plain.encrypt_rtp = false;
        bare.authenticate_rtp = false;
        let mut neither = bare.clone();
        neither.encrypt_rtp = false;
        let [protect, unprotect, _] = costs_without_tags(neither);
        let [encrypt, decrypt, _] = costs_without_tags(bare);
        let [authenticate, check, _] = costs(plain);

        let bytes = vec![7; suite.key_length() + suite.salt_length()];
        let keys =
            || vec![MasterKey::new(suite, &bytes).expect("the key length matches the suite")];
        let derivation = time(|| {
            black_box(Sender::new(&whole, keys()).expect("the policy is valid"));
        });
        let mut sender = Sender::new(&whole, keys()).expect("the policy is valid");
        let mut receiver = Receiver::new(&whole, keys()).expect("the policy is valid");
        let mut packet = vec![0; 200];
        let length = rtp::packet::HeaderFields::default()
            .write(&[0; 160], &mut packet)
            .expect("the buffer has room for the packet");
        let length = sender.protect(&mut packet, length).expect("the packet is protected");
        packet.truncate(length);
        assert!(receiver.unprotect(&mut packet.clone()).is_ok());
        let replay = time(|| assert!(black_box(receiver.unprotect(&mut packet)).is_err()));
        let header = time(|| {
            black_box(rtp::Header::parse(black_box(&packet)).expect("the packet has a header"));
        });
        println!(
            "| {suite} | {derivation:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {replay:.0} | {header:.1} |",
            encrypt - protect,
            decrypt - unprotect,
            authenticate - protect,
            check - unprotect,
        );
    }
}

/// Without tags no packet can be rejected: only protect and unprotect are measured.
fn costs_without_tags(policy: Policy) -> [f64; 3] {
    let mut peers: [Box<dyn Peer>; 1] = [Box::new(Untagged(Ours::new(&policy, 1)))];
    measure(&mut peers, &[0])[0]
}

/// Sessions without tags. Every second result counts as a valid packet.
struct Untagged(Ours);

impl Peer for Untagged {
    fn protect(&mut self, packets: &mut [Packet]) {
        self.0.protect(packets);
    }

    fn unprotect(&mut self, packets: &mut [Packet]) -> usize {
        self.0.unprotect(packets)
    }

    fn refuses(&self) -> bool {
        false
    }
}
