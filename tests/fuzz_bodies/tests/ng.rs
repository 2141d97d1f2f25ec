//! The fuzz body of the NG control protocol over damaged datagrams of Kamailio.

use test_support::Random;

const DATAGRAMS: &str = include_str!("../../../crates/ng/tests/kamailio-5.6.3.txt");

/// Bytes that have a meaning in bencode or in a string of flags.
const BYTES: &[u8] = b"dlei0159:-=[] \n\0\xff";

#[test]
fn damaged_datagrams_are_handled() {
    let lines = DATAGRAMS.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let (_, datagram) = line.split_once(' ').expect("a line has a name and a datagram");
        let datagram = datagram.replace("\\r", "\r").replace("\\n", "\n").into_bytes();
        fuzz_bodies::ng(&datagram);
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut damaged = datagram.clone();
            for _ in 0..=random.below(4) {
                let place = random.below(damaged.len() as u64) as usize;
                match random.below(4) {
                    0 => damaged[place] = random.number() as u8,
                    1 => damaged[place] = *random.pick(BYTES),
                    2 => damaged.insert(place, *random.pick(BYTES)),
                    _ => damaged.truncate(place + 1),
                }
            }
            fuzz_bodies::ng(&damaged);
        }
    }
}

#[test]
fn random_documents_and_flags_are_handled() {
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let length = random.below(40);
        let bytes: Vec<u8> = (0..length).map(|_| *random.pick(BYTES)).collect();
        fuzz_bodies::ng(&bytes);
    }
}
