//! The `control` command: one JSON command per line of the standard input, one JSON event per line
//! of the standard output.

use super::{Interface, STDIN, account_of};
use crate::call::Stage;
use crate::outcome::Outcome;
use crate::phone::Phone;
use crate::report::{PhoneEvent, Report, State, StateOfAccount, StateOfCall};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;
use serde_json::Value;
use sip_ua::{AccountId, RegistrationState};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The maximum length of a line in octets.
const MAX_LINE: usize = 64 << 10;

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    Register {
        account: Option<String>,
    },
    Unregister {
        account: Option<String>,
    },
    Call {
        uri: String,
        account: Option<String>,
    },
    Answer {
        call: u64,
    },
    Decline {
        call: u64,
        #[serde(default = "busy")]
        status: u16,
        /// The target of a redirection.
        to: Option<String>,
    },
    HangUp {
        call: u64,
    },
    Hold {
        call: u64,
    },
    Resume {
        call: u64,
    },
    Press {
        call: u64,
        keys: String,
    },
    Mute {
        call: u64,
    },
    Unmute {
        call: u64,
    },
    /// The short authentication strings of both ends are the same, or not.
    Verify {
        call: u64,
        same: bool,
    },
    Play {
        call: u64,
        what: String,
    },
    /// A blind transfer to a URI, or an attended one to the remote end of another call.
    Transfer {
        call: u64,
        to: Option<String>,
        with: Option<u64>,
    },
    Follow {
        call: u64,
    },
    RefuseTransfer {
        call: u64,
    },
    Message {
        to: String,
        text: String,
        account: Option<String>,
    },
    State,
    Quit,
}

/// The numbers of the call or message that a command started.
#[derive(Debug, Default)]
struct Begun {
    call: Option<u64>,
    message: Option<u64>,
}

impl Begun {
    fn call(number: u64) -> Self {
        Self { call: Some(number), ..Self::default() }
    }
}

/// Parses a line: its id, which the answer repeats, and its command.
fn read(line: &[u8]) -> (Option<Value>, Result<Command, String>) {
    let mut value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return (None, Err(error.to_string())),
    };
    let id = value.as_object_mut().and_then(|fields| fields.remove("id"));
    (id, serde_json::from_value(value).map_err(|error| error.to_string()))
}

const fn busy() -> u16 {
    486
}

/// The front end of `control`.
pub(crate) struct Control {
    report: Report,
    /// The received part of an incomplete line.
    partial: Vec<u8>,
    is_over: bool,
}

impl Control {
    pub(crate) const fn new(report: Report) -> Self {
        Self { report, partial: Vec::new(), is_over: false }
    }

    /// Reads the available input and executes its commands.
    fn read(&mut self, phone: &mut Phone) {
        let mut fds = [PollFd::new(STDIN.as_fd(), PollFlags::POLLIN)];
        while poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            let mut chunk = [0; 4096];
            match nix::unistd::read(STDIN.as_fd(), &mut chunk) {
                Ok(0) => {
                    // End of input: no client is left that could end the calls.
                    self.is_over = true;
                    return;
                }
                Ok(length) => self.partial.extend_from_slice(&chunk[..length]),
                Err(_) => return,
            }
            while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                self.obey(phone, line.trim_ascii());
            }
            if self.partial.len() > MAX_LINE {
                self.partial.clear();
                let cause = format!("a line is longer than {MAX_LINE} bytes");
                self.report.tell(&PhoneEvent::Failed { id: None, cause });
            }
        }
    }

    fn obey(&mut self, phone: &mut Phone, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let (id, command) = read(line);
        let done = command.and_then(|command| self.command(phone, command));
        let told = match done {
            Ok(Begun { call, message }) => PhoneEvent::Done { id, call, message },
            Err(cause) => PhoneEvent::Failed { id, cause },
        };
        self.report.tell(&told);
    }

    /// Executes a command.
    fn command(&mut self, phone: &mut Phone, command: Command) -> Result<Begun, String> {
        match command {
            Command::Register { account } => {
                registering_account(phone, account.as_deref()).map(|id| phone.register_as(id))
            }
            Command::Unregister { account } => {
                registering_account(phone, account.as_deref()).map(|id| phone.unregister_as(id))
            }
            Command::Call { uri, account } => {
                let account = account_of(phone, account.as_deref())?;
                return Ok(Begun::call(phone.call(&uri, account)));
            }
            Command::Answer { call } => phone.answer(call),
            Command::Decline { call, to: Some(to), .. } => phone.redirect(call, &to),
            Command::Decline { status: 300..400, .. } => {
                Err("a status of 3xx sends the caller elsewhere: name where with \"to\"".to_owned())
            }
            Command::Decline { call, status, to: None } => phone.decline(call, status),
            Command::HangUp { call } => phone.hang_up(call),
            Command::Hold { call } => phone.hold(call, true),
            Command::Resume { call } => phone.hold(call, false),
            Command::Press { call, keys } => phone.press(call, &keys),
            Command::Mute { call } => phone.mute(call, true),
            Command::Unmute { call } => phone.mute(call, false),
            Command::Verify { call, same } => phone.verify(call, same),
            Command::Play { what, .. } if what == "-" => {
                Err("the standard input is for commands".to_owned())
            }
            Command::Play { call, what } => phone.play(call, &what),
            Command::Transfer { call, to: Some(to), with: None } => phone.transfer(call, &to),
            Command::Transfer { call, to: None, with: Some(with) } => phone.transfer_to(call, with),
            Command::Transfer { .. } => {
                Err("expected either \"to\", a URI, or \"with\", the number of a call".to_owned())
            }
            Command::Follow { call } => return phone.follow(call).map(Begun::call),
            Command::RefuseTransfer { call } => phone.refuse_transfer(call),
            Command::Message { to, text, account } => {
                let account = account_of(phone, account.as_deref())?;
                let message = phone.message(&to, account, &text)?;
                return Ok(Begun { message: Some(message), ..Begun::default() });
            }
            Command::State => {
                self.report.tell(&PhoneEvent::State(state_of(phone)));
                Ok(())
            }
            Command::Quit => {
                self.is_over = true;
                Ok(())
            }
        }
        .map(|()| Begun::default())
    }
}

/// The account with this name, or the first one. There must be one.
fn registering_account(phone: &Phone, name: Option<&str>) -> Result<AccountId, String> {
    account_of(phone, name)?
        .ok_or("there is no account: name a file with one (--config)".to_owned())
}

fn state_of(phone: &Phone) -> State {
    let accounts = phone.lines().iter().map(|line| StateOfAccount {
        account: line.uri.clone(),
        registered: matches!(line.state, Some(RegistrationState::Registered { .. })),
    });
    let now = Instant::now();
    let calls = phone.calls().iter().map(|(&number, call)| StateOfCall {
        call: number,
        party: call.party.clone(),
        stage: match call.stage {
            Stage::Calling => "calling",
            Stage::Ringing => "ringing",
            Stage::RingingHere => "ringing_here",
            Stage::Talking => "talking",
        },
        seconds: now.duration_since(call.begun).as_secs(),
        held_here: call.holds(),
        held_there: call.is_held(),
    });
    State { accounts: accounts.collect(), calls: calls.collect() }
}

impl Interface for Control {
    fn begin(&mut self, phone: &mut Phone) {
        phone.register();
    }

    fn hear(&mut self, _phone: &mut Phone, told: &PhoneEvent) {
        self.report.tell(told);
    }

    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome> {
        self.read(phone);
        (self.is_over || phone.was_interrupted()).then_some(Outcome::Done)
    }

    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        vec![STDIN.as_fd()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_has_an_id_gets_it_back() {
        for (line, is_command) in [
            (r#"{"command":"state","id":7}"#, true),
            (r#"{"id":7,"command":"hang_up","call":1}"#, true),
            (r#"{"command":"bogus","id":7}"#, false),
            (r#"{"command":"hang_up","call":1,"extra":1,"id":7}"#, false),
            (r#"{"command":"press","call":"one","keys":"1","id":7}"#, false),
            (r#"{"id":7}"#, false),
        ] {
            let (id, command) = read(line.as_bytes());
            assert_eq!((id, command.is_ok()), (Some(7.into()), is_command), "{line}");
        }
        assert!(read(b"{").1.is_err() && read(b"[]").1.is_err());
    }
}
