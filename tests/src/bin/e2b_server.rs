//! The E2B test server as a program: prints its URL, serves until its standard input ends.
//!
//! `e2b_server [--builtin-sleep] [--versions both|old|old-not-allowed|new] [--streams N]`

use std::io::Read as _;

use rollgate_tests::e2b::{E2bServer, Options, Versions};

fn main() {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--builtin-sleep" => options.builtin_sleep = true,
            "--streams" => options.streams = value().parse().expect("--streams is a number"),
            "--listen" => options.listen = value().parse().expect("--listen is HOST:PORT"),
            "--versions" => {
                options.versions = match value().as_str() {
                    "both" => Versions::Both,
                    "old" => Versions::Old,
                    "old-not-allowed" => Versions::OldNotAllowed,
                    "new" => Versions::New,
                    other => panic!("--versions {other}: both, old, old-not-allowed or new"),
                };
            }
            other => panic!("{other} is not known"),
        }
    }
    let server = E2bServer::start(options);
    println!("{}", server.url);
    // Whoever started it holds the other end: it ends with them, also when they are killed.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("standard input can be read");
    drop(server);
}
