//! The rules of an owner about the codecs of offers.

use ::codec::Codec;

/// The changes to the codecs of an offer. Those of audio change only; a codec in a list of names is
/// a name of `a=rtpmap`, in any case. Without the feature `convert` they have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodecRules<'a> {
    /// The codecs that an offer gets behind those of the offerer. If the answer chooses one of
    /// them, the relay converts. The rules of an offer with such codecs hold for all later offers
    /// of the call, in both directions, until another offer has some.
    pub transcode: &'a [Codec],
    /// The codecs that an offer loses. They are not used in the call. `all` is each of them.
    pub strip: &'a [&'a str],
    /// The codecs that the offer loses, but that the relay converts for the offerer. `all` is each
    /// of them.
    pub mask: &'a [&'a str],
    /// The codecs that remain in spite of `all` in the other lists.
    pub except: &'a [&'a str],
}

impl CodecRules<'_> {
    /// True if `list` names the codec `name`.
    #[cfg(feature = "convert")]
    pub(crate) fn names(self, list: &[&str], name: &str) -> bool {
        let has = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
        let is_all =
            |known: &&str| known.eq_ignore_ascii_case("all") || known.eq_ignore_ascii_case("full");
        has(list) || list.iter().any(is_all) && !has(self.except)
    }
}
