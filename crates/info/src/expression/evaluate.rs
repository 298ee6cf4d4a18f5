//! A term and a node to a value. Undefined is NaN for numbers, `None` for texts and truths.

use rakuda_core::Time;

use super::types::{Arithmetic, Number, Order, Text, Truth};
use crate::table::{NodeId, Table};

/// What an expression is evaluated for.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The table with the values.
    pub table: &'a Table,
    /// The node.
    pub node: NodeId,
    /// The present time, for ages.
    pub now: Time,
}

/// What is not finite is not defined.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { f64::NAN }
}

impl Number {
    pub fn evaluate(&self, row: &Row<'_>) -> f64 {
        match self {
            Self::Constant(number) => *number,
            Self::Attribute(id) => row.table.number(row.node, *id),
            Self::Nothing(_) => f64::NAN,
            Self::Age(id) => {
                let sampled = row.table.sampled(row.node, *id);
                sampled.map_or(f64::NAN, |sampled| age_s(sampled, row.now))
            }
            Self::Negative(number) => -number.evaluate(row),
            Self::Two(arithmetic, left, right) => {
                let (left, right) = (left.evaluate(row), right.evaluate(row));
                finite(match arithmetic {
                    Arithmetic::Add => left + right,
                    Arithmetic::Subtract => left - right,
                    Arithmetic::Multiply => left * right,
                    Arithmetic::Divide => left / right,
                    Arithmetic::Remainder => left % right,
                })
            }
            Self::Least(numbers) => chosen(numbers, row, |new, best| new < best),
            Self::Greatest(numbers) => chosen(numbers, row, |new, best| new > best),
            Self::Absolute(number) => number.evaluate(row).abs(),
            Self::Floor(number) => number.evaluate(row).floor(),
            Self::Ceiling(number) => number.evaluate(row).ceil(),
        }
    }
}

/// The least or greatest; not defined when one of them is not.
fn chosen(numbers: &[Number], row: &Row<'_>, is_better: fn(f64, f64) -> bool) -> f64 {
    let mut values = numbers.iter().map(|number| number.evaluate(row));
    let first = values.next().unwrap_or(f64::NAN);
    values.fold(first, |best, new| {
        if best.is_nan() || new.is_nan() {
            f64::NAN
        } else if is_better(new, best) {
            new
        } else {
            best
        }
    })
}

/// Seconds from a sample to now; 0 for one that is to come.
#[expect(clippy::cast_precision_loss, reason = "ages need not be exact beyond 2^53 ns")]
pub(crate) fn age_s(sampled: Time, now: Time) -> f64 {
    now.0.saturating_sub(sampled.0) as f64 / 1e9
}

impl Text {
    pub fn evaluate<'a>(&'a self, row: &Row<'a>) -> Option<&'a str> {
        match self {
            Self::Constant(text) => Some(text),
            Self::Attribute(id) => row.table.text(row.node, *id).map(|text| &**text),
            Self::Nothing(_) => None,
            Self::Node => Some(&row.table.get_node(row.node).name),
            Self::Run => row.table.get_node(row.node).run.as_deref(),
            Self::State => Some(row.table.get_node(row.node).state.word()),
        }
    }
}

impl Truth {
    pub fn evaluate(&self, row: &Row<'_>) -> Option<bool> {
        match self {
            Self::Constant(truth) => Some(*truth),
            Self::Absent(_) => Some(false),
            Self::Has(id) => Some(row.table.has(row.node, *id)),
            Self::Not(truth) => truth.evaluate(row).map(|truth| !truth),
            Self::And(left, right) => match left.evaluate(row) {
                Some(false) => Some(false),
                Some(true) => right.evaluate(row),
                None => right.evaluate(row).filter(|right| !right),
            },
            Self::Or(left, right) => match left.evaluate(row) {
                Some(true) => Some(true),
                Some(false) => right.evaluate(row),
                None => right.evaluate(row).filter(|right| *right),
            },
            Self::Compare(order, left, right) => {
                let ordering = left.evaluate(row).partial_cmp(&right.evaluate(row))?;
                Some(match order {
                    Order::Less => ordering.is_lt(),
                    Order::LessOrEqual => ordering.is_le(),
                    Order::Greater => ordering.is_gt(),
                    Order::GreaterOrEqual => ordering.is_ge(),
                    Order::Equal => ordering.is_eq(),
                    Order::Unequal => ordering.is_ne(),
                })
            }
            Self::Equal(left, right) => Some(left.evaluate(row)? == right.evaluate(row)?),
            Self::Unequal(left, right) => Some(left.evaluate(row)? != right.evaluate(row)?),
            Self::Like(text, pattern) => Some(is_like(text.evaluate(row)?, pattern.evaluate(row)?)),
        }
    }
}

/// Whether a text is of a pattern in which `*` is any text and `?` any character; in steps of at
/// most text times pattern.
fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last star stands, and up to where it reaches.
    let mut star = None;
    while at < text.len() {
        match pattern.get(place) {
            Some('*') => {
                star = Some((place, at));
                place += 1;
            }
            Some(&c) if c == '?' || c == text[at] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((stands, reaches)) = star else { return false };
                star = Some((stands, reaches + 1));
                (place, at) = (stands + 1, reaches + 1);
            }
        }
    }
    pattern[place..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (text, pattern) in [
            ("Debian 12", "Debian*"),
            ("", "*"),
            ("abc", "a?c"),
            ("aXbXc", "a*X*c"),
            ("a", "**a**"),
        ] {
            assert!(is_like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("abc", "ab"), ("", "?"), ("abc", "a*d"), ("debian", "Debian")] {
            assert!(!is_like(text, pattern), "{text} {pattern}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        assert!(!is_like(&"a".repeat(60_000), &format!("{}b", "*a".repeat(100))));
    }
}
