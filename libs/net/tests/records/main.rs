//! TLS with input in pieces of any length. `fuzz/` uses the same body.

mod body;

use fastrand::Rng;

#[test]
fn data_arrives_for_every_cut_of_the_records_and_no_other_data() {
    let mut rng = Rng::with_seed(36);
    for round in 0..400 {
        let length = rng.usize(0..400);
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        if round % 2 == 0 {
            // No byte is modified in transit.
            for pair in bytes.as_chunks_mut::<2>().0 {
                if (pair[0] >> 1) & 3 == 1 {
                    pair[0] |= 4;
                }
            }
        }
        body::records(&bytes);
    }
    // Byte by byte.
    body::records(&[4, 0, 5, 0].repeat(3000));
}
