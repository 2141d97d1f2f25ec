//! The sound of a call, and its comparison with the expectations.

use crate::audio::hertz_of;
use crate::figures::Media;
use media::audio_meter::{AudioMeter, SILENCE_DBFS};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A tone of this length without a break is no accident.
pub(crate) const LONG_ENOUGH: Duration = Duration::from_millis(200);

/// The received sound of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Impression {
    /// The level of the loudest tenth of a second, and the mean level; `None` without any sound.
    pub(crate) loudest_dbfs: Option<f64>,
    pub(crate) mean_dbfs: Option<f64>,
    /// The longest sound without a break, in seconds.
    pub(crate) audio_seconds: f64,
    /// The DTMF keys received.
    pub(crate) keys: String,
    /// The results of the tone detectors.
    pub(crate) tones: Vec<ToneHeard>,
}

/// The result of a tone detector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ToneHeard {
    pub(crate) hertz: f64,
    pub(crate) loudest_dbfs: Option<f64>,
    /// The longest time without a break.
    pub(crate) seconds: f64,
}

impl Impression {
    pub(crate) fn of(ear: &AudioMeter) -> Self {
        let rounded = |level: f64| (level * 10.0).round() / 10.0;
        let tones = ear.tones().iter().map(|tone| ToneHeard {
            hertz: tone.hertz,
            loudest_dbfs: tone.dbfs.map(rounded),
            seconds: tone.run.longest.as_secs_f64(),
        });
        Self {
            loudest_dbfs: ear.loudest_dbfs().map(rounded),
            mean_dbfs: ear.mean_dbfs().map(rounded),
            audio_seconds: ear.audio().longest.as_secs_f64(),
            keys: ear.keys().to_owned(),
            tones: tones.collect(),
        }
    }

    /// The level as text.
    pub(crate) fn level(&self) -> String {
        match (self.mean_dbfs, self.loudest_dbfs) {
            (Some(mean), Some(loudest)) => {
                format!("{mean} dBFS on average, {loudest} dBFS at most")
            }
            _ => "nothing at all".to_owned(),
        }
    }

    fn tone(&self, hertz: f64) -> Option<&ToneHeard> {
        self.tones.iter().find(|tone| tone.hertz == hertz)
    }

    /// The result of a tone detector as text.
    pub(crate) fn of_tone(&self, hertz: f64) -> String {
        let level = self.level();
        match self.tone(hertz) {
            Some(ToneHeard { loudest_dbfs: Some(loudest), seconds, .. }) => format!(
                "{level}; {hertz} Hz for {seconds} s without a break, at {loudest} dBFS at most"
            ),
            _ => format!("{level}; nothing of {hertz} Hz"),
        }
    }
}

/// An expectation for a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expectation {
    Tone(f64),
    Audio,
    Silence,
    Keys(String),
    /// The minimum mean opinion score.
    Mos(f64),
    /// The maximum packet loss, as a part of 1.
    Loss(f64),
}

/// An expectation, and the verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) expected: String,
    pub(crate) heard: String,
    pub(crate) is_met: bool,
}

impl Expectation {
    /// Compares a call with the expectation.
    pub(crate) fn judge(&self, heard: &Impression, totals: Option<&Media>) -> Verdict {
        let verdict = |is_met, heard| Verdict { expected: self.to_string(), heard, is_met };
        match self {
            Self::Tone(hertz) => {
                let seconds = heard.tone(*hertz).map_or(0.0, |tone| tone.seconds);
                verdict(seconds >= LONG_ENOUGH.as_secs_f64(), heard.of_tone(*hertz))
            }
            Self::Audio => verdict(heard.audio_seconds > 0.0, heard.level()),
            Self::Silence => verdict(heard.audio_seconds == 0.0, heard.level()),
            Self::Keys(keys) => {
                let pressed = match heard.keys.is_empty() {
                    true => "no keys".to_owned(),
                    false => format!("the keys {}", heard.keys),
                };
                verdict(heard.keys == *keys, pressed)
            }
            Self::Mos(least) => match totals.and_then(|totals| totals.mos) {
                Some(mos) => verdict(mos >= *least, format!("MOS {mos}")),
                None => verdict(false, "nothing to judge".to_owned()),
            },
            Self::Loss(most) => {
                let lost = totals.map_or(0, |totals| totals.lost);
                let expected = totals.map_or(0, |totals| totals.received + totals.lost);
                if expected == 0 {
                    return verdict(false, "no packet at all".to_owned());
                }
                let share = lost as f64 / expected as f64;
                let text = format!("{lost} of {expected} packets lost, {:.2} %", share * 100.0);
                verdict(share <= *most, text)
            }
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tone(hertz) => write!(f, "a tone of {hertz} Hz for {LONG_ENOUGH:?}"),
            Self::Audio => write!(f, "anything above {SILENCE_DBFS} dBFS"),
            Self::Silence => write!(f, "nothing above {SILENCE_DBFS} dBFS"),
            Self::Keys(keys) => write!(f, "the keys {keys}"),
            Self::Mos(least) => write!(f, "a MOS of {least} or more"),
            Self::Loss(most) => write!(f, "a loss of {} % or less", most * 100.0),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}; heard {}", self.expected, self.heard)
    }
}

/// Parses DTMF keys. `None` if a character is not a key or `text` is empty.
pub(crate) fn keys(text: &str) -> Option<String> {
    let text = text.to_ascii_uppercase();
    let are_keys = text.chars().all(|key| matches!(key, '0'..='9' | '*' | '#' | 'A'..='D'));
    (are_keys && !text.is_empty()).then_some(text)
}

impl FromStr for Expectation {
    type Err = String;

    /// Parses `tone:HERTZ`, `audio`, `silence` or `dtmf:KEYS`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, value) = text.split_once(':').unwrap_or((text, ""));
        let read = match kind {
            "audio" if text == kind => Some(Self::Audio),
            "silence" if text == kind => Some(Self::Silence),
            "tone" => hertz_of(value).map(Self::Tone),
            "dtmf" => keys(value).map(Self::Keys),
            _ => None,
        };
        read.ok_or(
            "expected audio, silence, tone:HERTZ such as tone:1000, or dtmf:KEYS such as dtmf:123#"
                .into(),
        )
    }
}

/// Parses the minimum MOS: 1 to 5.
pub(crate) fn mos(text: &str) -> Result<f64, String> {
    let mos = text.parse().ok().filter(|mos| (1.0..=5.0).contains(mos));
    mos.ok_or("expected a mean opinion score from 1 to 5, such as 4.0".into())
}

/// Parses the maximum loss: a percentage such as `1%`, returned as a part of 1.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or("expected a percentage such as 1%".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_read() {
        let read = |text: &str| text.parse::<Expectation>();
        assert_eq!(read("tone:440"), Ok(Expectation::Tone(440.0)));
        assert_eq!(read("dtmf:1a#"), Ok(Expectation::Keys("1A#".into())));
        assert_eq!(
            (read("audio"), read("silence")),
            (Ok(Expectation::Audio), Ok(Expectation::Silence))
        );
        for wrong in
            ["", "audio:", "tone:", "tone:0", "tone:8000", "tone:nan", "dtmf:", "dtmf:x", "music"]
        {
            assert!(read(wrong).is_err_and(|text| text.contains("tone:1000")), "{wrong}");
        }
        assert_eq!((loss("1%"), loss("0.5 %")), (Ok(0.01), Ok(0.005)));
        assert!(
            loss("1").is_err() && loss("101%").is_err() && mos("6").is_err() && mos("nan").is_err()
        );
    }

    #[test]
    fn a_verdict_names_the_expectation_and_the_observation() {
        let heard = Impression {
            loudest_dbfs: Some(-6.0),
            mean_dbfs: Some(-9.1),
            audio_seconds: 1.5,
            keys: "12".into(),
            tones: vec![ToneHeard { hertz: 440.0, loudest_dbfs: Some(-30.2), seconds: 0.1 }],
        };
        let judge = |expectation: Expectation| expectation.judge(&heard, None);
        assert!(judge(Expectation::Audio).is_met && !judge(Expectation::Silence).is_met);
        assert!(judge(Expectation::Keys("12".into())).is_met);
        assert!(!judge(Expectation::Keys("123".into())).is_met);
        assert_eq!(
            judge(Expectation::Tone(440.0)).to_string(),
            "expected a tone of 440 Hz for 200ms; heard -9.1 dBFS on average, -6 dBFS at most; \
             440 Hz for 0.1 s without a break, at -30.2 dBFS at most"
        );
        let nothing = Expectation::Loss(0.01).judge(&Impression::default(), None);
        assert_eq!((nothing.is_met, nothing.heard.as_str()), (false, "no packet at all"));
        assert!(!Expectation::Mos(1.0).judge(&heard, None).is_met);
    }
}
