//! Number of tasks of each rule, for people who look at a run: together they are the total of the run.
//!
//! Counted as tasks are settled; it does not know which of them are done.

use rakuda_record::summary::patterns::Pattern;

/// Maximum number of names of one rule from which its pattern is made.
const NAMES_MAX: usize = 1000;

/// One rule.
#[derive(Debug, Default)]
pub(crate) struct RuleTotal {
    /// Tasks that run or are thought to run yet.
    left: usize,
    /// Tasks that are done, have failed, were stopped, or were not run because of others.
    over: usize,
    /// The pattern of their names.
    pattern: Pattern,
    names: usize,
}

impl RuleTotal {
    /// All its tasks but those that need not run.
    pub fn total(&self) -> usize {
        self.left + self.over
    }

    /// What its tasks' names have in common.
    pub fn pattern(&self) -> Option<String> {
        self.pattern.text()
    }
}

/// All rules, by number; that of tasks whose place is not known is 0.
#[derive(Debug, Default)]
pub(crate) struct ByRule {
    rules: Vec<RuleTotal>,
}

impl ByRule {
    fn rule(&mut self, rule: u32) -> &mut RuleTotal {
        let index = rule as usize;
        if self.rules.len() <= index {
            self.rules.resize_with(index + 1, RuleTotal::default);
        }
        &mut self.rules[index]
    }

    /// What is left is counted anew.
    pub fn forget_left(&mut self) {
        self.rules.iter_mut().for_each(|rule| rule.left = 0);
    }

    /// A task is thought to run.
    pub fn on_expected(&mut self, rule: u32) {
        self.rule(rule).left += 1;
    }

    /// A task is settled.
    pub fn on_settled(&mut self, rule: u32) {
        let rule = self.rule(rule);
        rule.left = rule.left.saturating_sub(1);
    }

    /// A task is done, has failed, was stopped, or was not run because of others.
    pub fn on_over(&mut self, rule: u32) {
        self.rule(rule).over += 1;
    }

    /// A task was done, and what it had made is lost.
    pub fn on_reopened(&mut self, rule: u32) {
        let rule = self.rule(rule);
        rule.over = rule.over.saturating_sub(1);
    }

    /// Takes the name of a task that is thought to run.
    pub fn on_name(&mut self, rule: u32, name: &[u8]) {
        let rule = self.rule(rule);
        if rule.names < NAMES_MAX {
            rule.names += 1;
            rule.pattern.add(&String::from_utf8_lossy(name));
        }
    }

    /// Those that have tasks, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, &RuleTotal)> {
        (0..).zip(&self.rules).filter(|(_, rule)| rule.total() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_rule_stays_while_its_tasks_come_to_their_ends() {
        let mut rules = ByRule::default();
        for name in ["map/a.bam", "map/b.bam"] {
            rules.on_expected(2);
            rules.on_name(2, name.as_bytes());
        }
        let told = |rules: &ByRule| -> Vec<(u32, usize, Option<String>)> {
            rules.all().map(|(number, rule)| (number, rule.total(), rule.pattern())).collect()
        };
        assert_eq!(told(&rules), [(2, 2, Some("map/*.bam".to_owned()))]);
        rules.on_over(2);
        rules.on_settled(2);
        assert_eq!(told(&rules)[0].1, 2);
        // The other one proves to be up to date.
        rules.on_settled(2);
        assert_eq!(told(&rules)[0].1, 1);
        rules.on_reopened(2);
        assert!(told(&rules).is_empty());
    }
}
