//! NOTIFY: its contents, its pace, and its responses (RFC 6665 section 4.2.2).

use crate::dialog_info::{self, Document};
use crate::notifier::{Key, Notifier};
use crate::subscribe::USER;
use crate::subscription::{Package, Reason, Sent};
use crate::summary::{self, Messages};
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::header::{CSeq, retry_after};
use sip::{Duration, Encode, Flow, HeaderName, Instant, Message, Method};
use sip_ua::Token;

/// The longest pause that a subscriber can ask for with Retry-After.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The state of a subscription, as its NOTIFY names it.
enum Standing {
    Active { expires: Duration },
    Terminated(Reason),
}

impl Encode for Standing {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Active { expires } => ("active;expires=", expires.as_secs()).encode(out),
            Self::Terminated(reason) => ("terminated;reason=", reason.params()).encode(out),
        }
    }
}

impl Notifier {
    /// Tells a change of `package` to the subscribers of `user`. Returns false without a
    /// subscriber.
    pub(crate) fn tell(&mut self, user: &str, package: Package, now: Instant) -> bool {
        let keys = self.users.get(user).map(|user| user.subscriptions.clone()).unwrap_or_default();
        let mut is_told = false;
        for key in keys {
            let Some(subscription) = self.subscriptions.get_mut(&key) else { continue };
            if subscription.package == package {
                is_told = true;
                subscription.is_due = true;
                self.notify_if_due(key, now);
            }
        }
        is_told
    }

    /// Sends a NOTIFY if a change is not told, and the last NOTIFY is answered and its interval
    /// over. Otherwise it follows by a timer.
    pub(crate) fn notify_if_due(&mut self, key: Key, now: Instant) {
        if let Some(subscription) = self.subscriptions.get_mut(&key)
            && subscription.is_due
            && subscription.sent.is_none()
            && subscription.next <= now
        {
            subscription.is_due = false;
            subscription.next = now + self.config.interval;
            let expires = subscription.expires.since(now);
            let branch = self.notify(key, &Standing::Active { expires });
            let sent =
                branch.map(|Token(branch)| Sent { branch, until: now + self.config.patience });
            if let Some(subscription) = self.subscriptions.get_mut(&key) {
                subscription.sent = sent;
            }
            self.branches.extend(sent.map(|sent| (sent.branch, key)));
        }
        self.settle(key);
    }

    /// Ends a subscription with a NOTIFY.
    pub(crate) fn end(&mut self, key: Key, reason: Reason, now: Instant) {
        if let Some(subscription) = self.subscriptions.get_mut(&key) {
            subscription.expires = now;
        }
        self.notify(key, &Standing::Terminated(reason));
        self.remove(key);
    }

    /// Writes and sends a NOTIFY with the present state. Returns its branch.
    fn notify(&mut self, key: Key, standing: &Standing) -> Option<Token> {
        let branch = self.tokens.next();
        let subscription = self.subscriptions.get_mut(&key)?;
        let user = self.users.get(&*subscription.user)?;
        let (body_type, body) = match subscription.package {
            Package::MessageSummary => (summary::TYPE, user.messages.unwrap_or_default().summary()),
            Package::Dialog => {
                let calls = &user.calls;
                let mut ended = core::mem::take(&mut subscription.told);
                ended.retain(|id| calls.iter().all(|call| call.id != *id));
                subscription.told = calls.iter().map(|call| call.id).collect();
                let document = Document {
                    user: &subscription.user,
                    version: subscription.version,
                    calls,
                    ended: &ended,
                    is_detailed: subscription.is_detailed,
                };
                subscription.version += 1;
                (dialog_info::TYPE, document.write())
            }
        };
        let flow = subscription.flow;
        let cseq = subscription.dialog.next_cseq();
        let via = sip_ua::via(&flow, branch);
        let mut out = Vec::new();
        subscription
            .dialog
            .request(Method::Notify, cseq, via, &mut out)
            .field(HeaderName::Contact, sip_ua::contact(USER.as_bytes(), &flow, b"sip:"))
            .field(HeaderName::Event, &subscription.event)
            .field(HeaderName::SubscriptionState, standing)
            .body(body_type, &body);
        self.counters.notified += 1;
        self.send(flow, out);
        Some(branch)
    }

    /// Processes the response to a NOTIFY. A subscriber that refuses one has no subscription.
    pub(crate) fn on_response(&mut self, response: &Message<'_>, now: Instant) {
        let status = response.status().unwrap_or_default();
        let cseq = response.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
        let via = response.top_via().ok();
        let branch = via.as_ref().and_then(|via| via.branch()?.strip_prefix(b"z9hG4bK"));
        let Some(Token(branch)) = branch.and_then(Token::parse) else { return };
        let is_notify = cseq.is_some_and(|cseq| cseq.method == Method::Notify);
        if status < 200 || !is_notify {
            return;
        }
        let Some(key) = self.branches.remove(&branch) else { return };
        let Some(subscription) = self.subscriptions.get_mut(&key) else { return };
        subscription.sent = None;
        if status < 300 {
            return self.notify_if_due(key, now);
        }
        let pause = response.value(HeaderName::RetryAfter).and_then(|it| retry_after(it).ok());
        match pause {
            Some(pause) => {
                subscription.is_due = true;
                subscription.next = now + pause.delay.min(LONGEST_PAUSE);
                self.settle(key);
            }
            None => {
                self.counters.lost += 1;
                self.remove(key);
            }
        }
    }

    /// Sends the message counts to `user`, which has no subscription. The response has no effect.
    pub(crate) fn notify_unasked(&mut self, user: &str, messages: Messages, flow: &Flow) {
        let uri = dialog_info::uri_of(user);
        let (call_id, tag, branch) = (self.tokens.next(), self.tokens.next(), self.tokens.next());
        let address = ("<", &uri, ">");
        let mut dialog = Dialog::new(call_id, address, tag, address, &uri);
        let cseq = dialog.next_cseq();
        let mut out = Vec::new();
        dialog
            .request(Method::Notify, cseq, sip_ua::via(flow, branch), &mut out)
            .field(HeaderName::Contact, sip_ua::contact(USER.as_bytes(), flow, b"sip:"))
            .field(HeaderName::Event, "message-summary")
            .field(HeaderName::SubscriptionState, Standing::Terminated(Reason::NoResource))
            .body(summary::TYPE, &messages.summary());
        self.counters.notified += 1;
        self.send(*flow, out);
    }
}
