//! A relay without the feature `convert`: offers and answers keep their codecs.

use super::changes::{Additions, Answered};
use super::format::FormatChange;
use super::rules::CodecRules;
use crate::side::Side;
use sdp::MediaDescription;

/// The codecs of one medium, of which nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct MediumCodecs {}

impl MediumCodecs {
    pub(crate) fn offer(
        &mut self,
        _by: Side,
        _medium: &MediaDescription<'_>,
        _rules: CodecRules<'_>,
        _may_add: Additions,
    ) -> FormatChange {
        FormatChange::default()
    }

    pub(crate) const fn withdraw(&mut self, _by: Side) {}

    pub(crate) fn answer(
        &mut self,
        _offerer: Side,
        _medium: &MediaDescription<'_>,
        _takes_digits: bool,
    ) -> Answered {
        Answered::default()
    }
}
