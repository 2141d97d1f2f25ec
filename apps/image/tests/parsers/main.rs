//! The image's parsers on random input, the same in each run. `fuzz/` covers them, too.

mod body;

use fastrand::Rng;

/// Valid input for each of them.
fn samples() -> Vec<Vec<u8>> {
    let with = |which: u8, bytes: &[u8]| [&[which], bytes].concat();
    let datagrams = |which: u8, all: &[&[u8]]| {
        let parts = all.iter().map(|one| [&[one.len() as u8], *one].concat());
        with(which, &parts.collect::<Vec<_>>().concat())
    };
    let record: &[u8] =
        b"\x81\x80\0\x01\0\x01\0\0\0\0\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x09";
    let service: &[u8] =
        b"\x81\x80\0\x01\0\x01\0\0\0\0\xc0\x0c\0\x21\0\x01\0\0\0\x09\0\x0e\0\x01\0\x01\x13\xc4\x05sip-a\xc0\x0c";
    vec![
        with(0, b"alice:secret\n# nobody\nbob:example.org:MD5:0123456789abcdef0123456789abcdef\n"),
        with(1, b"mode=proxy auth=on domain=example.org address=192.0.2.7/24 dns=192.0.2.1,192.0.2.2"),
        with(1, b"account=sip:alice@example.org dial=sip:bob@example.org plus=hash:trailer sound=tone:440"),
        datagrams(2, &[b"\0\x06blksize\x0060\0tsize\x0070\0", &[&b"\0\x03\0\x01"[..], &[b'a'; 60]].concat(), b"\0\x03\0\x02end"]),
        datagrams(2, &[b"\0\x05\0\x01no such file\0"]),
        datagrams(3, &[service, record, record]),
        datagrams(3, &[b"\x81\x83\0\x01\0\0\0\0\0\0", b"\x81\x80\0\x01\0\0\0\0\0\0", record]),
        with(4, &[0x24; 48]),
        with(5, b"\x1b[5~\x1b[A\x1bOP\xe0\x48\x1e\x9e\x2a"),
    ]
}

/// Bytes with a meaning for one of them.
const SPECIAL: [u8; 8] = [0, 1, b':', b'\n', b'=', b',', 0xc0, 0xff];

#[test]
fn random_input_breaks_nothing() {
    let mut random = Rng::with_seed(7);
    for number in 0..60_000 {
        let all = samples();
        let mut bytes = all[number % all.len()].clone();
        for _ in 0..random.usize(0..8) {
            let at = random.usize(1..bytes.len());
            match random.u8(0..5) {
                0 => bytes.truncate(at.max(2)),
                1 => bytes[at] = random.choice(SPECIAL).unwrap_or(0),
                2 => bytes.insert(at, random.u8(..)),
                3 => {
                    let part = bytes[at..(at + random.usize(1..40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes[at] = random.u8(..),
            }
        }
        body::parsers(&bytes);
    }
}
