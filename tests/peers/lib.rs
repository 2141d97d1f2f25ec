//! Drivers of the programs that the tests start.

pub mod bare_phone;
pub mod barebell_phone;
pub mod baresip;
pub mod browser;
pub mod call;
pub mod devtools;
pub mod folder;
pub mod image;
pub mod kamailio;
pub mod linphone;
pub mod nat;
pub mod pair;
pub mod pebble;
pub mod phone;
pub mod process;
pub mod pulse;
pub mod resources;
pub mod server;
pub mod sipp;
pub mod stun;
pub mod test_server;
pub mod tone;
pub mod trace;
pub mod transport;
pub mod turn;
pub mod twinkle;
