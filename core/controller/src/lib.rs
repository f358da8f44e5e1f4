//! The control path: tasks to attempts to samples.
