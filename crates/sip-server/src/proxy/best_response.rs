//! The order of final responses (RFC 3261 section 16.7 step 6).

/// True if the status `one` is better than `other` (RFC 3261 section 16.7 step 6): a 6xx first,
/// else the lowest class. Within 4xx the codes that ask for a changed request come first.
pub(super) fn is_better(one: u16, other: u16) -> bool {
    fn rank(status: u16) -> (u16, u16) {
        // A 430 says only that one flow has failed.
        let class = if status == 430 { 5 } else { status / 100 };
        let within = match status {
            401 | 407 | 415 | 420 | 484 => 0,
            // A timeout or a failed delivery says less than the response of a phone.
            408 | 430 | 503 => 2,
            _ => 1,
        };
        (if class == 6 { 0 } else { class }, within)
    }
    rank(one) < rank(other)
}
