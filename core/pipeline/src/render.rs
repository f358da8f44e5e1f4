//! Text to ids: chat template, stretches between generations, tokenizer; and ids back to bytes.
//!
//! Nothing here parses model output.

mod bridges;
mod class;
mod control;
mod conversation;
mod corpus;
mod draft;
mod family;
mod fast;
mod files;
mod harmony;
mod heads;
mod model;
#[cfg(any(test, feature = "oracle"))]
mod oracle;
mod probe;
mod python;
mod reads;
mod ready;
mod renderer;
mod report;
#[cfg(any(test, feature = "testing"))]
pub mod sample_model;
mod stretch;
mod strftime;
mod template;
#[cfg(test)]
mod tests;
mod tokenizer;
mod turn_end;
mod value;
mod vocabulary;
mod whole;

pub use bridges::{Compared, check_bridges};
pub use class::{Counterexample, TemplateClass};
pub use corpus::check_against;
pub use draft::{Draft, HeadUse};
pub use family::{Family, Markers};
pub use fast::FastTokenizer;
pub use heads::Heads;
pub use model::{Model, ModelError, ModelFiles};
#[cfg(any(test, feature = "oracle"))]
pub use oracle::OracleTokenizer;
pub use report::{Marker, ProbeReport};
pub use stretch::{PriorTail, Stretch};
pub use tokenizer::{ControlText, Tokenizer};
