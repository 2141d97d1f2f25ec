//! The look-ups between the stages of calls with call services.

use super::registered::keep_as_many_as_may_be;
use super::services::{House, Stages};
use super::tables::Tables;
use crate::core::event::Env;
use crate::core::shared::Shared;
use lock_api::RawMutex;

/// Leads on the calls after the end of a stage. No lock is held while users are looked up.
pub(crate) fn continue_calls<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    env: &mut Env<'_>,
) {
    while let Some(handle) = env.out.ended_stages.pop() {
        let ended = tables.transactions.with_handle(handle, env, |context, _| {
            context.stages_mut().and_then(Stages::take_itinerary)
        });
        let Some((mut itinerary, is_for_sips, flow)) = ended.flatten() else { continue };
        let mut house = House { shared, env, is_for_sips, flow };
        let mut stage = itinerary.lead(&mut house, env.counters);
        keep_as_many_as_may_be(&mut stage.targets, env);
        tables.transactions.with_handle(handle, env, |context, env| {
            context.begin_stage(itinerary, stage, env);
        });
    }
}
