//! The units of numbers in an expression, as far as they are known: bytes are not compared with seconds.

use super::error::ExpressionError;
use super::parser::{Node, Tree, parse};
use crate::catalogue;
use crate::registry::{Registry, instance_name};

/// The unit of what a tree stands for; empty if it has none. `None`: not known, as for a number without a unit, which
/// takes the unit of what stands beside it.
pub(super) fn unit(tree: &Tree, registry: &Registry) -> Option<String> {
    match &tree.node {
        Node::Number(_, unit) => unit.map(str::to_owned),
        Node::Name(name) => match registry.find(name) {
            Some(_) => of_attribute(name, registry),
            None => unit(&parse(catalogue::alias(name)?).ok()?, registry),
        },
        Node::Negative(inner) => unit(inner, registry),
        Node::Call(name, arguments) => match (name.as_str(), arguments.as_slice()) {
            ("age", _) => Some("s".to_owned()),
            ("min" | "max" | "abs" | "floor" | "ceil", [first, others @ ..]) => {
                others.iter().fold(unit(first, registry), |all, other| match all {
                    Some(all) if is_bare(other) || unit(other, registry).is_some() => Some(all),
                    None if is_bare(first) => unit(other, registry),
                    Some(_) | None => None,
                })
            }
            (family, [Tree { node: Node::Text(instance), .. }]) => {
                let family = catalogue::alias(family).unwrap_or(family);
                of_attribute(&instance_name(family, instance), registry)
            }
            _ => None,
        },
        Node::Binary("+" | "-" | "%", left, right) => beside(left, right, registry),
        Node::Binary("*", left, right) if is_bare(left) => unit(right, registry),
        Node::Binary("*" | "/", left, right) if is_bare(right) => unit(left, registry),
        Node::Binary(..) | Node::Text(_) | Node::Truth(_) | Node::Not(_) => None,
    }
}

/// The unit of two terms that stand beside each other: a bare number takes that of the other.
fn beside(left: &Tree, right: &Tree, registry: &Registry) -> Option<String> {
    match (unit(left, registry), unit(right, registry)) {
        (Some(unit), Some(_)) => Some(unit),
        (Some(unit), None) if is_bare(right) => Some(unit),
        (None, Some(unit)) if is_bare(left) => Some(unit),
        _ => None,
    }
}

/// A number of the expression without a unit.
fn is_bare(tree: &Tree) -> bool {
    match &tree.node {
        Node::Number(_, unit) => unit.is_none(),
        Node::Negative(inner) => is_bare(inner),
        _ => false,
    }
}

/// The unit of a call of one argument: `sum(mem_free)` is in bytes.
pub(super) fn of_argument(call: &Tree, registry: &Registry) -> Option<String> {
    let Node::Call(_, arguments) = &call.node else { return None };
    unit(arguments.first()?, registry)
}

/// The unit of an attribute; a number that a program or a user gave without a unit may be of any.
fn of_attribute(name: &str, registry: &Registry) -> Option<String> {
    if let Some(id) = registry.find(name) {
        let attribute = registry.get(id);
        let is_known = !attribute.unit.is_empty() || catalogue::of(name).is_some();
        return is_known.then(|| attribute.unit.clone());
    }
    catalogue::of(name).map(|built_in| built_in.unit.to_owned())
}

/// Checks that two may stand beside each other.
pub(super) fn agree(
    left: &Tree,
    right: &Tree,
    position: usize,
    verb: &str,
    registry: &Registry,
) -> Result<(), ExpressionError> {
    // A rate is compared with the bytes of a second: there is no other word for these.
    let noun = |tree| match unit(tree, registry).as_deref() {
        Some("B" | "B/s") => Some("bytes"),
        Some("s") => Some("a time"),
        Some("%") => Some("per cent"),
        Some("") => Some("a number without a unit"),
        Some(_) | None => None,
    };
    match (noun(left), noun(right)) {
        (Some(one), Some(other)) if one != other => {
            let message = format!("{one} and {other} cannot be {verb}");
            Err(ExpressionError::new(position, message)
                .hint("8GiB and 5MB are bytes, 10s and 5min are times"))
        }
        _ => Ok(()),
    }
}
