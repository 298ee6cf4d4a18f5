//! What many names have in common: of `map/a.bam` and `map/b.bam` it is `map/*.bam`.
//!
//! Names of workers of synchronised rounds (`write:task_0_w3`) are Rakuda's and not the user's: of them it is what the
//! user has called the rounds, and how many workers they have, `write (sync, 8 workers)`.
//!
//! It knows names only. A name is compared in tokens (runs of letters, runs of digits, any other
//! character alone), so that `elegy.txt` and `epic.txt` are `*.txt` and not `e*.txt`.

/// The pattern of the names that were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The first name. What all begin and end with is counted in its tokens.
    first: String,
    /// How many tokens all begin with.
    before: usize,
    /// How many tokens all end with.
    after: usize,
    /// The fewest tokens of a name.
    tokens_min: usize,
    /// Names so far.
    count: usize,
    /// One of them is not the first: those of workers are all the same without what is not the user's.
    differs: bool,
    /// Of these, names of workers.
    worker_names: usize,
    /// Workers by the largest number in these names.
    workers: usize,
    /// At least one of these workers is of a round whose programs do something.
    has_programs: bool,
}

/// Of a worker's name in a synchronised round: the name of the rounds, its number, and whether its program does
/// nothing. The front makes these names (`lib/rakuda/sync.rb`): `write:task_0_w3`, `write:null_w3`, `write:null_1_w3`;
/// without `write:` where the rounds have no name.
fn worker(name: &str) -> Option<(&str, usize, bool)> {
    let (sync, last) = name.rsplit_once(':').unwrap_or((UNNAMED, name));
    let (round, number) = last.rsplit_once("_w")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_null = match (round.strip_prefix("task_"), round.strip_prefix("null")) {
        (Some(round), _) if is_number(round) => false,
        (_, Some("")) => true,
        (_, Some(rest)) if rest.strip_prefix('_').is_some_and(is_number) => true,
        _ => return None,
    };
    let number = number.parse().ok().filter(|_| is_number(number))?;
    Some((sync, number, is_null))
}

/// What rounds without a name are called, as in the journal.
const UNNAMED: &str = "rounds";

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
        let name = match worker(name) {
            Some((sync, number, is_null)) => {
                self.worker_names += 1;
                self.workers = self.workers.max(number.saturating_add(1));
                self.has_programs |= !is_null;
                sync
            }
            None => name,
        };
        if self.count == 1 {
            name.clone_into(&mut self.first);
            let count = tokens(name).len();
            (self.before, self.after, self.tokens_min) = (count, count, count);
            return;
        }
        self.differs |= name != self.first;
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

    /// The name of a single one, else what all have in common around a `*`. `None` when they have nothing in common.
    pub fn text(&self) -> Option<String> {
        let text = self.of_names()?;
        if self.worker_names < self.count {
            return Some(text);
        }
        let what = if self.has_programs { "sync" } else { "sync overhead" };
        let plural = if self.workers == 1 { "" } else { "s" };
        Some(format!("{text} ({what}, {} worker{plural})", self.workers))
    }

    /// Whether all are names of workers.
    pub fn is_sync(&self) -> bool {
        self.count > 0 && self.worker_names == self.count
    }

    fn of_names(&self) -> Option<String> {
        if !self.differs {
            return (self.count > 0).then(|| self.first.clone());
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

    fn of(names: &[&str]) -> Option<String> {
        let mut pattern = Pattern::default();
        for name in names {
            pattern.add(name);
        }
        pattern.text()
    }

    #[test]
    fn workers_of_a_synchronised_round_are_called_as_its_user_does() {
        for (names, text) in [
            (&["disks:task_0_w0"][..], "disks (sync, 1 worker)"),
            (&["disks:null_w0", "disks:task_0_w0", "disks:task_1_w11"], "disks (sync, 12 workers)"),
            (&["io:disks:null_w0", "io:disks:null_1_w1"], "io:disks (sync overhead, 2 workers)"),
            (&["task_0_w0", "task_0_w1"], "rounds (sync, 2 workers)"),
            (&["disk1:task_0_w0", "disk2:task_0_w1"], "disk* (sync, 2 workers)"),
            (&["disks:task_0_w0", "disks:disks"], "disks*"),
            (&["disks:Sync_0"], "disks:Sync_0"),
            (&["disks:task_x_w0"], "disks:task_x_w0"),
            (&["disks:task_0_w"], "disks:task_0_w"),
            (&["nullable_w0"], "nullable_w0"),
        ] {
            assert_eq!(of(names).as_deref(), Some(text), "{names:?}");
        }
    }

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
            assert_eq!(of(names).as_deref(), text, "{names:?}");
        }
        assert_eq!(Pattern::default().text(), None);
    }
}
