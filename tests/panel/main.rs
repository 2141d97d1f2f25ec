//! The panel of the real server: by HTTP, by its API, and in a browser.

mod api;
mod attacks;
mod backup;
mod browser;
mod browser_user;
mod openapi;
mod own;
mod page;
mod phones;
mod rig;
