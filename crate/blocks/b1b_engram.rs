//! # 1B: Engram, an n-gram memory
//!
//! In front of two layers, every position looks up rows of a huge table. Which rows follows from the last four tokens alone: their ids are
//! compressed (case, accents and spaces folded), and for each n-gram size from 2 to 4 a hash per head picks a row:
//!
//! ```text
//! t_k   = compressed id k places back; pad where the sequence or an image blocks the view
//! v_n   = xor over k < n of t_k m_k                    u64, m: the layer's multipliers
//! row   = v_n mod prime[n][head] + offset[n][head]     24 rows of 256 FP8 numbers
//! key, value = W rows                                  one key per stream, one value for all
//! gate_c = sigmoid(copysign(sqrt(max(|d|, 1e-6)), d))  d: normalised product of stream c and its key
//! h_c  += gate_c value                                 nothing for image tokens
//! ```
//!
//! Specification: section 2.

use super::context::Context;
use crate::image::TokenType;
use crate::numerics::linear::Matrix;
use crate::numerics::ops::sigmoid;
use crate::weights::EngramTables;

/// Constants of one layer's hash; columns are ordered n-gram size first, then head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hash {
    /// One odd multiplier per place in the n-gram `[max n-gram]`.
    pub multipliers: Vec<u64>,
    /// One prime per column.
    pub primes: Vec<u64>,
    /// First table row of each column.
    pub offsets: Vec<u64>,
    /// Compressed id that stands for "nothing there".
    pub pad: u32,
}

/// Weights of one layer's projection and gate; the table itself stays in the checkpoint and is read row by row.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Key and value projection `[(streams + 1) * dim, columns * row width]`.
    pub wkv: Matrix,
    /// Gate weight on the stream's side `[streams, dim]`.
    pub q_weight: Vec<f32>,
    /// Gate weight on the key's side `[streams, dim]`.
    pub k_weight: Vec<f32>,
}

impl Hash {
    /// The hash of Engram layer number `which`.
    pub fn of(tables: &EngramTables, which: usize) -> Self {
        Hash {
            multipliers: tables.multipliers[which].clone(),
            primes: tables.primes[which].clone(),
            offsets: tables.offsets[which].clone(),
            pad: tables.pad_id,
        }
    }

    /// Table rows of the newest position of `history` (oldest first, at most the longest n-gram; `None` inside an image). Section 2.3.
    pub fn rows(&self, history: &[Option<u32>]) -> Vec<u64> {
        let sizes = self.multipliers.len() - 1;
        let heads = self.primes.len() / sizes;
        let mut blocked = false;
        let mut mixed = 0u64;
        let mut rows = Vec::with_capacity(self.primes.len());
        for (back, multiplier) in self.multipliers.iter().enumerate() {
            let seen = history.len().checked_sub(back + 1).and_then(|place| history[place]);
            // Once something blocks the view, everything before it is out of sight too.
            blocked = blocked || seen.is_none();
            let id = if blocked { self.pad } else { seen.unwrap_or(self.pad) };
            mixed ^= u64::from(id).wrapping_mul(*multiplier);
            if back > 0 {
                let columns = (back - 1) * heads..back * heads;
                rows.extend(columns.map(|column| mixed % self.primes[column] + self.offsets[column]));
            }
        }
        rows
    }
}

/// Adds the memory to the streams `[n, h, dim]`, given the decoded rows `[n, columns * row width]`. Returns the gates `[n, h]`.
pub fn apply(context: &Context, weights: &Weights, streams: &mut [f32], rows: &[f32], types: &[TokenType]) -> Vec<f32> {
    let config = &context.config;
    let (lanes, dim) = (config.hc_mult, config.dim);
    let projected = context.numerics.linear(&weights.wkv, rows, types.len());
    let mut gates = Vec::with_capacity(types.len() * lanes);
    for ((h, token), projected) in
        streams.chunks_exact_mut(lanes * dim).zip(types).zip(projected.chunks_exact((lanes + 1) * dim))
    {
        let (keys, value) = projected.split_at(lanes * dim);
        for (lane, (h, key)) in h.chunks_exact_mut(dim).zip(keys.chunks_exact(dim)).enumerate() {
            let q = &weights.q_weight[lane * dim..][..dim];
            let k = &weights.k_weight[lane * dim..][..dim];
            let gate = if token.is_image() { 0.0 } else { gate(h, key, q, k, config.norm_eps) };
            h.iter_mut().zip(value).for_each(|(h, v)| *h += gate * v);
            gates.push(gate);
        }
    }
    context.numerics.round(streams);
    gates
}

/// Gate of one stream `h` and its `key`, both `[dim]` (section 2.4).
fn gate(h: &[f32], key: &[f32], q_weight: &[f32], k_weight: &[f32], eps: f32) -> f32 {
    let rstd = |x: &[f32]| {
        let mean_square = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / x.len() as f64;
        1.0 / (mean_square + f64::from(eps)).sqrt()
    };
    let weighted: f64 = (h.iter().zip(key).zip(q_weight.iter().zip(k_weight)))
        .map(|((&h, &key), (&q, &k))| f64::from(h) * f64::from(q * k) * f64::from(key))
        .sum();
    let dot = (weighted * rstd(h) * rstd(key) / (h.len() as f64).sqrt()) as f32;
    sigmoid(dot.abs().max(1e-6).sqrt().copysign(dot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn hashes() -> [Hash; 2] {
        let tables = EngramTables::released(&Config::flash()).unwrap();
        [0, 1].map(|which| Hash::of(&tables, which))
    }

    fn at(hash: &Hash, history: &[Option<u32>], position: usize) -> Vec<u64> {
        hash.rows(&history[..=position])
    }

    /// The made-up history of section 2.3, with an image in it.
    #[test]
    fn rows_at_the_start_and_across_an_image() {
        let history: Vec<Option<u32>> =
            [0, 5, 17, 99091, 2, 1000, -1, -1, 42, 43, 44, 45i64].map(|id| u32::try_from(id).ok()).to_vec();
        let [first, second] = hashes();
        #[rustfmt::skip]
        assert_eq!(at(&first, &history, 0), [
            5702652, 24393184, 39183301, 61503783, 78984481, 90144770, 103724983, 121476532, 131476717, 152385926, 164143652, 191599181,
            198145581, 217419202, 238329687, 247482304, 257520185, 283540304, 288689443, 315264704, 322314652, 348890037, 367865216, 380066193,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&second, &history, 0), [
            14361964, 29977809, 32716444, 61209771, 67456205, 84275051, 108494439, 120604547, 132225184, 150270452, 174805952, 178895254,
            193207923, 211610196, 226280582, 252505246, 261362261, 279862797, 301364059, 312864848, 328367036, 349372619, 363873742, 372375971,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&first, &history, 5), [
            3617660, 30972310, 34928021, 50659852, 66544974, 82583410, 106617133, 127844743, 134533047, 157800810, 164169936, 177357326,
            204180299, 215475199, 239771971, 254104027, 271140945, 280887198, 290214365, 304349525, 330318324, 346088358, 356741401, 372155724,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&first, &history, 8), [
            5873501, 24050256, 38794266, 60749492, 77694306, 88679167, 102172266, 118868640, 140595404, 145323553, 160597739, 176998523,
            204675867, 218519855, 239292479, 244787595, 271646719, 273372496, 299017323, 319841325, 333724509, 338549650, 358463331, 382017429,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&second, &history, 9), [
            7705693, 30489448, 41833535, 60065723, 69182557, 82552264, 100692486, 125778164, 133044463, 159127177, 168116538, 188283944,
            194870913, 221635166, 228929120, 247367277, 263818936, 276835035, 301188194, 316198693, 333911009, 344015386, 354356170, 374060102,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&first, &history, 11), [
            1949746, 25152458, 33080668, 48510073, 79667477, 95390188, 111252272, 117563876, 132290318, 150182253, 166603816, 187049517,
            205607474, 222891355, 224822683, 242330062, 256454020, 278038552, 293350760, 317007617, 332778991, 340435847, 362267392, 377357355,
        ]);
    }

    /// Real text through the released token map: BOS User "question" Assistant <think> "reason" </think> "answer" EOS.
    #[test]
    fn rows_of_real_text() {
        let tables = EngramTables::released(&Config::flash()).unwrap();
        let ids = [0, 128803, 20072, 128804, 128821, 86512, 128822, 19995, 1];
        let history: Vec<Option<u32>> = ids.iter().map(|&id: &usize| Some(tables.token_map[id])).collect();
        assert_eq!(
            history.iter().flatten().copied().collect::<Vec<_>>(),
            [0, 98615, 2891, 98616, 98633, 3356, 98634, 2786, 1]
        );
        #[rustfmt::skip]
        assert_eq!(at(&Hash::of(&tables, 0), &history, 4), [
            922518, 21253474, 43503579, 54459416, 76745906, 92135496, 101322931, 116124939, 140943127, 147786244, 173391090, 182624429,
            196266571, 216590186, 239953325, 245460053, 258258051, 272189827, 289476122, 306432294, 323185739, 340489501, 353587018, 377604785,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&Hash::of(&tables, 1), &history, 4), [
            4205395, 31651554, 44178563, 59070850, 74879483, 86785079, 97611423, 126360348, 136812424, 146544618, 172235148, 177397863,
            205449876, 211760148, 233603798, 249364861, 259316843, 283294458, 295864758, 318577074, 324382242, 345784513, 360816073, 375580387,
        ]);
        #[rustfmt::skip]
        assert_eq!(at(&Hash::of(&tables, 0), &history, 8), [
            12650295, 25253520, 45310968, 61784927, 78546121, 94813349, 102949479, 124791889, 141686485, 155369190, 168514743, 181236497,
            201249989, 217225883, 232650849, 247282619, 263884853, 278046926, 295856410, 306293090, 335152130, 347290966, 362551268, 374495036,
        ]);
    }
}
