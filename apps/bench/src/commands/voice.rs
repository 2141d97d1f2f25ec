//! Loads of calls with media, for all commands: the plan, the measurement, and its run.

use super::error::CommandError;
use super::progress::Shown;
use super::watching::Watching;
use crate::agents::Fleet;
use crate::load::generator::{local_address, of_tls};
use crate::measure::Limits;
use crate::record::{Delay, Generator, Headroom, Load, Media, Operation, Run, Steps};
use crate::users::Users;
use crate::voice::fault::Faults;
use crate::voice::plan::{User, enough};
use crate::voice::{Callees, Found, Pair, Plan, Protection, headroom, run};
use crate::watch::{Readings, Subject};
use sip::{Duration, Transport};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The time to sample the server after the load, for deferred work.
const SETTLE: Duration = Duration::from_secs(1);

/// The parameters of a load that do not depend on the users.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) codecs: Pair,
    pub(super) protection: Protection,
    /// The simultaneous calls, and the calls started per second.
    pub(super) calls: u64,
    pub(super) rate: f64,
    pub(super) audio: Duration,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    pub(super) faults: Faults,
    pub(super) echo_faults: Faults,
    /// The local address; `None` for that of the route to the server.
    pub(super) from: Option<IpAddr>,
    /// The number of threads; `None` derives it from the calls.
    pub(super) workers: Option<u16>,
    pub(super) seed: u64,
    /// The transport of the signalling.
    pub(super) transport: Transport,
}

/// The observation of the server, and the limits of a valid run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) subject: Option<&'a Subject>,
    pub(super) settle: Option<Duration>,
    pub(super) limits: Limits,
    pub(super) authentication: bool,
}

/// Returns the plan of a load. `users` are those of the server, if the callees register.
///
/// # Errors
/// [`CommandError`] if the codecs differ without a server, or there is no route to it.
pub(super) fn plan(wanted: &Wanted, callees: Callees, users: &Users) -> Result<Plan, CommandError> {
    let Wanted { codecs, calls, .. } = *wanted;
    if codecs.caller != codecs.callee && matches!(callees, Callees::Direct) {
        return Err(CommandError::Usage(format!(
            "{codecs}: different codecs need a server that transcodes (--target or --sut)"
        )));
    }
    check_protection(wanted.protection, wanted.transport, &callees)?;
    let local = match (wanted.from, &callees) {
        (Some(local), _) => local,
        (None, Callees::Direct) => Ipv4Addr::LOCALHOST.into(),
        (None, Callees::Registered { server, .. } | Callees::Uri { server, .. }) => {
            local_address(*server)?
        }
    };
    let workers = wanted.workers.map_or_else(|| enough(calls), usize::from);
    // A pair for each simultaneous call, and a reserve for calls that overlap.
    let count = (calls + calls / 8 + workers as u64) as usize;
    let users: Vec<(User, User)> = match callees {
        Callees::Registered { .. } => (0..count.min(users.len() / 2))
            .map(|pair| (users.get(2 * pair), users.get(2 * pair + 1)))
            .collect(),
        _ => (0..count)
            .map(|pair| {
                let user = |role: &str| (format!("{role}{pair}"), String::new());
                (user("caller"), user("callee"))
            })
            .collect(),
    };
    let workers = workers.min(users.len());
    let tls = match &callees {
        Callees::Registered { domain, .. } => of_tls(wanted.transport, domain, true)?,
        Callees::Uri { server, .. } => of_tls(wanted.transport, &server.ip().to_string(), true)?,
        Callees::Direct => None,
    };
    Ok(Plan {
        callees,
        transport: wanted.transport,
        tls,
        called: Vec::new(),
        local,
        users,
        codecs,
        protection: wanted.protection,
        calls,
        rate: wanted.rate,
        most: None,
        audio: wanted.audio,
        warmup: wanted.warmup,
        duration: wanted.duration,
        faults: wanted.faults,
        echo_faults: wanted.echo_faults,
        workers,
        seed: wanted.seed,
    })
}

/// Checks that the server and the transport of the signalling make this protection possible.
fn check_protection(
    protection: Protection,
    transport: Transport,
    callees: &Callees,
) -> Result<(), CommandError> {
    let name = protection.name();
    if protection.needs_server() && matches!(callees, Callees::Direct) {
        return Err(CommandError::Usage(format!(
            "--srtp {name} needs a server that ends the keys (--target or --sut)"
        )));
    }
    // A server sends to a private address over WebSocket only by checks of ICE: others could make
    // it send anywhere in its network.
    let is_web_socket = matches!(transport, Transport::Ws | Transport::Wss)
        && matches!(callees, Callees::Registered { .. });
    let transport = transport.uri_name();
    match (protection.is_web(false), is_web_socket) {
        (true, false) => Err(CommandError::Usage(format!(
            "--srtp {name}: callees as in browsers need ws or wss, not {transport}, and no --to"
        ))),
        (false, true) => Err(CommandError::Usage(format!(
            "--srtp {name}: callees over {transport} have to be as in browsers (--srtp web, \
             off-to-web or sdes-to-web)"
        ))),
        _ => Ok(()),
    }
}

/// Runs the load of `plan`, here or on the machines of `fleet`, and returns its run. `show` starts
/// the display of the use of the server.
///
/// # Errors
/// [`CommandError`] if it cannot run, or the server cannot be watched.
pub(super) fn measure(
    plan: &Plan,
    judge: Judge<'_>,
    proof: Option<Headroom>,
    fleet: Option<&Fleet>,
    ending: &Arc<AtomicBool>,
    show: impl FnOnce(Option<Readings>) -> Option<Shown>,
) -> Result<Run, CommandError> {
    let begun = net::wall_clock().as_secs();
    let gone = Arc::default();
    let settle = judge.settle.unwrap_or(SETTLE);
    let mut meters = Watching::start(judge.subject, settle, &gone)?;
    let shown = show(meters.readings());
    let found = match fleet {
        Some(fleet) => fleet.media(plan, &mut meters)?,
        None => run(plan, ending, &mut meters)?,
    };
    drop(shown);
    let (watch, trouble) = meters.finish(found.operations);
    let mut doubts = doubts(judge.limits.lag, plan, &found, proof.as_ref());
    doubts.extend(judge.limits.doubt_of_others(watch.as_ref()));
    doubts.extend(trouble.map(|trouble| format!("the observation ended: {trouble}")));
    let run = describe(judge.authentication, plan, found, proof);
    Ok(Run { started: begun, watch, doubts, ..run })
}

/// Measures the generator alone, here or on the machines of `fleet`, unless that is switched off.
///
/// # Errors
/// [`CommandError`] if its ends cannot be opened.
pub(super) fn prove(
    plan: &Plan,
    is_omitted: bool,
    fleet: Option<&Fleet>,
    ending: &Arc<AtomicBool>,
) -> Result<Option<Headroom>, CommandError> {
    Ok(match fleet {
        _ if is_omitted => None,
        Some(fleet) => Some(fleet.media_headroom(plan)?),
        None => Some(headroom(plan, ending)?),
    })
}

/// Returns the reasons why the figures may show the generator.
fn doubts(
    allowed: Duration,
    plan: &Plan,
    found: &Found,
    headroom: Option<&Headroom>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(headroom) = headroom
        && (!headroom.is_enough || headroom.calls < plan.calls)
    {
        let delta = headroom.delta_p99_us as f64 / 1000.0;
        doubts.push(match headroom.is_enough {
            true => format!(
                "the generator is the limit: between its own ends it carries {} calls, not {}",
                headroom.calls, plan.calls
            ),
            false => format!(
                "the generator is the limit: between its own ends, with {} calls, the 99th \
                 percentile of delta is {delta:.1} ms, 21 ms are allowed",
                headroom.calls
            ),
        });
    }
    let lag = found.media.lag.percentile(99.0);
    if lag > allowed.as_micros() {
        doubts.push(format!(
            "the generator was late: one packet in a hundred left {} ms or more after its time, {} \
             ms are allowed",
            lag / 1000,
            allowed.as_millis()
        ));
    }
    if found.busy > 0.9 {
        doubts.push(format!(
            "a thread of the generator was busy {:.0} % of the time",
            found.busy * 100.0
        ));
    }
    if found.drops > 0 {
        doubts.push(format!("the kernel dropped {} datagrams that were not read", found.drops));
    }
    if found.unsent > 0 {
        doubts.push(format!("the kernel did not send {} datagrams", found.unsent));
    }
    if found.is_stopped {
        doubts.push("the load was ended early".to_owned());
    }
    if found.early_failures > 0 {
        let reason = found.first_failure.as_deref().unwrap_or_default();
        doubts.push(format!(
            "{} calls failed before the measured time; the first: {reason}",
            found.early_failures
        ));
    }
    doubts
}

fn describe(authentication: bool, plan: &Plan, found: Found, headroom: Option<Headroom>) -> Run {
    let seconds = |span: Duration| span.as_micros() as f64 / 1e6;
    let load = Load {
        operation: Operation::Invite,
        authentication,
        transport: plan.transport.uri_name().to_owned(),
        arrivals: "fixed".to_owned(),
        rate: plan.rate,
        users: plan.users.len() as u64 * 2,
        sockets: found.sockets,
        workers: plan.workers,
        hold: seconds(plan.audio),
    };
    let held = found.held();
    let has_faults = !plan.faults.is_none() || !plan.echo_faults.is_none();
    let delays = [
        (Delay::Response, found.response),
        (Delay::FromSchedule, found.from_schedule),
        (Delay::Srd, found.request),
        (Delay::Rrd, found.registration),
    ];
    Run {
        system: String::new(),
        label: String::new(),
        repeat: 0,
        started: 0,
        load,
        seconds: seconds(plan.duration),
        loaded: Some([-seconds(plan.warmup), seconds(plan.duration)]),
        doubts: Vec::new(),
        down: None,
        counts: found.counts,
        delays: delays.into_iter().filter(|(_, delays)| !delays.is_empty()).collect(),
        series: Vec::new(),
        generator: Generator {
            cpu_user_us: found.cpu.user_us,
            cpu_system_us: found.cpu.system_us,
            operations: found.operations,
            lag: found.media.lag.clone(),
            drops: found.drops,
            unsent: found.unsent,
            ..Generator::default()
        },
        watch: None,
        steps: Steps::new(),
        dropped: BTreeMap::new(),
        captured: BTreeMap::new(),
        media: Some(Box::new(Media {
            codecs: [plan.codecs.caller, plan.codecs.callee].map(|codec| codec.name().to_owned()),
            protection: plan.protection.name().to_owned(),
            calls: plan.calls,
            audio: seconds(plan.audio),
            faults: has_faults
                .then(|| [plan.faults, plan.echo_faults].map(|faults| faults.to_string())),
            held,
            figures: found.media,
            headroom,
        })),
    }
}
