//! Exercises each protocol crate and the engine with only `core` and `alloc`.
//!
//! The program `freestanding` does so without `std` and without a C library:
//!
//! ```sh
//! cargo run -p barebell-no-std --profile no-std --features freestanding
//! ```
//!
//! If a dependency links `std`, the build fails with "duplicate lang item `panic_impl`"; if one
//! calls the C library, with an undefined symbol.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod agent;
mod control;
mod lock;
mod media;
mod signalling;
mod sound;

/// Exercises every crate, and returns the name of the first that fails.
///
/// # Errors
/// The name of the crate.
pub fn run() -> Result<(), &'static str> {
    signalling::answer_by_hand().ok_or("sip")?;
    signalling::answer_by_engine().ok_or("sip-server")?;
    agent::place_a_call().ok_or("sip-ua")?;
    agent::place_with_media().ok_or("call")?;
    media::negotiate().ok_or("sdp")?;
    media::receive().ok_or("rtp")?;
    media::protect().ok_or("srtp")?;
    media::ask().ok_or("stun")?;
    media::check().ok_or("ice")?;
    media::agree().ok_or("zrtp")?;
    control::answer().ok_or("ng")?;
    users().ok_or("users")?;
    route().ok_or("numbers")?;
    media::call().ok_or("media")?;
    sound::speak().ok_or("codec")?;
    sound::offer().ok_or("negotiation")
}

/// Routes an emergency call.
fn route() -> Option<()> {
    let trunks = [alloc::string::String::from("isp")].into();
    let plan = numbers::Plan::new(&numbers::PlanConfig { trunks, ..Default::default() }).ok()?;
    let caller = numbers::Caller::User("alice@a.com");
    let query = numbers::Query { dialed: b"112", caller, unavailable: &|_| false };
    matches!(plan.route(&query).outcome, numbers::Outcome::Trunks(_)).then_some(())
}

/// Reads a file of users.
fn users() -> Option<()> {
    let (mut reader, mut found) = (users::Reader::new("a.com", "a.com"), None);
    reader.read(b"alice<4711>:secret\n", &mut |_, line| {
        found = line.ok().map(|line| line.name == "alice");
    });
    found?.then_some(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_crate_works() {
        assert_eq!(super::run(), Ok(()));
    }
}
