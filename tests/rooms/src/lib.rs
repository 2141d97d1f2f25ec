//! Finds circles of imports: files of a crate that import each other, and folders that do.
//!
//! The source is read as text, so that the check needs no build. Tests are not read.

mod circle;
mod source;
mod tree;

pub use circle::circles;
pub use tree::Tree;
