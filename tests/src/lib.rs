//! What the tests of promises share.
