//! `barebell-bench scenario`: runs a scenario file, and prints its counts.

use super::error::CommandError;
use crate::cli::scenario::ScenarioArgs;
use crate::console::{complain, print};
use crate::report;
use crate::scenario::{Glance, Plan, Settings, Shared, crew};
use crate::sut::{self, Mode, Running, Wanted};
use crate::target::Target;
use crate::users::Users;
use sip::Transport;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The port at which a scenario waits for calls.
const PORT: u16 = 5060;
/// The number of users of a started server without a file of them.
const USERS: usize = 10_000;

/// Runs the scenario. Returns true if there were calls and all of them succeeded.
///
/// # Errors
/// [`CommandError`] if the file has a fault, a socket cannot be opened, or a report cannot be
/// written.
pub(crate) fn execute(args: &ScenarioArgs, ending: &AtomicBool) -> Result<bool, CommandError> {
    let mut sut = args.sut.as_deref().map(|spec| start(spec, args)).transpose()?;
    let workers = crew::open(&plan(args, sut.as_ref())?, args.workers.into())?;
    if let Some(server) = workers.first()
        && server.is_server()
        && !args.quiet
    {
        complain(format_args!("waiting for calls at {}", server.address()));
    }
    let show = |glance: Glance| {
        if !args.quiet {
            complain(line(glance));
        }
    };
    let mut outcome = crew::run(workers, ending, &|text| complain(text), &show)?;
    let crash = sut.as_mut().and_then(Running::has_ended);
    outcome.system = sut.map(|sut| sut.system.clone());
    let text = match args.json {
        true => report::scenario_json(&outcome),
        false => outcome.to_string(),
    };
    print(&text).map_err(CommandError::Print)?;
    for path in &args.output {
        report::write_scenario(&outcome, path)?;
    }
    match (crash, args.sut.as_ref()) {
        (Some(reason), Some(sut)) => Err(CommandError::Ended(sut.clone(), reason)),
        _ => Ok(outcome.is_success()),
    }
}

/// Starts the server of `--sut`.
fn start(spec: &str, args: &ScenarioArgs) -> Result<Running, CommandError> {
    let users = match &args.user_file {
        Some(path) => Users::from_file(path)?,
        None => Users::from_pattern(Users::DEFAULT_PATTERN, USERS)?,
    };
    let wanted = Wanted {
        mode: Mode::Stateful,
        authentication: args.auth,
        users: &users,
        address: Ipv4Addr::LOCALHOST.into(),
        transport: args.over,
        workers: args.sut_workers.map(usize::from),
        namespace: None,
        timings: false,
        retransmits: true,
    };
    Ok(sut::start(spec, &wanted)?)
}

fn line(glance: Glance) -> String {
    let Glance { seconds, started, current, succeeded, failed, retransmitted } = glance;
    format!(
        "{seconds} s: {started} calls, {current} in progress, {succeeded} succeeded, {failed} failed, \
         {retransmitted} retransmissions"
    )
}

fn plan(args: &ScenarioArgs, sut: Option<&Running>) -> Result<Plan, CommandError> {
    let usage = |text: String| CommandError::Usage(text);
    let called = args.to.as_deref().map(Target::of_uri);
    let target = match (&args.target, sut) {
        (Some(target), _) => Some(target.clone()),
        (None, Some(sut)) => {
            Some(Target { host: sut.domain.clone(), ..Target::at(sut.transport, sut.target) })
        }
        (None, None) => called.transpose().map_err(usage)?,
    };
    let transport =
        target.as_ref().or(args.listen.as_ref()).map_or(Transport::Udp, |one| one.transport);
    if let (Some(target), Some(listen)) = (&target, &args.listen)
        && target.transport != listen.transport
    {
        return Err(usage(format!("--listen {listen} and {target} differ in the transport")));
    }
    let remote = target.as_ref().map(|target| target.address);
    let local = match (&args.listen, remote) {
        (Some(listen), _) if listen.address.ip().is_unspecified() => {
            return Err(usage(format!(
                "--listen {listen}: expected one address of this machine, which is in the messages"
            )));
        }
        (Some(listen), _) => listen.address,
        (None, Some(remote)) => {
            let ip = net::source_for(remote);
            SocketAddr::new(ip.ok_or_else(|| usage(format!("there is no route to {remote}")))?, 0)
        }
        (None, None) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
    };
    let media = args.media.unwrap_or_else(|| SocketAddr::new(local.ip(), 0));
    let user = args.to.as_deref().and_then(|uri| {
        let (_, rest) = uri.split_once(':')?;
        rest.split_once('@').map(|(user, _)| user.to_owned())
    });
    let service = args.service.clone().or(user).unwrap_or_else(|| "service".to_owned());
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let settings = Settings {
        service,
        transport: transport.uri_name().to_ascii_uppercase(),
        is_lossy: transport == Transport::Udp,
        local,
        remote: remote.unwrap_or(local),
        remote_host: target.as_ref().map(|target| target.host.clone()).unwrap_or_default(),
        media,
        user: args.auth_user.clone(),
        password: args.auth_password.clone(),
        pause: args.pause,
        receive_timeout: args.recv_timeout,
        base_cseq: args.base_cseq,
        invite_retransmissions: args.invite_retransmissions,
        other_retransmissions: args.other_retransmissions,
        answers_others: args.answer_others,
        ends_failed: !args.leave_failed,
        users: args.users.map(|users| users as usize),
        stamp: fastrand::u32(..),
    };
    Ok(Plan {
        file: args.file.clone(),
        transport,
        remote,
        local,
        rate: args.rate,
        calls: args.calls,
        duration: args.duration,
        limit: args.limit as usize,
        drain: args.drain,
        fields: args.inf.clone(),
        keys: pairs(&args.key),
        globals: pairs(&args.set),
        log: args.log.clone(),
        worker: (0, 1),
        shared: Arc::new(Shared::new(args.calls)),
        echoes: args.rtp_echo,
        seed,
        settings,
    })
}

/// Returns the pairs of an option with two values.
fn pairs(values: &[String]) -> Vec<(String, String)> {
    values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
