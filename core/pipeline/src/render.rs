//! Text to ids: chat template, stretches between generations, tokenizer; and ids back to bytes.
//!
//! Nothing here parses model output.

mod control;
mod conversation;
mod corpus;
mod fast;
mod files;
mod model;
#[cfg(any(test, feature = "oracle"))]
mod oracle;
mod probe;
mod python;
#[cfg(any(test, feature = "testing"))]
pub mod sample_model;
mod stretch;
mod strftime;
mod template;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocabulary;

pub use corpus::check_against;
pub use fast::FastTokenizer;
pub use model::{Family, Markers, Model, ModelError, ModelFiles, TemplateClass};
#[cfg(any(test, feature = "oracle"))]
pub use oracle::OracleTokenizer;
pub use stretch::PriorTail;
pub use tokenizer::{ControlText, Tokenizer};
