//! The file system's host names to the nodes of a run.
//!
//! A name is a node's when they are equal, upper and lower case alike; or else when their parts
//! before the first dot are equal and no other node has the same: sites write `host1` here and
//! `host1.example.org` there. It asks no name service: an alias that shares no part is another
//! host.

use std::collections::BTreeMap;

/// The names of all nodes.
#[derive(Debug, Default)]
pub struct Hosts {
    by_name: BTreeMap<Vec<u8>, u32>,
    /// `None`: several nodes are called so.
    by_short_name: BTreeMap<Vec<u8>, Option<u32>>,
}

impl Hosts {
    /// `name` is one of the names of `node`.
    pub fn add(&mut self, node: u32, name: &[u8]) {
        let name = name.to_ascii_lowercase();
        self.by_short_name
            .entry(short(&name).to_vec())
            .and_modify(|known| *known = known.filter(|known| *known == node))
            .or_insert(Some(node));
        self.by_name.entry(name).or_insert(node);
    }

    /// The node that the file system calls `host`. `None`: it is no node of the run.
    pub fn node_of(&self, host: &[u8]) -> Option<u32> {
        let host = host.to_ascii_lowercase();
        if let Some(node) = self.by_name.get(&host) {
            return Some(*node);
        }
        self.by_short_name.get(short(&host)).copied().flatten()
    }
}

/// The part before the first dot. Of an address there is no such part.
fn short(name: &[u8]) -> &[u8] {
    if name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') || name.contains(&b':') {
        return name;
    }
    name.split(|byte| *byte == b'.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Hosts {
        let mut hosts = Hosts::default();
        for (node, name) in (0..).zip(names) {
            hosts.add(node, name.as_bytes());
        }
        hosts
    }

    #[test]
    fn equal_names_are_one_host_also_when_one_is_short() {
        let hosts = hosts(&["host1", "Host2.example.org", "192.0.2.7"]);
        assert_eq!(hosts.node_of(b"HOST1"), Some(0));
        assert_eq!(hosts.node_of(b"host1.example.org"), Some(0));
        assert_eq!(hosts.node_of(b"host2"), Some(1));
        assert_eq!(hosts.node_of(b"192.0.2.7"), Some(2));
        assert_eq!(hosts.node_of(b"192.0.2.8"), None);
        assert_eq!(hosts.node_of(b"host3"), None);
    }

    #[test]
    fn a_short_name_of_two_nodes_is_nobodys() {
        let hosts = hosts(&["a.x.org", "a.y.org"]);
        assert_eq!(hosts.node_of(b"a"), None);
        assert_eq!(hosts.node_of(b"a.y.org"), Some(1));
    }

    #[test]
    fn a_node_may_have_several_names() {
        let mut hosts = Hosts::default();
        hosts.add(4, b"fast1");
        hosts.add(4, b"host1.example");
        hosts.add(4, b"host1");
        assert_eq!(hosts.node_of(b"host1"), Some(4));
        assert_eq!(hosts.node_of(b"fast1"), Some(4));
    }
}
