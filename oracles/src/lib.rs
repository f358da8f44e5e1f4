//! Nothing to serve with: the tests of this crate hold our parsers of model output against public
//! ones. Nothing may depend on it, so that what it pulls in ships nowhere.
