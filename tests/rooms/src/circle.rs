//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// The groups of nodes of which each reaches all others of its group, by the `edges` from a node to
/// others. A node alone is not a circle.
#[must_use]
pub fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|node| (node, reached_from(node, edges))).collect();
    let is_mutual = |a: &String, b: &String| {
        reached[a].contains(b) && reached.get(b).is_some_and(|from_b| from_b.contains(a))
    };
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for node in edges.keys().filter(|node| !edges[*node].is_empty()) {
        if found.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let circle: BTreeSet<String> = reached[node]
            .iter()
            .filter(|&other| is_mutual(node, other))
            .map(|s| (*s).clone())
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

fn reached_from<'a>(
    start: &String,
    edges: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = edges[start].iter().collect();
    while let Some(node) = left.pop() {
        if reached.insert(node) {
            left.extend(edges.get(node).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        graph
    }

    #[test]
    fn a_circle_is_found_and_a_tree_has_none() {
        assert!(circles(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
        let found = circles(&graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
        assert_eq!(found, [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
    }
}
