//! A call between two scripted user agents.

use sip::dialog::Dialog;
use test_support::agent::{Agent, Received, SESSION};

/// One end of a call.
#[derive(Debug)]
pub struct End {
    /// The user agent.
    pub agent: Agent,
    /// Its view of the dialog.
    pub dialog: Dialog,
}

/// `caller` calls `callee`, which answers.
#[must_use]
pub fn establish(caller: Agent, callee: Agent) -> (End, End) {
    let uri = callee.address_of_record();
    establish_with(caller, callee, &uri)
}

/// `caller` calls `uri`, where `callee` answers.
#[must_use]
pub fn establish_with(caller: Agent, callee: Agent, uri: &str) -> (End, End) {
    let (caller, callee, _) = establish_described(caller, callee, uri, [SESSION; 2]);
    (caller, callee)
}

/// `caller` calls `uri` with the offer `bodies[0]`. There `callee` answers with `bodies[1]`.
/// Returns the offer and the answer as they were received, too.
#[must_use]
pub fn establish_described(
    mut caller: Agent,
    mut callee: Agent,
    uri: &str,
    bodies: [&str; 2],
) -> (End, End, [String; 2]) {
    let mut calling = caller.dialog(uri);
    caller.ask(&mut calling, "INVITE", "", bodies[0]);
    let invite = callee.request("INVITE");
    let called = callee.dialog_with(&invite);
    callee.answer(&invite, &called, 180, "", "");
    caller.response("INVITE", 180);
    callee.answer(&invite, &called, 200, "", bodies[1]);
    let answered = caller.response("INVITE", 200);
    let calling = answered.dialog();
    caller.acknowledge(&calling, &answered);
    callee.request("ACK");
    let received = [invite.body(), answered.body()];
    let caller = End { agent: caller, dialog: calling };
    (caller, End { agent: callee, dialog: called }, received)
}

impl End {
    /// Sends a request within the dialog to `other`, which answers 200. Both ends refresh the
    /// remote target if the method is a target refresh request. Returns the response.
    ///
    /// # Panics
    /// Either end rejects the message.
    pub fn pass(&mut self, other: &mut Self, method: &str, fields: &str) -> Received {
        let has_session = matches!(method, "INVITE" | "UPDATE");
        let body = if has_session { SESSION } else { "" };
        self.pass_described(other, method, fields, [body; 2])
    }

    /// As [`End::pass`], with the bodies of the request and of the response.
    ///
    /// # Panics
    /// Either end rejects the message.
    pub fn pass_described(
        &mut self,
        other: &mut Self,
        method: &str,
        fields: &str,
        bodies: [&str; 2],
    ) -> Received {
        self.agent.send(&mut self.dialog, method, fields, bodies[0]);
        let request = other.agent.request(method);
        other.dialog.check_cseq(&request.message()).expect("the request is in order");
        let refreshes = matches!(method, "INVITE" | "UPDATE" | "SUBSCRIBE" | "NOTIFY");
        if refreshes {
            other.dialog.refresh_target(&request.message());
        }
        other.agent.answer(&request, &other.dialog, 200, fields, bodies[1]);
        let answer = self.agent.response(method, 200);
        if refreshes {
            self.dialog.refresh_target(&answer.message());
        }
        if method == "INVITE" {
            self.agent.acknowledge(&self.dialog, &answer);
            other.agent.request("ACK");
        }
        answer
    }
}
