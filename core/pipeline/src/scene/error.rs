//! What is wrong with scene rules.

/// Why scene rules cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SceneError {
    /// A pattern does not compile.
    #[error(
        "scene rule {name:?}: `{key}` is not a regular expression ({reason}): mend it (the syntax \
         is that of Rust's regex crate: no look-around, no back-references) or remove the rule"
    )]
    Pattern {
        /// The rule.
        name: String,
        /// The condition.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two conditions exclude one another.
    #[error(
        "scene rule {name:?}: `{key}` and its counterpart cannot both hold, so the rule never does: \
         mend one of them or remove the rule"
    )]
    Never {
        /// The rule.
        name: String,
        /// One of the two conditions.
        key: &'static str,
    },
    /// Two rules of one list have one name, or one has none.
    #[error("scene rule {name:?} stands twice in one list, or is nameless: name each differently")]
    Name {
        /// The name.
        name: String,
    },
    /// There is no such rule.
    #[error(
        "scene rule {name:?} is switched off, but there is no rule of that name; there are: {known}"
    )]
    Unknown {
        /// The name.
        name: String,
        /// Names there are.
        known: String,
    },
    /// A file in the binary is damaged.
    #[error("the shipped scene rules cannot be read: {0}")]
    Shipped(String),
}

impl SceneError {
    /// The condition at fault, where it is one's.
    pub fn key(&self) -> Option<&str> {
        match self {
            SceneError::Pattern { key, .. } => Some(key),
            SceneError::Never { key, .. } => Some(key),
            SceneError::Name { .. } => Some("name"),
            SceneError::Unknown { .. } | SceneError::Shipped(_) => None,
        }
    }
}
