//! Runs as CSV (RFC 4180): a row for each run, all figures in plain numbers, and an empty field for
//! a missing figure.

use super::groups::percentile;
use crate::metrics::{self, Bands};
use crate::record::{Delay, Histogram, Media, PERCENTILES, Record, Run, Watch};

/// A column.
pub(super) struct Column {
    /// The name.
    pub(super) name: String,
    value: Value,
}

/// The function that returns the content of a column.
type Value = Box<dyn Fn(&Record, &Run) -> String>;

/// Returns a header row and a row for each run. `docs/report.md` explains the columns.
pub(crate) fn csv(records: &[Record]) -> String {
    let columns = columns();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = columns.iter().map(|column| &column.name);
    writer.write_record(names).expect("writing to memory succeeds");
    for record in records {
        for run in &record.runs {
            let values = columns.iter().map(|column| (column.value)(record, run));
            writer.write_record(values).expect("all rows have the same columns");
        }
    }
    let bytes = writer.into_inner().expect("writing to memory succeeds");
    String::from_utf8(bytes).expect("what is written are texts")
}

/// Returns all columns in order.
pub(super) fn columns() -> Vec<Column> {
    let mut columns = Columns(Vec::new());
    names(&mut columns);
    load(&mut columns);
    counts(&mut columns);
    for delay in Delay::ALL {
        delays(&mut columns, delay);
    }
    bands(&mut columns);
    media(&mut columns);
    generator(&mut columns);
    watch(&mut columns);
    columns.0
}

struct Columns(Vec<Column>);

impl Columns {
    /// Adds a text of the record or the run.
    fn text(&mut self, name: &str, value: impl Fn(&Record, &Run) -> String + 'static) {
        self.0.push(Column { name: name.to_owned(), value: Box::new(value) });
    }

    /// Adds an integer of the run.
    fn count(&mut self, name: &str, value: impl Fn(&Run) -> u64 + 'static) {
        self.text(name, move |_, run| value(run).to_string());
    }

    /// Adds an optional figure of the run.
    fn figure(&mut self, name: &str, value: impl Fn(&Run) -> Option<f64> + 'static) {
        self.text(name, move |_, run| {
            value(run)
                .filter(|value| value.is_finite())
                .map(|value| value.to_string())
                .unwrap_or_default()
        });
    }

    /// Adds a figure of the system under test, for watched runs.
    fn watched(&mut self, name: &str, value: impl Fn(&Watch) -> u64 + 'static) {
        self.text(name, move |_, run| {
            run.watch.as_ref().map(|watch| value(watch).to_string()).unwrap_or_default()
        });
    }
}

fn names(columns: &mut Columns) {
    columns.text("tool", |record, _| record.tool.clone());
    columns.text("kind", |record, _| format!("{:?}", record.kind).to_lowercase());
    columns.text("host", |record, _| record.machine.host.clone());
    columns.text("system", |_, run| run.system.clone());
    columns.text("version", |record, run| {
        let system = record.systems.iter().find(|system| system.name == run.system);
        system.and_then(|system| system.version.clone()).unwrap_or_default()
    });
    columns.text("target", |record, run| {
        let system = record.systems.iter().find(|system| system.name == run.system);
        system.map(|system| system.target.clone()).unwrap_or_default()
    });
    columns.text("label", |_, run| run.label.clone());
    columns.count("repeat", |run| u64::from(run.repeat));
    columns.count("started", |run| run.started);
    columns.text("valid", |_, run| run.is_valid().to_string());
    columns.text("doubts", |_, run| run.doubts.join("; "));
}

fn load(columns: &mut Columns) {
    columns.text("operation", |_, run| run.load.operation.name().to_owned());
    columns.text("authentication", |_, run| run.load.authentication.to_string());
    columns.text("transport", |_, run| run.load.transport.clone());
    columns.text("arrivals", |_, run| run.load.arrivals.clone());
    columns.figure("rate", |run| Some(run.load.rate));
    columns.count("users", |run| run.load.users);
    columns.count("sockets", |run| run.load.sockets);
    columns.count("workers", |run| run.load.workers as u64);
    columns.figure("hold_s", |run| Some(run.load.hold));
    columns.figure("seconds", |run| Some(run.seconds));
}

fn counts(columns: &mut Columns) {
    columns.figure("achieved", |run| Some(metrics::achieved_rate(run)));
    columns.count("offered", |run| run.counts.offered);
    columns.count("sent_operations", |run| run.counts.started);
    columns.count("succeeded", |run| run.counts.succeeded);
    columns.count("refused", |run| run.counts.refused);
    columns.count("timed_out", |run| run.counts.timed_out);
    columns.count("lost", |run| run.counts.lost);
    columns.count("sent", |run| run.counts.sent);
    columns.count("received", |run| run.counts.received);
    columns.count("retransmitted", |run| run.counts.retransmitted);
    columns.count("repeated", |run| run.counts.repeated);
    columns.count("unexpected", |run| run.counts.unexpected);
    columns.count("late", |run| run.counts.late);
    columns.count("malformed", |run| run.counts.malformed);
    columns.count("challenged", |run| run.counts.challenged);
    columns.count("reused", |run| run.counts.reused);
    columns.count("refreshed", |run| run.counts.refreshed);
    columns.count("connections", |run| run.counts.connections);
    columns.count("completed_calls", |run| run.counts.completed_calls);
    columns.figure("success_percent", |run| metrics::success(&run.counts));
    columns.figure("ira_percent", |run| metrics::ira(&run.counts));
    columns.figure("isa_percent", |run| metrics::isa(&run.counts));
    columns.figure("ser_percent", |run| metrics::ser(&run.counts));
    columns.figure("seer_percent", |run| metrics::seer(&run.counts));
    columns.figure("scr_percent", |run| metrics::scr(&run.counts));
}

fn delays(columns: &mut Columns, delay: Delay) {
    let name = delay.name();
    let of = move |run: &Run, value: &dyn Fn(&Histogram) -> f64| {
        run.delays.get(&delay).filter(|histogram| !histogram.is_empty()).map(value)
    };
    columns.figure(&format!("{name}_count"), move |run| of(run, &|delays| delays.count() as f64));
    columns.figure(&format!("{name}_min_us"), move |run| of(run, &|delays| delays.min() as f64));
    columns.figure(&format!("{name}_mean_us"), move |run| of(run, &Histogram::mean));
    columns.figure(&format!("{name}_deviation_us"), move |run| of(run, &Histogram::deviation));
    for percent in PERCENTILES {
        let column = format!("{name}_p{}_us", percent.to_string().replace('.', "_"));
        columns.figure(&column, move |run| percentile(run, delay, percent));
    }
    columns.figure(&format!("{name}_max_us"), move |run| of(run, &|delays| delays.max() as f64));
}

fn bands(columns: &mut Columns) {
    let bands = Bands::of_run;
    for (band, name) in
        ["0_30", "31_60", "61_90", "91_120", "121_150", "over_150"].iter().enumerate()
    {
        columns.figure(&format!("band_{name}_ms"), move |run| Some(bands(run)?.shares[band]));
    }
    columns.figure("coefficient", move |run| Some(bands(run)?.coefficient()));
}

fn media(columns: &mut Columns) {
    columns.text("media", |_, run| run.media.as_deref().map(Media::kind).unwrap_or_default());
    columns.figure("media_calls", |run| Some(run.media.as_ref()?.calls as f64));
    columns.figure("media_held", |run| Some(run.media.as_ref()?.held));
    columns.figure("media_loss_percent", metrics::media_loss);
    columns.figure("media_jitter_us", metrics::media_jitter);
    columns.figure("media_delta_us", metrics::media_delta);
    columns.figure("media_delay_us", metrics::media_delay);
    columns.figure("media_mos", metrics::media_mos);
    columns.figure("media_handshakes_per_second", metrics::handshake_rate);
    columns.figure("media_handshake_p99_us", |run| {
        Some(run.media.as_ref()?.figures.handshakes.told(99.0)? as f64)
    });
}

fn generator(columns: &mut Columns) {
    columns.count("generator_cpu_user_us", |run| run.generator.cpu_user_us);
    columns.count("generator_cpu_system_us", |run| run.generator.cpu_system_us);
    columns.count("generator_operations", |run| run.generator.operations);
    columns.figure("generator_cpu_us_per_operation", metrics::generator_cpu_per_operation);
    columns.figure("generator_lag_p50_us", |run| Some(run.generator.lag.told(50.0)? as f64));
    columns.figure("generator_lag_p99_us", |run| Some(run.generator.lag.told(99.0)? as f64));
    columns.count("generator_lag_max_us", |run| run.generator.lag.max());
    columns.count("generator_drops", |run| run.generator.drops);
    columns.count("generator_unsent", |run| run.generator.unsent);
    columns.figure("generator_ceiling", |run| Some(run.generator.ceiling?.rate));
    columns.figure("generator_ceiling_cpu_us", |run| Some(run.generator.ceiling?.cpu_us));
}

fn watch(columns: &mut Columns) {
    columns.text("watched", |_, run| {
        run.watch.as_ref().map(|watch| watch.source.clone()).unwrap_or_default()
    });
    columns.watched("cpu_user_us", |watch| watch.total.cpu_user_us);
    columns.watched("cpu_system_us", |watch| watch.total.cpu_system_us);
    columns.watched("watched_operations", |watch| watch.operations);
    columns.figure("cpu_us_per_operation", metrics::cpu_per_operation);
    columns.watched("memory_before_bytes", |watch| watch.memory_before);
    columns.watched("memory_bytes", |watch| watch.memory);
    columns.watched("memory_max_bytes", |watch| watch.memory_max);
    columns.watched("cores", |watch| watch.cores as u64);
    columns.watched("context_switches", |watch| watch.total.context_switches);
    columns.watched("udp_drops", |watch| watch.total.udp_drops);
    columns.watched("received_bytes", |watch| watch.total.received_bytes);
    columns.watched("sent_bytes", |watch| watch.total.sent_bytes);
}
