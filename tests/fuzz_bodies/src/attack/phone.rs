//! A phone that conforms to the RFCs, and can be exploited for that.

use super::draft::{Draft, branch, challenges, cseq, method, response, text, value, via};
use super::parties::{DOMAIN, Honest};
use sip::dialog::Dialog;
use sip::digest::Challenge;
use sip::{Encode, HeaderName, Message};
use sip_server::Flow;

/// The number of dialogs and requests that a phone stores.
const KEPT: usize = 4;

/// An honest phone.
pub(super) struct Phone {
    pub(super) honest: &'static Honest,
    dialogs: Vec<Dialog>,
    /// Requests without a final response, and whether they have credentials.
    pending: Vec<(Draft, bool)>,
    /// True if the phone only rings.
    pub(super) only_rings: bool,
    serial: u32,
}

/// A message that a phone sends.
pub(super) enum Action {
    /// A request, and the `response` of its credentials, which only the server may know.
    Request(Draft, Option<String>),
    Response(Vec<u8>),
}

impl Phone {
    pub(super) const fn new(honest: &'static Honest) -> Self {
        Self { honest, dialogs: Vec::new(), pending: Vec::new(), only_rings: false, serial: 0 }
    }

    fn flow(&self) -> Flow {
        self.honest.flow()
    }

    const fn next(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }

    fn new_branch(&mut self) -> String {
        format!("z9hG4bK{}{}", self.honest.user, self.next())
    }

    fn start(&mut self, method: &str, uri: &str, from: &str, to: &str, call_id: &str) -> Draft {
        let branch = self.new_branch();
        let draft = Draft { method: method.into(), uri: uri.into(), ..Draft::default() };
        draft
            .and("Via", via(&self.flow(), &branch))
            .and("From", from)
            .and("To", to)
            .and("Call-ID", call_id)
            .and("CSeq", format!("{} {method}", self.serial))
            .and("Contact", format!("<{}>", self.honest.contact))
    }

    pub(super) fn register(&mut self) -> Action {
        let me = format!("<sip:{}@{DOMAIN}>", self.honest.user);
        let (from, uri) = (format!("{me};tag=r"), format!("sip:{DOMAIN}"));
        let draft = self.start("REGISTER", &uri, &from, &me, &format!("reg-{}", self.honest.user));
        self.send(draft.and("Expires", "7200"), false)
    }

    /// Starts a transaction with `uri`.
    pub(super) fn begin(&mut self, method: &str, uri: &str) -> Action {
        let number = self.next();
        let user = self.honest.user;
        let from = format!("<sip:{user}@{DOMAIN}>;tag={user}{number}");
        let draft =
            self.start(method, uri, &from, &format!("<{uri}>"), &format!("{user}-{number}"));
        self.send(draft, false)
    }

    /// Sends a request within the dialog `back` places before the last one.
    pub(super) fn go_on(&mut self, method: &str, back: u8) -> Option<Action> {
        let at =
            self.dialogs.len().checked_sub(1 + usize::from(back) % self.dialogs.len().max(1))?;
        let dialog = self.dialogs[at].clone();
        let draft = self.within(&dialog, method);
        Some(self.send(draft, false))
    }

    fn within(&mut self, dialog: &Dialog, method: &str) -> Draft {
        let [uri, local, remote, call_id] =
            [dialog.remote_target(), dialog.local(), dialog.remote(), dialog.id().call_id]
                .map(text);
        let draft = self.start(method, &uri, &local, &remote, &call_id);
        dialog.route_set().iter().fold(draft, |draft, route| draft.and("Route", text(route)))
    }

    fn send(&mut self, draft: Draft, has_credentials: bool) -> Action {
        if draft.method != "ACK" {
            self.pending.push((draft.clone(), has_credentials));
        }
        if self.pending.len() > KEPT {
            self.pending.remove(0);
        }
        Action::Request(draft, None)
    }

    fn note(&mut self, dialog: Dialog) {
        self.dialogs.retain(|known| known.id() != dialog.id());
        self.dialogs.push(dialog);
        if self.dialogs.len() > KEPT {
            self.dialogs.remove(0);
        }
    }

    /// The messages sent in response to a received one.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Vec<Action> {
        let Ok(message) = Message::parse(bytes) else { return Vec::new() };
        match message.status() {
            Some(status) => self.on_response(status, &message).into_iter().collect(),
            None => self.on_request(&message),
        }
    }

    fn on_response(&mut self, status: u16, response: &Message<'_>) -> Option<Action> {
        let own = branch(response);
        let at = self.pending.iter().position(|(draft, _)| {
            draft.value("Via").ends_with(&format!(";branch={own}"))
                && draft.method == cseq(response).1
        })?;
        if status < 200 {
            return None;
        }
        let (draft, has_credentials) = self.pending.remove(at);
        if matches!(status, 401 | 407) && !has_credentials {
            return self.prove(draft, response);
        }
        if draft.method != "INVITE" {
            return None;
        }
        if status >= 300 {
            let mut ack = draft.with("To", value(response, HeaderName::To));
            ack.fields.retain(|(name, _)| !name.ends_with("Authorization"));
            return Some(Action::Request(as_ack(ack), None));
        }
        let dialog =
            Dialog::from_response(response).ok().filter(|_| response.has(HeaderName::Contact))?;
        let ack = self.within(&dialog, "ACK");
        self.note(dialog);
        Some(Action::Request(ack, None))
    }

    /// Answers the first challenge with its own realm, from any source.
    fn prove(&mut self, draft: Draft, response: &Message<'_>) -> Option<Action> {
        let (name, value) = challenges(response).into_iter().find(|(_, value)| {
            matches!(Challenge::parse(value.as_bytes()), Ok(Some(challenge))
                if challenge.realm.eq_ignore_ascii_case(DOMAIN.as_bytes()))
        })?;
        let branch = self.new_branch();
        let count = 1;
        let draft = draft.with("Via", via(&self.flow(), &branch)).proving(
            self.honest.user,
            name,
            &value,
            count,
            None,
        );
        let (number, method) = (self.serial, draft.method.clone());
        let draft = draft.with("CSeq", format!("{number} {method}"));
        let secret = draft.value(name).split("response=\"").nth(1)?.split('"').next()?.to_owned();
        self.send(draft.clone(), true);
        Some(Action::Request(draft, Some(secret)))
    }

    fn on_request(&mut self, request: &Message<'_>) -> Vec<Action> {
        let method = method(request);
        if method == "ACK" {
            return Vec::new();
        }
        let tag = format!("{}-tag", self.honest.user);
        let mut lines = Vec::new();
        request.write_record_routes(&mut lines);
        ("Contact: <", self.honest.contact, ">\r\n").encode(&mut lines);
        let answer = |status| Action::Response(response(request, status, Some(&tag), &lines));
        if matches!(&*method, "INVITE" | "SUBSCRIBE") {
            let Ok(dialog) = Dialog::from_request(request, tag.as_bytes()) else {
                return Vec::new();
            };
            self.note(dialog);
        }
        match &*method {
            "INVITE" if self.only_rings => vec![answer(180)],
            "INVITE" => vec![answer(180), answer(200)],
            _ => vec![answer(200)],
        }
    }
}

/// The ACK of a non-2xx response to `invite`.
fn as_ack(invite: Draft) -> Draft {
    let number = invite.value("CSeq").split(' ').next().unwrap_or_default().to_owned();
    let fields = ["Via", "From", "To", "Call-ID"].map(|name| (name, invite.value(name).to_owned()));
    let routes = invite.fields.iter().filter(|(name, _)| *name == "Route").cloned();
    let mut ack = Draft { method: "ACK".into(), uri: invite.uri.clone(), ..Draft::default() };
    ack.fields = fields.into_iter().chain(routes).collect();
    ack.and("CSeq", format!("{number} ACK"))
}
