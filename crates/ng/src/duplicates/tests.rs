use super::{DuplicateLimits, Duplicates, OVERHEAD};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

const NOW: Duration = Duration::from_secs(100);

fn proxy(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

fn table(entries: usize, bytes: usize) -> Duplicates {
    Duplicates::new(DuplicateLimits { entries, bytes, age: Duration::from_secs(30) })
}

#[test]
fn a_repetition_has_the_source_the_cookie_and_the_bytes_of_the_first() {
    let mut duplicates = table(10, 10_000);
    duplicates.store(NOW, proxy(1), b"1_1 d1:ai1ee", b"1_1 one");
    assert_eq!(duplicates.response(NOW, proxy(1), b"1_1 d1:ai1ee"), Some(&b"1_1 one"[..]));
    assert_eq!(duplicates.response(NOW, proxy(2), b"1_1 d1:ai1ee"), None);
    assert_eq!(duplicates.response(NOW, proxy(1), b"1_2 d1:ai1ee"), None);
    assert_eq!(duplicates.response(NOW, proxy(1), b"1_1 d1:ai2ee"), None);
    // A cookie that is used again, with another request.
    duplicates.store(NOW, proxy(1), b"1_1 d1:ai2ee", b"1_1 two");
    assert_eq!(duplicates.response(NOW, proxy(1), b"1_1 d1:ai1ee"), None);
    assert_eq!(duplicates.response(NOW, proxy(1), b"1_1 d1:ai2ee"), Some(&b"1_1 two"[..]));
}

#[test]
fn a_datagram_without_a_cookie_is_not_stored() {
    let mut duplicates = table(10, 10_000);
    for datagram in [&b""[..], b" de", b"de", b"1\x07 de", &[b'1'; 500]] {
        duplicates.store(NOW, proxy(1), datagram, b"response");
        assert_eq!(duplicates.response(NOW, proxy(1), datagram), None);
    }
    assert!(duplicates.is_empty());
}

#[test]
fn a_response_is_forgotten_after_its_age() {
    let mut duplicates = table(10, 10_000);
    duplicates.store(NOW, proxy(1), b"1 de", b"one");
    let later = NOW + Duration::from_secs(30);
    assert!(duplicates.response(later, proxy(1), b"1 de").is_some());
    let later = later + Duration::from_millis(1);
    assert_eq!(duplicates.response(later, proxy(1), b"1 de"), None);
    assert_eq!((duplicates.len(), duplicates.bytes(), duplicates.evicted()), (0, 0, 0));
}

#[test]
fn the_oldest_responses_make_room() {
    let mut duplicates = table(2, 10_000);
    for number in 0..3 {
        duplicates.store(NOW, proxy(1), format!("{number} de").as_bytes(), b"response");
    }
    assert_eq!(duplicates.response(NOW, proxy(1), b"0 de"), None);
    assert!(duplicates.response(NOW, proxy(1), b"2 de").is_some());
    assert_eq!((duplicates.len(), duplicates.evicted()), (2, 1));
    let mut duplicates = table(10, 3 * OVERHEAD);
    duplicates.store(NOW, proxy(1), b"0 de", &[b'x'; OVERHEAD]);
    assert!(duplicates.response(NOW, proxy(1), b"0 de").is_some());
    duplicates.store(NOW, proxy(1), b"1 de", &[b'x'; 4 * OVERHEAD]);
    assert_eq!((duplicates.len(), duplicates.bytes(), duplicates.evicted()), (0, 0, 2));
}

/// A stored datagram: the time since the last one, its source, cookie, and contents.
type Step = (u64, u16, u8, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![0_u64..5, 20_u64..60];
    prop::collection::vec((gap, 1_u16..4, 0_u8..6, any::<bool>().prop_map(u8::from)), 0..60)
}

proptest! {
    #[test]
    fn the_table_is_bounded_and_returns_the_last_response(steps in steps()) {
        let limits =
            DuplicateLimits { entries: 8, bytes: 1500, age: Duration::from_secs(30) };
        let mut duplicates = Duplicates::new(limits);
        let mut last = BTreeMap::new();
        let mut now = 0;
        for (number, (gap, port, cookie, contents)) in steps.into_iter().enumerate() {
            now += gap;
            let time = Duration::from_secs(now);
            let datagram = format!("{cookie} {contents}");
            let known = duplicates.response(time, proxy(port), datagram.as_bytes());
            let expected = last.get(&(port, cookie));
            if let Some(known) = known {
                let (stored, of, response): &(u64, u8, Vec<u8>) = expected.expect("it is stored");
                assert_eq!((*of, &response[..]), (contents, known));
                assert!(now - stored <= 30);
            }
            let response = format!("{number}").into_bytes();
            duplicates.store(time, proxy(port), datagram.as_bytes(), &response);
            last.insert((port, cookie), (now, contents, response.clone()));
            assert_eq!(
                duplicates.response(time, proxy(port), datagram.as_bytes()),
                Some(&response[..])
            );
            assert!(duplicates.len() <= 8 && duplicates.bytes() <= 1500);
            assert!(duplicates.numbers.len() <= duplicates.len());
        }
    }
}
