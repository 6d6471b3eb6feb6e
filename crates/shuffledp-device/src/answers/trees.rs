//! Bins that agree with groups of bins (docs/accounting.md, N10).

use std::collections::BTreeMap;

/// Groups of neighbouring bins. Width 1 has no groups; then all bins are one group, which is not counted.
pub struct BinTree {
    bins: usize,
    is_grouped: bool,
    step: usize,
    widths: Vec<f64>,
    variances: Vec<f64>,
}

impl BinTree {
    pub fn new(bins: u64, width: u64) -> Self {
        let is_grouped = width > 1;
        let (bins, step) = (bins as usize, if is_grouped { width } else { bins } as usize);
        let widths: Vec<f64> = (0..bins.div_ceil(step)).map(|at| step.min(bins - at * step) as f64).collect();
        let variance = |width: &f64| if is_grouped { width / (width + 1.0) } else { *width };
        let variances = widths.iter().map(variance).collect();
        Self { bins, is_grouped, step, widths, variances }
    }

    /// The estimate of all bins; `columns` has the counts of groups, if there are groups, then those of bins.
    pub fn consistent(&self, columns: &[Vec<f64>], total: f64) -> Vec<f64> {
        let counts = &columns[columns.len() - 1];
        let sums: Vec<f64> = counts.chunks(self.step).map(|group| group.iter().sum()).collect();
        let group = |at: usize| match self.is_grouped {
            true => (columns[0][at] * self.widths[at] + sums[at]) / (self.widths[at] + 1.0),
            false => sums[at],
        };
        let groups: Vec<f64> = (0..sums.len()).map(group).collect();
        let rest = total - groups.iter().sum::<f64>();
        let all: f64 = self.variances.iter().sum();
        let estimate = |(bin, count): (usize, &f64)| {
            let at = bin / self.step;
            count + (groups[at] + rest * self.variances[at] / all - sums[at]) / self.widths[at]
        };
        counts.iter().enumerate().map(estimate).collect()
    }

    /// Sizes of the weights of counts in the estimate of a bin, and how many counts have each.
    pub fn weights_of(&self, bin: usize) -> Vec<(f64, f64)> {
        let own = bin / self.step;
        let all: f64 = self.variances.iter().sum();
        let common = self.variances[own] / all / self.widths[own];
        let first = |at: usize| if at == own { 1.0 / self.widths[own] } else { 0.0 };
        let moved: Vec<f64> = (0..self.widths.len()).map(|at| first(at) - common).collect();
        let of_bin = |at: usize| {
            let group = at / self.step;
            let shared = if self.is_grouped { self.widths[group] + 1.0 } else { 1.0 };
            f64::from(u8::from(at == bin)) - first(group) + moved[group] / shared
        };
        let mut weights: Vec<f64> = (0..self.bins).map(of_bin).collect();
        if self.is_grouped {
            weights.extend(moved.iter().zip(&self.variances).map(|(weight, variance)| weight * variance));
        }
        let mut kinds: BTreeMap<u64, f64> = BTreeMap::new();
        for weight in weights {
            *kinds.entry((weight.abs() * 1e10).round() as u64).or_default() += 1.0;
        }
        kinds.into_iter().map(|(size, number)| (size as f64 / 1e10, number)).collect()
    }

    /// Whether a bin is in a group of fewer bins than the others.
    pub fn is_narrow(&self, bin: usize) -> bool {
        self.widths[bin / self.step] < self.widths[0]
    }
}
