//! The instructions of refused logins, counted by Valgrind. Those of existing users and of absent
//! ones must not differ: the response time would reveal which users exist.

use crate::clients::{self, Phone, Work};
use crate::lock::Counting;
use barebell_sip_server::{Flow, Output, Worker};
use sip::{Instant, Message};
use std::process::ExitCode;

/// The users of the server.
const USERS: usize = 1000;
/// The number of logins of each kind.
const LOGINS: usize = 200;
/// The tolerated difference of the means in percent. A hash is several percent.
const TOLERANCE: f64 = 1.0;

/// The request that logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Register,
    Invite,
}

/// A login with a wrong password.
#[derive(Clone, Copy, Debug)]
struct Login {
    number: usize,
    request: Request,
    exists: bool,
}

/// All logins. Those of existing and of absent users alternate.
fn logins() -> impl Iterator<Item = Login> {
    (0..LOGINS).flat_map(|number| {
        [Request::Register, Request::Invite]
            .into_iter()
            .flat_map(move |request| [true, false].map(|exists| Login { number, request, exists }))
    })
}

/// Does the logins for the counting process.
pub(crate) fn perform() {
    let server = clients::server(Work::CallAuthenticated, USERS);
    let (mut worker, mut out) = (server.worker(), Output::default());
    let now = Instant::from_micros(1_800_000_000_000_000);
    // The first logins are not counted: some work is done once.
    for (serial, login) in (0..).zip(logins().take(4).chain(logins())) {
        // The names of absent users are as long as those of users.
        let user = if login.exists { login.number } else { USERS + login.number };
        let phone = Phone::new(user, serial);
        let flow = phone.flow();
        let mut request = Vec::new();
        match login.request {
            Request::Register => phone.write_register(&mut request),
            Request::Invite => phone.write_invite(&clients::name(USERS / 2), &mut request),
        }
        worker.receive(now, &flow, &request, &mut out);
        let challenged = only_message(&mut out);
        let challenged = Message::parse(&challenged).expect("a message");
        let request = Message::parse(&request).expect("a message");
        let login = clients::with_credentials(&request, &challenged, &phone.name, "wrong");
        match serial < 4 {
            true => worker.receive(now, &flow, &login, &mut out),
            false => counted(&mut worker, now, &flow, &login, &mut out),
        }
        let refused = only_message(&mut out);
        let refused = Message::parse(&refused).expect("a message");
        assert_eq!(refused.status(), challenged.status(), "the login is refused");
    }
    let failures = server.counters().into_iter().find(|(name, _)| *name == FAILURES);
    assert_eq!(failures, Some((FAILURES, 4 * LOGINS as u64 + 4)), "each password is checked");
}

/// The counter of logins with wrong credentials, of those that were checked.
const FAILURES: &str = "authentication-failures";

/// Takes the only message of the output.
fn only_message(out: &mut Output) -> Vec<u8> {
    let [message] = &out.transmits[..] else { panic!("a message: {:?}", out.transmits) };
    let bytes = out.bytes[message.range.clone()].to_vec();
    out.clear();
    bytes
}

/// The function that Valgrind measures, one login per call.
#[inline(never)]
fn counted(
    worker: &mut Worker<Counting>,
    now: Instant,
    flow: &Flow,
    login: &[u8],
    out: &mut Output,
) {
    worker.receive(now, flow, login, out);
}

/// Counts the logins, and fails if those of existing and of absent users differ.
pub(crate) fn compare() -> ExitCode {
    let counts = match instructions::count("engine::logins::counted", 4 * LOGINS) {
        Ok(counts) => counts,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let mean = |request, exists| {
        let of_kind = logins().zip(&counts);
        let of_kind =
            of_kind.filter(|(login, _)| (login.request, login.exists) == (request, exists));
        of_kind.map(|(_, count)| *count as f64).sum::<f64>() / LOGINS as f64
    };
    println!("{:32} {:>12} {:>12} {:>10}", "refused logins", "existing", "absent", "difference");
    let mut differs = false;
    for (request, name) in [(Request::Register, "REGISTER"), (Request::Invite, "INVITE")] {
        let [existing, absent] = [true, false].map(|exists| mean(request, exists));
        let difference = (absent / existing - 1.0) * 100.0;
        println!("{name:32} {existing:12.0} {absent:12.0} {difference:+9.2}%");
        differs |= difference.abs() > TOLERANCE;
    }
    if differs {
        eprintln!(
            "a refused login of an existing user and of an absent one differ by more than {TOLERANCE} % of their \
             instructions: the response time reveals which users exist"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
