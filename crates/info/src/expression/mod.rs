//! The one language of conditions and columns: `load1 < 0.5*threads && mem_available > 8GiB && has(gpu)`.
//!
//! `lexer` makes words of text, `parser` a tree of words, `types` a typed term of the tree, with
//! attributes by number, and `evaluate` a value of a term and a node. Nothing that is wrong is
//! found later than in `types`: a term always has a value, if only an undefined one.

mod error;
mod evaluate;
mod lexer;
mod limits;
mod parser;
#[cfg(test)]
mod tests;
mod types;
mod units;

pub use error::ExpressionError;
pub use evaluate::Row;
pub(crate) use evaluate::age_s;
pub use limits::{BYTES_MAX, DEPTH_MAX, OPERATORS_MAX};
pub use types::Aggregate;

use std::sync::Arc;

use rakuda_core::Time;

use crate::registry::{AttributeId, Registry};
use crate::value::{Kind, Value};
use types::{Named, Term};

/// Why there is no value: none was ever reported.
const NEVER: &str = "nobody has said anything of it";
/// Why an expression has no value, where it is no single attribute's.
const PARTS: &str = "something in it is undefined, or a division by zero";

/// An expression, ready to be evaluated for nodes of tables with the registry that it was made
/// with, which may have grown.
#[derive(Debug, Clone)]
pub struct Expression {
    source: String,
    term: Term,
    attributes: Vec<AttributeId>,
    absent: Vec<Arc<str>>,
    is_of_node: bool,
    unit: String,
    aggregate: Option<Aggregate>,
}

impl Expression {
    /// Makes an expression that has a value for each node.
    pub fn new(source: &str, registry: &Registry) -> Result<Self, ExpressionError> {
        let tree = parser::parse(source)?;
        let term = types::resolve(&tree, registry)?;
        Ok(Self::of(source, term, None, units::unit(&tree, registry)))
    }

    /// Makes a condition, which is true or false for each node.
    pub fn condition(source: &str, registry: &Registry) -> Result<Self, ExpressionError> {
        let expression = Self::new(source, registry)?;
        match expression.term {
            Term::Truth(_) => Ok(expression),
            Term::Number(_) | Term::Text(_) => Err(ExpressionError::new(
                0,
                format!("it is {}, and is neither true nor false", expression.term.noun()),
            )
            .hint("compare it with something: load1 < 2")),
        }
    }

    /// The conditions of which all must be true for this one to be, in its order.
    pub fn clauses(source: &str, registry: &Registry) -> Result<Vec<Self>, ExpressionError> {
        Self::condition(source, registry)?;
        lexer::clauses(source)?.iter().map(|clause| Self::condition(clause, registry)).collect()
    }

    /// Makes an expression that has a number for each node; a condition counts as 1 or 0.
    pub fn weight(source: &str, registry: &Registry) -> Result<Self, ExpressionError> {
        let expression = Self::new(source, registry)?;
        match expression.term {
            Term::Number(_) | Term::Truth(_) => Ok(expression),
            Term::Text(_) => {
                Err(ExpressionError::new(0, "it is a text, by which nodes cannot be ranked").hint(
                    "the higher a number the better: -load1, mem_available, arch == 'x86_64'",
                ))
            }
        }
    }

    /// The number of a [`Expression::weight`]; `None` if it is undefined.
    pub fn number(&self, row: &Row<'_>) -> Option<f64> {
        match &self.term {
            Term::Number(number) => Some(number.evaluate(row)).filter(|number| !number.is_nan()),
            Term::Truth(truth) => truth.evaluate(row).map(|truth| f64::from(u8::from(truth))),
            Term::Text(_) => None,
        }
    }

    /// Whether it asks for an attribute that nothing has so far, and may have later.
    pub fn awaits(&self) -> bool {
        matches!(&self.term, Term::Truth(truth) if truth.awaits())
    }

    /// Whether it is false: not true, and not undefined.
    pub fn is_false(&self, row: &Row<'_>) -> bool {
        match &self.term {
            Term::Truth(truth) => truth.evaluate(row) == Some(false),
            Term::Number(_) | Term::Text(_) => false,
        }
    }

    /// Whether it is the same for all nodes at all times.
    pub fn is_constant(&self) -> bool {
        self.attributes.is_empty() && self.absent.is_empty() && !self.is_of_node
    }

    /// Makes an expression that has a value for each group of nodes: `count()`, `sum(a)`, or one whose value all nodes
    /// of a group have.
    pub fn of_group(source: &str, registry: &Registry) -> Result<Self, ExpressionError> {
        let tree = parser::parse(source)?;
        let Some((aggregate, term)) = types::aggregate(&tree, registry)? else {
            let term = types::resolve(&tree, registry)?;
            return Ok(Self::of(source, term, None, units::unit(&tree, registry)));
        };
        Ok(Self::of(source, term, Some(aggregate), units::of_argument(&tree, registry)))
    }

    fn of(source: &str, term: Term, aggregate: Option<Aggregate>, unit: Option<String>) -> Self {
        let mut named = Named::default();
        term.named(&mut named);
        let Named { mut attributes, absent, is_of_node } = named;
        attributes.sort_unstable();
        attributes.dedup();
        let unit = unit.unwrap_or_default();
        Self {
            source: source.trim().to_owned(),
            term,
            attributes,
            absent,
            is_of_node,
            unit,
            aggregate,
        }
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The unit of its values, as far as it is known; else empty.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The attributes that it needs, by number.
    pub fn attributes(&self) -> &[AttributeId] {
        &self.attributes
    }

    /// Names in it that nothing has so far: instances of families, and whatever `has` asks for.
    pub fn absent(&self) -> &[Arc<str>] {
        &self.absent
    }

    /// How values of a group are put together.
    pub fn aggregate(&self) -> Option<Aggregate> {
        self.aggregate
    }

    /// The kind of its values; a truth is a text, `true` or `false`.
    pub fn kind(&self) -> Kind {
        match self.term {
            Term::Number(_) => Kind::Number,
            Term::Text(_) | Term::Truth(_) => Kind::Text,
        }
    }

    /// Whether a condition is true; undefined is not.
    pub fn is_true(&self, row: &Row<'_>) -> bool {
        match &self.term {
            Term::Truth(truth) => truth.evaluate(row) == Some(true),
            Term::Number(_) | Term::Text(_) => false,
        }
    }

    /// Its value for a node.
    pub fn value(&self, row: &Row<'_>) -> Value {
        if let Some(id) = self.term.only_attribute() {
            let cell = row.table.cell(row.node, id);
            return cell.map_or_else(|| Value::undefined(NEVER), |cell| cell.value);
        }
        match &self.term {
            Term::Number(number) => {
                let number = number.evaluate(row);
                if number.is_nan() { self.undefined(row) } else { Value::Number(number) }
            }
            Term::Text(text) => text.evaluate(row).map_or_else(|| self.undefined(row), Value::text),
            Term::Truth(truth) => match truth.evaluate(row) {
                Some(true) => Value::text("true"),
                Some(false) => Value::text("false"),
                None => self.undefined(row),
            },
        }
    }

    /// Why there is no value, as far as it is known.
    fn undefined(&self, row: &Row<'_>) -> Value {
        let registry = row.table.registry();
        let Some(absent) = self.absent.iter().find(|name| registry.find(name).is_none()) else {
            return Value::undefined(PARTS);
        };
        let watched = if crate::catalogue::folder_of(absent).is_some() {
            "; --file-system has a folder watched"
        } else {
            ""
        };
        Value::undefined(format!("no node has said anything of {absent}{watched}"))
    }

    /// When the oldest value that it rests on was sampled. `None`: it rests on no sample.
    pub fn sampled(&self, row: &Row<'_>) -> Option<Time> {
        self.attributes.iter().filter_map(|id| row.table.sampled(row.node, *id)).min()
    }
}

/// A list of expressions with commas between them, cut at these; with the place of each.
pub fn split_list(list: &str) -> Result<Vec<(usize, String)>, ExpressionError> {
    lexer::split(list)
}

/// Whatever expressions can say of a unit: how many bytes, seconds or bytes per second it is.
pub(crate) fn base_unit(unit: &str) -> Option<(f64, &'static str)> {
    lexer::base_unit(unit)
}

/// A time such as `100ms`, `5s` or `0`, ns. `None`: it is none.
#[expect(clippy::cast_sign_loss, reason = "times of the lexer have no sign")]
pub fn duration_ns(text: &str) -> Option<u64> {
    let seconds = lexer::time_s(text)?;
    let ns = (seconds * 1e9).round();
    (ns < 1e19).then_some(ns as u64)
}
