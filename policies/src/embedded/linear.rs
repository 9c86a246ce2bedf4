//! y = W·x + b for many rows of x.
//!
//! Every output is bias + w₀x₀ + w₁x₁ + … in this order, each product and each sum rounded to float32.
//! What is computed at once are different outputs and rows, so that the width of the machine's vectors
//! and the number of rows change the speed and never a bit of the result.

/// Outputs computed together.
const PANEL: usize = 16;
/// Rows computed together, where there are as many.
const ROWS: usize = 4;

/// A matrix with its bias.
#[derive(Clone, Debug)]
pub struct Linear {
    inputs: usize,
    outputs: usize,
    /// For each panel of outputs, for each input, its weights; zeros fill the last panel.
    weights: Vec<[f32; PANEL]>,
    /// For each panel of outputs.
    bias: Vec<[f32; PANEL]>,
}

impl Linear {
    /// `weights` is outputs × inputs, the inputs contiguous; `inputs` > 0.
    pub fn new(inputs: usize, weights: &[f32], bias: &[f32]) -> Linear {
        let outputs = bias.len();
        let panels = outputs.div_ceil(PANEL);
        let mut packed = vec![[0.0; PANEL]; panels * inputs];
        let mut packed_bias = vec![[0.0; PANEL]; panels];
        for (output, (row, &b)) in weights.chunks_exact(inputs).zip(bias).enumerate() {
            let (panel, lane) = (output / PANEL, output % PANEL);
            packed_bias[panel][lane] = b;
            for (to, &w) in packed[panel * inputs..].iter_mut().zip(row) {
                to[lane] = w;
            }
        }
        Linear { inputs, outputs, weights: packed, bias: packed_bias }
    }

    /// Width of y.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// W·x + b for each row of `x` (rows × inputs): rows × outputs.
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut y = vec![0.0; x.len() / self.inputs * self.outputs];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, the one feature that the function asks for.
            #[allow(unsafe_code, reason = "a safe function compiled once more, for wider vectors")]
            unsafe {
                self.apply_avx2(x, &mut y)
            };
            return y;
        }
        self.apply_plain(x, &mut y);
        y
    }

    /// The same operations in vectors of 8. The feature does not include fused multiply-add, and Rust
    /// never fuses by itself: the bits are the same.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn apply_avx2(&self, x: &[f32], y: &mut [f32]) {
        self.apply_plain(x, y);
    }

    #[inline(always)]
    fn apply_plain(&self, x: &[f32], y: &mut [f32]) {
        let (blocks, rest) = x.split_at(x.len() - x.len() % (ROWS * self.inputs));
        let together = interleaved(blocks, self.inputs);
        let first = blocks.len() / self.inputs;
        for (panel, (weights, bias)) in self.weights.chunks_exact(self.inputs).zip(&self.bias).enumerate() {
            for (n, block) in together.chunks_exact(self.inputs).enumerate() {
                self.put(panel, n * ROWS, sums(block, weights, bias), y);
            }
            for (n, row) in rest.chunks_exact(self.inputs).enumerate() {
                self.put(panel, first + n, sums(row.as_chunks::<1>().0, weights, bias), y);
            }
        }
    }

    /// Writes what was computed for a panel's outputs, from `row` on.
    #[inline(always)]
    fn put<const N: usize>(&self, panel: usize, row: usize, sums: [[f32; PANEL]; N], y: &mut [f32]) {
        let first = panel * PANEL;
        let width = (self.outputs - first).min(PANEL);
        for (y, sums) in y[row * self.outputs..].chunks_exact_mut(self.outputs).zip(sums) {
            y[first..first + width].copy_from_slice(&sums[..width]);
        }
    }
}

/// For each block of rows, for each input, its value in each of the rows.
fn interleaved(blocks: &[f32], inputs: usize) -> Vec<[f32; ROWS]> {
    let values = blocks.chunks_exact(ROWS * inputs).flat_map(|block| {
        (0..inputs).map(move |input| std::array::from_fn(|row| block[row * inputs + input]))
    });
    values.collect()
}

/// bias + Σ w·x of one panel for N rows; `x` has each input's value in each row.
#[inline(always)]
fn sums<const N: usize>(x: &[[f32; N]], weights: &[[f32; PANEL]], bias: &[f32; PANEL]) -> [[f32; PANEL]; N] {
    let mut sums = [*bias; N];
    for (w, x) in weights.iter().zip(x) {
        for n in 0..N {
            for lane in 0..PANEL {
                sums[n][lane] += w[lane] * x[n];
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, one output after the other.
    fn plain(inputs: usize, weights: &[f32], bias: &[f32], x: &[f32]) -> Vec<f32> {
        let output = |x: &[f32], output: usize| {
            let row = &weights[output * inputs..][..inputs];
            row.iter().zip(x).fold(bias[output], |sum, (w, x)| sum + w * x)
        };
        x.chunks_exact(inputs).flat_map(|x| (0..bias.len()).map(move |o| output(x, o))).collect()
    }

    #[test]
    fn every_bit_is_that_of_the_definition_at_any_width_and_number_of_rows() {
        for (inputs, outputs, rows) in [(1, 1, 1), (40, 512, 1), (7, 16, 4), (33, 17, 9), (128, 5, 256)] {
            let noise = |seed: usize, n: usize| -> Vec<f32> {
                (0..n).map(|i| ((i * 7919 + seed) % 1009) as f32 / 500.0 - 1.0).collect()
            };
            let (weights, bias) = (noise(1, inputs * outputs), noise(2, outputs));
            let x = noise(3, rows * inputs);
            let linear = Linear::new(inputs, &weights, &bias);
            let expected = plain(inputs, &weights, &bias, &x);
            assert_eq!(linear.apply(&x), expected);
            let mut y = vec![0.0; rows * outputs];
            linear.apply_plain(&x, &mut y);
            assert_eq!(y, expected);
        }
    }
}
