//! The look-ups between the stages of calls with call services.

use super::registered::keep_as_many_as_may_be;
use super::services::House;
use super::tables::Tables;
use crate::core::event::Env;
use crate::core::output::{Event, Meeting};
use crate::core::shared::Shared;
use alloc::vec::Vec;
use lock_api::RawMutex;

/// Connects calls that are picked up to their new party, and starts the next stage of calls after
/// the end of a stage. No lock is held while users are looked up.
pub(crate) fn continue_calls<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    env: &mut Env<'_>,
) {
    while let Some(Meeting { transaction, name, user }) = env.out.meetings.pop() {
        tables.transactions.with_handle(transaction, env, |context, env| {
            context.meet(&name, user, env);
        });
    }
    while let Some(handle) = env.out.ended_stages.pop() {
        let ended =
            tables.transactions.with_handle(handle, env, |context, env| context.take_led(env));
        let Some(mut led) = ended.flatten() else { continue };
        let party = led.party(shared, env);
        let mut house = House {
            shared,
            env,
            is_for_sips: led.is_for_sips,
            flow: led.flow,
            from: &led.from,
            party,
            notices: Vec::new(),
        };
        let mut stage = led.itinerary.lead(&mut house, env.counters);
        let notices = house.notices;
        env.out.events.extend(notices.into_iter().map(Event::Notice));
        keep_as_many_as_may_be(&mut stage.targets, env);
        tables.transactions.with_handle(handle, env, |context, env| {
            context.begin_stage(led.itinerary, stage, env);
        });
    }
}
