//! Scenarios without sockets, for tests.

use super::counts::Cause;
use super::dialog::Dialog;
use super::expand::expand;
use super::fault::Place;
use super::names::Names;
use super::perform::perform;
use super::script;
use super::template::Template;
use super::value::Value;
use super::world::{Peer, Settings, World};
use sip::{Duration, Instant};

/// Returns settings for calls over UDP.
pub(super) fn settings() -> Settings {
    Settings {
        service: "service".to_owned(),
        transport: "UDP".to_owned(),
        is_lossy: true,
        local: "127.0.0.1:5060".parse().unwrap(),
        remote: "127.0.0.1:5070".parse().unwrap(),
        remote_host: "127.0.0.1".to_owned(),
        media: "127.0.0.1:6000".parse().unwrap(),
        user: None,
        password: "password".to_owned(),
        pause: Duration::ZERO,
        receive_timeout: None,
        base_cseq: 0,
        invite_retransmissions: 5,
        other_retransmissions: 7,
        answers_others: false,
        ends_failed: true,
        users: None,
        stamp: 1,
    }
}

/// Returns the world of a scenario with these elements.
pub(super) fn world(body: &str) -> World {
    let text = format!("<scenario name=\"test\">{body}</scenario>");
    let script = script::parse(&text, Names::default()).unwrap();
    World::new(script, settings(), 1, Instant::ZERO)
}

fn dialog(world: &mut World, last: &str) -> Dialog {
    let peer = Peer { address: world.settings.remote, connection: None };
    let mut dialog = Dialog::new(1, b"id".to_vec(), None, peer, world);
    dialog.last = last.as_bytes().to_vec();
    dialog.store_challenge(last.as_bytes());
    dialog
}

/// Expands a message in a call that has received `last`.
pub(super) fn expand_in(world: &mut World, text: &str, last: &str) -> Result<String, Cause> {
    let place = Place { line: 1, column: 1 };
    let template = Template::message(text, place, &mut world.script.names).unwrap();
    let mut dialog = dialog(world, last);
    let bytes = expand(&template, &mut dialog, world, 0, Instant::ZERO)?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// Performs the actions of the second step in a call that has received `last`, and returns the
/// value of a variable.
pub(super) fn perform_in(world: &mut World, last: &str, name: &str) -> Result<Value, Cause> {
    let variable = world.script.names.variable(name);
    world.scopes = world.script.names.scopes().collect();
    world.globals.resize(world.scopes.len(), Value::Unset);
    let mut dialog = dialog(world, last);
    let actions = world.script.steps[1].actions.clone();
    perform(&actions, &mut dialog, world, 1, Instant::ZERO)?;
    Ok(dialog.get(variable, world))
}
