//! Three phones that call one another at random.

use crate::records::{End, Placed};
use peers::phone::{Account, Action, Event, Kind, Phone, Srtp};
use peers::process::wait_until;
use peers::server::ServerProcess;
use peers::test_server::account;
use peers::transport::Transport::{Tcp, Udp};
use std::thread;
use std::time::Duration;

/// The number of scenes after which the phones are started anew, with empty logs.
const SCENES: u32 = 30;
/// The duration of a registration by UDP in seconds: that of a killed phone ends by then.
const EXPIRES: u32 = 6;
/// The options of the phones.
const OPTIONS: &str = "--ring-timeout 20s";

/// The phones by their index.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// The end of a call by either party.
const EITHER: End = End::By(&["caller", "callee"]);

/// A group of phones.
pub(crate) struct Group<'s> {
    server: &'s ServerProcess,
    number: usize,
    /// True if calls may ring until the server ends them.
    is_long: bool,
    phones: [Phone; 3],
    scenes: u32,
    random: fastrand::Rng,
    placed: Vec<Placed>,
}

/// The users of a group.
pub(crate) fn users(group: usize) -> [String; 3] {
    ["a", "b", "c"].map(|name| format!("{name}{group}"))
}

/// The account of a user of a group. The groups differ in transports, keys and codecs.
fn account_of(server: &ServerProcess, group: usize, index: usize) -> Account {
    let transport = if (group + index).is_multiple_of(2) { Tcp } else { Udp };
    let mut account = account(server, &users(group)[index], transport);
    account.options = OPTIONS.to_owned();
    account.codecs = "PCMU";
    if transport == Udp {
        account.expires = EXPIRES;
    }
    match (group % 4, index) {
        (1, A) => account.codecs = "GSM",
        (2, B) => account.srtp = Srtp::Required,
        (3, _) => account.srtp = Srtp::Required,
        _ => {}
    }
    account
}

impl<'s> Group<'s> {
    pub(crate) fn new(server: &'s ServerProcess, number: usize, is_long: bool) -> Self {
        let phones = [A, B, C]
            .map(|index| Phone::registered(Kind::Barebell, account_of(server, number, index)));
        let random = fastrand::Rng::with_seed(number as u64);
        Self { server, number, is_long, phones, scenes: 0, random, placed: Vec::new() }
    }

    /// Plays a scene. Returns the calls that were placed in it.
    ///
    /// # Panics
    /// A step fails.
    pub(crate) fn act(mut self) -> (Self, Vec<Placed>) {
        match self.random.u8(..if self.is_long { 21 } else { 20 }) {
            0..6 => self.talk(),
            6 => self.is_refused(),
            7 => self.is_cancelled(),
            8 => self.hold_at_once(),
            9 | 10 => self.transfer_blind(),
            11 => self.transfer_to_a_refusal(),
            12 | 13 => self.transfer_attended(),
            14 => self.one_dies(A),
            15 => self.one_dies(B),
            16 => self.both_die(),
            17 => self.caller_dies_early(),
            18 => self.callee_dies_early(),
            19 => self.is_not_answered(),
            _ => self.both_die_early(),
        }
        self.scenes += 1;
        if self.scenes.is_multiple_of(SCENES) {
            [A, B, C].into_iter().for_each(|index| self.start_again(index));
        }
        let placed = std::mem::take(&mut self.placed);
        (self, placed)
    }

    fn uri(&self, index: usize) -> String {
        self.server.uri(&users(self.number)[index])
    }

    /// Kills a phone, and starts it anew.
    fn start_again(&mut self, index: usize) {
        let account = self.phones[index].account.clone();
        self.phones[index].kill();
        let user = account.user.clone();
        self.phones[index] = Phone::registered(Kind::Barebell, account);
        // Otherwise a call would go to the killed phone, too.
        wait_until(&format!("the end of the registration of the killed phone of {user}"), || {
            let count = self.server.registrations_of(&user).len();
            if count != 1 {
                thread::sleep(Duration::from_secs(1));
            }
            (count == 1).then_some(())
        });
    }

    fn pause(&mut self, milliseconds: u64) {
        thread::sleep(Duration::from_millis(self.random.u64(..milliseconds)));
    }

    /// Writes down a call that has been placed.
    fn note(&mut self, [caller, callee]: [usize; 2], end: End, has_talk: bool) {
        let [caller, callee] = [caller, callee].map(|index| users(self.number)[index].clone());
        self.placed.push(Placed { caller, callee, end, has_talk });
    }

    fn ring(&mut self, [caller, callee]: [usize; 2]) {
        let uri = self.uri(callee);
        self.phones[caller].dial_until_it_rings(&uri);
        self.phones[callee].wait_for(Event::Incoming);
    }

    fn answer(&mut self, callee: usize) {
        self.phones[callee].act(&Action::Answer);
        self.phones[callee].wait_for(Event::Established);
    }

    fn connect(&mut self, ends: [usize; 2]) {
        self.ring(ends);
        self.answer(ends[1]);
        self.phones[ends[0]].wait_for(Event::Established);
    }

    /// A phone hangs up. Both ends see the end of the call.
    fn hang_up(&mut self, here: usize, there: usize) {
        self.phones[here].act(&Action::HangUp);
        self.phones[here].wait_for(Event::Ended);
        self.phones[there].wait_for(Event::Ended);
    }

    /// One of two phones hangs up. Returns its party, if the first one is the caller.
    fn one_hangs_up(&mut self, [caller, callee]: [usize; 2]) -> End {
        if self.random.bool() {
            self.hang_up(caller, callee);
            End::By(&["caller"])
        } else {
            self.hang_up(callee, caller);
            End::By(&["callee"])
        }
    }

    fn talk(&mut self) {
        let mut ends = [A, B, C];
        self.random.shuffle(&mut ends);
        let ends = [ends[0], ends[1]];
        self.connect(ends);
        thread::sleep(Duration::from_secs(2));
        for _ in 0..self.random.u8(..3) {
            let index = self.random.usize(..2);
            let (here, there) = (ends[index], ends[1 - index]);
            if self.random.bool() {
                self.phones[here].act_and_wait_for_ok(&Action::Hold, "INVITE");
                self.pause(1000);
                self.phones[here].act_and_wait_for_ok(&Action::Resume, "INVITE");
            } else {
                self.phones[here].act(&Action::Press('7'));
                self.phones[there].wait_for_keys("7");
            }
            self.pause(1000);
        }
        let end = self.one_hangs_up(ends);
        self.note(ends, end, true);
    }

    /// Both ends hold the call at the same time.
    fn hold_at_once(&mut self) {
        self.connect([A, B]);
        for index in [A, B] {
            self.phones[index].act(&Action::Hold);
        }
        // An offer that is refused with 491 is made again after two seconds at most.
        self.pause(4000);
        let end = self.one_hangs_up([A, B]);
        self.note([A, B], end, false);
    }

    fn is_refused(&mut self) {
        self.ring([A, B]);
        self.pause(500);
        self.phones[B].act(&Action::Reject);
        self.phones[A].wait_for(Event::Ended);
        self.phones[B].wait_for(Event::Ended);
        self.note([A, B], End::Refused(&["callee"], &[486, 603]), false);
    }

    fn is_cancelled(&mut self) {
        self.ring([B, C]);
        self.pause(500);
        self.hang_up(B, C);
        self.note([B, C], End::Refused(&["caller"], &[487]), false);
    }

    fn is_not_answered(&mut self) {
        self.ring([A, C]);
        self.phones[A].wait_for(Event::Ended);
        self.phones[C].wait_for(Event::Ended);
        // The time of ringing ends at both phones.
        self.note([A, C], End::Refused(&["caller", "callee"], &[480, 487]), false);
    }

    /// A transfers B to C.
    fn transfer_blind(&mut self) {
        self.connect([A, B]);
        self.pause(1000);
        let target = self.uri(C);
        self.phones[A].act(&Action::Transfer(target));
        self.phones[C].wait_for(Event::Incoming);
        self.answer(C);
        self.phones[B].wait_for_all(&[Event::Established, Event::Ended]);
        self.phones[A].wait_for(Event::Ended);
        self.note([A, B], EITHER, false);
        thread::sleep(Duration::from_secs(2));
        let end = self.one_hangs_up([B, C]);
        self.note([B, C], end, true);
    }

    /// A transfers B to C, which refuses: the call of A and B goes on.
    fn transfer_to_a_refusal(&mut self) {
        self.connect([A, B]);
        let target = self.uri(C);
        self.phones[A].act(&Action::Transfer(target));
        self.phones[C].wait_for(Event::Incoming);
        self.phones[C].act(&Action::Reject);
        self.phones[C].wait_for(Event::Ended);
        self.phones[B].wait_for(Event::Ended);
        self.note([B, C], End::Refused(&["callee"], &[486, 603]), false);
        self.pause(2000);
        let end = self.one_hangs_up([A, B]);
        self.note([A, B], end, false);
    }

    /// A consults C, and transfers B to it.
    fn transfer_attended(&mut self) {
        self.connect([A, B]);
        let target = self.uri(C);
        self.phones[A].act(&Action::Consult(target));
        self.phones[C].wait_for(Event::Incoming);
        self.answer(C);
        self.phones[A].wait_for(Event::Established);
        self.pause(1000);
        self.phones[A].act(&Action::TransferToConsulted);
        self.phones[C].wait_for_all(&[Event::Established, Event::Ended]);
        self.phones[B].wait_for_all(&[Event::Established, Event::Ended]);
        self.phones[A].wait_for_all(&[Event::Ended, Event::Ended]);
        self.note([A, B], EITHER, false);
        self.note([A, C], EITHER, false);
        thread::sleep(Duration::from_secs(2));
        let end = self.one_hangs_up([B, C]);
        self.note([B, C], end, true);
    }

    /// One phone dies within a call. The other one hangs up some time later.
    fn one_dies(&mut self, dead: usize) {
        self.connect([A, B]);
        self.pause(2000);
        self.start_again(dead);
        let left = if dead == A { B } else { A };
        // The server may be the first to notice.
        if !self.phones[left].has_seen(Event::Ended) {
            self.phones[left].act(&Action::HangUp);
        }
        self.phones[left].wait_for(Event::Ended);
        let by: &[_] = if dead == A { &["callee", "server"] } else { &["caller", "server"] };
        self.note([A, B], End::By(by), false);
    }

    /// Both phones die within a call. The server ends it.
    fn both_die(&mut self) {
        self.connect([A, B]);
        self.pause(2000);
        self.phones[A].kill();
        self.phones[B].kill();
        self.start_again(A);
        self.start_again(B);
        self.note([A, B], End::By(&["server"]), false);
    }

    /// The caller dies while the callee rings, which then refuses, or answers and hangs up.
    fn caller_dies_early(&mut self) {
        self.ring([A, B]);
        self.phones[A].kill();
        thread::sleep(Duration::from_millis(500));
        if self.phones[B].has_seen(Event::Ended) {
            // The connection of the INVITE has ended: the server cancels the call.
            self.note([A, B], End::Refused(&["caller"], &[487]), false);
        } else if self.random.bool() {
            self.phones[B].act(&Action::Reject);
            self.note([A, B], End::Refused(&["callee"], &[486, 603]), false);
        } else {
            self.answer(B);
            self.pause(2000);
            self.phones[B].act(&Action::HangUp);
            self.note([A, B], End::By(&["callee", "server"]), false);
        }
        self.phones[B].wait_for(Event::Ended);
        self.start_again(A);
    }

    /// The callee dies while it rings, and the caller hangs up.
    fn callee_dies_early(&mut self) {
        self.ring([A, B]);
        self.phones[B].kill();
        if self.phones[B].account.transport == Tcp {
            // The server knows that its connection has ended.
            self.note([A, B], End::Refused(&["server"], &[480]), false);
        } else {
            self.pause(2000);
            self.phones[A].act(&Action::HangUp);
            self.note([A, B], End::Refused(&["caller"], &[487]), false);
        }
        self.phones[A].wait_for(Event::Ended);
        self.start_again(B);
    }

    /// Both phones die while one rings. The server ends the call.
    fn both_die_early(&mut self) {
        self.ring([A, B]);
        self.phones[A].kill();
        self.phones[B].kill();
        self.note([A, B], End::Refused(&["caller", "server"], &[408, 480, 487]), false);
        self.start_again(A);
        self.start_again(B);
    }
}
