//! The last line of a run in which all went well, where a user sits at a terminal: how much was
//! done in what time, what was made, and where more can be seen. It decides nothing.

use std::fmt::Write as _;

use rakuda_core::TaskId;
use rakuda_proto::agent::OutputDescriptor;

use crate::hub::Hub;
use crate::progress::duration::duration;
use crate::progress::made::Made;

/// What there is to say of such a run.
struct Farewell<'a> {
    done: usize,
    up_to_date: usize,
    makespan_ns: u64,
    made: &'a Made,
    recorded: bool,
}

impl Farewell<'_> {
    fn line(&self) -> String {
        if self.done == 0 {
            let why = if self.up_to_date > 0 { ": all is up to date" } else { "" };
            return format!("rakuda: nothing to do{why}\n");
        }
        let took = duration(self.makespan_ns);
        let mut line = format!("rakuda: {} done in {took}{}", self.done, self.made.words());
        if self.recorded {
            let _ = write!(line, "; for a report: rakudactl report");
        }
        line.push('\n');
        line
    }
}

impl Hub {
    /// A task's action ended well, and its target is there.
    pub(crate) fn note_made(&mut self, id: TaskId) {
        if self.settings.farewell {
            self.progress.made.add(self.names.name(id));
        }
    }

    /// Says at the end of a run in which all went well what it has done, where that is wanted.
    pub(crate) fn print_farewell(&mut self) {
        let Some(makespan_ns) = self.progress.makespan_ns().filter(|_| self.settings.farewell)
        else {
            return;
        };
        let farewell = Farewell {
            done: self.progress.done,
            up_to_date: self.run.scheduler().counts().not_needed,
            makespan_ns,
            made: &self.progress.made,
            recorded: self.record.folder_if_open().is_some(),
        };
        let line = farewell.line();
        self.printer.push_block(OutputDescriptor::Stderr, line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(done: usize, up_to_date: usize, targets: usize, recorded: bool) -> String {
        let mut made = Made::default();
        (0..targets).for_each(|number| made.add(format!("out/{number}").as_bytes()));
        Farewell { done, up_to_date, makespan_ns: 14_200_000_000, made: &made, recorded }.line()
    }

    #[test]
    fn what_was_done_and_made_is_told_with_the_way_to_the_report() {
        let report = "; for a report: rakudactl report\n";
        assert_eq!(line(26, 1, 0, true), format!("rakuda: 26 done in 14 s{report}"));
        assert_eq!(
            line(3, 0, 2, true),
            format!("rakuda: 3 done in 14 s; made out/0, out/1{report}")
        );
        assert_eq!(line(9, 0, 4, true), format!("rakuda: 9 done in 14 s; made 4 targets{report}"));
        assert_eq!(line(9, 0, 4, false), "rakuda: 9 done in 14 s; made 4 targets\n");
    }

    #[test]
    fn a_run_without_actions_says_so() {
        assert_eq!(line(0, 5, 0, false), "rakuda: nothing to do: all is up to date\n");
        assert_eq!(line(0, 0, 0, false), "rakuda: nothing to do\n");
    }
}
