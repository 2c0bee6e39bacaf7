//! A layered layout of an acyclic graph, after Sugiyama: layers, an order in each layer, places.
//!
//! 1. **Layers.** From the results upwards, each node in the lowest layer that is above all its users and has room.
//! 2. **Long edges.** A node whose users are several layers below has a *bend* in each layer between, which its edges share.
//! 3. **Order.** In each layer by the mean place of neighbours in the layer above, then below, a few times; the order with the fewest crossings
//!    stays.
//! 4. **Places.** Each node as near to the mean of its neighbours as the order and the widths allow, in the sense of least squares.

use std::collections::BTreeMap;

/// How many nodes a layer has at most, bends aside.
const ROOM: usize = 4;
/// How many times the layers are gone through, down and up.
const SWEEPS: usize = 8;
/// Between neighbours of a layer, and the width of a bend.
const GAP: f64 = 18.0;
const BEND: f64 = 4.0;

/// Where things stand.
#[derive(Debug)]
pub(super) struct Layout {
    /// The middle of each node, and its layer.
    pub places: Vec<(f64, usize)>,
    /// Each edge as the middles of its ends and bends, with their layers, from the operand down.
    pub edges: Vec<Vec<(f64, usize)>>,
    pub layers: usize,
    pub width: f64,
}

/// Something in a layer.
#[derive(Clone, Copy, Debug)]
struct Item {
    width: f64,
    layer: usize,
    x: f64,
}

/// A layout for nodes of these widths; every edge goes from a node to one behind it.
pub(super) fn layout(widths: &[f64], edges: &[(usize, usize)]) -> Layout {
    let layer = layers(widths.len(), edges);
    let count = layer.iter().max().map_or(0, |last| last + 1);
    let mut items: Vec<Item> =
        widths.iter().zip(&layer).map(|(width, layer)| Item { width: *width, layer: *layer, x: 0.0 }).collect();
    let mut bends: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut chains = Vec::new();
    let mut links: Vec<(usize, usize)> = Vec::new();
    for (from, to) in edges {
        let mut chain = vec![*from];
        for between in layer[*from] + 1..layer[*to] {
            let bend = *bends.entry((*from, between)).or_insert_with(|| {
                items.push(Item { width: BEND, layer: between, x: 0.0 });
                items.len() - 1
            });
            chain.push(bend);
        }
        chain.push(*to);
        links.extend(chain.windows(2).map(|pair| (pair[0], pair[1])));
        chains.push(chain);
    }
    links.sort_unstable();
    links.dedup();
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let mut below = above.clone();
    for (from, to) in &links {
        below[*from].push(*to);
        above[*to].push(*from);
    }
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); count];
    items.iter().enumerate().for_each(|(at, item)| rows[item.layer].push(at));
    order(&mut rows, &above, &below, items.len());
    place(&rows, &mut items, &above, &below);
    let edge = |item: &Item| item.x - item.width / 2.0;
    let left = items.iter().map(edge).fold(f64::INFINITY, f64::min);
    let right = items.iter().map(|item| item.x + item.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    let at = |k: usize| (items[k].x - left, items[k].layer);
    Layout {
        places: (0..widths.len()).map(at).collect(),
        edges: chains.iter().map(|chain| chain.iter().map(|k| at(*k)).collect()).collect(),
        layers: count,
        width: if items.is_empty() { 0.0 } else { right - left },
    }
}

/// The layer of each node, from 0 at the top.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    edges.iter().for_each(|(from, to)| users[*from].push(*to));
    let mut height = vec![0; count];
    let mut taken: Vec<usize> = Vec::new();
    for node in (0..count).rev() {
        let mut at = users[node].iter().map(|user| height[*user] + 1).max().unwrap_or(0);
        while taken.get(at).is_some_and(|taken| *taken >= ROOM) {
            at += 1;
        }
        if at >= taken.len() {
            taken.resize(at + 1, 0);
        }
        taken[at] += 1;
        height[node] = at;
    }
    let top = taken.len().saturating_sub(1);
    height.into_iter().map(|height| top - height).collect()
}

/// Orders the layers such that few edges cross.
fn order(rows: &mut Vec<Vec<usize>>, above: &[Vec<usize>], below: &[Vec<usize>], items: usize) {
    let mut position = vec![0usize; items];
    let mut best = (usize::MAX, rows.clone());
    let number = |row: &[usize], position: &mut [usize]| row.iter().enumerate().for_each(|(at, k)| position[*k] = at);
    rows.iter().for_each(|row| number(row, &mut position));
    for sweep in 0..=SWEEPS {
        let crossings = crossings(rows, below, &position);
        if crossings < best.0 {
            best = (crossings, rows.clone());
        }
        if crossings == 0 || sweep == SWEEPS {
            break;
        }
        let down = sweep % 2 == 0;
        let neighbours = if down { above } else { below };
        for step in 0..rows.len() {
            let at = if down { step } else { rows.len() - 1 - step };
            let mean = |k: usize| match neighbours[k].as_slice() {
                [] => position[k] as f64,
                others => others.iter().map(|other| position[*other] as f64).sum::<f64>() / others.len() as f64,
            };
            let mut row: Vec<(f64, usize)> = rows[at].iter().map(|k| (mean(*k), *k)).collect();
            row.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            rows[at] = row.into_iter().map(|(_, k)| k).collect();
            number(&rows[at], &mut position);
        }
    }
    *rows = best.1;
}

/// How many pairs of edges cross.
fn crossings(rows: &[Vec<usize>], below: &[Vec<usize>], position: &[usize]) -> usize {
    let mut count = 0;
    for row in rows {
        // The ends of edges in the order of their starts: crossings are inversions.
        let mut ends: Vec<usize> = Vec::new();
        for k in row {
            let mut of: Vec<usize> = below[*k].iter().map(|other| position[*other]).collect();
            of.sort_unstable();
            count += of.iter().map(|end| ends.iter().filter(|before| *before > end).count()).sum::<usize>();
            ends.extend(of);
        }
    }
    count
}

/// Places the items of ordered layers.
fn place(rows: &[Vec<usize>], items: &mut [Item], above: &[Vec<usize>], below: &[Vec<usize>]) {
    for row in rows {
        let wanted = vec![0.0; row.len()];
        spread(row, items, &wanted);
    }
    for sweep in 0..2 * SWEEPS {
        let down = sweep % 2 == 0;
        let neighbours = if down { above } else { below };
        for step in 0..rows.len() {
            let row = &rows[if down { step } else { rows.len() - 1 - step }];
            let mean = |k: &usize| match neighbours[*k].as_slice() {
                [] => items[*k].x,
                others => others.iter().map(|other| items[*other].x).sum::<f64>() / others.len() as f64,
            };
            let wanted: Vec<f64> = row.iter().map(mean).collect();
            spread(row, items, &wanted);
        }
    }
}

/// Places a layer: as near as possible to what is wanted, in order and apart, by pooling neighbours that come too near.
fn spread(row: &[usize], items: &mut [Item], wanted: &[f64]) {
    /// Neighbours that touch: where they start to, and the sum of what they want for the first of them, with its weight.
    struct Pool {
        first: usize,
        sum: f64,
        weight: f64,
    }
    let mut offsets = Vec::with_capacity(row.len());
    let mut offset = 0.0;
    for (at, k) in row.iter().enumerate() {
        if at > 0 {
            offset += (items[row[at - 1]].width + items[*k].width) / 2.0 + GAP;
        }
        offsets.push(offset);
    }
    let mut pools: Vec<Pool> = Vec::new();
    for (at, k) in row.iter().enumerate() {
        // Long edges are to be straight.
        let weight = if items[*k].width <= BEND { 3.0 } else { 1.0 };
        pools.push(Pool { first: at, sum: weight * (wanted[at] - offsets[at]), weight });
        while let [.., before, last] = pools.as_mut_slice()
            && before.sum * last.weight > last.sum * before.weight
        {
            before.sum += last.sum;
            before.weight += last.weight;
            pools.pop();
        }
    }
    let ends = pools.iter().skip(1).map(|pool| pool.first).chain([row.len()]);
    for (pool, end) in pools.iter().zip(ends) {
        for at in pool.first..end {
            items[row[at]].x = pool.sum / pool.weight + offsets[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GAP, ROOM, layout};

    #[test]
    fn edges_go_down_and_nodes_stand_apart() {
        let mut random = 7u64;
        let mut next = move |n: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % n
        };
        for count in [0, 1, 2, 9, 60] {
            let widths: Vec<f64> = (0..count).map(|_| 40.0 + next(160) as f64).collect();
            let edges: Vec<(usize, usize)> = (1..count).flat_map(|to| [(next(to), to), (next(to), to)]).collect();
            let layout = layout(&widths, &edges);
            for ((from, to), chain) in edges.iter().zip(&layout.edges) {
                assert_eq!((chain.first(), chain.last()), (Some(&layout.places[*from]), Some(&layout.places[*to])));
                assert!(chain.windows(2).all(|pair| pair[0].1 + 1 == pair[1].1), "an edge skips a layer");
            }
            for layer in 0..layout.layers {
                let mut row: Vec<(f64, f64)> = (0..count)
                    .filter(|k| layout.places[*k].1 == layer)
                    .map(|k| (layout.places[k].0, widths[k]))
                    .collect();
                row.sort_by(|a, b| a.0.total_cmp(&b.0));
                assert!(!row.is_empty() && row.len() <= ROOM);
                let apart = |pair: &[(f64, f64)]| pair[1].0 - pair[0].0 - (pair[0].1 + pair[1].1) / 2.0;
                assert!(row.windows(2).all(|pair| apart(pair) > GAP - 1e-6), "nodes overlap");
                assert!(row.iter().all(|(x, width)| x - width / 2.0 > -1e-6 && x + width / 2.0 < layout.width + 1e-6));
            }
        }
    }

    #[test]
    fn chains_are_straight_and_trees_do_not_cross() {
        let chain = layout(&[50.0, 80.0, 20.0], &[(0, 1), (1, 2)]);
        assert!(chain.places.iter().all(|(x, _)| (x - 40.0).abs() < 1e-6), "{chain:?}");
        // 0 and 1 feed 5, 2 and 3 feed 4: their order must change.
        let tree = layout(&[10.0; 7], &[(0, 5), (2, 4), (1, 5), (3, 4), (4, 6), (5, 6)]);
        let x = |k: usize| tree.places[k].0;
        assert_eq!(x(0).max(x(1)) < x(2).min(x(3)), x(5) < x(4), "{tree:?}");
    }
}
