//! What the figures of the page mean, in short; docs/reference/report.md says it in full.

use std::fmt::Write as _;

/// Name and meaning.
const DEFINITIONS: [(&str, &str); 12] = [
    (
        "Makespan",
        "From the start of the first invocation or attempt to the end of the last. Of a run without an end: to its last event.",
    ),
    (
        "Core utilisation",
        "t_accum / (t_elapsed n_cores) (Tanaka and Tatebe 2014): the time of all processes, each weighed with the cores of its \
         task, over the time that all cores offered. A process is a command, or an action that started none.",
    ),
    (
        "Held cores",
        "The same with the time of attempts: it includes what the Rakefile’s own code took around its commands.",
    ),
    (
        "Attempt",
        "From the moment at which the node’s cores were free for it, at the latest from its first command, to the end of its action, but for \
         the times in which it gave them up. Attempts that were begun early and given back do not count.",
    ),
    (
        "Rule",
        "Tasks whose actions stand at the same place of the Rakefile; called after what their names have in common.",
    ),
    (
        "Critical path",
        "The chain of tasks, each a prerequisite of the next, whose attempts took longest together, also through tasks without an action. \
         Waiting: from the start of the run to the end of its last task, less its work.",
    ),
    (
        "Queue wait",
        "From the end of a task’s last prerequisite (or the start of the invocation) to when its first attempt first held its cores.",
    ),
    ("Percentiles", "Interpolated linearly (Hyndman and Fan 1996, type 7)."),
    (
        "Read, written",
        "getrusage(2), blocks times 512, of commands and the children that they waited for: bytes that came from storage, and bytes of \
         pages made dirty on a file system with storage.",
    ),
    (
        "In the page cache",
        "1 − bytes read / bytes of input, not below 0 for any task; of tasks that ran commands and whose prerequisites’ sizes are all known. \
         At least: a command that read something else hides as much.",
    ),
    (
        "Memory",
        "The largest resident set of any one process of the commands; after “of”, what the task asked for. “?” or “-”: not known. The kernel \
         tells it only where it is above what Rakuda itself had.",
    ),
    (
        "Local input",
        "Of the bytes of prerequisites whose place was known when the attempt began, the share that was on its node.",
    ),
];

/// The section.
pub fn section(body: &mut String) {
    *body += "<h2 id=\"definitions\">How the figures are defined</h2><dl class=\"pairs\">";
    for (name, meaning) in DEFINITIONS {
        let _ = write!(body, "<dt>{name}</dt><dd>{meaning}</dd>");
    }
    *body += "</dl>";
}
