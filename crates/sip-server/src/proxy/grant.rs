//! What the token in a Route allows a request of a dialog, and what is noted of where the ends of
//! the dialog are.

use super::record_route::end_of_sender;
use super::route::Preprocessed;
use super::token::{End, Identity, Life, TargetHash, Token, routes_hash};
use crate::dialogs::{self, Place};
use crate::event::Env;
use crate::flow::Flow;
use crate::reach::Scope;
use crate::server::Server;
use lock_api::RawMutex;
use sip::dialog::DialogId;
use sip::header::{CSeq, NameAddr};
use sip::message::RequestHead;
use sip::{HeaderName, Message, Method, Uri};

/// What a token allows the request that came with it: to go on to the other end of its dialog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// The flow to follow, if there is one.
    pub(crate) flow: Option<Flow>,
    /// In what network the other end is.
    pub(crate) scope: Scope,
    /// The name in our domains that may stand in From.
    pub(crate) identity: Identity,
    /// That of the other end, as far as it is known: of who sent the first request.
    pub(crate) other_identity: Identity,
    /// The connection on which the other end has answered, which may have ended since. Nothing
    /// demands it.
    pub(crate) carrier: Option<Flow>,
}

/// Whether the request may change where its sender is reached from now on.
fn is_target_refresh(method: Method<'_>) -> bool {
    matches!(method, Method::Invite | Method::Update | Method::Subscribe | Method::Notify)
}

impl Grant {
    /// What `request` is allowed, which says in Route that it belongs to a dialog: it has to name
    /// the end that its token leads to, by the routes that lead there, as long as the dialog is
    /// known to stand. What ends a dialog passes at any time.
    pub(crate) fn find<R: RawMutex>(
        server: &Server<R>,
        request: &Message<'_>,
        head: &RequestHead<'_>,
        found: &Preprocessed<'_>,
        env: &mut Env<'_>,
    ) -> Option<Self> {
        let (token, id) = (found.token?, dialogs::id_of(head));
        if !dialogs::has_two_ends(&id) {
            return None;
        }
        let Uri::Sip(uri) = &found.uri else { return None };
        let key = &env.keys.token;
        if matches!(head.method, Method::Register | Method::Publish)
            || routes_hash(key, found.left().iter().copied()) != token.end.routes
        {
            return None;
        }
        let known = server.dialogs.look_up(&id);
        let is_there =
            |place: &Place| TargetHash::new(key, uri, place.flow.is_some()) == place.target;
        // What crosses a request by which the end moves names the place where it was.
        let End { target, flow, scope, .. } = token.end;
        let first = Place { target, flow, scope };
        let places = [known.proposed, known.place, Some(first)];
        let place = places.into_iter().flatten().find(is_there)?;
        let stands = token.is_recent(env.now)
            || known.confirmed.is_some_and(|last| env.now.since(last) <= Token::LIFETIME)
            || match token.life {
                Life::Transaction(handle) => server
                    .transactions
                    .with_handle(handle, env, |context, _| !context.has_final())
                    .unwrap_or(false),
                Life::Dialog | Life::Early => false,
            };
        let ends = || match head.method {
            Method::Bye | Method::Ack => true,
            Method::Notify => request
                .value(HeaderName::SubscriptionState)
                .is_some_and(|state| state.get(..10).is_some_and(is_terminated)),
            _ => false,
        };
        let carrier = token.end.carrier.filter(|_| place.flow.is_none() && is_there(&first));
        let Place { flow, scope, .. } = place;
        let other_identity = token.sender.map_or(Identity::NOBODY, |sender| sender.identity);
        let identity = token.identity;
        (stands || ends()).then_some(Self { flow, scope, identity, other_identity, carrier })
    }

    /// Notes where the sender of `request` will be reached once it is answered 2xx.
    pub(crate) fn note_move<R: RawMutex>(
        &self,
        server: &Server<R>,
        request: &Message<'_>,
        head: &RequestHead<'_>,
        arrived_on: &Flow,
        env: &Env<'_>,
    ) {
        if !is_target_refresh(head.method) {
            return;
        }
        let sender = dialogs::from_other_end(&dialogs::id_of(head));
        let End { target, flow, scope, .. } = end_of_sender(request, arrived_on, env);
        if target != TargetHash::NONE {
            let max_bytes = env.settings.config.limits.max_dialog_bytes;
            let place = Place { target, flow, scope };
            let answerer = Place { target: TargetHash::NONE, flow: self.flow, scope: self.scope };
            server.dialogs.propose(&sender, head.cseq.number, place, answerer, max_bytes);
        }
    }
}

fn is_terminated(state: &[u8]) -> bool {
    state.eq_ignore_ascii_case(b"terminated")
}

/// Notes what `response`, which goes back to who sent the request, says of its dialog: its answerer
/// may have `moved` since it rang.
pub(crate) fn note_response<R: RawMutex>(
    server: &Server<R>,
    response: &Message<'_>,
    cseq: &CSeq<'_>,
    moved: Option<Place>,
    env: &Env<'_>,
) {
    let refreshes = is_target_refresh(cseq.method) || cseq.method == Method::Refer;
    let is_news = refreshes || cseq.method == Method::Bye;
    let is_success = response.status().is_some_and(|status| (200..300).contains(&status));
    if !is_success || !is_news || !env.settings.config.record_route {
        return;
    }
    let tag_of = |name| NameAddr::parse(name, response.value(name)?).ok()?.tag();
    let (Some(local_tag), Some(remote_tag), Some(call_id)) =
        (tag_of(HeaderName::From), tag_of(HeaderName::To), response.value(HeaderName::CallId))
    else {
        return;
    };
    let sender = DialogId { call_id, local_tag, remote_tag };
    if cseq.method == Method::Bye {
        return server.dialogs.end(&sender);
    }
    let contact = response.elements(HeaderName::Contact).next();
    let answerer = |follows_flow| TargetHash::of_contact(&env.keys.token, contact, follows_flow);
    let max_bytes = env.settings.config.limits.max_dialog_bytes;
    server.dialogs.confirm(&sender, cseq.number, answerer, env.now, max_bytes);
    if let Some(place) = moved {
        let answerer = dialogs::from_other_end(&sender);
        server.dialogs.place(&answerer, place, max_bytes);
    }
}
