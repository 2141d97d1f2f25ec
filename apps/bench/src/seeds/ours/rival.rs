//! The steps of a rival by a profiler, beside ours.

use crate::metrics;
use crate::record::Record;
use crate::seeds::profile::Function;
use crate::seeds::runs::{median_of, steps_of, systems};
use crate::series::{Series, Value};

/// A step: its name in the source, that of our server, the beginnings of the names of Kamailio's
/// functions, and the number of messages of a registration with authentication that have it.
type Step = (&'static str, &'static str, &'static [&'static str], f64);

const STEPS: [Step; 5] = [
    ("FindUser", "find-user", &["get_urecord", "ht_", "pv_get_ht"], 2.0),
    (
        "ParseSIPHeaders",
        "parse-headers",
        &["parse_", "get_hdr_field", "clean_hdr_field", "parser_init"],
        2.0,
    ),
    (
        "AddUser",
        "add-user",
        &["save", "insert_ucontact", "update_ucontact", "new_ucontact", "mem_insert", "mem_update"],
        1.0,
    ),
    (
        "AuthenticateUser",
        "authenticate-user",
        &["MD5", "U_MD5", "auth", "calc_", "pv_auth", "digest", "check_nonce", "build_auth"],
        2.0,
    ),
    (
        "FormatSIPResponse",
        "format-response",
        &["build_res", "sl_", "add_lump_rpl", "received_"],
        2.0,
    ),
];

/// Returns the times of the steps of the rival over those of our server.
pub(super) fn ratios(ours: &Record, rival: &Record, functions: &[Function]) -> Vec<Series> {
    let highest = |record| -> Option<_> {
        let name = systems(record).next()?;
        let mut steps = steps_of(record, name, |run| run.load.rate, |_| true);
        Some((name.to_owned(), steps.pop()?.1))
    };
    let (Some((name, runs)), Some((rival, rivals))) = (highest(ours), highest(rival)) else {
        return Vec::new();
    };
    let cpu = median_of(&rivals, metrics::cpu_per_operation);
    let values = STEPS.iter().filter_map(|(step, own, beginnings, messages)| {
        let is_it = |function: &&Function| {
            let is_of_program = !function.object.starts_with('[') && function.object != "libc.so.6";
            is_of_program && beginnings.iter().any(|begin| function.name.starts_with(begin))
        };
        let share: f64 = functions.iter().filter(is_it).map(|function| function.share).sum();
        let (us, is_doubtful) = median_of(&runs, |run| run.steps.get(*own)?.mean_us())?;
        let (cpu, is_rival_doubtful) = cpu?;
        let is_doubtful = is_doubtful || is_rival_doubtful;
        Some(Value { is_doubtful, ..Value::of(*step, share * cpu / messages / us) })
    });
    vec![Series { name: format!("{rival} over {name}"), values: values.collect() }]
}
