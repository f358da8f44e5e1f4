//! The runtime as shards see it: sockets, files, time and tasks, by names of our own, so that
//! something else can stand in monoio's place.

pub(crate) use monoio::{buf, fs, io, net, spawn, time};
