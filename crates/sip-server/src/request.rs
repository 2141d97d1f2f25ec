//! The processing of a received request: its checks, and its dispatch to its transaction, to the
//! registrar or to the proxy.

use crate::core::config::State;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::{Incoming, reply};
use crate::core::settings::Trust;
use crate::core::source::Account;
use crate::core::timings::{Step, timed};
use crate::gate::{self, Admitted, ShutOut};
use crate::proxy::{self, is_served, preprocess};
use crate::registrar;
use crate::server::Server;
use lock_api::RawMutex;
use sip::header::NameAddr;
use sip::{HeaderName, Message, Method, Status, Uri};

pub(crate) fn on_request<R: RawMutex>(
    server: &Server<R>,
    message: &Message<'_>,
    flow: &Flow,
    env: &mut Env<'_>,
) {
    let trust = env.settings.trust(flow);
    let Admitted { account, returns } = match trust {
        // The party of the internal flow was admitted when its own request came.
        _ if flow.is_internal() => Admitted { account: Account::of(flow), returns: None },
        Trust::Trusted => Admitted { account: Account::of(flow), returns: None },
        Trust::Stranger => match gate::admit(&server.shared, message, flow, env) {
            Ok(admitted) => admitted,
            Err(ShutOut::Banned) => return env.counters.banned_requests.add(),
            Err(ShutOut::TooMany) => return env.counters.rate_limited.add(),
        },
    };
    if acknowledges_refusal(message, env) {
        let key = server.proxy.transactions.key_of(message);
        server.proxy.transactions.with_key(key, env, |context, env| context.on_ack(env));
        return;
    }
    let watch = env.stopwatch;
    let head = match timed(watch, Step::ParseHeaders, || message.validate_request()) {
        Ok(head) => head,
        Err(fault) => {
            env.counters.malformed_requests.add();
            if message.method() != Some(Method::Ack) {
                let reason = alloc::format!("{fault}");
                reply(message, flow, Status(fault.status()).with_reason(&reason), env, |_, _| {});
            }
            return;
        }
    };
    let mut incoming =
        Incoming { message, head: &head, flow: *flow, trust, account, returns, key: None };
    let found = preprocess(message, &head, flow, env);
    let registers = match (&found.uri, head.method) {
        // Behind a port translation phones send to the external port.
        (Uri::Sip(uri), Method::Register) if is_served(uri, env.settings) => {
            !flow.is_internal() && env.settings.domain_of(&uri.host).is_some()
        }
        _ => false,
    };
    if registers {
        // A REGISTER is answered without a transaction.
        return registrar::on_register(&server.shared, &incoming, env);
    }
    if env.settings.config.state == State::Stateful {
        let key = server.proxy.transactions.key_of(message);
        if proxy::meets_transaction(&server.proxy, &incoming, key, env) {
            return;
        }
        incoming.key = Some(key);
    }
    proxy::on_request(&server.shared, &server.proxy, &incoming, &found, env);
}

/// True if `request` is an ACK for a response that this server generated. It ends here, whatever
/// else it contains.
fn acknowledges_refusal(request: &Message<'_>, env: &Env<'_>) -> bool {
    if request.method() != Some(Method::Ack) {
        return false;
    }
    let to = request.value(HeaderName::To).and_then(|to| NameAddr::parse(HeaderName::To, to).ok());
    let tag = to.and_then(|to| <[u8; 16]>::try_from(to.tag()?).ok());
    // Tags of another length need no hash.
    tag.is_some_and(|tag| tag == env.to_tag(request))
}
