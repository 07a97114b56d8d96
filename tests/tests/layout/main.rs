//! The layout of the repository: which crate may use which, what commits, what a statement looks
//! like, and the rules for documents and language.

mod crates;
mod documents;
mod faults;
mod language;
mod order;
mod packages;
mod sources;
mod statements;
mod writers;
