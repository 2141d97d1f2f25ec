//! The panel of a server: web pages for its administrators, the same by an HTTP API, and a page for
//! each user.
//!
//! A [`Panel`] answers one [`Request`] at a time. It has neither sockets nor a clock: the owner
//! passes parsed requests with the time of day, and a source of random bytes. The state of the
//! server comes from a [`Server`], the accounts from a [`PanelData`](store::PanelData).

mod acts;
mod api;
mod audit;
mod clients;
mod form;
mod http;
mod links;
mod multipart;
mod own;
mod pages;
mod panel;
mod password;
mod pending;
mod provision;
mod role;
mod rows;
mod second_factor;
mod server;
mod sessions;
mod shows;
mod templates;
mod texts;
mod tokens;
mod totp;
mod uploads;

pub use form::{encoded, query};
pub use http::{Method, Reply, Request};
pub use panel::{Config, Panel, Random, is_account_name};
pub use password::{is_password_hash, password_hash};
pub use role::Role;
pub use server::{Login, Mark, Question, RecordFilter, Server};
pub use tokens::{NewToken, new_token};
pub use uploads::MAX_CONTENT;
