//! The fuzz body of TURN over random steps, some of them those of an honest server.

use test_support::Random;

/// A challenge and a relayed address: an error with code, realm and nonce, then a signed success.
const ALLOCATED: &[u8] = &[
    2 | 8,
    10,
    0,
    0,
    1,
    0,
    2,
    4,
    b'o',
    b'n',
    b'c',
    b'e', // 401
    2 | 16,
    2,
    6,
    0, // the relayed address
];

#[test]
fn random_responses_and_commands_are_handled() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let length = random.below(300);
        let mut bytes = vec![random.number() as u8];
        if seed % 2 == 0 {
            bytes.extend(ALLOCATED);
        }
        for _ in 0..length {
            // Short steps are more frequent.
            let is_short = random.below(3) > 0;
            bytes.push(random.number() as u8 & if is_short { 0x1f } else { 0xff });
        }
        fuzz_bodies::turn(&bytes);
    }
}
