//! The RTCP transmission interval (RFC 3550 sections 6.2, 6.3 and A.7).

use core::time::Duration;

/// The divisor that compensates for timer reconsideration, which lengthens the mean interval: e -
/// 3/2.
const COMPENSATION: f64 = 1.218_28;

/// The share of the bandwidth that is reserved for senders, if at most that share of the members
/// sends.
const SENDER_SHARE: f64 = 0.25;

/// The minimum interval.
const MINIMUM: Duration = Duration::from_secs(5);

/// The schedule of reports. Times are durations since an epoch that the caller chooses and keeps.
/// Random numbers are in the range 0 to 1, excluding 1.
#[derive(Clone, Debug)]
pub struct ReportSchedule {
    /// The RTCP bandwidth of all members together, in bytes per second.
    bandwidth: f64,
    members: u32,
    senders: u32,
    we_sent: bool,
    /// The number of members when the interval was last computed.
    prior_members: u32,
    last: Duration,
    next: Duration,
    average_size: f64,
    initial: bool,
    minimum: Duration,
}

impl ReportSchedule {
    /// Creates the schedule of the only member at `now`. `session_bandwidth` is in bits per second,
    /// of which RTCP uses 5 %. `first_size` is the size of the first report with UDP and IP
    /// headers, in bytes.
    #[must_use]
    pub fn new(now: Duration, session_bandwidth: f64, first_size: usize, random: f64) -> Self {
        let mut schedule = Self {
            bandwidth: (0.05 * session_bandwidth / 8.0).max(1.0),
            members: 1,
            senders: 0,
            we_sent: false,
            prior_members: 1,
            last: now,
            next: now,
            average_size: first_size as f64,
            initial: true,
            minimum: MINIMUM,
        };
        schedule.next = now + schedule.interval(random);
        schedule
    }

    /// As [`ReportSchedule::new`], with the reduced minimum of RFC 3550 section 6.2: 360 seconds
    /// divided by the bandwidth of the session in kbit/s, where that is shorter than five seconds.
    /// It is for members of a unicast session.
    #[must_use]
    pub fn with_reduced_minimum(
        now: Duration,
        session_bandwidth: f64,
        first_size: usize,
        random: f64,
    ) -> Self {
        let mut schedule = Self::new(now, session_bandwidth, first_size, random);
        let seconds = 360.0 / (session_bandwidth / 1000.0).max(1.0);
        schedule.minimum = MINIMUM.min(Duration::from_secs_f64(seconds));
        schedule.next = now + schedule.interval(random);
        schedule
    }

    /// The time of the next call of [`ReportSchedule::is_due`].
    #[must_use]
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Records the number of members and of senders among them. `members` counts ourselves,
    /// `senders` does so if `we_sent`.
    ///
    /// If members have left, the next report is sent earlier (reverse reconsideration).
    pub fn set_members(&mut self, now: Duration, members: u32, senders: u32, we_sent: bool) {
        (self.members, self.senders, self.we_sent) = (members.max(1), senders, we_sent);
        if self.members < self.prior_members {
            let share = f64::from(self.members) / f64::from(self.prior_members);
            self.next = now + self.next.saturating_sub(now).mul_f64(share);
            self.last = now.saturating_sub(now.saturating_sub(self.last).mul_f64(share));
            self.prior_members = self.members;
        }
    }

    /// Records the size of a received packet, with UDP and IP headers, in bytes.
    pub fn received(&mut self, size: usize) {
        self.average_size += (size as f64 - self.average_size) / 16.0;
    }

    /// Returns true if a report is due at `now`, which is [`ReportSchedule::next`] or later. The
    /// caller then sends it and calls [`ReportSchedule::sent`]. Otherwise [`ReportSchedule::next`]
    /// has changed.
    #[must_use]
    pub fn is_due(&mut self, now: Duration, random: f64) -> bool {
        let next = self.last + self.interval(random);
        self.prior_members = self.members;
        if next <= now {
            return true;
        }
        self.next = next;
        false
    }

    /// Records a report sent at `now`.
    pub fn sent(&mut self, now: Duration, size: usize, random: f64) {
        self.received(size);
        self.last = now;
        self.initial = false;
        self.next = now + self.interval(random);
        self.prior_members = self.members;
    }

    fn interval(&self, random: f64) -> Duration {
        let minimum = if self.initial { self.minimum / 2 } else { self.minimum };
        let (members, senders) = (f64::from(self.members), f64::from(self.senders));
        let (sharers, share) = if senders > members * SENDER_SHARE {
            (members, 1.0)
        } else if self.we_sent {
            (senders, SENDER_SHARE)
        } else {
            (members - senders, 1.0 - SENDER_SHARE)
        };
        let seconds = self.average_size * sharers / (self.bandwidth * share);
        let seconds = seconds.max(minimum.as_secs_f64()) * (random + 0.5) / COMPENSATION;
        // Intervals longer than a day result from unrealistic parameters.
        Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn seconds(schedule: &ReportSchedule) -> f64 {
        (schedule.next() - START).as_secs_f64()
    }

    #[test]
    fn the_first_report_comes_after_half_the_minimum() {
        for (random, expected) in [(0.0, 1.25), (0.5, 2.5), (1.0, 3.75)] {
            let schedule = ReportSchedule::new(START, 64_000.0, 100, random);
            assert!((seconds(&schedule) - expected / COMPENSATION).abs() < 1e-6);
        }
    }

    #[test]
    fn the_minimum_is_reduced_by_the_bandwidth() {
        for (bandwidth, minimum) in [(360_000.0, 1.0), (80_000.0, 4.5), (8000.0, 5.0)] {
            let mut schedule = ReportSchedule::with_reduced_minimum(START, bandwidth, 1, 0.5);
            assert!((seconds(&schedule) - minimum / 2.0 / COMPENSATION).abs() < 1e-6);
            schedule.sent(START, 1, 0.5);
            assert!((seconds(&schedule) - minimum / COMPENSATION).abs() < 1e-6);
        }
    }

    #[test]
    fn many_members_wait_longer_and_are_reconsidered() {
        let mut schedule = ReportSchedule::new(START, 64_000.0, 100, 0.5);
        let first = schedule.next();
        schedule.set_members(START, 1000, 1, false);
        assert!(!schedule.is_due(first, 0.5));
        // Reports of 100 bytes from 999 receivers, at three quarters of 400 bytes per second.
        let expected = 100.0 * 999.0 / 300.0 / COMPENSATION;
        assert!((seconds(&schedule) - expected).abs() < 1e-3, "{}", seconds(&schedule));
        assert!(schedule.is_due(schedule.next(), 0.5));
    }

    #[test]
    fn members_that_leave_bring_the_report_forward() {
        let mut schedule = ReportSchedule::new(START, 64_000.0, 100, 0.5);
        schedule.set_members(START, 1000, 1, false);
        assert!(!schedule.is_due(schedule.next(), 0.5));
        let before = seconds(&schedule);
        schedule.set_members(START, 100, 1, false);
        assert!((seconds(&schedule) - before / 10.0).abs() < 1e-3);
    }

    #[test]
    fn a_sender_of_two_reports_every_five_seconds() {
        let mut schedule = ReportSchedule::new(START, 64_000.0, 100, 0.5);
        schedule.set_members(START, 2, 2, true);
        let mut now = START;
        let mut reports = 0;
        while now < START + Duration::from_secs(3600) {
            now = schedule.next();
            if schedule.is_due(now, f64::from(reports % 10) / 10.0) {
                reports += 1;
                schedule.sent(now, 100, f64::from(reports % 7) / 7.0);
            }
        }
        assert!((600..1000).contains(&reports), "{reports}");
    }
}
