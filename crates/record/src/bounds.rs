//! Bounds of the numbers of a journal. One may come from anywhere: a number in it must neither take
//! more memory than its line is worth, nor be so large that sums and differences of such numbers
//! are wrong. A line with a number beyond is damage.
//!
//! It knows single lines; what numbers mean together is bounded where they are put together (`run`).

use rakuda_proto::journal::{JournalEvent, NodeJoined};

/// Maximum number of cores of one node, and of one attempt.
pub const CORES_MAX: u32 = 1 << 16;
/// Maximum number of cores of all nodes together.
pub const CORES_OF_RUN_MAX: u32 = 1 << 22;
/// Maximum number of nodes: each is numbered below this.
pub const NODES_MAX: u32 = 1 << 16;
/// Maximum number of tasks: each is numbered below this.
pub const TASKS_MAX: u32 = 1 << 24;
/// Maximum time before or after 1970, and duration, ns: 146 years, so that a difference is a number, too.
const TIME_NS_MAX: u64 = 1 << 62;
/// Maximum bytes of one thing, and maximum microseconds.
const AMOUNT_MAX: u64 = 1 << 60;

/// Whether all numbers of a line are such as a run may write.
pub fn hold(event: &JournalEvent) -> bool {
    match event {
        JournalEvent::RunStarted(event) => {
            is_time(event.time_ns) && event.cores <= CORES_OF_RUN_MAX
        }
        JournalEvent::NodeJoined(event) => is_node(event),
        JournalEvent::NodeLost(event) => is_time(event.time_ns) && event.node < NODES_MAX,
        JournalEvent::NodeGone(event) => is_time(event.time_ns) && event.node < NODES_MAX,
        JournalEvent::InvocationStarted(event) => is_time(event.time_ns),
        JournalEvent::InvocationEnded(event) => is_time(event.time_ns),
        // Their numbers are places in lists, which are bounded there.
        JournalEvent::RuleDefined(_) => true,
        JournalEvent::TaskDefined(event) => {
            let numbers = event.prerequisites.iter().chain(&event.order_only);
            let mut numbers = numbers.chain([&event.task]);
            numbers.all(|task| *task < TASKS_MAX) && event.bytes.is_none_or(is_amount)
        }
        JournalEvent::AttemptStarted(event) => {
            is_time(event.time_ns)
                && event.task < TASKS_MAX
                && event.shares().all(|(node, cores)| node < NODES_MAX && cores <= CORES_MAX)
        }
        JournalEvent::CommandStarted(event) => is_time(event.time_ns),
        JournalEvent::CommandPrepared(event) => is_time(event.time_ns),
        JournalEvent::RoundEnded(event) => {
            let spans = [event.margin_ns, event.clock_bound_ns];
            let after_ns = event.begun_after_ns.map(i64::unsigned_abs);
            let spans = spans.into_iter().chain(event.lag_ns).chain(event.span_ns).chain(after_ns);
            is_time(event.time_ns)
                && spans.into_iter().all(|ns| ns <= TIME_NS_MAX)
                && event.clocks.iter().all(|clock| is_time(clock.wall_set_ns))
        }
        JournalEvent::RoundValues(event) => {
            is_time(event.time_ns) && event.values.values().all(|value| value.0.is_finite())
        }
        JournalEvent::CommandEnded(event) => {
            let amounts = [event.user_us, event.system_us, event.rss_kib_max];
            let amounts = amounts.into_iter().chain([event.read_bytes, event.write_bytes]);
            is_time(event.time_ns)
                && event.wall_ns <= TIME_NS_MAX
                && amounts.into_iter().all(is_amount)
        }
        JournalEvent::AttemptEnded(event) => {
            let inputs = event.inputs.unwrap_or_default();
            let bytes = [inputs.placed_bytes, inputs.local_bytes];
            let mut bytes = bytes.into_iter().chain([inputs.measured_bytes, inputs.resident_bytes]);
            is_time(event.time_ns)
                && bytes.all(is_amount)
                && event.after.is_none_or(|file| is_amount(file.bytes))
        }
        JournalEvent::TaskSettled(event) => is_time(event.time_ns),
        JournalEvent::TaskBlamed(event) => {
            is_time(event.time_ns) && event.nodes.iter().all(|node| *node < NODES_MAX)
        }
        JournalEvent::GangStarted(event) => is_time(event.time_ns),
        JournalEvent::StreamsOpened(event) => is_time(event.time_ns) && event.node < NODES_MAX,
        JournalEvent::StreamsRerouted(event) => is_time(event.time_ns),
        JournalEvent::StreamsStalled(event) => {
            is_time(event.time_ns) && is_amount(event.silence_ns)
        }
        JournalEvent::StreamsEnded(event) => {
            let ends = event.streams.iter().flat_map(|one| one.writers.iter().chain(&one.readers));
            let mut amounts = ends.flat_map(|end| [end.bytes, end.records, end.dropped]);
            let mut totals = event
                .streams
                .iter()
                .flat_map(|one| [one.memory_bytes_max, one.spilled_bytes, one.spilled_bytes_max]);
            let memory = totals.all(is_amount);
            is_time(event.time_ns) && memory && amounts.all(is_amount)
        }
        JournalEvent::NodeChosen(event) => is_time(event.time_ns) && event.node < NODES_MAX,
        JournalEvent::TaskReopened(event) => is_time(event.time_ns),
        JournalEvent::InputLost(event) => is_time(event.time_ns),
        JournalEvent::FileStaged(event) => {
            is_time(event.time_ns)
                && event.from < NODES_MAX
                && event.to < NODES_MAX
                && is_amount(event.bytes)
                && event.took_ns <= TIME_NS_MAX
        }
        JournalEvent::ClockStepped(event) => is_time(event.time_ns) && is_time(event.wall_ns),
        JournalEvent::StopRequested(event) => is_time(event.time_ns),
        JournalEvent::RunEnded(event) => {
            is_time(event.time_ns)
                && event.metadata_operations.is_none_or(is_amount)
                && event.run_file_system_operations.is_none_or(is_amount)
        }
    }
}

fn is_node(event: &NodeJoined) -> bool {
    is_time(event.time_ns)
        && event.node < NODES_MAX
        && event.cores <= CORES_MAX
        && is_amount(event.memory_bytes)
}

fn is_time(time_ns: i64) -> bool {
    time_ns.unsigned_abs() < TIME_NS_MAX
}

fn is_amount(amount: u64) -> bool {
    amount <= AMOUNT_MAX
}
