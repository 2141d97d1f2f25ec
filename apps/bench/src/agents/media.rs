//! Calls with media on several machines.

use super::controller::Fleet;
use super::error::AgentError;
use super::protocol::{Order, Reply};
use crate::meters::Meters;
use crate::record::Headroom;
use crate::voice::{Found, Plan};
use sip::Duration;

impl Fleet {
    /// Returns the shares of the agents.
    fn shares(&self, plan: &Plan) -> Result<Vec<Plan>, AgentError> {
        let agents = self.count();
        let users = plan.users.len() * 2;
        match plan.users.len() < agents || plan.calls < agents as u64 {
            true => Err(AgentError::Users { users, agents }),
            false => Ok((0..agents).map(|index| plan.share(index, agents)).collect()),
        }
    }

    /// Sends an order to each agent, and passes each reply to `each`, which returns false for an
    /// unexpected one.
    fn ask_each(
        &self,
        orders: impl Iterator<Item = Order>,
        each: &mut impl FnMut(Reply) -> bool,
    ) -> Result<(), AgentError> {
        for (agent, order) in orders.enumerate() {
            self.send(agent, &order)?;
        }
        self.hear_each(each)
    }

    /// Passes a reply of each agent to `each`.
    fn hear_each(&self, each: &mut impl FnMut(Reply) -> bool) -> Result<(), AgentError> {
        for (agent, reply) in self.replies(None)?.into_iter().enumerate() {
            if !each(reply) {
                return Err(self.unexpected(agent));
            }
        }
        Ok(())
    }

    /// Measures the streams that the machines carry between their own ends, all at the same time.
    /// The calls are the sum, the other figures those of the worst machine.
    ///
    /// # Errors
    /// [`AgentError`] if an agent fails.
    pub(crate) fn media_headroom(&self, plan: &Plan) -> Result<Headroom, AgentError> {
        let shares = self.shares(plan)?.into_iter();
        let mut all = Headroom { is_enough: true, ..Headroom::default() };
        let orders = shares.map(|share| Order::Headroom(Box::new(share)));
        self.ask_each(orders, &mut |reply| {
            let Reply::Headroom(one) = reply else { return false };
            all.calls += one.calls;
            all.delta_p99_us = all.delta_p99_us.max(one.delta_p99_us);
            all.loss = all.loss.max(one.loss);
            all.busy = all.busy.max(one.busy);
            all.is_enough &= one.is_enough;
            true
        })?;
        Ok(all)
    }

    /// Runs a load of calls with media on all machines. `meters` observe the server meanwhile.
    ///
    /// # Errors
    /// [`AgentError`] if an agent fails.
    pub(crate) fn media(&self, plan: &Plan, meters: &mut impl Meters) -> Result<Found, AgentError> {
        let shares = self.shares(plan)?.into_iter();
        let orders = shares.map(|share| Order::Media(Box::new(share)));
        self.ask_each(orders, &mut |reply| matches!(reply, Reply::Opened { .. }))?;
        meters.begin();
        let start = self.begin_with(Order::Begin)?;
        let measured = start + std::time::Duration::from(plan.warmup);
        meters.measured(Duration::ZERO, measured, plan.duration);
        let mut all = Found::default();
        self.hear_each(&mut |reply| {
            let Reply::Media(found) = reply else { return false };
            all.merge(*found);
            true
        })?;
        meters.end();
        Ok(all)
    }
}
