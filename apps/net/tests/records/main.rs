//! TLS over pieces cut anywhere. `fuzz/` has the body, too.

mod body;

use fastrand::Rng;

#[test]
fn what_is_said_is_heard_however_it_is_cut_and_nothing_else_is() {
    let mut rng = Rng::with_seed(36);
    for round in 0..400 {
        let length = rng.usize(0..400);
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        if round % 2 == 0 {
            // Nothing is changed on the way.
            for pair in bytes.as_chunks_mut::<2>().0 {
                if (pair[0] >> 1) & 3 == 1 {
                    pair[0] |= 4;
                }
            }
        }
        body::records(&bytes);
    }
    // Each byte by itself.
    body::records(&[4, 0, 5, 0].repeat(3000));
}
