//! A tree to a typed term with attributes by number. All that can be wrong with an expression
//! besides its grammar is found here.

use std::sync::Arc;

use super::error::ExpressionError;
use super::parser::{Node, Tree, parse};
use super::units;
use crate::catalogue;
use crate::registry::{AttributeId, Registry, instance_name};
use crate::value::Kind;
use crate::words::FUNCTIONS;

/// A term of known type.
#[derive(Debug, Clone)]
pub(super) enum Term {
    Number(Number),
    Text(Text),
    Truth(Truth),
}

#[derive(Debug, Clone)]
pub(super) enum Number {
    Constant(f64),
    Attribute(AttributeId),
    /// An instance of a family that nothing has: its name.
    Nothing(Arc<str>),
    Age(AttributeId),
    Negative(Box<Number>),
    Two(Arithmetic, Box<Number>, Box<Number>),
    Least(Vec<Number>),
    Greatest(Vec<Number>),
    Absolute(Box<Number>),
    Floor(Box<Number>),
    Ceiling(Box<Number>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone)]
pub(super) enum Text {
    Constant(Arc<str>),
    Attribute(AttributeId),
    Nothing(Arc<str>),
    /// The node's own name, run and state.
    Node,
    Run,
    State,
}

#[derive(Debug, Clone)]
pub(super) enum Truth {
    Constant(bool),
    Has(AttributeId),
    /// An attribute of that name, which nothing has: it does not exist.
    Absent(Arc<str>),
    Not(Box<Truth>),
    And(Box<Truth>, Box<Truth>),
    Or(Box<Truth>, Box<Truth>),
    Compare(Order, Number, Number),
    Equal(Text, Text),
    Unequal(Text, Text),
    /// A shell pattern.
    Like(Text, Text),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
}

/// How values of a group are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of nodes.
    Count,
    /// The sum of the values that are defined.
    Sum,
    /// Their mean.
    Mean,
    /// Their minimum.
    Lowest,
    /// Their maximum.
    Highest,
}

const AGGREGATES: [(&str, Aggregate); 5] = [
    ("count", Aggregate::Count),
    ("sum", Aggregate::Sum),
    ("mean", Aggregate::Mean),
    ("lowest", Aggregate::Lowest),
    ("highest", Aggregate::Highest),
];

/// The names in a term.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The attributes, by number in the registry.
    pub attributes: Vec<AttributeId>,
    /// Names that nothing has.
    pub absent: Vec<Arc<str>>,
    /// The name, run or state of the node.
    pub is_of_node: bool,
}

impl Term {
    /// The type in words, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Truth(_) => "a truth",
        }
    }

    /// The attribute, if the term is nothing else.
    pub fn only_attribute(&self) -> Option<AttributeId> {
        match self {
            Self::Number(Number::Attribute(id)) | Self::Text(Text::Attribute(id)) => Some(*id),
            Self::Number(_) | Self::Text(_) | Self::Truth(_) => None,
        }
    }

    pub fn named(&self, found: &mut Named) {
        match self {
            Self::Number(number) => number.named(found),
            Self::Text(text) => text.named(found),
            Self::Truth(truth) => truth.named(found),
        }
    }
}

impl Number {
    fn named(&self, found: &mut Named) {
        match self {
            Self::Constant(_) => {}
            Self::Nothing(name) => found.absent.push(Arc::clone(name)),
            Self::Attribute(id) | Self::Age(id) => found.attributes.push(*id),
            Self::Two(_, left, right) => {
                left.named(found);
                right.named(found);
            }
            Self::Least(numbers) | Self::Greatest(numbers) => {
                for number in numbers {
                    number.named(found);
                }
            }
            Self::Negative(number)
            | Self::Absolute(number)
            | Self::Floor(number)
            | Self::Ceiling(number) => number.named(found),
        }
    }
}

impl Text {
    fn named(&self, found: &mut Named) {
        match self {
            Self::Attribute(id) => found.attributes.push(*id),
            Self::Nothing(name) => found.absent.push(Arc::clone(name)),
            Self::Node | Self::Run | Self::State => found.is_of_node = true,
            Self::Constant(_) => {}
        }
    }
}

impl Truth {
    /// Whether it asks for an attribute that nothing has so far, and that may still come.
    pub(super) fn awaits(&self) -> bool {
        match self {
            Self::Absent(name) => !catalogue::is_told_whole(name),
            Self::Not(truth) => truth.awaits(),
            Self::And(left, right) | Self::Or(left, right) => left.awaits() || right.awaits(),
            Self::Constant(_)
            | Self::Has(_)
            | Self::Compare(..)
            | Self::Equal(..)
            | Self::Unequal(..)
            | Self::Like(..) => false,
        }
    }

    fn named(&self, found: &mut Named) {
        match self {
            Self::Constant(_) => {}
            Self::Absent(name) => found.absent.push(Arc::clone(name)),
            Self::Has(id) => found.attributes.push(*id),
            Self::Not(truth) => truth.named(found),
            Self::And(left, right) | Self::Or(left, right) => {
                left.named(found);
                right.named(found);
            }
            Self::Compare(_, left, right) => {
                left.named(found);
                right.named(found);
            }
            Self::Equal(left, right) | Self::Unequal(left, right) | Self::Like(left, right) => {
                left.named(found);
                right.named(found);
            }
        }
    }
}

type Result<T> = std::result::Result<T, ExpressionError>;

/// The aggregate and its argument, if the tree is one as a whole.
pub(super) fn aggregate(tree: &Tree, registry: &Registry) -> Result<Option<(Aggregate, Term)>> {
    let Node::Call(name, arguments) = &tree.node else { return Ok(None) };
    let Some((_, aggregate)) = AGGREGATES.iter().find(|(known, _)| known == name) else {
        return Ok(None);
    };
    let term = match (aggregate, arguments.as_slice()) {
        (Aggregate::Count, []) => Term::Number(Number::Constant(1.0)),
        (Aggregate::Count, _) => {
            return Err(ExpressionError::new(tree.position, "count() has no arguments"));
        }
        (_, [argument]) => Term::Number(number(argument, registry)?),
        (_, arguments) => return Err(wrong_count(name, tree.position, "one", arguments.len())),
    };
    Ok(Some((*aggregate, term)))
}

/// The term of a tree.
pub(super) fn resolve(tree: &Tree, registry: &Registry) -> Result<Term> {
    let position = tree.position;
    Ok(match &tree.node {
        Node::Number(number, _) => Term::Number(Number::Constant(*number)),
        Node::Text(text) => Term::Text(Text::Constant(text.as_str().into())),
        Node::Truth(truth) => Term::Truth(Truth::Constant(*truth)),
        Node::Name(name) => named(name, position, registry)?,
        Node::Call(name, arguments) => call(name, arguments, position, registry)?,
        Node::Not(inner) => Term::Truth(Truth::Not(Box::new(truth(inner, registry)?))),
        Node::Negative(inner) => Term::Number(Number::Negative(Box::new(number(inner, registry)?))),
        Node::Binary(sign, left, right) => binary(sign, left, right, position, registry)?,
    })
}

fn binary(
    sign: &str,
    left: &Tree,
    right: &Tree,
    position: usize,
    registry: &Registry,
) -> Result<Term> {
    let both = |order| comparison(order, left, right, position, registry).map(Term::Truth);
    let two = |arithmetic| -> Result<Term> {
        if matches!(arithmetic, Arithmetic::Add | Arithmetic::Subtract) {
            let verb = if arithmetic == Arithmetic::Add { "added" } else { "subtracted" };
            units::agree(left, right, position, verb, registry)?;
        }
        let (left, right) = (number(left, registry)?, number(right, registry)?);
        Ok(Term::Number(Number::Two(arithmetic, Box::new(left), Box::new(right))))
    };
    match sign {
        "||" => Ok(Term::Truth(Truth::Or(
            Box::new(truth(left, registry)?),
            Box::new(truth(right, registry)?),
        ))),
        "&&" => Ok(Term::Truth(Truth::And(
            Box::new(truth(left, registry)?),
            Box::new(truth(right, registry)?),
        ))),
        "<" => both(Order::Less),
        "<=" => both(Order::LessOrEqual),
        ">" => both(Order::Greater),
        ">=" => both(Order::GreaterOrEqual),
        "==" => both(Order::Equal),
        "!=" => both(Order::Unequal),
        "=~" => Ok(Term::Truth(Truth::Like(
            text(left, "=~ compares a text with a pattern", registry)?,
            text(right, "a pattern is a text in quotes: 'Debian*'", registry)?,
        ))),
        "+" => two(Arithmetic::Add),
        "-" => two(Arithmetic::Subtract),
        "*" => two(Arithmetic::Multiply),
        "/" => two(Arithmetic::Divide),
        "%" => two(Arithmetic::Remainder),
        sign => unreachable!("the lexer knows no operator {sign}"),
    }
}

fn comparison(
    order: Order,
    left: &Tree,
    right: &Tree,
    position: usize,
    registry: &Registry,
) -> Result<Truth> {
    match (resolve(left, registry)?, resolve(right, registry)?) {
        (Term::Number(one), Term::Number(other)) => {
            units::agree(left, right, position, "compared", registry)?;
            Ok(Truth::Compare(order, one, other))
        }
        (Term::Text(left), Term::Text(right)) => match order {
            Order::Equal => Ok(Truth::Equal(left, right)),
            Order::Unequal => Ok(Truth::Unequal(left, right)),
            Order::Less | Order::LessOrEqual | Order::Greater | Order::GreaterOrEqual => {
                Err(ExpressionError::new(position, "texts have no order")
                    .hint("texts are compared with ==, != and =~"))
            }
        },
        (left, right) => {
            let message = format!("{} is compared with {}", left.noun(), right.noun());
            let error = ExpressionError::new(position, message);
            Err(match (&left, &right) {
                (Term::Truth(_), _) | (_, Term::Truth(_)) => {
                    error.hint("truths are joined by &&, || and !")
                }
                _ => error.hint("a number has no quotes, a text has"),
            })
        }
    }
}

fn number(tree: &Tree, registry: &Registry) -> Result<Number> {
    match resolve(tree, registry)? {
        Term::Number(number) => Ok(number),
        other => {
            let message = format!("expected a number, found {}", other.noun());
            Err(ExpressionError::new(tree.position, message))
        }
    }
}

fn text(tree: &Tree, hint: &str, registry: &Registry) -> Result<Text> {
    match resolve(tree, registry)? {
        Term::Text(text) => Ok(text),
        other => {
            let message = format!("expected a text, found {}", other.noun());
            Err(ExpressionError::new(tree.position, message).hint(hint))
        }
    }
}

fn truth(tree: &Tree, registry: &Registry) -> Result<Truth> {
    match resolve(tree, registry)? {
        Term::Truth(truth) => Ok(truth),
        other => {
            let message = format!("expected something true or false, found {}", other.noun());
            Err(ExpressionError::new(tree.position, message)
                .hint("compare it, or ask whether it is there: has(gpu)"))
        }
    }
}

fn of_attribute(id: AttributeId, registry: &Registry) -> Term {
    match registry.get(id).kind {
        Kind::Number => Term::Number(Number::Attribute(id)),
        Kind::Text => Term::Text(Text::Attribute(id)),
    }
}

fn named(name: &str, position: usize, registry: &Registry) -> Result<Term> {
    match name {
        "node" => return Ok(Term::Text(Text::Node)),
        "run" => return Ok(Term::Text(Text::Run)),
        "state" => return Ok(Term::Text(Text::State)),
        _ => {}
    }
    if let Some(id) = registry.find(name) {
        return Ok(of_attribute(id, registry));
    }
    if family_kind(name, registry).is_some() {
        let message = format!("{name} is of several things of a node");
        return Err(ExpressionError::new(position, message)
            .hint(format!("say which: {}", example(name, registry))));
    }
    match catalogue::alias(name) {
        Some(meaning) if family_kind(meaning, registry).is_some() => {
            let hint = format!("say which: {name}('/')");
            Err(ExpressionError::new(position, format!("{name} is of several things of a node"))
                .hint(hint))
        }
        Some(meaning) => resolve(&parse(meaning)?, registry),
        None => Err(unknown(name, position, registry)),
    }
}

/// The kind of a family, built in or not. `None` if there is no such family.
fn family_kind(name: &str, registry: &Registry) -> Option<Kind> {
    if let Some(built_in) = catalogue::find(name).filter(|built_in| built_in.is_family) {
        return Some(built_in.kind);
    }
    if name == catalogue::FAULTS {
        return Some(Kind::Text);
    }
    let is_of =
        |attribute: &str| attribute.strip_prefix(name).is_some_and(|rest| rest.starts_with('('));
    registry.iter().find(|(_, attribute)| is_of(&attribute.name)).map(|(_, it)| it.kind)
}

fn example(family: &str, registry: &Registry) -> String {
    let mut names = registry.iter().map(|(_, attribute)| attribute.name.as_str());
    let found = names.find(|name| name.strip_prefix(family).is_some_and(|it| it.starts_with('(')));
    found.map_or_else(|| format!("{family}('NAME')"), str::to_owned)
}

fn call(name: &str, arguments: &[Tree], position: usize, registry: &Registry) -> Result<Term> {
    let one = || match arguments {
        [argument] => Ok(argument),
        _ => Err(wrong_count(name, position, "one", arguments.len())),
    };
    let boxed = || -> Result<Box<Number>> { Ok(Box::new(number(one()?, registry)?)) };
    let several = || -> Result<Vec<Number>> {
        if arguments.is_empty() {
            return Err(wrong_count(name, position, "at least one", 0));
        }
        for pair in arguments.windows(2) {
            units::agree(&pair[0], &pair[1], position, "compared", registry)?;
        }
        arguments.iter().map(|argument| number(argument, registry)).collect()
    };
    Ok(match name {
        "has" => Term::Truth(
            attribute_of(one()?, registry, false)?.map_or_else(Truth::Absent, Truth::Has),
        ),
        "age" => Term::Number(
            attribute_of(one()?, registry, true)?.map_or_else(Number::Nothing, Number::Age),
        ),
        "min" => Term::Number(Number::Least(several()?)),
        "max" => Term::Number(Number::Greatest(several()?)),
        "abs" => Term::Number(Number::Absolute(boxed()?)),
        "floor" => Term::Number(Number::Floor(boxed()?)),
        "ceil" => Term::Number(Number::Ceiling(boxed()?)),
        "count" | "sum" | "mean" | "lowest" | "highest" => {
            return Err(ExpressionError::new(position, format!("{name}() is of a group of nodes"))
                .hint("it is a whole column, and there is a --group-by"));
        }
        family => match catalogue::alias(family) {
            Some(meaning) if catalogue::is_reckoned_with_family(meaning) => {
                return resolve(&with_instance(parse(meaning)?, arguments), registry);
            }
            _ => match family_member(family, arguments, position, registry)? {
                (_, Ok(id)) => of_attribute(id, registry),
                (Kind::Number, Err(name)) => Term::Number(Number::Nothing(name)),
                (Kind::Text, Err(name)) => Term::Text(Text::Nothing(name)),
            },
        },
    })
}

/// What an alias of a family means that is reckoned with another family: the instance goes to that.
fn with_instance(meaning: Tree, arguments: &[Tree]) -> Tree {
    let each = |tree: Box<Tree>| Box::new(with_instance(*tree, arguments));
    let node = match meaning.node {
        Node::Name(family) if catalogue::find(&family).is_some_and(|it| it.is_family) => {
            Node::Call(family, arguments.to_vec())
        }
        Node::Binary(sign, left, right) => Node::Binary(sign, each(left), each(right)),
        other => other,
    };
    Tree { node, ..meaning }
}

/// An attribute, or a name that nothing has.
type Found = std::result::Result<AttributeId, Arc<str>>;

/// The attribute that a name or the instance of a family stands for.
fn attribute_of(tree: &Tree, registry: &Registry, must_be: bool) -> Result<Found> {
    let name = match &tree.node {
        Node::Name(name) => name,
        Node::Call(family, arguments) if !FUNCTIONS.contains(&family.as_str()) => {
            let found = family_member(family, arguments, tree.position, registry);
            return match found {
                Ok((_, found)) => Ok(found),
                Err(_) if !must_be => Ok(Err(family.as_str().into())),
                Err(error) => Err(error),
            };
        }
        _ => {
            return Err(ExpressionError::new(tree.position, "expected the name of an attribute")
                .hint("has(gpu), age(fs_free('/'))"));
        }
    };
    if let Some(id) = registry.find(name) {
        return Ok(Ok(id));
    }
    match named(name, tree.position, registry) {
        Ok(term) => match term.only_attribute() {
            Some(id) => Ok(Ok(id)),
            None => Err(ExpressionError::new(tree.position, format!("{name} is no attribute"))
                .hint("expected the name of one, such as load1")),
        },
        Err(_) if !must_be => Ok(Err(name.as_str().into())),
        Err(error) => Err(error),
    }
}

fn family_member(
    name: &str,
    arguments: &[Tree],
    position: usize,
    registry: &Registry,
) -> Result<(Kind, Found)> {
    let family = catalogue::alias(name).unwrap_or(name);
    let Some(kind) = family_kind(family, registry) else {
        if registry.find(name).is_some() {
            return Err(ExpressionError::new(position, format!("{name} is no function"))
                .hint(format!("it is an attribute: {name}")));
        }
        return Err(unknown(name, position, registry));
    };
    let instance = match arguments {
        [Tree { node: Node::Text(instance), .. }] => instance,
        [argument] => {
            return Err(ExpressionError::new(argument.position, "expected a text in quotes")
                .hint(example(family, registry)));
        }
        _ => return Err(wrong_count(name, position, "one", arguments.len())),
    };
    let name = instance_name(family, instance);
    Ok((kind, registry.find(&name).ok_or_else(|| name.into())))
}

fn wrong_count(name: &str, position: usize, wanted: &str, given: usize) -> ExpressionError {
    let noun = if wanted == "one" { "argument" } else { "arguments" };
    ExpressionError::new(position, format!("{name}() takes {wanted} {noun}, {given} are given"))
}

fn unknown(name: &str, position: usize, registry: &Registry) -> ExpressionError {
    let mut error = ExpressionError::new(position, format!("nothing is called {name}"));
    error.unknown = Some(name.to_owned());
    if FUNCTIONS.contains(&name) {
        let is_of_group = AGGREGATES.iter().any(|(known, _)| *known == name);
        let arguments = if name == "count" { "" } else { "load1" };
        let where_it_is = if is_of_group { ", as a whole column with --group-by" } else { "" };
        return error.hint(format!("it is a function: {name}({arguments}){where_it_is}"));
    }
    let of_catalogue = catalogue::BUILT_IN.iter().map(|built_in| built_in.name);
    let aliases = catalogue::ALIASES.iter().map(|(alias, _)| *alias);
    let known = registry.iter().map(|(_, attribute)| attribute.name.as_str());
    let all = known.chain(of_catalogue).chain(aliases).chain(FUNCTIONS).chain(["node", "state"]);
    let near = all.map(|known| (distance(name, known), known)).min();
    match near {
        Some((steps, near)) if steps <= 1 + name.len() / 4 => {
            error.hint(format!("did you mean {near}?"))
        }
        _ => error.hint("has(NAME) is also for what nothing has"),
    }
}

/// How many letters must be changed, added, left out or swapped with the next (Damerau's distance).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > 8 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(one[i - 1] != other[j - 1]);
                let mut least = rows[i - 1][j - 1] + same;
                least = least.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[one.len()][other.len()]
}
