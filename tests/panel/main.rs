//! The panel of the real server: by HTTP, by its API, and in a browser.

mod api;
mod attacks;
mod browser;
mod openapi;
mod own;
mod phones;
mod rig;
