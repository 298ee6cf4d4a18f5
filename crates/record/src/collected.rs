//! Figures that the programs of synchronised rounds have printed: by worker, and what is said of all of them. What they
//! measure, and in which unit, is not known here. What a worker has not printed is never taken for 0.

use std::collections::BTreeMap;

use rakuda_proto::Figure;

/// Of a round: by worker and name.
pub type WorkerValues = BTreeMap<u32, BTreeMap<String, Figure>>;

/// One figure over some rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// How many rounds there are.
    pub rounds: usize,
    /// How many workers have printed it, over all rounds.
    pub defined: u32,
    /// How many have not.
    pub undefined: usize,
    /// Of those that have.
    sum: f64,
    /// The smallest.
    min: f64,
    /// The largest.
    max: f64,
    /// Of the rounds in which all have: their sums, and how many that are.
    totals: Totals,
    /// By the name of a node: of the rounds in which all workers there have.
    nodes: BTreeMap<String, Totals>,
}

/// Sums over workers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Totals {
    sum: f64,
    count: u32,
}

impl Totals {
    /// Adds one more. `None`: a worker has not printed it.
    fn add(&mut self, total: Option<f64>) {
        if let Some(total) = total {
            self.sum += total;
            self.count += 1;
        }
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl Collected {
    /// Of one round.
    pub fn of_round(values: &[Option<f64>], node_names: &[String]) -> Self {
        let mut one = Self::default();
        one.add(values, node_names);
        one
    }

    /// Adds what the workers of a round have printed, which run on these nodes.
    pub fn add(&mut self, values: &[Option<f64>], node_names: &[String]) {
        self.rounds += 1;
        for value in values.iter().flatten() {
            self.min = if self.defined == 0 { *value } else { self.min.min(*value) };
            self.max = if self.defined == 0 { *value } else { self.max.max(*value) };
            self.defined += 1;
            self.sum += value;
        }
        self.undefined += values.iter().filter(|value| value.is_none()).count();
        self.totals.add(values.iter().copied().sum());
        let mut nodes: BTreeMap<&String, Vec<Option<f64>>> = BTreeMap::new();
        for (name, value) in node_names.iter().zip(values) {
            nodes.entry(name).or_default().push(*value);
        }
        for (name, values) in nodes {
            self.nodes.entry(name.clone()).or_default().add(values.into_iter().sum());
        }
    }

    /// Mean, smallest and largest of the workers that have printed it. `None`: no worker has.
    pub fn spread(&self) -> Option<(f64, f64, f64)> {
        (self.defined > 0).then(|| (self.sum / f64::from(self.defined), self.min, self.max))
    }

    /// The sum over the workers of a round: the mean of the rounds in which all have printed it.
    pub fn total(&self) -> Option<f64> {
        self.totals.mean()
    }

    /// The same of the workers on each node.
    pub fn node_totals(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        self.nodes.iter().map(|(name, totals)| (name.as_str(), totals.mean()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_has_not_printed_is_counted_and_is_in_no_total() {
        let nodes = ["a", "a", "b"].map(str::to_owned);
        let mut all = Collected::of_round(&[Some(1.0), Some(3.0), Some(8.0)], &nodes);
        assert_eq!((all.spread(), all.total()), (Some((4.0, 1.0, 8.0)), Some(12.0)));
        all.add(&[Some(0.0), None, Some(10.0)], &nodes);
        assert_eq!((all.rounds, all.defined, all.undefined), (2, 5, 1));
        assert_eq!((all.spread(), all.total()), (Some((4.4, 0.0, 10.0)), Some(12.0)));
        let nodes: Vec<_> = all.node_totals().collect();
        assert_eq!(nodes, [("a", Some(4.0)), ("b", Some(9.0))]);
        let none = Collected::of_round(&[None], &[String::new()]);
        assert_eq!((none.spread(), none.total(), none.undefined), (None, None, 1));
    }
}
