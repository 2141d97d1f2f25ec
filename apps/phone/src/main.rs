//! `barebell-phone`: a softphone for the shell.

// Only the module `terminal` writes text of peers to a terminal.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod audio;
mod call;
mod check;
mod cli;
mod config;
mod converter;
mod devices;
mod exchange;
mod figures;
mod handshake;
mod ice;
mod impression;
mod interface;
mod junit;
mod leg;
mod leg_ice;
mod links;
mod lookups;
mod outcome;
mod pcm;
mod phone;
mod ports;
mod position;
mod provision;
mod random;
mod report;
mod ringer;
mod saved;
mod script;
mod secret;
mod secrets;
mod sockets;
mod system;
mod tap;
mod terminal;
mod trace;
mod turn;
mod warnings;
mod wav;

use audio::Source;
use clap::Parser;
use cli::{Cli, Command, Keys, LineArgs};
use config::Config;
use devices::{Listed, Wanted};
use dtls::Identity;
use interface::Interface;
use interface::Judge;
use leg::Sound;
use media::audio_meter::AudioMeter;
use media::{KeyAgreement, MediaConfig};
use net::tls::{Client, Trust};
use outcome::Outcome;
use phone::{Phone, Setup};
use report::Report;
use script::Action;
use secrets::Secrets;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use tap::Tap;

/// The default port of STUN servers (RFC 8489 section 18.6).
const STUN_PORT: u16 = 3478;

fn main() -> ExitCode {
    let outcome = run(Cli::parse()).unwrap_or_else(|outcome| outcome);
    pcm::finish();
    if outcome != Outcome::Done {
        terminal::say(&outcome);
    }
    outcome.into()
}

fn run(cli: Cli) -> Result<Outcome, Outcome> {
    let Some(command) = cli.command else { return run_screen(&cli.line) };
    let (setup, mut interface): (Setup, Box<dyn Interface>) = match command {
        Command::Call(args) => {
            tell_default_config(&args.line);
            junit::check(args.expected.junit.as_deref()).map_err(Outcome::Usage)?;
            let report = report(&args.line);
            let judge = Judge::new(args.expected.all(), args.expected.junit, report);
            let ear = judge.ear();
            let interface = interface::Call::new(args.uri, args.duration, report, judge);
            (Setup { ear, ..setup(&args.line, false, 0)? }, Box::new(interface))
        }
        Command::Answer(args) => {
            tell_default_config(&args.line);
            if args.line.play == "-" && !args.auto {
                let text = "--play - reads the standard input, which also has the return key: add \
                            --auto";
                return Err(Outcome::Usage(text.into()));
            }
            junit::check(args.expected.junit.as_deref()).map_err(Outcome::Usage)?;
            let report = report(&args.line);
            let judge = Judge::new(args.expected.all(), args.expected.junit, report);
            let ear = judge.ear();
            let interface = interface::Answer::new(args.auto, args.calls, report, judge);
            (Setup { ear, ..setup(&args.line, args.echo, 5060)? }, Box::new(interface))
        }
        Command::Run(args) => {
            junit::check(args.junit.as_deref()).map_err(Outcome::Usage)?;
            let script = script::read(&args.script).map_err(Outcome::Usage)?;
            let is_called = |step: &script::Step| matches!(step.action, Action::ExpectCall(_));
            let is_found = script.accounts.is_empty() && args.line.config.is_none();
            let port = if is_found && script.steps.iter().any(is_called) { 5060 } else { 0 };
            let mut setup = setup(&args.line, false, port)?;
            setup.accounts.extend(script.accounts);
            let interface = interface::Run::new(script.steps, args.junit, report(&args.line));
            (setup, Box::new(interface))
        }
        Command::Check(args) => {
            let setup = setup(&args.line, false, 0)?;
            return check::run(setup, args.line.listen, report(&args.line));
        }
        Command::Provision(args) => return provision::run(&args),
        Command::Devices => return list_devices(),
        Command::Extras { folder } => {
            let failed = |error: std::io::Error| Outcome::Failed(error.to_string());
            return cli::write_extras(&folder).map(|()| Outcome::Done).map_err(failed);
        }
        Command::Control(args) => {
            if args.line.play == "-" {
                let text = "--play - reads the standard input, from which `control` reads commands";
                return Err(Outcome::Usage(text.into()));
            }
            let interface = interface::Control::new(Report::new(true, records_raw(&args.line)));
            (setup(&args.line, false, 5060)?, Box::new(interface))
        }
    };
    Ok(interface::run(Phone::new(setup)?, &mut *interface))
}

/// Returns true if the recording goes to the standard output.
fn records_raw(line: &LineArgs) -> bool {
    line.record.as_deref().is_some_and(audio::is_output)
}

fn report(line: &LineArgs) -> Report {
    Report::new(line.json, records_raw(line)).quietly(line.quiet)
}

/// The configuration: the file, or the account of the command line.
fn configuration(line: &LineArgs) -> Result<Config, String> {
    if let Some(path) = &line.config {
        return config::read(path, line.account.as_deref());
    }
    let Some(uri) = &line.account else { return Ok(Config::default()) };
    let password = match line.password_fd {
        Some(number) => Some(secret::of_descriptor(number)?),
        None => secret::of_environment(),
    };
    let (proxy, transport) = (line.proxy.as_deref(), line.transport.as_deref());
    let account = config::of_command_line(uri, proxy, transport, password)?;
    Ok(Config { accounts: vec![account], ..Config::default() })
}

/// Names the default configuration file, which `provision` writes and the screen reads, if the
/// command uses no account.
fn tell_default_config(line: &LineArgs) {
    let is_without = line.config.is_none() && line.account.is_none();
    let path = config::default_path().filter(|path| is_without && path.exists());
    if let Some(path) = path {
        let path = path.display();
        terminal::say(&format!("no account is used; --config {path} uses those of this file"));
    }
}

/// Runs the full-screen interface. Its configuration may be at the default path, and need not
/// exist.
fn run_screen(line: &LineArgs) -> Result<Outcome, Outcome> {
    if line.json {
        let text = "--json needs a command: call, answer or control";
        return Err(Outcome::Usage(text.into()));
    }
    interface::Screen::check().map_err(Outcome::Usage)?;
    let path = line.config.clone().or_else(config::default_path);
    let is_there = path.as_ref().is_some_and(|path| path.exists());
    let wanted = line.account.as_deref();
    let config = match &path {
        Some(path) if is_there => config::read(path, wanted).map_err(Outcome::Usage)?,
        _ => Config::default(),
    };
    let mut setup = setup(&LineArgs { config: None, ..line.clone() }, false, 5060)?;
    if is_there {
        setup.accounts = config.accounts;
        if line.trust.is_none() {
            setup.trust = config.trust.unwrap_or_default();
        }
    }
    let phone = Phone::new(setup)?;
    let mut screen = interface::Screen::open(config.dials, path).map_err(Outcome::Failed)?;
    Ok(interface::run(phone, &mut screen))
}

/// Returns true if sound devices are requested.
fn uses_devices(line: &LineArgs) -> bool {
    line.audio || line.echo_cancel || line.microphone.is_some() || line.speaker.is_some()
}

/// Lists the sound devices.
fn list_devices() -> Result<Outcome, Outcome> {
    let devices = devices::list().map_err(Outcome::Failed)?;
    for Listed { name, description, hears, plays, is_default } in devices {
        let mark = if is_default { '*' } else { ' ' };
        let kind = match (hears, plays) {
            (true, true) => "microphone, speaker",
            (true, false) => "microphone",
            (false, _) => "speaker",
        };
        terminal::print_result(&format!("{mark} {name:<32} {kind:<20} {description}"));
    }
    Ok(Outcome::Done)
}

/// The addresses of the STUN servers with these names.
fn stun_servers(names: &[String]) -> Result<Vec<SocketAddr>, String> {
    let find = |name: &String| {
        let found = match name.parse::<SocketAddr>() {
            Ok(address) => return Ok(address),
            Err(_)
                if name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) =>
            {
                name.to_socket_addrs()
            }
            Err(_) => (name.as_str(), STUN_PORT).to_socket_addrs(),
        };
        let mut found: Vec<SocketAddr> =
            found.map_err(|error| format!("STUN server {name}: {error}"))?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.first().copied().ok_or(format!("STUN server {name} has no address"))
    };
    names.iter().map(find).collect()
}

/// The setup of a phone, with `port` as the default port.
fn setup(line: &LineArgs, echo: bool, port: u16) -> Result<Setup, Outcome> {
    pcm::set_rate(line.pcm_rate);
    line.record.as_deref().map_or(Ok(()), audio::Recording::check).map_err(Outcome::Usage)?;
    let Config { accounts, trust, .. } = configuration(line).map_err(Outcome::Usage)?;
    let sound = match echo {
        true => Sound::Echo,
        false if uses_devices(line) && line.play == "silence" => Sound::Microphone,
        false => Sound::Source(Source::named(&line.play).map_err(Outcome::Usage)?),
    };
    let plus = line.srtp_plus;
    let mut media_config =
        MediaConfig { security: line.srtp.into(), plus, ..MediaConfig::default() };
    if let Some(codecs) = &line.codecs {
        media_config.codecs.clone_from(codecs);
        media_config.offers_all_codecs = true;
    }
    if let Some(suites) = &line.suites {
        media_config.suites.clone_from(suites);
        media_config.offers_all_suites = true;
    }
    let (mut identity, mut secrets) = (None, None);
    media_config.key_agreements.clear();
    for keys in &line.keys {
        media_config.key_agreements.push(match keys {
            Keys::Sdes => KeyAgreement::Sdes,
            Keys::Dtls => {
                let generated = Identity::generate().map_err(|e| Outcome::Failed(e.to_string()))?;
                KeyAgreement::Dtls(identity.insert(generated).fingerprint().clone())
            }
            Keys::Zrtp => {
                secrets = Some(Secrets::open().map_err(Outcome::Failed)?);
                // Each call has a hash of its own.
                KeyAgreement::Zrtp(String::new())
            }
        });
    }
    let trust = line.trust.clone().or(trust).unwrap_or_default();
    if trust != Trust::System {
        Client::new(&trust, None, true).map_err(|error| Outcome::Usage(error.to_string()))?;
    }
    let stun = stun_servers(&line.stun).map_err(Outcome::Failed)?;
    Ok(Setup {
        accounts,
        listen: line.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, port).into()),
        may_listen_elsewhere: line.listen.is_none(),
        media_config,
        identity,
        secrets,
        sound,
        early: line.early,
        ear: AudioMeter::default(),
        record: line.record.clone(),
        tap: Tap::new(line.trace, line.pcap.as_deref()).map_err(Outcome::Usage)?,
        incoming_calls: line.incoming.into(),
        direct_calls: line.direct,
        subscribes: line.messages,
        push: line.push.clone().unwrap_or_default(),
        ice: turn::ice_setup(line, &stun, &trust).map_err(Outcome::Failed)?,
        stun,
        timings: line.timings,
        suppresses_silence: line.vad,
        trust,
        from: line.from.clone(),
        ringing: line.ring_timeout.map(sip::Duration::from),
        devices: uses_devices(line).then(|| Wanted {
            microphone: line.microphone.clone(),
            speaker: line.speaker.clone(),
            cancels_echo: line.echo_cancel,
        }),
    })
}
