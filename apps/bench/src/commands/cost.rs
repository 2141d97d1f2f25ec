//! `cost`: the CPU time of the generator per operation against an ideal peer, beside the bare
//! exchange of the same datagrams and, optionally, beside SIPp. All are measured in turn, several
//! times.

use super::error::CommandError;
use crate::agents::Force;
use crate::analysis::{self, Spread};
use crate::bare::{self, Exchange};
use crate::ceiling::{CeilingError, ideal};
use crate::cli::CostArgs;
use crate::console::{complain, print};
use crate::load::generator::Generator;
use crate::measure::{self, LoadSpec};
use crate::metrics;
use crate::peer::{Peer, Script};
use crate::record::Operation;
use crate::sipp;
use crate::target::Target;
use crate::users::Users;
use sip::Transport;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const DOMAIN: &str = "bench.example";
const REGISTER: &str = include_str!("../../profiles/sipp-register.xml");

pub(crate) fn execute(args: &CostArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    if !load.agents.is_empty() {
        return Err(CommandError::Usage(
            "cost measures the generator of this machine: --agents is not for it".to_owned(),
        ));
    }
    let users = load.users.users()?;
    let rate = load.rate();
    let spec = load.spec(rate);
    let authentication = load.users.auth;
    let operation = load.operation;
    let has_sipp = matches!(operation, Operation::RegisterUpdate | Operation::Invite);
    if args.sipp && (authentication || !has_sipp) {
        return Err(CommandError::Usage(
            "--sipp is for --operation register-update and --operation invite, without --auth"
                .to_owned(),
        ));
    }
    let script = ideal(operation, authentication);
    let (mut ours, mut bare, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..load.detail.repeats {
        let (cost, exchange) = generator(args, &script, &users, &spec, ending)?;
        ours.push(cost);
        bare.push(bare::measure(&exchange).map_err(CommandError::Peer)?.initiator_us);
        if args.sipp {
            let folder = tempfile::tempdir().map_err(CommandError::Sipp)?;
            let cost = match operation {
                Operation::Invite => sipp_calls(rate, spec.seconds()),
                _ => sipp_registrations(folder.path(), &script, &users, rate, spec.seconds()),
            };
            theirs.push(cost.map_err(CommandError::Sipp)?);
        }
    }
    print(&text(args, rate, &ours, &bare, &theirs)).map_err(CommandError::Print)?;
    Ok(true)
}

/// Measures the CPU time of an operation, and of the bare exchange of its messages.
fn generator(
    args: &CostArgs,
    script: &Script,
    users: &Users,
    spec: &LoadSpec,
    ending: &Arc<AtomicBool>,
) -> Result<(f64, Exchange), CommandError> {
    let load = &args.load;
    let peer = Peer::start(script).map_err(CommandError::Peer)?;
    let address = peer.address();
    let target = Target::at(Transport::Udp, address);
    let plan = load.generator(&target, DOMAIN, users, spec.rate());
    let mut force = Force::Local(Generator::open(&plan, ending)?);
    let measured =
        measure::run(&mut force, spec, users.len(), &load.detail.limits(), &[], &mut ())?;
    let cost = metrics::generator_cpu_per_operation(&measured.run)
        .ok_or(CommandError::NoCeiling(CeilingError::NoneDone(spec.operation)))?;
    for doubt in &measured.run.doubts {
        complain(doubt);
    }
    let exchange = Exchange::like(&measured.traffic, measured.operations, spec, load.detail.clock);
    Ok((cost, exchange))
}

/// Measures the CPU time of SIPp for a registration with the ideal peer.
fn sipp_registrations(
    folder: &Path,
    script: &Script,
    users: &Users,
    rate: f64,
    seconds: f64,
) -> io::Result<f64> {
    let peer = Peer::start(script)?;
    let scenario = folder.join("register.xml");
    fs::write(&scenario, REGISTER)?;
    let names: String = users.iter().map(|(name, _)| format!("{name}\n")).collect();
    let list = folder.join("users.csv");
    fs::write(&list, format!("SEQUENTIAL\n{names}"))?;
    let count = (rate * seconds) as u64;
    let before = sipp::cpu_of_children()?;
    let mut command = sipp::caller(peer.address(), rate, count, folder);
    command.arg("-sf").arg(&scenario).arg("-inf").arg(&list);
    sipp::wait(command.spawn().map_err(sipp::not_started)?)?;
    Ok((sipp::cpu_of_children()? - before) / count as f64)
}

/// Measures the CPU time of SIPp for a call, both ends together, without a server in between.
fn sipp_calls(rate: f64, seconds: f64) -> io::Result<f64> {
    let folder = tempfile::tempdir()?;
    let count = (rate * seconds) as u64;
    let before = sipp::cpu_of_children()?;
    let callee = sipp::free_port()?;
    let mut command = Command::new(sipp::PROGRAM);
    command
        .args(["-sn", "uas", "-i", sipp::ADDRESS, "-p", &callee.port().to_string(), "-nostdin"])
        .args(["-m", &count.to_string(), "-timeout", "60s"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let called = command.spawn().map_err(sipp::not_started)?;
    // SIPp does not report when it is ready.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut command = sipp::caller(callee, rate, count, folder.path());
    command.args(["-sn", "uac", "-d", "0"]);
    let caller = command.spawn().map_err(sipp::not_started);
    let ended = caller.and_then(sipp::wait);
    sipp::wait(called)?;
    ended?;
    Ok((sipp::cpu_of_children()? - before) / count as f64)
}

fn text(args: &CostArgs, rate: f64, ours: &[f64], bare: &[f64], sipp: &[f64]) -> String {
    let mut out = String::new();
    let load = &args.load;
    let _ = writeln!(
        out,
        "{}{} at {rate:.0}/s, {} repeats, CPU microseconds an operation, both ends of a call together",
        load.operation.name(),
        if load.users.auth { " with authentication" } else { "" },
        ours.len()
    );
    let mut row = |name: &str, values: &[f64]| {
        let Some(spread) = Spread::of(values) else { return };
        let _ = write!(
            out,
            "  {name:<28} {:7.2}  ({:.2} to {:.2})",
            spread.median, spread.min, spread.max
        );
        match analysis::ratio(ours, values) {
            Some(ratio) if name != "barebell-bench" => {
                let _ = writeln!(
                    out,
                    "   barebell-bench is {:.2} of it ({:.2} to {:.2})",
                    ratio.median, ratio.low, ratio.high
                );
            }
            _ => out.push('\n'),
        }
    };
    row("barebell-bench", ours);
    row("bare exchange of datagrams", bare);
    row("SIPp", sipp);
    out
}
