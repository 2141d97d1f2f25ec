//! The panel of the real server: by HTTP, by its API, and in a browser.

mod api;
mod attacks;
mod backup;
mod browser;
mod openapi;
mod own;
mod phones;
mod rig;
