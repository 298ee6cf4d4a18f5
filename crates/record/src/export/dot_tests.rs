//! What the graphs of a sample run say. That Graphviz takes them is tested in test/exports_test.rb.

use super::super::samples::everything;
use super::*;

fn drawn(of: Of) -> (String, usize) {
    let mut bytes = Vec::new();
    let nodes = write(&everything(), of, &mut bytes).unwrap();
    (String::from_utf8(bytes).unwrap(), nodes)
}

#[test]
fn tasks_are_nodes_and_groups_are_not() {
    let (text, nodes) = drawn(Of::Tasks);
    assert_eq!(nodes, 6, "five tasks and a source\n{text}");
    assert!(text.contains("t1 -> t4;"), "{text}");
    assert!(text.contains("t0 -> t1;"), "{text}");
    assert!(!text.contains("t3 "), "the group is contracted\n{text}");
    assert!(
        text.contains(&format!(
            "t4 [label=\"c\\n0.01 s\", shape=box, {}, {FAILED}];",
            fill(Some(1))
        )),
        "{text}"
    );
    assert!(text.contains("t5 [label=\"d\", "), "{text}");
    assert!(text.lines().any(|line| line.contains("t5 [") && line.contains(NOT_RUN)), "{text}");
}

#[test]
fn names_of_any_bytes_are_escaped() {
    let (text, _) = drawn(Of::Tasks);
    assert!(text.contains("t6 [label=\"e\u{fffd}\\\"\\\\\\n\\n0.01 s\""), "{text}");
}

#[test]
fn rules_are_counted_with_their_mean_times() {
    let (text, nodes) = drawn(Of::Rules);
    assert_eq!(nodes, 2);
    assert!(text.contains("r0 [label=\"Rakefile:3\\n2 tasks, mean 0.06 s\""), "{text}");
    assert!(text.contains("r1 [label=\"Rakefile:7\\n3 tasks, mean 0.01 s\\n2 failed\""), "{text}");
    assert!(text.contains("r0 -> r1 [label=\"×3\"];"), "{text}");
    assert!(text.contains("r1 -> r1 [label=\"×1\"];"), "{text}");
}
