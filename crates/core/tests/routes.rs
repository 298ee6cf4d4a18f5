//! Which way is chosen, by the time that was measured between two sites.

use rakuda_core::NodeId;
use rakuda_core::streams::{
    Choice, GroupId, Groups, LineCost, Load, Route, choose, cost_of, hops_of_multicast,
    line_between,
};

const LAN: LineCost = LineCost { message_ns: 5_000, kib_ns: 820, round_trip_ns: 100_000 };
const USUAL: LineCost = LineCost { message_ns: 5_000, kib_ns: 8_200, round_trip_ns: 10_000_000 };

/// The writer's host is one site, six readers' hosts the other: as bench/streams/sites measures it.
fn chosen(measured_ns: Option<u64>, bytes: u64, per_1000_s: u64) -> Route {
    let (writer, readers) = (NodeId(9), (0..6).map(NodeId).collect::<Vec<_>>());
    let mut groups = Groups::default();
    groups.group_of.extend(readers.iter().map(|reader| (*reader, GroupId(1))));
    groups.group_of.insert(writer, GroupId(0));
    groups.representative.extend([(GroupId(0), writer), (GroupId(1), NodeId(0))]);
    let load = Load { bytes, per_1000_s, lan: LAN, wan: line_between(&LAN, &USUAL, measured_ns) };
    let plans = [Route::Direct, Route::Relay].map(|route| {
        let hops = hops_of_multicast(&groups, route, writer, &readers);
        Choice { route, cost: cost_of(&groups, &hops, &load) }
    });
    choose(&plans, None).unwrap().route
}

#[test]
fn where_a_line_between_sites_is_as_good_as_one_within_the_shorter_way_is_taken() {
    for ns in [0, 100_000, 500_000] {
        assert_eq!(chosen(Some(ns), 64 << 10, 1_000_000), Route::Direct, "{ns}");
    }
}

#[test]
fn over_a_line_that_is_far_each_message_goes_once() {
    for ms in [1, 2, 6, 20, 50] {
        assert_eq!(chosen(Some(ms * 1_000_000), 64 << 10, 1_000_000), Route::Relay, "{ms}");
    }
    assert_eq!(chosen(None, 64 << 10, 1_000_000), Route::Relay);
}

#[test]
fn a_few_short_messages_go_the_shorter_way_however_far() {
    assert_eq!(chosen(Some(50_000_000), 100, 1_000), Route::Direct);
}
