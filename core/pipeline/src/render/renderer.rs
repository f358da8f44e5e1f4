//! What writes a conversation as text: the model's chat template, or code where the format is one
//! that no template can hold.

use super::control::Guard;
use super::conversation::{self, Constants, Conversation};
use super::harmony;
use super::template::Template;
use crate::fault::Fault;

/// Writes conversations.
pub(super) enum Renderer {
    /// The template of the model's files.
    Template(Box<Template>),
    /// The format of gpt-oss.
    Harmony,
}

impl Renderer {
    /// One that writes the same and shares nothing with this one. The error is the reason alone.
    pub fn separate(&self) -> Result<Self, String> {
        Ok(match self {
            Renderer::Template(template) => {
                Renderer::Template(Box::new(Template::compile(template.source())?))
            }
            Renderer::Harmony => Renderer::Harmony,
        })
    }

    /// The text of a conversation. All text from outside passes the guard.
    pub fn render(
        &self,
        constants: &Constants,
        conversation: &Conversation<'_>,
        guard: &Guard<'_>,
    ) -> Result<String, Fault> {
        match self {
            Renderer::Template(template) => {
                template.render(&conversation::variables(constants, conversation, guard))
            }
            Renderer::Harmony => harmony::render(conversation, guard),
        }
    }
}
