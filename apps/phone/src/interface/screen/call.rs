//! The call view: party, state, security and quality.

use super::model::{CallShown, Model};
use super::rows::{first_shown, row};
use super::text::duration;
use super::theme::{Theme, Tone};
use super::ui::Ui;
use crate::call::Stage;
use crate::figures::Media;
use crate::report::Security;
use crate::terminal::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

/// In fewer rows or columns than these, only the short form is shown.
const ROOM: (u16, u16) = (12, 60);

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, ui: &Ui, model: &Model<'_>, theme: Theme) {
    let Some(call) = ui.call(model) else {
        return frame.render_widget(Line::raw("There is no call."), area);
    };
    let list = if model.calls.len() > 1 { model.calls.len() } else { 0 };
    let rows = list.min(usize::from(area.height / 3).max(1));
    let constraints = [Constraint::Length(rows as u16), Constraint::Fill(1)];
    let [above, below] = Layout::vertical(constraints).areas(area);
    if list > 0 {
        let place = model.calls.iter().position(|other| other.number == call.number);
        let first = first_shown(place.unwrap_or_default(), list, rows);
        let lines = model.calls.iter().skip(first).map(|other| {
            let is_chosen = other.number == call.number;
            let mark = if is_chosen { ">" } else { " " };
            let tone = if is_chosen { Tone::Strong } else { Tone::Plain };
            let text = format!("{mark} {}  {}", printable(&other.party), state(other));
            Line::styled(text, theme.style(tone))
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<Line<'_>>>()), above);
    }
    let lines = match below.height < ROOM.0 || below.width < ROOM.1 {
        true => short(call, theme),
        false => long(call, theme),
    };
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), below);
}

fn state(call: &CallShown) -> String {
    let stage = match call.stage {
        Stage::Calling => "calling",
        Stage::Ringing => "ringing there",
        Stage::RingingHere => "ringing here",
        Stage::Talking => "talking",
    };
    let mut text = format!("{stage} {}", duration(call.seconds));
    for (is_so, word) in [
        (call.held_here, ", held here"),
        (call.held_there, ", held by the other end"),
        (call.mutes, ", muted"),
    ] {
        text.push_str(if is_so { word } else { "" });
    }
    text
}

/// The security of a call: a short text and a longer one.
fn security(security: Option<&Security>) -> (String, &'static str, Tone) {
    match security {
        None => ("not agreed yet".into(), "", Tone::Plain),
        Some(Security { srtp: None, keys: Some(_), .. }) => (
            "not secure yet: the handshake has no keys".into(),
            "nothing is sent or played before",
            Tone::Caution,
        ),
        Some(Security { srtp: None, .. }) => {
            ("NOT SECURE: in clear, without SRTP".into(), "hosts on the path can listen", Tone::Bad)
        }
        Some(Security { srtp: Some(suite), keys_in_clear: true, .. }) => (
            format!("partly secure: SRTP {suite}"),
            "the keys came over signalling in clear: hosts on its path can listen",
            Tone::Caution,
        ),
        Some(Security { srtp: Some(suite), keys: Some("dtls"), verified_by: None, .. }) => (
            format!("partly secure: SRTP {suite}"),
            "the fingerprint came in clear: hosts that change signalling can listen",
            Tone::Caution,
        ),
        Some(Security { srtp: Some(suite), keys: Some("dtls"), .. }) => (
            format!("secure: SRTP {suite}"),
            "keys by DTLS, the fingerprint over signalling that is encrypted",
            Tone::Good,
        ),
        Some(Security { srtp: Some(suite), sas: Some(sas), verified_by: Some("sas"), .. }) => (
            format!("secure: SRTP {suite}, {sas}"),
            "keys by ZRTP, the string was compared by voice",
            Tone::Good,
        ),
        Some(Security { srtp: Some(_), sas: Some(sas), continuity: Some("broken"), .. }) => (
            format!("NOT SECURE? Compare by voice: {sas}"),
            "the other end lost the secrets of earlier calls, or a host between listens",
            Tone::Bad,
        ),
        Some(Security { srtp: Some(_), sas: Some(sas), .. }) => (
            format!("partly secure. Compare by voice: {sas}"),
            "keys by ZRTP: if both ends show the same string, no host between listens",
            Tone::Caution,
        ),
        Some(Security { srtp: Some(suite), .. }) => (
            format!("secure: SRTP {suite}"),
            "the keys came over signalling that is encrypted",
            Tone::Good,
        ),
    }
}

/// All details, a line for each.
fn long(call: &CallShown, theme: Theme) -> Vec<Line<'static>> {
    let direction = if call.is_incoming { "comes from there" } else { "placed here" };
    let (secure, keys, tone) =
        security(call.media.as_ref().map(|(answered, _)| &answered.security));
    let mut lines = vec![
        row("With", call.party.clone(), Tone::Strong, theme),
        row("State", state(call), Tone::Plain, theme),
        row("Direction", direction.into(), Tone::Plain, theme),
        Line::default(),
        row("Security", secure, tone, theme),
    ];
    if let Some((answered, media)) = &call.media {
        let plus = answered.security.srtp_plus.clone().unwrap_or_else(|| "none".into());
        let (jitter, delta) = (media.jitter_ms, media.mean_delta_ms);
        lines.extend([
            row("", keys.into(), tone, theme),
            row("SRTP+", plus, Tone::Plain, theme),
            Line::default(),
            row("Codec", answered.codec.to_string(), Tone::Plain, theme),
            row("Packets", packets(media), Tone::Plain, theme),
            row(
                "Jitter",
                format!("{jitter:.1} ms, at most {:.1} ms", media.max_jitter_ms),
                Tone::Plain,
                theme,
            ),
            row(
                "Delta",
                format!("{delta:.1} ms, at most {:.1} ms", media.max_delta_ms),
                Tone::Plain,
                theme,
            ),
            row("MOS", quality(media).0, quality(media).1, theme),
        ]);
    }
    lines
}

/// The short form, the most important first.
fn short(call: &CallShown, theme: Theme) -> Vec<Line<'static>> {
    let (secure, _, tone) = security(call.media.as_ref().map(|(answered, _)| &answered.security));
    let styled = |text: String, tone| Line::styled(printable(&text), theme.style(tone));
    let direction = if call.is_incoming { "from" } else { "to" };
    let mut lines = vec![
        styled(format!("{direction} {}", call.party), Tone::Strong),
        styled(state(call), Tone::Plain),
        styled(secure, tone),
    ];
    if let Some((answered, media)) = &call.media {
        if answered.security.keys_in_clear {
            lines.push(styled("keys came in clear".into(), tone));
        }
        let codec = answered.codec;
        let (mos, mos_tone) = quality(media);
        lines.push(styled(format!("{codec}, MOS {mos}"), mos_tone));
        lines.push(styled(packets(media), Tone::Plain));
        let (jitter, delta) = (media.jitter_ms, media.max_delta_ms);
        lines.push(styled(format!("jitter {jitter:.1} ms, delta {delta:.1} ms"), Tone::Plain));
    }
    lines
}

fn packets(media: &Media) -> String {
    let expected = media.received + media.lost;
    let percent = if expected > 0 { media.lost as f64 * 100.0 / expected as f64 } else { 0.0 };
    let mut text = format!(
        "sent {}, received {}, lost {} ({percent:.1} %)",
        media.sent, media.received, media.lost
    );
    if media.refused > 0 {
        text.push_str(&format!(", refused {}", media.refused));
    }
    text
}

fn quality(media: &Media) -> (String, Tone) {
    match media.mos {
        None => ("nothing heard yet".into(), Tone::Plain),
        Some(mos) => {
            // The categories of user satisfaction of the E-model (ITU-T G.107 annex B).
            let (word, tone) = match mos {
                4.03.. => ("good", Tone::Good),
                3.6..4.03 => ("fair", Tone::Caution),
                _ => ("poor", Tone::Bad),
            };
            (format!("{mos:.2} ({word})"), tone)
        }
    }
}
