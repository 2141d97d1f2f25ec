//! The proxy's transactions and forks, message by message (RFC 3261 sections 16 and 17).

mod bench;
mod best_response;
mod cancel;
mod dialog;
mod fork;
mod limits;
mod locate;
mod retransmit;
mod services;
mod services_random;
mod stateless;
