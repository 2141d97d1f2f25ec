//! The execution of actions.

use super::action::{Action, Area, Operand, Operator, Stop};
use super::counts::Cause;
use super::dialog::Dialog;
use super::digest;
use super::expand::expand;
use super::message;
use super::recording::Recording;
use super::value::{Value, Variable};
use super::world::{MediaCommand, MediaOrder, World};
use sip::Instant;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The payload type of telephone events.
const EVENTS: u8 = 101;

/// Executes the actions of a step. Returns the step to which the last of them jumps.
///
/// # Errors
/// [`Cause`] if the call fails.
pub(super) fn perform(
    actions: &[Action],
    dialog: &mut Dialog,
    world: &mut World,
    step: usize,
    now: Instant,
) -> Result<Option<usize>, Cause> {
    let mut jump = None;
    for action in actions {
        match action {
            Action::Match { regex, area, check, to } => {
                let text = match area {
                    Area::Variable(variable) => {
                        let mut text = Vec::new();
                        dialog.get(*variable, world).write(&mut text);
                        Some(text)
                    }
                    area => found(&dialog.last, area).map(<[u8]>::to_vec),
                };
                let text = text.as_deref();
                let captures = text.and_then(|text| regex.captures(text));
                if check.is_some_and(|check| check != captures.is_some()) {
                    return Err(Cause::Mismatch);
                }
                let Some(captures) = captures else { continue };
                for (variable, part) in to.iter().zip(captures.iter()) {
                    if let Some(part) = part {
                        dialog.set(*variable, Value::Text(part.as_bytes().to_vec()), world);
                    }
                }
            }
            Action::Assign(to, operand) => {
                let value = number(*operand, dialog, world);
                dialog.set(*to, Value::Number(value), world);
            }
            Action::AssignText(to, text) => {
                let text = expand(text, dialog, world, step, now)?;
                dialog.set(*to, Value::Text(text), world);
            }
            Action::Calculate(operator, to, operand) => {
                let right = number(*operand, dialog, world);
                let left = number(Operand::Variable(*to), dialog, world);
                let value = match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                };
                dialog.set(*to, Value::Number(value), world);
            }
            Action::ToDouble(to, from) => {
                let value = dialog.get(*from, world).number();
                dialog.set(*to, value.map_or(Value::Unset, Value::Number), world);
            }
            Action::Test(to, variable, comparison, operand) => {
                let right = number(*operand, dialog, world);
                let left = number(Operand::Variable(*variable), dialog, world);
                dialog.set(*to, Value::Truth(comparison.holds(left, right)), world);
            }
            Action::CompareText(to, variable, text) => {
                let mut left = Vec::new();
                dialog.get(*variable, world).write(&mut left);
                let right = expand(text, dialog, world, step, now)?;
                let order = f64::from(left.cmp(&right) as i8);
                dialog.set(*to, Value::Number(order), world);
            }
            Action::Sample(to, distribution) => {
                let value = distribution.sample(&mut world.rng);
                dialog.set(*to, Value::Number(value), world);
            }
            Action::Trim(variable) => {
                let mut text = Vec::new();
                dialog.get(*variable, world).write(&mut text);
                dialog.set(*variable, Value::Text(text.trim_ascii().to_vec()), world);
            }
            Action::Time(seconds, micros) => {
                let now = net::wall_clock().as_micros();
                dialog.set(*seconds, Value::Number((now / 1_000_000) as f64), world);
                dialog.set(*micros, Value::Number((now % 1_000_000) as f64), world);
            }
            Action::Log { text, is_warning } => {
                let text = expand(text, dialog, world, step, now)?;
                world.log.push((*is_warning, text));
            }
            Action::Jump(operand) => {
                let target = number(*operand, dialog, world);
                jump = Some(target.max(0.0) as usize);
            }
            Action::VerifyCredentials(to, user, password) => {
                let user = expand(user, dialog, world, step, now)?;
                let password = expand(password, dialog, world, step, now)?;
                let is_valid = digest::verify(&dialog.last, &user, &password);
                dialog.set(*to, Value::Truth(is_valid), world);
            }
            Action::SetDestination(host, port) => {
                let host = expand(host, dialog, world, step, now)?;
                let port = expand(port, dialog, world, step, now)?;
                if let Some(address) = address(&host, &port) {
                    dialog.peer.address = address;
                }
            }
            Action::Play { recording, rounds, is_video } => {
                let to = if *is_video { dialog.video } else { dialog.audio };
                let recording = Arc::clone(recording);
                order(MediaOrder::Play { recording, rounds: *rounds, to }, dialog, world);
            }
            Action::Digits(text) => {
                let digits = expand(text, dialog, world, step, now)?;
                // Other characters are no digits; the call goes on without them.
                let digits: Vec<_> = digits
                    .into_iter()
                    .filter(|digit| b"0123456789*#abcdABCD".contains(digit))
                    .collect();
                if let Some(recording) = Recording::digits(&digits, EVENTS) {
                    let (recording, to) = (Arc::new(recording), dialog.audio);
                    order(MediaOrder::Play { recording, rounds: Some(1), to }, dialog, world);
                }
            }
            Action::Pause(true) => order(MediaOrder::Pause, dialog, world),
            Action::Pause(false) => order(MediaOrder::Resume, dialog, world),
            Action::Stop(Stop::Call) => return Err(Cause::Stopped),
            Action::Stop(Stop::Gracefully) => world.is_stopping = true,
            Action::Stop(Stop::Now) => world.is_stopped = true,
        }
    }
    Ok(jump)
}

fn order(order: MediaOrder, dialog: &Dialog, world: &mut World) {
    world.media.push(MediaCommand { call: dialog.number, order });
}

fn address(host: &[u8], port: &[u8]) -> Option<SocketAddr> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let host = text(host)?.trim().trim_start_matches('[').trim_end_matches(']');
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, text(port)?.trim().parse().ok()?))
}

/// Returns the number of an operand; a variable without a number is 0.
fn number(operand: Operand, dialog: &Dialog, world: &mut World) -> f64 {
    match operand {
        Operand::Number(number) => number,
        Operand::Variable(variable) => variable_number(variable, dialog, world),
    }
}

fn variable_number(variable: Variable, dialog: &Dialog, world: &mut World) -> f64 {
    dialog.get(variable, world).number().unwrap_or_default()
}

/// Returns the part of a message that an expression has to match.
fn found<'a>(last: &'a [u8], area: &Area) -> Option<&'a [u8]> {
    match area {
        Area::Message => Some(last),
        Area::Body => Some(message::split(last).1),
        Area::Variable(_) => None,
        Area::Header { name, ignores_case, occurrence, is_start } => {
            let name = name.as_bytes();
            let is_it = |text: &[u8]| match ignores_case {
                true => text.eq_ignore_ascii_case(name),
                false => text == name,
            };
            let rest = |line: &'a [u8]| {
                let start = line.get(..name.len()).is_some_and(is_it);
                start.then(|| &line[name.len()..])
            };
            let at_start = message::lines(last).filter_map(rest).nth(occurrence - 1);
            if at_start.is_some() || *is_start {
                return at_start;
            }
            // The text may also be within a line.
            let within = |line: &'a [u8]| {
                let at = line.windows(name.len().max(1)).position(is_it)?;
                Some(&line[at + name.len()..])
            };
            message::lines(last).filter_map(within).nth(occurrence - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::rig::{perform_in, world};

    const LAST: &str =
        "SIP/2.0 200 OK\r\nContact: <sip:a@127.0.0.1:5>\r\nVia: x\r\nVia: y\r\n\r\nbody=3";

    fn value(actions: &str, name: &str) -> Result<Value, Cause> {
        let mut world =
            world(&format!("<recv request=\"A\"/><nop><action>{actions}</action></nop>"));
        perform_in(&mut world, LAST, name)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn expressions_are_matched_in_parts_of_the_message() {
        for (attributes, name, expected) in [
            ("regexp='([0-9.]+):([0-9])' assign_to='1,ip,port'", "port", text("5")),
            (
                "regexp='.*' search_in='hdr' header='Contact:' assign_to='x'",
                "x",
                text(" <sip:a@127.0.0.1:5>"),
            ),
            (
                "regexp='.*' search_in='hdr' header='via:' case_indep='true' occurrence='2' assign_to='x'",
                "x",
                text(" y"),
            ),
            ("regexp='a@' search_in='hdr' header='sip:' assign_to='x'", "x", text("a@")),
            (
                "regexp='.' search_in='hdr' header='sip:' start_line='true' assign_to='x'",
                "x",
                Value::Unset,
            ),
            ("regexp='=(.)' search_in='body' assign_to='all,x'", "x", text("3")),
            ("regexp='no' check_it_inverse='true' assign_to='x'", "x", Value::Unset),
        ] {
            assert_eq!(value(&format!("<ereg {attributes}/>"), name), Ok(expected), "{attributes}");
        }
        for attributes in ["regexp='no' check_it='true'", "regexp='O' check_it_inverse='true'"] {
            let failed = value(&format!("<ereg {attributes}/>"), "x");
            assert_eq!(failed, Err(Cause::Mismatch), "{attributes}");
        }
    }

    #[test]
    fn numbers_and_texts_are_computed_and_compared() {
        let before = "<assign assign_to='a' value='6'/><assignstr assign_to='t' value='12x'/>";
        for (actions, name, expected) in [
            ("<add assign_to='a' value='2'/>", "a", Value::Number(8.0)),
            ("<subtract assign_to='a' variable='a'/>", "a", Value::Number(0.0)),
            ("<multiply assign_to='a' value='0.5'/>", "a", Value::Number(3.0)),
            ("<divide assign_to='a' value='4'/>", "a", Value::Number(1.5)),
            ("<todouble assign_to='n' variable='t'/>", "n", Value::Number(12.0)),
            (
                "<test assign_to='n' variable='a' compare='less_than' value='7'/>",
                "n",
                Value::Truth(true),
            ),
            (
                "<test assign_to='n' variable='a' compare='equal' value='7'/>",
                "n",
                Value::Truth(false),
            ),
            ("<strcmp assign_to='n' variable='t' value='12x'/>", "n", Value::Number(0.0)),
            ("<strcmp assign_to='n' variable='t' value='13'/>", "n", Value::Number(-1.0)),
            ("<assignstr assign_to='n' value='[$t]-[last_Via.value]'/>", "n", text("12x-x, y")),
            ("<assignstr assign_to='n' value=' y '/><trim assign_to='n'/>", "n", text("y")),
            ("<ereg regexp='(.)x' search_in='var' variable='t' assign_to='n,m'/>", "m", text("2")),
        ] {
            assert_eq!(value(&format!("{before}{actions}"), name), Ok(expected), "{actions}");
        }
        assert_eq!(value("<exec int_cmd='stop_call'/>", "a"), Err(Cause::Stopped));
    }
}
