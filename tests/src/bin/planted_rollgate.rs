//! The program with bugs in it that `ROLLGATE_PLANTED` switches on, so that tests can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    rollgate::main()
}
