//! Captured SRTP calls: every packet is authentic with the keys of their SDES, and the decrypted
//! packets form a stream.

use barebell_srtp::{MasterKey, Policy, Receiver, Suite, UnprotectError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rtp::{Packet, ReceptionStats};
use test_support::pcap::datagrams;

#[test]
fn a_call_with_g722_is_decrypted() {
    let Some(root) = test_support::corpora() else { return };
    let folder = root.join("pcap/rtpproxy/extractaudio");
    for (name, key, other, (count, jitters)) in [
        (
            "a",
            "UHXu88YuDj8guQxhCqEeue0CSr+JcQ/Uii4NdaS5",
            "UBFc5R7tK5f91V8j1da++z3h/3H2yS5WaN819nJd",
            (1168, [1.685, 2.124, 4.030]),
        ),
        (
            "o",
            "UBFc5R7tK5f91V8j1da++z3h/3H2yS5WaN819nJd",
            "UHXu88YuDj8guQxhCqEeue0CSr+JcQ/Uii4NdaS5",
            (1172, [11.019, 7.586, 23.215]),
        ),
    ] {
        let policy = Policy::new(Suite::AesCm128HmacSha1_80);
        let receiver = |key: &str| {
            let key = MasterKey::new(policy.suite, &STANDARD.decode(key).unwrap()).unwrap();
            Receiver::new(&policy, vec![key]).unwrap()
        };
        let (mut receiver, mut wrong) = (receiver(key), receiver(other));
        let mut reception: Option<ReceptionStats> = None;
        let datagrams = datagrams(&folder.join(format!("call1_g722_srtp.{name}.rtp")));
        assert_eq!(datagrams.len(), count, "{name}");
        for (time, datagram) in datagrams {
            let refused = wrong.unprotect(&mut datagram.clone()).unwrap_err();
            assert_eq!(refused, UnprotectError::Authentication);
            let mut packet = datagram;
            let packet = Packet::parse(receiver.unprotect(&mut packet).unwrap()).unwrap();
            assert_eq!((packet.header.payload_type(), packet.payload.len()), (9, 160), "{name}");
            let reception =
                reception.get_or_insert_with(|| ReceptionStats::new(&packet.header, 8000));
            reception.receive(&packet.header, time);
        }
        let reception = reception.unwrap();
        assert_eq!(reception.lost(), 0);
        // The jitter found by rtpproxy, in timestamp units: last, mean and maximum. rtpproxy counts
        // packets differently, which explains a difference of one or two hundredths.
        let spacing = reception.spacing();
        let found = [spacing.jitter(), spacing.mean_jitter(), spacing.max_jitter()];
        for (found, expected) in found.iter().zip(jitters) {
            let units = found.as_secs_f64() * 8000.0;
            assert!((units / expected - 1.0).abs() < 0.03, "{name}: {units}, expected {expected}");
        }
    }
}
