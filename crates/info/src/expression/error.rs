//! What is wrong with an expression, where, and what to do.

use std::fmt;

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// What was found, or what was expected.
    pub message: String,
    /// Characters of the expression before it.
    pub position: usize,
    /// What to do about it.
    pub hint: Option<String>,
    /// The name that nothing has, where it is that: something may have it later.
    pub unknown: Option<String>,
}

impl ExpressionError {
    pub(crate) fn new(position: usize, message: impl Into<String>) -> Self {
        Self { message: message.into(), position, hint: None, unknown: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same, of a text that stands further to the right.
    pub(crate) fn moved(self, by: usize) -> Self {
        Self { position: self.position + by, ..self }
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at character {}: {}", self.position + 1, self.message)?;
        match &self.hint {
            Some(hint) => write!(out, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ExpressionError {}
