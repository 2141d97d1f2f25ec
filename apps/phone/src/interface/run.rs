//! The `run` command: the steps of a script in order, until one fails.

use super::{Interface, account_of};
use crate::call::Stage;
use crate::impression::{Impression, LONG_ENOUGH};
use crate::junit::{self, Case, Judged};
use crate::outcome::Outcome;
use crate::phone::Phone;
use crate::report::{PhoneEvent, Report, StepState, TransferState};
use crate::script::{Action, Ending, Step, Until, matches};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Silence of this length is more than a pause.
const SILENT: Duration = Duration::from_secs(1);
/// A level of this length is more than a crackle.
const AUDIBLE: Duration = Duration::from_millis(100);
/// Maximum number of messages kept until they are expected.
const MAX_MESSAGES: usize = 256;

/// The end of a call.
struct Ended {
    cause: String,
    outcome: Outcome,
    by_peer: bool,
    sip_status: Option<u16>,
}

/// The progress of a step.
enum Progress {
    Pending,
    Passed,
}

/// Runs a script.
pub(crate) struct Run {
    steps: Vec<Step>,
    /// The index of the current step.
    at: usize,
    /// The start of the step; `None` before it.
    begun: Option<Instant>,
    /// True if the action is done and its result is pending.
    has_acted: bool,
    report: Report,
    junit: Option<PathBuf>,
    cases: Vec<Case>,
    names: BTreeMap<String, u64>,
    /// The call referred to last.
    current: Option<u64>,
    /// Ringing calls that no step has expected yet, with their callers.
    ringing: VecDeque<(u64, String)>,
    ended: BTreeMap<u64, Ended>,
    /// Received keys that no step has expected yet.
    keys: BTreeMap<u64, String>,
    messages: VecDeque<String>,
    /// The message under way.
    message: Option<u64>,
    sent: BTreeMap<u64, Option<String>>,
    /// The results of transfers.
    transferred: BTreeMap<u64, Result<(), String>>,
    /// The reason why a change of the call failed.
    unchanged: Option<String>,
    /// The result of the registration under way.
    registration: Option<Result<bool, Outcome>>,
}

fn unmet(text: impl Into<String>) -> Outcome {
    Outcome::Unmet(text.into())
}

/// The URI in a From header field.
fn uri_of(from: &str) -> &str {
    let inner = from.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or_else(|| from.split(';').next().unwrap_or(from).trim(), |(uri, _)| uri)
}

impl Run {
    pub(crate) fn new(steps: Vec<Step>, junit: Option<PathBuf>, report: Report) -> Self {
        Self {
            steps,
            at: 0,
            begun: None,
            has_acted: false,
            report,
            junit,
            cases: Vec::new(),
            names: BTreeMap::new(),
            current: None,
            ringing: VecDeque::new(),
            ended: BTreeMap::new(),
            keys: BTreeMap::new(),
            messages: VecDeque::new(),
            message: None,
            sent: BTreeMap::new(),
            transferred: BTreeMap::new(),
            unchanged: None,
            registration: None,
        }
    }

    /// The call that a step refers to.
    fn call_of(&self, step: &Step) -> Result<u64, Outcome> {
        let named = step.call.as_ref().map_or(self.current, |name| self.names.get(name).copied());
        named.ok_or_else(|| unmet("there is no such call"))
    }

    /// Returns an error if the call is over.
    fn over(&self, number: u64) -> Result<(), Outcome> {
        let Some(ended) = self.ended.get(&number) else { return Ok(()) };
        Err(match &ended.outcome {
            Outcome::Done => unmet(format!("the call is over: {}", ended.cause)),
            outcome => outcome.clone(),
        })
    }

    fn speak_of(&mut self, step: &Step, number: u64) {
        self.current = Some(number);
        if let Some(name) = &step.call {
            self.names.insert(name.clone(), number);
        }
    }

    /// Returns true if a step can act: a call with a pending answer or change cannot be changed.
    fn can_act(&self, phone: &Phone, step: &Step) -> bool {
        let changes = matches!(
            step.action,
            Action::Hold | Action::Resume | Action::Transfer(_) | Action::TransferTo(_)
        );
        let number = self.call_of(step).ok().filter(|number| {
            changes && phone.calls().get(number).is_some_and(|call| call.stage == Stage::Talking)
        });
        number.is_none_or(|number| phone.may_change(number))
    }

    /// Performs the action of a step.
    fn act(&mut self, phone: &mut Phone, step: &Step) -> Result<(), Outcome> {
        let told = |result: Result<(), String>| result.map_err(unmet);
        match &step.action {
            Action::Dial { to, account, .. } => {
                let account = account_of(phone, account.as_deref()).map_err(unmet)?;
                let number = phone.call(to, account);
                self.speak_of(step, number);
                return Ok(());
            }
            Action::Register(name) | Action::Unregister(name) => {
                let account = account_of(phone, name.as_deref()).map_err(unmet)?;
                let account = account.ok_or_else(|| unmet("the script has no account"))?;
                self.registration = None;
                match step.action {
                    Action::Register(_) => phone.register_as(account),
                    _ => phone.unregister_as(account),
                }
                return Ok(());
            }
            Action::Message { to, text, account } => {
                let account = account_of(phone, account.as_deref()).map_err(unmet)?;
                self.message = Some(phone.message(to, account, text).map_err(unmet)?);
                return Ok(());
            }
            Action::Wait(_) | Action::ExpectCall(_) | Action::ExpectMessage(_) => return Ok(()),
            _ => {}
        }
        let number = self.call_of(step)?;
        self.current = Some(number);
        if matches!(step.action, Action::ExpectEnd(_)) {
            return Ok(());
        }
        self.over(number)?;
        self.unchanged = None;
        match &step.action {
            Action::Answer => told(phone.answer(number)),
            Action::Decline(status) => told(phone.decline(number, *status)),
            Action::Redirect(to) => told(phone.redirect(number, to)),
            Action::Press(keys) => told(phone.press(number, keys)),
            Action::Play(what) => told(phone.play(number, what)),
            Action::Hold => told(phone.hold(number, true)),
            Action::Resume => told(phone.hold(number, false)),
            Action::HangUp => told(phone.hang_up(number)),
            Action::Transfer(to) => {
                self.transferred.remove(&number);
                told(phone.transfer(number, to))
            }
            Action::TransferTo(name) => {
                self.transferred.remove(&number);
                let other = self.names.get(name).copied();
                let other = other.ok_or_else(|| unmet("there is no such call"))?;
                told(phone.transfer_to(number, other))
            }
            Action::ExpectTone(_) | Action::ExpectAudio | Action::ExpectSilence => {
                if let Some(ear) = phone.ear(number) {
                    ear.forget();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The progress of a step that has begun.
    fn check(&mut self, phone: &mut Phone, step: &Step) -> Result<Progress, Outcome> {
        let passed_if = |is_so| if is_so { Progress::Passed } else { Progress::Pending };
        match &step.action {
            Action::Wait(time) => {
                return Ok(passed_if(self.begun.is_some_and(|begun| begun.elapsed() >= *time)));
            }
            Action::ExpectCall(pattern) => {
                let mut ringing = self.ringing.iter();
                let is_it = |(_, from): &&(u64, String)| {
                    matches(pattern, uri_of(from)) || matches(pattern, from)
                };
                let Some(&(number, _)) = ringing.find(is_it) else { return Ok(Progress::Pending) };
                self.ringing.retain(|(other, _)| *other != number);
                self.speak_of(step, number);
                return Ok(Progress::Passed);
            }
            Action::ExpectMessage(pattern) => {
                let place = self.messages.iter().position(|text| matches(pattern, text));
                let found = place.and_then(|place| self.messages.remove(place));
                return Ok(passed_if(found.is_some()));
            }
            Action::Message { .. } => {
                return match self.message.and_then(|message| self.sent.remove(&message)) {
                    None => Ok(Progress::Pending),
                    Some(None) => Ok(Progress::Passed),
                    Some(Some(cause)) => Err(unmet(cause)),
                };
            }
            Action::Register(_) | Action::Unregister(_) => {
                let wanted = matches!(step.action, Action::Register(_));
                return match self.registration.take() {
                    Some(Err(outcome)) => Err(outcome),
                    Some(Ok(registered)) => Ok(passed_if(registered == wanted)),
                    None => Ok(Progress::Pending),
                };
            }
            _ => {}
        }
        let number = self.call_of(step)?;
        match &step.action {
            Action::ExpectEnd(ending) => {
                let Some(ended) = self.ended.get(&number) else { return Ok(Progress::Pending) };
                let is_so = match ending {
                    Ending::Any => true,
                    Ending::Peer => ended.by_peer,
                    Ending::Here => ended.outcome == Outcome::Done && !ended.by_peer,
                    Ending::Status(status) => ended.sip_status == Some(*status),
                };
                let cause = &ended.cause;
                return match is_so {
                    true => Ok(Progress::Passed),
                    false => Err(unmet(format!("the call has ended with another result: {cause}"))),
                };
            }
            Action::HangUp | Action::Decline(_) | Action::Redirect(_) => {
                return Ok(passed_if(self.ended.contains_key(&number)));
            }
            Action::Transfer(_) | Action::TransferTo(_) => match self.transferred.get(&number) {
                Some(Ok(())) => return Ok(Progress::Passed),
                Some(Err(cause)) => return Err(unmet(cause.clone())),
                None => {}
            },
            _ => {}
        }
        self.over(number)?;
        // The media session may have started or been replaced since the step began.
        if let (Action::ExpectTone(hertz), Some(ear)) = (&step.action, phone.ear(number)) {
            ear.listen_for(*hertz);
        }
        let Some(call) = phone.calls().get(&number) else { return Ok(Progress::Pending) };
        let session = call.session();
        let heard = |hears: fn(&media::audio_meter::AudioMeter) -> media::audio_meter::Run,
                     time| {
            call.leg.as_ref().is_some_and(|leg| hears(&leg.ear).now >= time)
        };
        Ok(passed_if(match &step.action {
            Action::Dial { until: Until::Ringing, .. } => {
                matches!(call.stage, Stage::Ringing | Stage::Talking)
            }
            Action::Dial { until: Until::Answered, .. } => {
                call.stage == Stage::Talking && session.is_some()
            }
            // A hang-up must not cut off the keys.
            Action::Press(_) => session.is_none_or(|session| !session.is_pressing()),
            Action::ExpectKeys(wanted) => {
                let keys = self.keys.entry(number).or_default();
                if keys.starts_with(wanted.as_str()) {
                    keys.drain(..wanted.len());
                    true
                } else if wanted.starts_with(keys.as_str()) {
                    false
                } else {
                    return Err(unmet(format!("the keys {keys} were pressed")));
                }
            }
            Action::ExpectTone(hertz) => call.leg.as_ref().is_some_and(|leg| {
                leg.ear.tone(*hertz).is_some_and(|tone| tone.run.now >= LONG_ENOUGH)
            }),
            Action::ExpectAudio => heard(media::audio_meter::AudioMeter::audio, AUDIBLE),
            Action::ExpectSilence => heard(media::audio_meter::AudioMeter::silence, SILENT),
            Action::Hold | Action::Resume => {
                if let Some(cause) = self.unchanged.take() {
                    return Err(unmet(cause));
                }
                call.holds() == (step.action == Action::Hold)
            }
            Action::Transfer(_) | Action::TransferTo(_) => false,
            _ => true,
        }))
    }

    /// Describes the observed state for a failed expectation.
    fn seen(&self, phone: &mut Phone, step: &Step) -> String {
        let heard = self.call_of(step).ok().and_then(|number| phone.ear(number));
        let heard = heard.map(|ear| Impression::of(ear)).unwrap_or_default();
        match &step.action {
            Action::ExpectCall(_) if self.ringing.is_empty() => "no call has come".into(),
            Action::ExpectCall(_) => {
                let callers: Vec<&str> =
                    self.ringing.iter().map(|(_, from)| uri_of(from)).collect();
                format!("called: {}", callers.join(", "))
            }
            Action::ExpectKeys(_) => {
                let number = self.call_of(step).unwrap_or_default();
                match self.keys.get(&number).filter(|keys| !keys.is_empty()) {
                    Some(keys) => format!("the keys {keys} were pressed"),
                    None => "no key was pressed".into(),
                }
            }
            Action::ExpectTone(hertz) => format!("heard {}", heard.of_tone(*hertz)),
            Action::ExpectAudio | Action::ExpectSilence => format!("heard {}", heard.level()),
            Action::ExpectMessage(_) if self.messages.is_empty() => "no message has come".into(),
            Action::ExpectMessage(_) => {
                let messages: Vec<String> =
                    self.messages.iter().map(|text| format!("{text:?}")).collect();
                format!("these messages have come: {}", messages.join(", "))
            }
            Action::Dial { .. } => {
                let number = self.call_of(step).unwrap_or_default();
                let stage = phone.calls().get(&number).map(|call| call.stage);
                match stage {
                    Some(Stage::Ringing) => "it rings, and there is no answer".into(),
                    _ => "there is no response".into(),
                }
            }
            Action::ExpectEnd(_) => "the call goes on".into(),
            _ => "there is no result".into(),
        }
    }

    fn tell(&self, step: usize, state: StepState, seconds: Option<f64>, cause: Option<String>) {
        let Step { line, action, .. } = &self.steps[step];
        let does = action.to_string();
        self.report.tell(&PhoneEvent::Step {
            step: step + 1,
            line: *line,
            does,
            state,
            seconds,
            cause,
        });
    }

    /// Proceeds as far as possible. Returns the outcome once the script ends.
    fn go_on(&mut self, phone: &mut Phone) -> Option<Outcome> {
        while let Some(step) = self.steps.get(self.at).cloned() {
            if self.begun.is_none() {
                self.tell(self.at, StepState::Begun, None, None);
            }
            let begun = *self.begun.get_or_insert_with(Instant::now);
            let mut progress = Ok(Progress::Pending);
            if self.has_acted {
                progress = self.check(phone, &step);
            } else if self.can_act(phone, &step) {
                self.has_acted = true;
                let acted = self.act(phone, &step);
                // The events of the action are handled before the check.
                if acted.is_ok() && phone.has_news() {
                    return None;
                }
                progress = acted.and_then(|()| self.check(phone, &step));
            }
            let limit = match step.action {
                Action::Wait(time) => time + step.limit,
                _ => step.limit,
            };
            let time = begun.elapsed();
            let seconds = Some((time.as_secs_f64() * 1e3).round() / 1e3);
            let name = format!("{}: {}", self.at + 1, step.action);
            let outcome = match progress {
                Ok(Progress::Passed) => {
                    self.tell(self.at, StepState::Passed, seconds, None);
                    self.cases.push(Case { name, time, judged: Judged::Passed });
                    (self.at, self.begun, self.has_acted) = (self.at + 1, None, false);
                    continue;
                }
                Ok(Progress::Pending) if time < limit => return None,
                Ok(Progress::Pending) => {
                    let limit = humantime::format_duration(limit);
                    unmet(format!("not within {limit}: {}", self.seen(phone, &step)))
                }
                Err(outcome) => outcome,
            };
            let cause = outcome.to_string();
            self.tell(self.at, StepState::Failed, seconds, Some(cause.clone()));
            self.cases.push(Case { name, time, judged: Judged::Failed(cause) });
            let place = format!("step {} (line {}, {})", self.at + 1, step.line, step.action);
            return Some(outcome.after(&place));
        }
        Some(Outcome::Done)
    }

    /// Writes the verdicts, with the skipped steps.
    fn write(&mut self, outcome: Outcome) -> Outcome {
        for number in self.cases.len()..self.steps.len() {
            let name = format!("{}: {}", number + 1, self.steps[number].action);
            self.cases.push(Case { name, time: Duration::ZERO, judged: Judged::Skipped });
        }
        junit::finish(self.junit.as_deref(), &self.cases, outcome)
    }
}

impl Interface for Run {
    fn begin(&mut self, _phone: &mut Phone) {}

    fn hear(&mut self, phone: &mut Phone, told: &PhoneEvent) {
        self.report.tell(told);
        match told {
            PhoneEvent::Incoming { call, from, .. } => {
                self.ringing.push_back((*call, from.clone()));
            }
            PhoneEvent::Dtmf { call, digit } => self.keys.entry(*call).or_default().push(*digit),
            PhoneEvent::Ended { call, cause, outcome, by_peer, sip_status, .. } => {
                self.ringing.retain(|(other, _)| other != call);
                let (cause, outcome) = (cause.clone(), outcome.clone());
                let (by_peer, sip_status) = (*by_peer, *sip_status);
                self.ended.insert(*call, Ended { cause, outcome, by_peer, sip_status });
            }
            PhoneEvent::Unchanged { cause, .. } => self.unchanged = Some(cause.clone()),
            PhoneEvent::Transfer { call, state: TransferState::Done, .. } => {
                self.transferred.insert(*call, Ok(()));
            }
            PhoneEvent::Transfer { call, state: TransferState::Failed, cause } => {
                self.transferred.insert(*call, Err(cause.clone().unwrap_or_default()));
            }
            // A placed call follows a transfer. With others, strangers could place calls at the
            // owner's cost.
            PhoneEvent::TransferAsked { call, .. } => {
                let was_dialled = !phone.calls().get(call).is_none_or(|call| call.was_incoming);
                match was_dialled.then(|| phone.follow(*call)) {
                    Some(Ok(follower)) => {
                        let names = self.names.values_mut().filter(|number| *number == call);
                        names.for_each(|number| *number = follower);
                        if self.current == Some(*call) {
                            self.current = Some(follower);
                        }
                    }
                    _ => drop(phone.refuse_transfer(*call)),
                }
            }
            PhoneEvent::Message { text, .. } if self.messages.len() < MAX_MESSAGES => {
                self.messages.push_back(text.clone());
            }
            PhoneEvent::MessageSent { message, cause } => {
                self.sent.insert(*message, cause.clone());
            }
            PhoneEvent::Registered { .. } => self.registration = Some(Ok(true)),
            PhoneEvent::Unregistered { .. } => self.registration = Some(Ok(false)),
            PhoneEvent::RegistrationFailed { outcome, .. } => {
                self.registration = Some(Err(outcome.clone()));
            }
            _ => {}
        }
    }

    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome> {
        let mut outcome = self.go_on(phone);
        if outcome.is_none() && phone.was_interrupted() {
            let place = format!("step {}", self.at + 1);
            outcome = Some(unmet("interrupted").after(&place));
        }
        outcome.map(|outcome| self.write(outcome))
    }

    fn due(&self, _phone: &Phone) -> Option<Instant> {
        let step = self.steps.get(self.at)?;
        let limit = match step.action {
            Action::Wait(time) => time,
            _ => step.limit,
        };
        Some(self.begun? + limit)
    }
}
