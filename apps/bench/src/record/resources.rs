//! The resource use of the generator and of the system under test.

use super::Histogram;
use serde::{Deserialize, Serialize};

/// The resource use and the accuracy of the generator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Generator {
    /// CPU time of its threads in user mode over the whole load, in microseconds.
    pub(crate) cpu_user_us: u64,
    /// CPU time in system mode, in microseconds.
    pub(crate) cpu_system_us: u64,
    /// The successful operations of the whole load, including those outside the measured time.
    #[serde(default)]
    pub(crate) operations: u64,
    /// The delay from the scheduled to the actual sending.
    pub(crate) lag: Histogram,
    /// Datagrams that the kernel dropped on the generator's sockets.
    pub(crate) drops: u64,
    /// Messages that the kernel refused to send.
    pub(crate) unsent: u64,
    /// The rate of the generator against an ideal peer, measured just before the run. For several
    /// machines with equal shares, it is the rate of the slowest times the number of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ceiling: Option<Ceiling>,
    /// The shares of the machines, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shares: Vec<Share>,
}

/// The share of one machine in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// The name of the [`Agent`](super::Agent).
    pub(crate) agent: String,
    /// Operations that the machine was to start in the measured time.
    pub(crate) offered: u64,
    /// Successful operations, including those outside the measured time.
    pub(crate) operations: u64,
    /// CPU time of its threads in user mode, in microseconds.
    pub(crate) cpu_user_us: u64,
    /// CPU time in system mode, in microseconds.
    pub(crate) cpu_system_us: u64,
    /// The 99th percentile of the delay from the scheduled to the actual sending, in microseconds;
    /// `None` if there are too few operations for it.
    pub(crate) lag_p99_us: Option<u64>,
    /// Datagrams that its kernel dropped on its sockets.
    pub(crate) drops: u64,
    /// Messages that its kernel refused to send.
    pub(crate) unsent: u64,
    /// The error bound of its clock against the other machines at the start, in microseconds.
    pub(crate) clock_error_us: u64,
    /// Its rate against a local ideal peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ceiling: Option<Ceiling>,
}

/// The rate of the generator against an ideal peer in the same process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ceiling {
    /// Operations per second.
    pub(crate) rate: f64,
    /// CPU time of the generator per operation, in microseconds.
    pub(crate) cpu_us: f64,
}

/// The resource use of the system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// The watched processes, such as `pid 4711` or `ssh:host pid 4711`.
    pub(crate) source: String,
    /// The use from the start of the load to its end, plus a settling time for deferred work.
    pub(crate) total: Usage,
    /// The successful operations of that time, including those outside the measured time.
    #[serde(default)]
    pub(crate) operations: u64,
    /// The memory of all processes at the end, in bytes (PSS).
    pub(crate) memory: u64,
    /// The highest sampled memory, in bytes.
    pub(crate) memory_max: u64,
    /// The memory before the load, in bytes.
    pub(crate) memory_before: u64,
    /// The number of processors of the watched machine.
    pub(crate) cores: usize,
    /// The share of the machine's CPU time that other programs used in the time of `total`. Absent
    /// in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) others: Option<f64>,
    /// The samples, about one per second.
    pub(crate) samples: Vec<Sample>,
}

impl Watch {
    /// Yields the samples, each with the start and end of its interval on the time axis of the run.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (f64, f64, &Sample)> {
        let before = std::iter::once(None).chain(self.samples.iter().map(Some));
        self.samples.iter().zip(before).filter_map(|(sample, before)| {
            let length = sample.seconds.or(before.map(|before| sample.at - before.at))?;
            (length > 0.0).then_some((sample.at - length, sample.at, sample))
        })
    }
}

/// The resource use of processes over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// CPU time in user mode, in microseconds.
    pub(crate) cpu_user_us: u64,
    /// CPU time in system mode, in microseconds.
    pub(crate) cpu_system_us: u64,
    /// Voluntary and involuntary context switches of the threads.
    pub(crate) context_switches: u64,
    /// Datagrams dropped on the UDP sockets of the processes.
    pub(crate) udp_drops: u64,
    /// Bytes received by the machine's network interfaces.
    pub(crate) received_bytes: u64,
    /// Bytes sent by the machine's network interfaces.
    pub(crate) sent_bytes: u64,
}

/// A sample of the system under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Seconds since the start of the measured time; negative before it.
    pub(crate) at: f64,
    /// The length of the interval that ends at `at`, in seconds. Absent in older records, where the
    /// interval begins at the sample before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
    /// The use in the interval.
    pub(crate) usage: Usage,
    /// The memory in bytes (PSS).
    pub(crate) memory: u64,
}
