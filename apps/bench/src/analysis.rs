//! Statistics of repeated measurements: the median of repeats with its confidence interval,
//! outliers, and the knee of a curve (see docs/sources.md).

/// The confidence level of the interval of [`Spread`].
const CONFIDENCE: f64 = 0.95;
/// The modified z-score from which a value is an outlier (Iglewicz and Hoaglin).
const OUTLYING: f64 = 3.5;
/// With fewer values there are no outliers: the deviations of three or four are not representative.
const FEWEST_FOR_OUTLIERS: usize = 5;
/// The standard deviation of normally distributed values, in median absolute deviations.
const DEVIATION_OF_MAD: f64 = 1.4826;
/// The same in mean absolute deviations.
const DEVIATION_OF_MEAN: f64 = 1.2533;

/// The spread of repeats of one measurement. All values count; outliers are only named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The median.
    pub(crate) median: f64,
    /// The lower end of the confidence interval of the median.
    pub(crate) low: f64,
    /// The upper end of the confidence interval of the median.
    pub(crate) high: f64,
    /// The confidence that the true median lies in the interval, from 0 to 1. It is at least 0.95
    /// from six values on. With fewer values the interval is from the smallest to the greatest,
    /// with a confidence of 0.75 with three values, 0.5 with two, 0 with one.
    pub(crate) confidence: f64,
    /// The smallest value.
    pub(crate) min: f64,
    /// The greatest value.
    pub(crate) max: f64,
    /// The indices of outliers, with a modified z-score above 3.5. Empty with fewer than five
    /// values.
    pub(crate) outliers: Vec<usize>,
}

impl Spread {
    /// Returns the spread of `values`; `None` if there are no values, or one is not finite.
    ///
    /// The interval is that of the sign test: from the k-th smallest to the k-th greatest value,
    /// with the highest k that reaches 95 %. The probability that the true median lies outside is
    /// that of k-1 or fewer heads (or tails) in as many coin tosses as there are values. The test
    /// assumes no distribution, which is unknown for delays and rates on busy machines. It is exact
    /// for any number of repeats; the bootstrap is too narrow below about ten.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let sorted = sorted(values);
        let count = sorted.len();
        let (rank, confidence) = rank_of_interval(count);
        Some(Self {
            median: middle(&sorted),
            low: sorted[rank],
            high: sorted[count - 1 - rank],
            confidence,
            min: sorted[0],
            max: sorted[count - 1],
            outliers: outliers(values),
        })
    }
}

/// Returns the ratios of paired repeats, so that the state of the machine at the time of a pair
/// cancels out. `None` if there are no values, the numbers of values differ, or a ratio is not
/// finite.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> Option<Spread> {
    if ours.len() != theirs.len() {
        return None;
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    Spread::of(&ratios)
}

/// Returns the number of smallest and greatest of `count` values outside of the interval of the
/// median, and the confidence of the interval.
fn rank_of_interval(count: usize) -> (usize, f64) {
    // The probability of exactly `heads` heads, and of `heads` or fewer.
    let mut exactly = 0.5f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut at_most = exactly;
    let mut best = (0, (1.0 - 2.0 * at_most).max(0.0));
    for heads in 1..count.div_ceil(2) {
        exactly *= (count + 1 - heads) as f64 / heads as f64;
        at_most += exactly;
        let confidence = 1.0 - 2.0 * at_most;
        if confidence < CONFIDENCE {
            break;
        }
        best = (heads, confidence);
    }
    best
}

fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < FEWEST_FOR_OUTLIERS {
        return Vec::new();
    }
    let median = median(values);
    let deviation = deviation(values);
    let stands_out = |&(_, &value): &(usize, &f64)| (value - median).abs() > OUTLYING * deviation;
    values.iter().enumerate().filter(stands_out).map(|(index, _)| index).collect()
}

/// Returns the standard deviation, estimated from the values near the median.
fn deviation(values: &[f64]) -> f64 {
    let median = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let mad = self::median(&deviations);
    if mad > 0.0 {
        return DEVIATION_OF_MAD * mad;
    }
    // More than half of the values are equal, so the mean deviation of the others is used.
    DEVIATION_OF_MEAN * deviations.iter().sum::<f64>() / deviations.len() as f64
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the median of sorted values; there must be at least one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

fn median(values: &[f64]) -> f64 {
    middle(&sorted(values))
}

/// The standard deviation of noise, in medians of the steps between consecutive values.
const DEVIATION_OF_STEPS: f64 = 1.0483;
/// The minimum of points on the flat part of a curve.
const FEWEST_FLAT: usize = 3;
/// The minimum distance of the knee from the chord, in heights of the curve: a straight line has no
/// knee.
const BEND: f64 = 0.15;
/// The distance from the flat part that is off it, in deviations of the flat part.
const OFF_DEVIATIONS: f64 = 6.0;
/// The minimum of that distance as a share of the level: 2 % more is no slower server.
const OFF_LEVEL: f64 = 0.02;
/// The minimum of that distance as a share of the curve's height.
const OFF_HEIGHT: f64 = 0.01;
/// A curve of positive values that rises by more than this factor is converted to logarithms, so
/// that its last points do not hide the start of its rise.
const STEEP: f64 = 8.0;

/// Returns the index of the first point at which a curve, such as delay or success over rate, has
/// left its flat part, upwards or downwards. `None` if it stays flat, rises steadily, has fewer
/// than five points, or a value is not finite. The order of the points does not matter.
///
/// There are two steps. The point that is farthest from the line between the curve's ends, as in
/// Kneedle (Satopää and others, 2011), gives the approximate end of the flat part, and so its level
/// and its noise by robust estimates. Then the knee is the first point from which all points are
/// off that level, on the same side, by more than the noise; a single outlier is no knee.
pub(crate) fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let is_number = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    if points.len() < FEWEST_FLAT + 2 || !points.iter().all(is_number) {
        return None;
    }
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[a].0.total_cmp(&points[b].0));
    let x: Vec<f64> = order.iter().map(|&index| points[index].0).collect();
    let y = straightened(order.iter().map(|&index| points[index].1).collect());

    let end_of_flat = farthest_from_chord(&x, &y)?.max(FEWEST_FLAT - 1);
    let flat = &y[..=end_of_flat];
    let level = median(flat);
    let height = y.iter().map(|y| (y - level).abs()).fold(0.0, f64::max);
    // Estimated from the steps between neighbours: a slow start of a rise is not noise.
    let steps: Vec<f64> = flat.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let noise = DEVIATION_OF_STEPS * median(&steps);
    let off = (OFF_DEVIATIONS * noise).max(OFF_LEVEL * level.abs()).max(OFF_HEIGHT * height);

    let last = y.len() - 1;
    let side = (y[last] - level).signum();
    let is_off = |&index: &usize| (y[index] - level) * side > off;
    let first = (0..=last).rev().take_while(is_off).last()?;
    (first >= FEWEST_FLAT).then(|| order[first])
}

/// Returns the values, or their logarithms if they rise steeply.
fn straightened(mut y: Vec<f64>) -> Vec<f64> {
    let quarter = (y.len() / 4).max(1);
    let start = median(&y[..quarter]);
    let end = median(&y[y.len() - quarter..]);
    if y.iter().all(|&y| y > 0.0) && end > STEEP * start {
        // Starting at 1, so that the level and its shares do not depend on the unit.
        y.iter_mut().for_each(|y| *y = 1.0 + (*y / start).ln());
    }
    y
}

/// Returns the index of the point that lies farthest from the line between the ends of the curve,
/// on the side of its start. `None` if the curve is close to a line.
fn farthest_from_chord(x: &[f64], y: &[f64]) -> Option<usize> {
    let last = x.len() - 1;
    let width = x[last] - x[0];
    // A single noisy point must not set the level.
    let start = median(&y[..FEWEST_FLAT]);
    let height = y[last] - start;
    if width <= 0.0 || height == 0.0 {
        return None;
    }
    let distance = |index: usize| (x[index] - x[0]) / width - (y[index] - start) / height;
    let farthest = (0..last).max_by(|&a, &b| distance(a).total_cmp(&distance(b)))?;
    (distance(farthest) > BEND).then_some(farthest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_widest_until_six_values_reach_95_percent() {
        for (count, rank, confidence) in [
            (1, 0, 0.0),
            (2, 0, 0.5),
            (3, 0, 0.75),
            (5, 0, 0.9375),
            (6, 0, 0.96875),
            (8, 0, 0.9922),
        ] {
            let found = rank_of_interval(count);
            assert_eq!(found.0, rank, "{count}");
            assert!((found.1 - confidence).abs() < 1e-4, "{count}: {found:?}");
        }
        // The values of tables of the sign test.
        for (count, rank, confidence) in [(9, 1, 0.9609), (10, 1, 0.9785), (20, 5, 0.9586)] {
            let found = rank_of_interval(count);
            assert_eq!(found.0, rank, "{count}");
            assert!((found.1 - confidence).abs() < 1e-4, "{count}: {found:?}");
        }
    }

    #[test]
    fn repeats_are_summed_up_with_their_outliers() {
        let spread = Spread::of(&[10.0, 11.0, 9.0, 10.5, 30.0, 9.5, 10.2, 9.9, 10.1]).unwrap();
        assert_eq!(spread.median, 10.1);
        assert_eq!((spread.low, spread.high), (9.5, 11.0));
        assert_eq!((spread.min, spread.max), (9.0, 30.0));
        assert_eq!(spread.outliers, [4]);
        assert_eq!(Spread::of(&[1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn outliers_are_named_where_most_values_are_the_same_and_not_among_a_few() {
        assert_eq!(Spread::of(&[5.0, 5.0, 5.0, 5.0, 5.0, 6.0]).unwrap().outliers, [5]);
        assert!(Spread::of(&[5.0; 6]).unwrap().outliers.is_empty());
        assert!(Spread::of(&[5.0, 5.1, 50.0]).unwrap().outliers.is_empty());
    }

    #[test]
    fn ratios_are_those_of_pairs() {
        let spread = ratio(&[2.0, 4.0, 9.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 2.0, 3.0));
        assert_eq!(ratio(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
        assert_eq!(ratio(&[], &[]), None);
    }

    /// A repeatable sequence of numbers from -1 to 1.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }
    }

    fn curve(count: usize, y: impl FnMut(f64) -> f64) -> Vec<(f64, f64)> {
        let x = (1..=count).map(|index| index as f64);
        let y: Vec<f64> = x.clone().map(y).collect();
        x.zip(y).collect()
    }

    #[test]
    fn knees_are_found_where_they_are() {
        let flat_then_line = |x: f64| if x <= 12.0 { 2.0 } else { 2.0 + (x - 12.0) };
        assert_eq!(knee(&curve(20, flat_then_line)), Some(12));
        let flat_then_wall = |x: f64| if x <= 6.0 { 0.4 } else { 500.0 };
        assert_eq!(knee(&curve(10, flat_then_wall)), Some(6));
        let flat_then_growth = |x: f64| if x <= 8.0 { 1.0 } else { 3f64.powf(x - 8.0) };
        assert_eq!(knee(&curve(14, flat_then_growth)), Some(8));
        let success = |x: f64| if x <= 9.0 { 100.0 } else { 100.0 - 8.0 * (x - 9.0) };
        assert_eq!(knee(&curve(12, success)), Some(9));
        let collapse = |x: f64| if x <= 9.0 { 100.0 } else { 1.0 };
        assert_eq!(knee(&curve(10, collapse)), Some(9));
    }

    #[test]
    fn the_order_of_points_does_not_matter() {
        let mut points = curve(10, |x| if x <= 6.0 { 1.0 } else { 9.0 });
        points.reverse();
        assert_eq!(knee(&points), Some(3), "the point of rate 7");
    }

    #[test]
    fn a_queue_leaves_its_flat_part_below_its_capacity() {
        // The mean time in a queue with one server (M/M/1) of capacity 21.
        let points = curve(20, |x| 1.0 / (1.0 - x / 21.0));
        let found = knee(&points).unwrap();
        assert!((9..=16).contains(&found), "{found}");
    }

    #[test]
    fn curves_without_a_knee_have_no_knee() {
        assert_eq!(knee(&curve(20, |_| 3.0)), None);
        assert_eq!(knee(&curve(20, |x| 1.0 + x)), None);
        assert_eq!(knee(&curve(20, |x| 100.0 + x / 100.0)), None);
        assert_eq!(knee(&curve(4, |x| if x < 4.0 { 1.0 } else { 9.0 })), None);
        assert_eq!(knee(&curve(9, |x| if x < 5.0 { 1.0 } else { f64::NAN })), None);
        let mut spike = curve(20, |_| 3.0);
        spike[10].1 = 90.0;
        assert_eq!(knee(&spike), None);
    }

    #[test]
    fn noise_neither_hides_nor_adds_a_knee() {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let (mut near, mut wrong) = (0, 0);
        for _ in 0..500 {
            let knee_at = |x: f64| if x <= 12.0 { 10.0 } else { 10.0 + 6.0 * (x - 12.0) };
            let found = knee(&curve(20, |x| knee_at(x) * (1.0 + 0.1 * noise.next())));
            near += usize::from(found.is_some_and(|found| (12..=13).contains(&found)));
            wrong += usize::from(knee(&curve(20, |_| 10.0 * (1.0 + 0.1 * noise.next()))).is_some());
        }
        assert!(near >= 475, "{near} of 500 knees were found");
        assert!(wrong <= 10, "{wrong} of 500 flat curves were given a knee");
    }
}
