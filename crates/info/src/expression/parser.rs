//! Words to a tree, by descent. It knows the grammar of docs/design/information.md, and no attribute and no type.

use super::error::ExpressionError;
use super::lexer::{self, Placed, Token};
use super::limits::{DEPTH_MAX, OPERATORS_MAX};

/// A tree and where it begins (a call of two: where its operator stands).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree {
    pub node: Node,
    pub position: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// With the unit of a literal that has one.
    Number(f64, Option<&'static str>),
    Text(String),
    Truth(bool),
    Name(String),
    Call(String, Vec<Tree>),
    Not(Box<Tree>),
    Negative(Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
}

/// The tree of an expression.
pub(super) fn parse(source: &str) -> Result<Tree, ExpressionError> {
    let words = lexer::words(source)?;
    let mut parser = Parser { words: &words, at: 0, depth: 0, operators: 0 };
    let tree = parser.either()?;
    let word = parser.word();
    match &word.token {
        Token::End => Ok(tree),
        token => {
            let error = ExpressionError::new(
                word.position,
                format!("expected an operator or the end, found {}", described(token)),
            );
            Err(match token {
                Token::Name(name) if name == "and" => error.hint("and is &&"),
                Token::Name(name) if name == "or" => error.hint("or is ||"),
                _ => error,
            })
        }
    }
}

fn described(token: &Token) -> String {
    match token {
        Token::Number(number, _) => format!("the number {number}"),
        Token::Text(text) => format!("the text {text:?}"),
        Token::Name(name) => format!("the name {name}"),
        Token::Sign(sign) => format!("{sign:?}"),
        Token::End => "the end".to_owned(),
    }
}

struct Parser<'a> {
    words: &'a [Placed],
    at: usize,
    depth: usize,
    operators: usize,
}

const COMPARISONS: [&str; 7] = ["<", "<=", ">", ">=", "==", "!=", "=~"];

impl Parser<'_> {
    fn word(&self) -> &Placed {
        &self.words[self.at]
    }

    /// The sign, if it is one of these.
    fn take(&mut self, signs: &[&str]) -> Option<(&'static str, usize)> {
        let position = self.word().position;
        match self.word().token {
            Token::Sign(sign) if signs.contains(&sign) => {
                self.at += 1;
                Some((sign, position))
            }
            _ => None,
        }
    }

    /// `part { sign part }`, leftmost first.
    fn row(
        &mut self,
        signs: &[&str],
        part: fn(&mut Self) -> Result<Tree, ExpressionError>,
    ) -> Result<Tree, ExpressionError> {
        let mut left = part(self)?;
        while let Some((sign, position)) = self.take(signs) {
            self.operators += 1;
            if self.operators > OPERATORS_MAX {
                let message = format!("more than {OPERATORS_MAX} operators");
                return Err(ExpressionError::new(position, message));
            }
            let right = part(self)?;
            left = Tree { node: Node::Binary(sign, Box::new(left), Box::new(right)), position };
        }
        Ok(left)
    }

    fn either(&mut self) -> Result<Tree, ExpressionError> {
        self.row(&["||"], Self::both)
    }

    fn both(&mut self) -> Result<Tree, ExpressionError> {
        self.row(&["&&"], Self::not)
    }

    fn not(&mut self) -> Result<Tree, ExpressionError> {
        match self.take(&["!"]) {
            Some((_, position)) => {
                let inner = self.deeper(position, Self::not)?;
                Ok(Tree { node: Node::Not(Box::new(inner)), position })
            }
            None => self.comparison(),
        }
    }

    fn comparison(&mut self) -> Result<Tree, ExpressionError> {
        let left = self.sum()?;
        let Some((sign, position)) = self.take(&COMPARISONS) else { return Ok(left) };
        let right = self.sum()?;
        if let Some((again, position)) = self.take(&COMPARISONS) {
            return Err(ExpressionError::new(
                position,
                format!("a second {again:?} of one comparison"),
            )
            .hint("write a < b && b < c"));
        }
        Ok(Tree { node: Node::Binary(sign, Box::new(left), Box::new(right)), position })
    }

    fn sum(&mut self) -> Result<Tree, ExpressionError> {
        self.row(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Result<Tree, ExpressionError> {
        self.row(&["*", "/", "%"], Self::sign)
    }

    fn sign(&mut self) -> Result<Tree, ExpressionError> {
        match self.take(&["-"]) {
            Some((_, position)) => {
                let inner = self.deeper(position, Self::sign)?;
                Ok(Tree { node: Node::Negative(Box::new(inner)), position })
            }
            None => self.primary(),
        }
    }

    fn primary(&mut self) -> Result<Tree, ExpressionError> {
        let Placed { token, position } = self.word().clone();
        self.at += usize::from(token != Token::End);
        let node = match token {
            Token::Number(number, unit) => Node::Number(number, unit),
            Token::Text(text) => Node::Text(text),
            Token::Name(name) if name == "true" => Node::Truth(true),
            Token::Name(name) if name == "false" => Node::Truth(false),
            Token::Name(name) => match self.take(&["("]) {
                Some(_) => Node::Call(name, self.deeper(position, Self::arguments)?),
                None => Node::Name(name),
            },
            Token::Sign("(") => {
                let inner = self.deeper(position, Self::either)?;
                self.close(position)?;
                return Ok(inner);
            }
            token => {
                let message = format!("expected a value, found {}", described(&token));
                let error = ExpressionError::new(position, message);
                return Err(match token {
                    Token::Sign("!") => error.hint(
                        "what ! is before a comparison stands in parentheses: !(a) is a truth",
                    ),
                    _ => error,
                });
            }
        };
        Ok(Tree { node, position })
    }

    fn arguments(&mut self) -> Result<Vec<Tree>, ExpressionError> {
        let opened = self.words[self.at - 1].position;
        let mut arguments = Vec::new();
        if self.take(&[")"]).is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.either()?);
            if self.take(&[","]).is_none() {
                self.close(opened)?;
                return Ok(arguments);
            }
        }
    }

    fn close(&mut self, opened: usize) -> Result<(), ExpressionError> {
        if self.take(&[")"]).is_some() {
            return Ok(());
        }
        let message = format!("expected \")\", found {}", described(&self.word().token));
        let hint = format!("the parenthesis at character {} is not closed", opened + 1);
        Err(ExpressionError::new(self.word().position, message).hint(hint))
    }

    fn deeper<T>(
        &mut self,
        position: usize,
        part: fn(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        if self.depth == DEPTH_MAX {
            return Err(ExpressionError::new(position, format!("more than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }
}
