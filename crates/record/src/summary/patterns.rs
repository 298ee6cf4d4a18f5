//! What many names have in common: of `map/a.bam` and `map/b.bam` it is `map/*.bam`.
//!
//! It knows names only. A name is compared in tokens (runs of letters, runs of digits, any other
//! character alone), so that `elegy.txt` and `epic.txt` are `*.txt` and not `e*.txt`.

/// The pattern of the names that were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The first name; what all begin and end with is told in its tokens.
    first: String,
    /// How many tokens all begin with.
    before: usize,
    /// How many tokens all end with.
    after: usize,
    /// The fewest tokens of a name.
    tokens_min: usize,
    /// Names so far.
    count: usize,
}

/// What a character's token is made of.
#[derive(PartialEq, Eq)]
enum Kind {
    Letters,
    Digits,
    Other,
}

fn kind(letter: char) -> Kind {
    match letter {
        _ if letter.is_alphabetic() => Kind::Letters,
        _ if letter.is_ascii_digit() => Kind::Digits,
        _ => Kind::Other,
    }
}

fn tokens(name: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let kind_of_first = kind(first);
        let end = if kind_of_first == Kind::Other {
            first.len_utf8()
        } else {
            rest.find(|letter| kind(letter) != kind_of_first).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

impl Pattern {
    /// Takes one more name.
    pub fn add(&mut self, name: &str) {
        self.count += 1;
        if self.count == 1 {
            name.clone_into(&mut self.first);
            let count = tokens(name).len();
            (self.before, self.after, self.tokens_min) = (count, count, count);
            return;
        }
        if self.before == 0 && self.after == 0 {
            return;
        }
        let (first, other) = (tokens(&self.first), tokens(name));
        let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
        let before = first.iter().zip(&other).take_while(same).count();
        let after = first.iter().rev().zip(other.iter().rev()).take_while(same).count();
        self.before = self.before.min(before);
        self.after = self.after.min(after);
        self.tokens_min = self.tokens_min.min(other.len());
    }

    /// The name of a single one, else what all have in common around a `*`; none when they have nothing in common.
    pub fn text(&self) -> Option<String> {
        if self.count <= 1 {
            return (self.count == 1).then(|| self.first.clone());
        }
        let tokens = tokens(&self.first);
        let after = self.after.min(self.tokens_min - self.before);
        let is_name = |token: &&str| token.chars().any(char::is_alphanumeric);
        let ends = [&tokens[..self.before], &tokens[tokens.len() - after..]];
        if !ends.iter().any(|end| end.iter().any(is_name)) {
            return None;
        }
        Some(format!("{}*{}", ends[0].concat(), ends[1].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_rule_have_a_pattern() {
        for (names, text) in [
            (&["total"][..], Some("total")),
            (&["map/a.bam", "map/b.bam"], Some("map/*.bam")),
            (&["elegy.count", "epic.count", "ode.count"], Some("*.count")),
            (&["sample1.bam", "sample22.bam"], Some("sample*.bam")),
            (&["out/001/x.fits", "out/010/x.fits"], Some("out/*/x.fits")),
            (&["a.b.b", "a.b"], Some("a.b*")),
            (&["left", "right"], None),
            (&["1", "2"], None),
            (&["駱駝/1", "駱駝/2"], Some("駱駝/*")),
        ] {
            let mut pattern = Pattern::default();
            for name in names {
                pattern.add(name);
            }
            assert_eq!(pattern.text().as_deref(), text, "{names:?}");
        }
        assert_eq!(Pattern::default().text(), None);
    }
}
