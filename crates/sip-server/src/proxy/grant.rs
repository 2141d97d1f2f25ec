//! The authorization of a request within a dialog by the token in its Route, and the updates of the
//! remote targets of the dialog.

use super::dialogs::{self, Place};
use super::record_route::end_of_sender;
use super::route::Preprocessed;
use super::tables::Tables;
use super::token::{End, Identity, Life, TargetHash, Token, routes_hash};
use super::via_branch::{Answer, DialogFields};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::reach::Scope;
use lock_api::RawMutex;
use sip::dialog::DialogId;
use sip::message::RequestHead;
use sip::{HeaderName, Message, Method, Uri};

/// The authorization by a token: the request may go to the other end of its dialog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// The flow that the request must follow, if any.
    pub(crate) flow: Option<Flow>,
    /// The network scope of the other end.
    pub(crate) scope: Scope,
    /// The name in our domains that may be given in From.
    pub(crate) identity: Identity,
    /// The identity of the other end, as far as it is known: that of the sender of the first
    /// request.
    pub(crate) other_identity: Identity,
    /// The connection on which the other end answered. Its use is optional, and it may have ended
    /// since.
    pub(crate) carrier: Option<Flow>,
}

/// True if the request may update the remote target of its sender.
fn is_target_refresh(method: Method<'_>) -> bool {
    matches!(method, Method::Invite | Method::Update | Method::Subscribe | Method::Notify)
}

impl Grant {
    /// Returns the authorization of `request` by its token. The request URI must name the end that
    /// the token leads to, the routes must be those of that end, and the dialog must be known to
    /// exist. A BYE, an ACK and a terminating NOTIFY are authorized even if the dialog is not known
    /// to exist.
    pub(crate) fn find<R: RawMutex>(
        tables: &Tables<R>,
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
        let known = tables.dialogs.look_up(&id);
        let is_there =
            |place: &Place| TargetHash::new(key, uri, place.flow.is_some()) == place.target;
        // A request that crosses a target refresh of the other end names the previous place.
        let End { target, flow, scope, .. } = token.end;
        let first = Place { target, flow, scope };
        let places = [known.proposed, known.place, Some(first)];
        let place = places.into_iter().flatten().find(is_there)?;
        let stands = token.is_recent(env.now)
            || known.confirmed.is_some_and(|last| env.now.since(last) <= Token::LIFETIME)
            || match token.life {
                Life::Transaction(handle) => tables
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
        let other_identity = token.sender.map_or(Identity::NONE, |sender| sender.identity);
        let identity = token.identity;
        (stands || ends()).then_some(Self { flow, scope, identity, other_identity, carrier })
    }

    /// Records the new remote target of the sender of `request`. It takes effect with a 2xx
    /// response.
    pub(crate) fn note_move<R: RawMutex>(
        &self,
        tables: &Tables<R>,
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
            tables.dialogs.propose(&sender, head.cseq.number, place, answerer, max_bytes);
        }
    }
}

fn is_terminated(state: &[u8]) -> bool {
    state.eq_ignore_ascii_case(b"terminated")
}

/// Records the changes to a dialog by the response `answer`, which is forwarded upstream. The
/// answerer may have `moved` since its provisional response.
pub(crate) fn note_response<R: RawMutex>(
    tables: &Tables<R>,
    answer: &Answer<'_, '_>,
    moved: Option<Place>,
    env: &Env<'_>,
) {
    let Answer { message: response, said: DialogFields { call_id, from_tag, to_tag, cseq } } =
        *answer;
    let refreshes = is_target_refresh(cseq.method) || cseq.method == Method::Refer;
    let is_news = refreshes || cseq.method == Method::Bye;
    let is_success = response.status().is_some_and(|status| (200..300).contains(&status));
    if !is_success || !is_news || !env.settings.config.record_route {
        return;
    }
    if from_tag.is_empty() || to_tag.is_empty() {
        return;
    }
    let sender = DialogId { call_id, local_tag: from_tag, remote_tag: to_tag };
    if cseq.method == Method::Bye {
        return tables.dialogs.end(&sender);
    }
    let contact = response.elements(HeaderName::Contact).next();
    let answerer = |follows_flow| TargetHash::of_contact(&env.keys.token, contact, follows_flow);
    let max_bytes = env.settings.config.limits.max_dialog_bytes;
    tables.dialogs.confirm(&sender, cseq.number, answerer, env.now, max_bytes);
    if let Some(place) = moved {
        let answerer = dialogs::from_other_end(&sender);
        tables.dialogs.place(&answerer, place, max_bytes);
    }
}
