//! Requests and replies of the dialect, text in, text out.
