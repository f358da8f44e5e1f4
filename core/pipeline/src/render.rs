//! Text to ids: chat template, stretches between generations, tokenizer; and ids back to bytes.
//!
//! Nothing here parses model output.

mod model;
mod python;
mod stretch;
mod template;
mod tokenizer;

pub use model::{Family, Markers, Model, ModelError, ModelFiles};
pub use stretch::PriorTail;
pub use tokenizer::{ControlText, Tokenizer};
