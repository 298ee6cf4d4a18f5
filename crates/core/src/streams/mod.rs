//! Streams between tasks: the part that decides (docs/design/streams.md).
//!
//! - `graph`: which tasks streams join, the components that follow, and cycles
//! - `record`: where records end
//! - `ring`: bytes that wait for the slowest reader
//! - `flow`: one stream in one place: merging, multicast, windows, ends, accounts
//! - `spool` and `stages`: what a spool looks like, and whose turn it is where streams go over spools
//! - `spill`: what a slow reader gets back of that which went to disk
//! - `hop`: an edge between two hosts: credit in bytes, ends, accounts
//! - `meter`: how fast a line is, as an edge over it sees it
//! - `flow/edge`: what an edge means for the stream at each end of it
//! - `flow/handing`: writers and readers that go on in another tree, and `watch`: when
//! - `tree`: where a stream passes on which hosts
//! - `balance`: accounts of several nodes, checked against one another
//! - `ending`: how what is open together ends, and who is to blame
//! - `changing`: how routes change while they are open
//! - `stall`: cycles in which nothing moves, in one place and in all
//! - `said`: what is said of tasks before they run, and the traffic that follows
//! - `placement`: which tasks go to which node, by what is said of them
//! - `rates`: how fast lines are, from what their edges have seen
//! - `route`: over which hosts copies go, and what a plan costs; `cheapest`: which of them is taken
//!
//! It does not know tasks' names, pipes or processes, and reads no clock.

mod balance;
mod changing;
mod cheapest;
mod ending;
mod flow;
mod graph;
mod hop;
mod meter;
mod placement;
mod rates;
mod record;
mod ring;
mod route;
mod said;
mod spill;
mod spool;
mod stages;
mod stall;
mod tree;
mod watch;

pub use balance::{EdgeAccounts, Imbalance, check_readers};
pub use changing::{NewPlaces, OverThere, RouteChanges};
pub use cheapest::{Cheapest, Known, Placed, RouteName};
pub use ending::{
    ActionEnd, AfterMember, Ending, MemberEnd, NodeLoss, Over, Verdict, fault_of_reports,
};
pub use flow::{
    Account, CARRY_BYTES_MAX, Fault, Flow, FlowSettings, OnClose, READ_BYTES, ReaderState,
    WINDOW_BYTES, WINDOW_BYTES_MIN,
};
pub use graph::{Component, GraphError, StreamEnds, StreamGraph};
pub use hop::{
    HOP_WINDOW_BYTES, HOP_WINDOW_BYTES_MAX, HopError, HopReceiver, HopSender, SenderState,
};
pub use placement::{Placer, Weights};
pub use rates::{EdgeKey, LineRates, lines_of, slowest};
pub use record::{Cut, Cutter, RecordKind};
pub use route::{
    Between, Choice, Distance, GroupId, Groups, Hop, LineCost, Load, PlanCost, Route, RouteByGroup,
    between_ns, choose, cost_of, cost_over, hops_by_group, hops_of_merge, hops_of_multicast,
    improve, line_between,
};
pub use said::{BURST_PER_1000_S, MESSAGE_BYTES, Said, Traffic, Volume, thousandths};
pub use spool::{
    SPOOL_HEAD_BYTES, SPOOL_PIECE_BYTES, SPOOL_SUM_BYTES, SpoolCheck, SpoolDamaged, SpoolHead,
    SpoolSum,
};
pub use stages::{Begun, Stages, Terms};
pub use stall::{Stall, StallWatch, Stalls, Still};
pub use tree::{PlaceEnd, StreamPlace, Tree, meeting_of, tree_by_group, tree_of};
pub use watch::{RouteWatch, WATCH_NS};
