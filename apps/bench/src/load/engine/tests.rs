//! The engine against a server that is played here.
