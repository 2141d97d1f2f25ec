//! Random times and numbers.

use super::fault::Fault;
use super::xml::Element;
use std::f64::consts::TAU;

/// A distribution of pauses in milliseconds, or of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distribution {
    Fixed(f64),
    Uniform(f64, f64),
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// Those of the logarithm.
    LogNormal(f64, f64),
    Exponential(f64),
    /// Scale and shape.
    Weibull(f64, f64),
    /// Shape and the least value.
    Pareto(f64, f64),
}

/// The attributes of distributions.
pub(super) const ATTRIBUTES: [&str; 11] = [
    "distribution",
    "value",
    "min",
    "max",
    "mean",
    "stdev",
    "lambda",
    "k",
    "x_m",
    "milliseconds",
    "sanity_check",
];

impl Distribution {
    /// Returns the distribution of an element, or `None` if it has none.
    ///
    /// # Errors
    /// [`Fault`] if a parameter is missing, or the distribution is not known.
    pub(super) fn of(element: &Element) -> Result<Option<Self>, Fault> {
        let number = |name: &str| number(element, name);
        let Some(name) = element.get("distribution") else {
            return Ok(match (element.get("milliseconds"), element.get("min")) {
                (Some(_), _) => Some(Self::Fixed(number("milliseconds")?)),
                (None, Some(_)) => Some(Self::Uniform(number("min")?, number("max")?)),
                (None, None) => None,
            });
        };
        Ok(Some(match name {
            "fixed" => Self::Fixed(number("value")?),
            "uniform" => Self::Uniform(number("min")?, number("max")?),
            "normal" => Self::Normal(number("mean")?, number("stdev")?),
            "lognormal" => Self::LogNormal(number("mean")?, number("stdev")?),
            "exponential" => Self::Exponential(number("mean")?),
            "weibull" => Self::Weibull(number("lambda")?, number("k")?),
            "pareto" => Self::Pareto(number("k")?, number("x_m")?),
            _ => {
                return Err(element.fault(format!(
                    "the distribution {name} is not known; known are fixed, uniform, normal, \
                     lognormal, exponential, weibull and pareto"
                )));
            }
        }))
    }

    /// Returns a number of the distribution.
    pub(super) fn sample(self, rng: &mut fastrand::Rng) -> f64 {
        // Neither 0, which has no logarithm, nor 1.
        let part = rng.f64().max(f64::MIN_POSITIVE);
        match self {
            Self::Fixed(value) => value,
            Self::Uniform(least, most) => least + (most - least) * part,
            Self::Normal(mean, deviation) => mean + deviation * normal(part, rng.f64()),
            Self::LogNormal(mean, deviation) => (mean + deviation * normal(part, rng.f64())).exp(),
            Self::Exponential(mean) => -mean * part.ln(),
            Self::Weibull(scale, shape) => scale * (-part.ln()).powf(1.0 / shape),
            Self::Pareto(shape, least) => least / part.powf(1.0 / shape),
        }
    }
}

/// Returns a number of the standard normal distribution, made of two uniform ones (Box and Muller).
fn normal(one: f64, other: f64) -> f64 {
    (-2.0 * one.ln()).sqrt() * (TAU * other).cos()
}

/// Returns the number in an attribute.
///
/// # Errors
/// [`Fault`] if the attribute is missing, or is no number.
pub(super) fn number(element: &Element, name: &str) -> Result<f64, Fault> {
    let text = element.require(name)?;
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| {
        element.fault(format!("{name}=\"{text}\" of <{}>: expected a number", element.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::xml;

    fn distribution(attributes: &str) -> Result<Option<Distribution>, Fault> {
        Distribution::of(&xml::parse(&format!("<pause {attributes}/>")).unwrap())
    }

    #[test]
    fn distributions_have_the_mean_of_their_parameters() {
        let mut rng = fastrand::Rng::with_seed(7);
        for (attributes, mean) in [
            ("milliseconds='50'", 50.0),
            ("min='10' max='30'", 20.0),
            ("distribution='uniform' min='10' max='30'", 20.0),
            ("distribution='normal' mean='100' stdev='10'", 100.0),
            ("distribution='lognormal' mean='1' stdev='0.5'", 1.125_f64.exp()),
            ("distribution='exponential' mean='40'", 40.0),
            ("distribution='weibull' lambda='3' k='1'", 3.0),
            ("distribution='pareto' k='3' x_m='2'", 3.0),
        ] {
            let distribution = distribution(attributes).unwrap().unwrap();
            let sum: f64 = (0..20_000).map(|_| distribution.sample(&mut rng)).sum();
            assert!((sum / 20_000.0 / mean - 1.0).abs() < 0.05, "{attributes}: {sum}");
        }
        assert_eq!(distribution(""), Ok(None));
        assert!(distribution("distribution='gamma' k='1'").is_err());
        assert!(distribution("distribution='normal' mean='1'").is_err());
        assert!(distribution("milliseconds='soon'").is_err());
    }
}
