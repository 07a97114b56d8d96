//! Where the boxes of a graph and the edges between them stand: in layers, from the top down.
//!
//! Pure. An edge that leads back counts in the other direction, so that the layers have an order.
//! An edge that passes a layer takes a place in it, as a narrow box does.

use std::collections::VecDeque;

/// The height of a box.
pub(crate) const HEIGHT: f64 = 46.0;
/// Between two layers: room for the label of an edge.
const DOWN: f64 = 46.0;
/// Between two boxes of a layer.
const BESIDE: f64 = 28.0;
/// The width that an edge takes in a layer that it passes.
const PASSING: f64 = 12.0;
/// How often the boxes are moved towards their neighbors.
const ROUNDS: usize = 12;

/// The places of boxes and edges.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Layout {
    /// The left upper corner of each box.
    pub(crate) boxes: Vec<(f64, f64)>,
    /// The edges, in the order in which they were given.
    pub(crate) edges: Vec<DrawnEdge>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// An edge between two boxes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DrawnEdge {
    /// Where it begins, passes and ends, in its direction.
    pub(crate) points: Vec<(f64, f64)>,
    /// `true` if it leads up, or to its own box.
    pub(crate) is_back: bool,
}

/// Places boxes of these widths, with edges between them by their indexes.
pub(crate) fn layout(widths: &[f64], edges: &[(usize, usize)]) -> Layout {
    let back = back_edges(widths.len(), edges);
    let down: Vec<(usize, usize)> = edges
        .iter()
        .zip(&back)
        .map(|((from, to), is_back)| if *is_back { (*to, *from) } else { (*from, *to) })
        .collect();
    let mut grid = Grid::new(widths, &down);
    grid.sort();
    grid.place();
    grid.layout(widths, edges, &back)
}

/// Returns for each edge whether it leads back to a box on the path to its own, or to its own box.
fn back_edges(nodes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut out = vec![Vec::new(); nodes];
    for (index, (from, _)) in edges.iter().enumerate() {
        out[*from].push(index);
    }
    let mut states = vec![0_u8; nodes];
    let mut back = vec![false; edges.len()];
    for root in 0..nodes {
        let mut path = if states[root] == 0 { vec![(root, 0)] } else { Vec::new() };
        while let Some((node, next)) = path.pop() {
            states[node] = OPEN;
            let Some(edge) = out[node].get(next) else {
                states[node] = DONE;
                continue;
            };
            path.push((node, next + 1));
            let to = edges[*edge].1;
            match states[to] {
                OPEN => back[*edge] = true,
                DONE => {}
                _ => path.push((to, 0)),
            }
        }
    }
    back
}

/// Returns the layer of each box: its longest distance from a box that nothing leads to.
fn layers(nodes: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let mut incoming = vec![0_usize; nodes];
    let mut out = vec![Vec::new(); nodes];
    for (from, to) in down.iter().filter(|(from, to)| from != to) {
        incoming[*to] += 1;
        out[*from].push(*to);
    }
    let mut layers = vec![0; nodes];
    let mut ready: VecDeque<usize> = (0..nodes).filter(|node| incoming[*node] == 0).collect();
    while let Some(node) = ready.pop_front() {
        for to in &out[node] {
            layers[*to] = layers[*to].max(layers[node] + 1);
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                ready.push_back(*to);
            }
        }
    }
    layers
}

/// The boxes, and the places of passing edges, in layers.
struct Grid {
    widths: Vec<f64>,
    layer_of: Vec<usize>,
    /// The members of each layer, from left to right.
    layers: Vec<Vec<usize>>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The members of each edge, from the top down.
    chains: Vec<Vec<usize>>,
    centers: Vec<f64>,
}

impl Grid {
    fn new(widths: &[f64], down: &[(usize, usize)]) -> Self {
        let layer_of = layers(widths.len(), down);
        let mut grid = Self {
            widths: widths.to_vec(),
            layers: vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)],
            layer_of,
            above: vec![Vec::new(); widths.len()],
            below: vec![Vec::new(); widths.len()],
            chains: Vec::new(),
            centers: Vec::new(),
        };
        for node in 0..widths.len() {
            grid.layers[grid.layer_of[node]].push(node);
        }
        for (from, to) in down {
            let chain = grid.chain(*from, *to);
            grid.chains.push(chain);
        }
        grid
    }

    /// Adds an edge with a place in each layer that it passes.
    fn chain(&mut self, from: usize, to: usize) -> Vec<usize> {
        let mut chain = vec![from];
        for layer in self.layer_of[from] + 1..self.layer_of[to] {
            let place = self.widths.len();
            self.widths.push(PASSING);
            self.layer_of.push(layer);
            self.above.push(Vec::new());
            self.below.push(Vec::new());
            self.layers[layer].push(place);
            chain.push(place);
        }
        chain.push(to);
        for pair in chain.windows(2).filter(|pair| pair[0] != pair[1]) {
            self.below[pair[0]].push(pair[1]);
            self.above[pair[1]].push(pair[0]);
        }
        chain
    }

    /// Orders each layer by the mean place of the neighbors in the layer before, so that few
    /// edges cross.
    fn sort(&mut self) {
        for round in 0..ROUNDS {
            let is_down = round % 2 == 0;
            let mut ranks = vec![0.0; self.widths.len()];
            for layer in self.order(is_down) {
                let neighbors = if is_down { &self.above } else { &self.below };
                let mut members: Vec<(f64, usize)> = self.layers[layer]
                    .iter()
                    .enumerate()
                    .map(|(place, node)| (mean(&neighbors[*node], &ranks).unwrap_or(place as f64), *node))
                    .collect();
                members.sort_by(|one, other| one.0.total_cmp(&other.0));
                self.layers[layer] = members.into_iter().map(|(_, node)| node).collect();
                for (rank, node) in self.layers[layer].iter().enumerate() {
                    ranks[*node] = rank as f64;
                }
            }
        }
    }

    /// Returns the layers in the order of a pass.
    fn order(&self, is_down: bool) -> Vec<usize> {
        let layers = 0..self.layers.len();
        if is_down { layers.collect() } else { layers.rev().collect() }
    }

    /// Moves the members of each layer under and over their neighbors, without a change of order.
    fn place(&mut self) {
        self.centers = vec![0.0; self.widths.len()];
        for layer in 0..self.layers.len() {
            let steps = self.steps(layer);
            for (node, at) in self.layers[layer].iter().zip(steps) {
                self.centers[*node] = at;
            }
        }
        for round in 0..=ROUNDS {
            let is_down = round % 2 == 0;
            for layer in self.order(is_down) {
                let neighbors = if is_down { &self.above } else { &self.below };
                let steps = self.steps(layer);
                let wanted: Vec<f64> = self.layers[layer]
                    .iter()
                    .zip(&steps)
                    .map(|(node, step)| mean(&neighbors[*node], &self.centers).unwrap_or(self.centers[*node]) - step)
                    .collect();
                for ((node, step), shift) in self.layers[layer].iter().zip(&steps).zip(rising(&wanted)) {
                    self.centers[*node] = shift + step;
                }
            }
        }
    }

    /// Returns the centers of the members of a layer that stand as near as they may.
    fn steps(&self, layer: usize) -> Vec<f64> {
        let mut at = 0.0;
        let centers = self.layers[layer].iter().map(|node| {
            let center = at + self.widths[*node] / 2.0;
            at += self.widths[*node] + BESIDE;
            center
        });
        centers.collect()
    }

    fn layout(&self, widths: &[f64], edges: &[(usize, usize)], back: &[bool]) -> Layout {
        let left = |node: usize| self.centers[node] - self.widths[node] / 2.0;
        let first = (0..self.widths.len()).map(left).fold(f64::INFINITY, f64::min).min(f64::MAX);
        let top = |node: usize| self.layer_of[node] as f64 * (HEIGHT + DOWN);
        let boxes: Vec<(f64, f64)> = (0..widths.len()).map(|node| (left(node) - first, top(node))).collect();
        let drawn = |((from, to), (chain, is_back)): (&(usize, usize), (&Vec<usize>, &bool))| {
            let points = match from == to {
                true => around(boxes[*from], widths[*from]),
                false => self.points(chain, *is_back, first),
            };
            DrawnEdge { points, is_back: *is_back }
        };
        let edges: Vec<DrawnEdge> = edges.iter().zip(self.chains.iter().zip(back)).map(drawn).collect();
        let rights = boxes.iter().zip(widths).map(|(place, width)| place.0 + width);
        let passed = edges.iter().flat_map(|edge| edge.points.iter().map(|point| point.0));
        let width = rights.chain(passed).fold(0.0, f64::max);
        let height = boxes.iter().map(|place| place.1 + HEIGHT).fold(0.0, f64::max);
        Layout { boxes, edges, width, height }
    }

    /// Returns the points of an edge in its direction. An edge back stands beside the edge down.
    fn points(&self, chain: &[usize], is_back: bool, first: f64) -> Vec<(f64, f64)> {
        let aside = |node: usize| if is_back { (self.widths[node] / 4.0).min(40.0) } else { 0.0 };
        let mut points = Vec::new();
        for (index, node) in chain.iter().enumerate() {
            let top = self.layer_of[*node] as f64 * (HEIGHT + DOWN);
            let center = self.centers[*node] - first + aside(*node);
            if index > 0 {
                points.push((center, top));
            }
            if index + 1 < chain.len() {
                points.push((center, top + HEIGHT));
            }
        }
        if is_back {
            points.reverse();
        }
        points
    }
}

/// Returns the points of an edge that leads to its own box.
fn around((left, top): (f64, f64), width: f64) -> Vec<(f64, f64)> {
    let right = left + width;
    let out = right + BESIDE / 2.0;
    vec![(right, top + HEIGHT * 0.7), (out, top + HEIGHT * 0.5), (right, top + HEIGHT * 0.3)]
}

fn mean(nodes: &[usize], values: &[f64]) -> Option<f64> {
    let sum: f64 = nodes.iter().map(|node| values[*node]).sum();
    (!nodes.is_empty()).then(|| sum / nodes.len() as f64)
}

/// Returns the numbers that never fall and are nearest to these: runs of numbers that fall have
/// their mean.
fn rising(numbers: &[f64]) -> Vec<f64> {
    let mut runs: Vec<(f64, usize)> = Vec::new();
    for number in numbers {
        let (mut sum, mut count) = (*number, 1);
        while let Some((before, many)) = runs.last().copied() {
            if before / many as f64 <= sum / count as f64 {
                break;
            }
            runs.pop();
            sum += before;
            count += many;
        }
        runs.push((sum, count));
    }
    runs.into_iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / count as f64, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places boxes of one width.
    fn placed(nodes: usize, edges: &[(usize, usize)]) -> Layout {
        layout(&vec![100.0; nodes], edges)
    }

    #[test]
    fn a_line_stands_below_itself() {
        let drawn = placed(3, &[(0, 1), (1, 2)]);
        assert_eq!(drawn.boxes, [(0.0, 0.0), (0.0, HEIGHT + DOWN), (0.0, 2.0 * (HEIGHT + DOWN))]);
        assert_eq!(drawn.edges[0].points, [(50.0, HEIGHT), (50.0, HEIGHT + DOWN)]);
        assert_eq!((drawn.width, drawn.height), (100.0, 3.0 * HEIGHT + 2.0 * DOWN));
    }

    #[test]
    fn branches_stand_beside_each_other_under_their_middle() {
        let drawn = placed(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let [top, left, right, bottom] = drawn.boxes[..] else { unreachable!() };
        assert_eq!((left.1, right.1), (right.1, left.1));
        assert_eq!(right.0 - left.0, 100.0 + BESIDE);
        assert_eq!(((left.0 + right.0) / 2.0, top.0), (top.0, bottom.0));
    }

    #[test]
    fn an_edge_back_leads_up_and_one_to_itself_goes_around() {
        let drawn = placed(2, &[(0, 1), (1, 0), (1, 1)]);
        assert_eq!(drawn.edges.iter().map(|edge| edge.is_back).collect::<Vec<_>>(), [false, true, true]);
        let [from, to] = drawn.edges[1].points[..] else { unreachable!() };
        assert!(from.1 > to.1 && from.0 > 50.0, "{from:?} {to:?}");
        assert_eq!(drawn.edges[2].points.len(), 3);
    }

    #[test]
    fn an_edge_that_passes_a_layer_crosses_no_box() {
        let drawn = placed(3, &[(0, 1), (1, 2), (0, 2)]);
        let (left, top) = drawn.boxes[1];
        for (x, _) in drawn.edges[2].points.iter().filter(|(_, y)| (top..=top + HEIGHT).contains(y)) {
            assert!(*x < left || *x > left + 100.0, "{:?}", drawn.edges[2]);
        }
    }

    #[test]
    fn any_graph_has_places_that_do_not_overlap() {
        let mut random = 7_u64;
        for nodes in 1..40 {
            let edges: Vec<(usize, usize)> = (0..nodes * 2)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let one = usize::try_from(random >> 33).unwrap_or_default();
                    (one % nodes, one / nodes % nodes)
                })
                .collect();
            let drawn = placed(nodes, &edges);
            assert_eq!((drawn.boxes.len(), drawn.edges.len()), (nodes, edges.len()));
            for (index, one) in drawn.boxes.iter().enumerate() {
                assert!(one.0 >= 0.0 && one.0.is_finite(), "{one:?}");
                let beside = drawn.boxes[index + 1..].iter().filter(|other| other.1 == one.1);
                assert!(beside.into_iter().all(|other| (other.0 - one.0).abs() > 99.0), "{nodes}: {drawn:?}");
            }
        }
        assert_eq!(placed(0, &[]), Layout::default());
    }
}
