//! The words of an expression, each with its place. It knows how words look, not what may follow what.

use super::error::ExpressionError;
use super::limits::BYTES_MAX;

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// With its unit: B or s.
    Number(f64, Option<&'static str>),
    Text(String),
    Name(String),
    /// An operator, a parenthesis or a comma.
    Sign(&'static str),
    End,
}

/// A word and how many characters stand before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    pub token: Token,
    pub position: usize,
}

/// The signs, longest first.
const SIGNS: [&str; 18] = [
    "&&", "||", "<=", ">=", "==", "!=", "=~", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", ",",
];

/// What may stand behind a number, and what one of it is.
const SUFFIXES: &[(&str, f64)] = &[
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("T", 1_099_511_627_776.0),
    ("P", 1_125_899_906_842_624.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("PiB", 1_125_899_906_842_624.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
];

/// The value of one of a unit in bytes, seconds or bytes per second, and the name of that. `None`: it is none of these,
/// or is ambiguous outside of an expression, as `K` is.
pub(super) fn base_unit(unit: &str) -> Option<(f64, &'static str)> {
    let (amount, is_rate) = unit.strip_suffix("/s").map_or((unit, false), |it| (it, true));
    let (_, factor) = SUFFIXES.iter().find(|(known, _)| *known == amount)?;
    match amount {
        "K" | "M" | "G" | "T" | "P" => None,
        "ms" | "s" | "min" | "h" | "d" => (!is_rate).then_some((*factor, "s")),
        _ => Some((*factor, if is_rate { "B/s" } else { "B" })),
    }
}

/// The dimension of a literal, by what stands behind its number; `K` may be of any.
fn dimension(suffix: &str) -> Option<&'static str> {
    base_unit(suffix).map(|(_, base)| base)
}

/// A number with a unit of time, or without one: seconds.
pub(super) fn time_s(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !matches!(unit, "" | "ms" | "s" | "min" | "h" | "d") {
        return None;
    }
    match words(text).ok()?.as_slice() {
        [Placed { token: Token::Number(seconds, _), .. }, _] => Some(*seconds),
        _ => None,
    }
}

/// The words of `source`, the last of which is [`Token::End`].
pub(super) fn words(source: &str) -> Result<Vec<Placed>, ExpressionError> {
    if source.len() > BYTES_MAX {
        let message =
            format!("the expression has {} bytes, at most {BYTES_MAX} may be", source.len());
        return Err(ExpressionError::new(0, message));
    }
    let chars: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut words = Vec::new();
    loop {
        while lexer.peek().is_some_and(char::is_whitespace) {
            lexer.at += 1;
        }
        let position = lexer.at;
        let token = lexer.next()?;
        let is_end = token == Token::End;
        words.push(Placed { token, position });
        if is_end {
            return Ok(words);
        }
    }
}

/// A list cut at its commas, but not within parentheses and quotes; empty parts are errors.
pub(super) fn split(list: &str) -> Result<Vec<(usize, String)>, ExpressionError> {
    let chars: Vec<char> = list.chars().collect();
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for word in words(list)? {
        match word.token {
            Token::Sign("(") => depth += 1,
            Token::Sign(")") => depth = depth.saturating_sub(1),
            Token::Sign(",") if depth > 0 => {}
            Token::Sign(",") | Token::End => {
                let part: String = chars[start..word.position].iter().collect();
                if part.trim().is_empty() {
                    return Err(ExpressionError::new(start, "expected an expression, found none")
                        .hint("expressions stand with one comma between them"));
                }
                parts.push((start, part));
                start = word.position + 1;
            }
            Token::Number(..) | Token::Text(_) | Token::Name(_) | Token::Sign(_) => {}
        }
    }
    Ok(parts)
}

/// A condition cut at its `&&`, but not within parentheses; whole, where it has an `||` beside them.
pub(super) fn clauses(condition: &str) -> Result<Vec<String>, ExpressionError> {
    let chars: Vec<char> = condition.chars().collect();
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for word in words(condition)? {
        match word.token {
            Token::Sign("(") => depth += 1,
            Token::Sign(")") => depth = depth.saturating_sub(1),
            Token::Sign("||") if depth == 0 => return Ok(vec![condition.trim().to_owned()]),
            Token::Sign("&&") if depth > 0 => {}
            Token::Sign("&&") | Token::End => {
                let part: String = chars[start..word.position].iter().collect();
                parts.push(part.trim().to_owned());
                start = word.position + 2;
            }
            Token::Number(..) | Token::Text(_) | Token::Name(_) | Token::Sign(_) => {}
        }
    }
    Ok(parts)
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Result<Token, ExpressionError> {
        match self.peek() {
            None => Ok(Token::End),
            Some('0'..='9') => self.number(),
            Some(quote @ ('\'' | '"')) => self.text(quote),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => Ok(Token::Name(self.name())),
            Some(c) => self.sign(c),
        }
    }

    fn sign(&mut self, c: char) -> Result<Token, ExpressionError> {
        let rest: String = self.chars[self.at..].iter().take(2).collect();
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Ok(Token::Sign(sign));
        }
        let error = ExpressionError::new(self.at, format!("{c:?} means nothing here"));
        Err(match c {
            '=' => error.hint("equality is =="),
            '&' => error.hint("and is &&"),
            '|' => error.hint("or is ||"),
            '.' => error.hint("a number begins with a digit: 0.5"),
            _ => error,
        })
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        // Names of MDS have hyphens, and would be differences otherwise.
        let is_mds = self.chars[start..self.at].iter().collect::<String>() == "Mds";
        while is_mds && self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '-') {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Token, ExpressionError> {
        let start = self.at;
        self.digits();
        let is_digit = |c: Option<&char>| c.is_some_and(char::is_ascii_digit);
        if self.peek() == Some('.') && is_digit(self.chars.get(self.at + 1)) {
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            let signed = matches!(self.chars.get(self.at + 1), Some('+' | '-'));
            if is_digit(self.chars.get(self.at + 1 + usize::from(signed))) {
                self.at += 1 + usize::from(signed);
                self.digits();
            }
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        let number: f64 = digits.parse().expect("digits are a number");
        let place = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let suffix: String = self.chars[place..self.at].iter().collect();
        let factor = match suffix.as_str() {
            "" => 1.0,
            suffix => {
                let known = SUFFIXES.iter().find(|(known, _)| *known == suffix);
                known.map(|(_, factor)| *factor).ok_or_else(|| {
                    ExpressionError::new(place, format!("no unit is called {suffix:?}")).hint(
                        "KiB MiB GiB TiB PiB, or K M G T P, are of 1024, kB MB GB TB PB of 1000; ms s min h d are times",
                    )
                })?
            }
        };
        let number = number * factor;
        if !number.is_finite() {
            return Err(ExpressionError::new(start, "the number is too large"));
        }
        Ok(Token::Number(number, dimension(&suffix)))
    }

    fn text(&mut self, quote: char) -> Result<Token, ExpressionError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => {
                    return Err(ExpressionError::new(start, "the text has no end")
                        .hint(format!("it ends with {quote}")));
                }
                Some(c) if c == quote => break,
                Some('\\') => {
                    self.at += 1;
                    text.extend(self.peek());
                }
                Some(c) => text.push(c),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(Token::Text(text))
    }
}
