//! The options that are understood and have no effect here.

use ng::Options;
use ng::options::{Dtls, Ice, RtcpAttribute, Tos};

/// Adds the flags without an effect to those that are not recognized.
pub(super) fn push(options: &mut Options<'_>, is_deletion: bool) {
    let Options { replace, sdes, codecs, .. } = &*options;
    let flags = [
        ("replace-username", replace.username),
        ("replace-session-name", replace.session_name),
        ("replace-sdp-version", replace.version),
        ("replace-force-increment-sdp-ver", replace.force_version),
        ("asymmetric", options.asymmetric),
        ("no-port-latching", options.port_latching == Some(false)),
        ("ICE=force", options.ice == Ice::Force),
        ("ICE=optional", options.ice == Ice::Optional),
        ("ICE=force-relay", options.ice == Ice::ForceRelay),
        ("full-rtcp-attribute", options.rtcp_attribute == RtcpAttribute::Full),
        ("SDES-no-SUITE", !sdes.without.is_empty()),
        ("SDES-only-SUITE", !sdes.only.is_empty()),
        ("SDES-order", !sdes.order.is_empty()),
        ("SDES-offerer-pref", !sdes.preferred.is_empty()),
        ("SDES-nonew", sdes.no_new),
        ("SDES-pad", sdes.pad),
        ("SDES-lifetime", sdes.lifetime),
        ("DTLS=passive", options.dtls == Dtls::Passive),
        ("DTLS=active", options.dtls == Dtls::Active),
        ("DTLS-reverse", options.dtls_reverse != Dtls::Default),
        ("DTLS-fingerprint", options.dtls_fingerprint.is_some()),
        ("codec-accept", !codecs.accept.is_empty()),
        ("codec-set", !codecs.set.is_empty()),
        ("codec-ignore", !codecs.ignore.is_empty()),
        ("ptime", options.ptime.is_some()),
        ("ptime-reverse", options.ptime_reverse.is_some()),
        ("TOS", matches!(options.tos, Tos::Value(_))),
        ("loop-protect", options.loop_protect),
        ("generate-mid", options.generate_mid),
        ("delete-delay", is_deletion && options.delete_delay.is_some_and(|delay| delay > 0)),
    ];
    for (flag, is_set) in flags {
        if is_set {
            options.unrecognized.push(flag.as_bytes(), None);
        }
    }
}
