//! When an attempt held its cores, and for how long: what is called its run time everywhere (docs/glossary.md). The one
//! place that says so: tables, pictures, exports and estimates ask here.
//!
//! An attempt may begin before there are cores for it, lend them to tasks that it has invoked, and
//! give them up between two of its commands. The hub counts no moment of a core twice, so the run
//! times of all attempts are together at most cores times time.

pub use rakuda_core::{Held, total_ns};
use rakuda_proto::journal::{AttemptEnded, Outcome};

use super::{Attempt, Run};

/// When an attempt held its cores that began at `began_ns`, in order and apart. Journals of the first versions do not
/// say so: then it is from its start to its end.
pub fn of_ended(began_ns: i64, ended: &AttemptEnded) -> Vec<Held> {
    let end_ns = ended.time_ns.max(began_ns);
    let Some(offsets) = &ended.held_ns else { return vec![(began_ns, end_ns)] };
    let mut before_ns = began_ns;
    let mut held = Vec::with_capacity(offsets.len() / 2);
    for pair in offsets.chunks_exact(2) {
        // What is not in order is damage.
        let from_ns = began_ns.saturating_add(pair[0]).clamp(before_ns, end_ns);
        let to_ns = began_ns.saturating_add(pair[1]).clamp(from_ns, end_ns);
        before_ns = to_ns;
        if from_ns < to_ns {
            held.push((from_ns, to_ns));
        }
    }
    held
}

impl Attempt {
    /// Whether it counts: one that was given back is taken as not begun.
    pub fn counts(&self) -> bool {
        self.ended.as_ref().is_none_or(|ended| ended.outcome != Outcome::GivenBack)
    }

    /// When it held its cores, in order and apart. Of one that has not ended, as far as the journal
    /// knows it: one that began early did while its commands ran, any other but for the times at
    /// which it waited for tasks that it had invoked.
    pub fn held(&self, run: &Run) -> Vec<Held> {
        let began_ns = self.started.time_ns;
        match &self.ended {
            Some(ended) => of_ended(began_ns, ended),
            None if self.started.early => self.held_by_commands(run),
            None => self.held_but_for_waits(run),
        }
    }

    /// How long it ran, ns.
    pub fn run_ns(&self, run: &Run) -> u64 {
        total_ns(&self.held(run))
    }

    /// From when it first held its cores to when it last did; of one that never held any, twice the time of its end.
    pub fn span(&self, run: &Run, held: &[Held]) -> Held {
        if let (Some((from_ns, _)), Some((_, to_ns))) = (held.first(), held.last()) {
            return (*from_ns, *to_ns);
        }
        let ended_ns = self.ended.as_ref().map_or(run.last_ns, |ended| ended.time_ns);
        let end_ns = ended_ns.max(self.started.time_ns);
        (end_ns, end_ns)
    }

    fn held_by_commands(&self, run: &Run) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        for &number in &self.commands {
            let Some(Some(command)) = run.commands.get(number as usize) else { continue };
            let from_ns = command.started.time_ns.max(self.started.time_ns);
            let to_ns = command.ended.as_ref().map_or(run.last_ns, |ended| ended.time_ns);
            match held.last_mut() {
                Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
                _ if from_ns < to_ns => held.push((from_ns, to_ns)),
                _ => {}
            }
        }
        held
    }

    fn held_but_for_waits(&self, run: &Run) -> Vec<Held> {
        let mut from_ns = self.started.time_ns;
        let mut held = Vec::new();
        let own = run.invocations.iter().filter(|asked| asked.caller == Some(self.started.task));
        for asked in own.filter(|asked| asked.started_ns >= self.started.time_ns) {
            if from_ns < asked.started_ns {
                held.push((from_ns, asked.started_ns));
            }
            from_ns = from_ns.max(asked.ended_ns.unwrap_or(run.last_ns));
        }
        if from_ns < run.last_ns {
            held.push((from_ns, run.last_ns));
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(held_ns: Option<&[i64]>) -> AttemptEnded {
        AttemptEnded {
            time_ns: 1100,
            task: 0,
            outcome: Outcome::Done,
            message: None,
            retried: false,
            after: None,
            target: None,
            secondary: Vec::new(),
            contents: Vec::new(),
            inputs: None,
            held_ns: held_ns.map(Into::into),
        }
    }

    #[test]
    fn the_journal_says_when_cores_were_held() {
        let held = of_ended(1000, &ended(Some(&[10, 20, 50, 90])));
        assert_eq!(held, [(1010, 1020), (1050, 1090)]);
        assert_eq!(total_ns(&held), 50);
        assert_eq!(of_ended(1000, &ended(Some(&[]))), []);
        assert_eq!(of_ended(1000, &ended(None)), [(1000, 1100)], "as earlier versions wrote");
    }

    #[test]
    fn what_a_damaged_journal_says_stays_within_the_attempt() {
        let wild = [-5, 30, 20, 10, i64::MAX, i64::MIN, 40, i64::MAX, 7];
        assert_eq!(of_ended(1000, &ended(Some(&wild))), [(1000, 1030)]);
        assert_eq!(of_ended(1000, &ended(Some(&[40, i64::MAX]))), [(1040, 1100)]);
    }
}
