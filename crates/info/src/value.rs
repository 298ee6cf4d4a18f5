//! A value of an attribute: a number, a text, or undefined with a reason. It knows no attribute and no time.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Maximum bytes of all texts of a node together (the largest entry of the 2005 paper's experiment).
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// What an attribute's values are; never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A double.
    Number,
    /// UTF-8.
    Text,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Number => "a number",
            Self::Text => "a text",
        })
    }
}

/// Why there is no value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Why {
    text: Arc<str>,
    /// No value of that kind will come again, so that the attribute may become something else.
    is_free: bool,
}

impl Why {
    /// The reason in words.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Whether the attribute is not bound to its kind and unit by this.
    pub fn is_free(&self) -> bool {
        self.is_free
    }
}

impl Deref for Why {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.text)
    }
}

/// What is known of an attribute at one time.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Always finite.
    Number(f64),
    /// UTF-8 of at most [`TEXT_BYTES_MAX`].
    Text(Arc<str>),
    /// Not known, and why.
    Undefined(Why),
}

impl Value {
    /// A number; one that is not finite is undefined.
    pub fn number(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::undefined("it is not finite") }
    }

    /// A number of bytes, seconds or the like.
    #[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 need not be exact")]
    pub fn count(count: u64) -> Self {
        Self::Number(count as f64)
    }

    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// No value, for a reason.
    pub fn undefined(why: impl Into<Arc<str>>) -> Self {
        Self::Undefined(Why { text: why.into(), is_free: false })
    }

    /// No value, for a reason for which there will be none again.
    pub fn free(why: impl Into<Arc<str>>) -> Self {
        Self::Undefined(Why { text: why.into(), is_free: true })
    }

    /// The kind of the value. `None`: undefined, which fits each kind.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Number(_) => Some(Kind::Number),
            Self::Text(_) => Some(Kind::Text),
            Self::Undefined(_) => None,
        }
    }
}
