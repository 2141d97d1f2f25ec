//! The pages, as functions of their data.

pub(crate) mod access;
pub(crate) mod backup;
pub(crate) mod calls;
pub(crate) mod frame;
pub(crate) mod import;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod own;
pub(crate) mod parts;
pub(crate) mod phones;
pub(crate) mod system;
pub(crate) mod traces;
pub(crate) mod trunks;
pub(crate) mod users;
