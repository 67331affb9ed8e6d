//! Parameters that one token passes: by formula, and counted in the checkpoint.

use super::split;
use crate::blocks::b3a_encoder_decoder::{ActiveParameters, active_parameters, layer_parameters};
use crate::config::Config;
use crate::lab::content::{Badge, Check, Table, Text};
use crate::lab::run::Run;
use crate::weights::{Checkpoint, Dtype};

/// Parameters that one token passes, in this model and in the release.
pub(super) fn table(run: &Run) -> Table {
    let columns = vec![
        Text::new("mô hình", "model"),
        Text::new("prefill, mỗi token", "prefill, per token"),
        Text::new("decode, mỗi token", "decode, per token"),
        Text::new("tỷ số", "ratio"),
    ];
    let title = Text::new("Tham số hoạt động", "Active parameters");
    let mut table = Table::new(title, Badge::Config, columns);
    let (here, release) = (active_parameters(run.config()), active_parameters(&Config::flash()));
    for (name, count) in
        [(Text::new("đang chạy", "this one"), here), (Text::new("bản phát hành", "the release"), release)]
    {
        let ratio = count.decode as f64 / count.prefill as f64;
        table.push(vec![name.into(), count.prefill.into(), count.decode.into(), ratio.into()]);
    }
    table
}

/// Active parameters, counted in the tensors of the checkpoint: the sums, and each layer's.
fn count(checkpoint: &Checkpoint) -> (ActiveParameters, Vec<u64>) {
    let config = &checkpoint.config;
    let split = split(config);
    let (mut projected, mut besides) = (0, 0);
    let mut layers = vec![0; config.n_layers];
    // Of the routed experts a token passes k of N; all have the same size. Counting in units of 1/N keeps the sum whole.
    let experts = config.n_routed_experts as u64;
    for info in checkpoint.tensors().iter().filter(|info| !info.name.ends_with(".scale")) {
        let packed = if info.dtype == Dtype::I8 { 2 } else { 1 };
        let size = packed * info.shape.iter().map(|&side| side as u64).product::<u64>();
        let Some((layer, name)) = info.name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) else {
            besides += match info.name.as_str() {
                "head.weight" | "norm.weight" => size,
                "embed.weight" => size / config.vocab_size as u64,
                _ => 0,
            };
            continue;
        };
        if name == "engram.embed.weight" {
            besides += info.shape.get(1).map_or(0, |&width| (width * config.engram_columns()) as u64);
            continue;
        }
        let share = if name.starts_with("ffn.experts.") { config.n_activated_experts as u64 } else { experts };
        let layer: usize = layer.parse().unwrap_or(usize::MAX);
        if let Some(sum) = layers.get_mut(layer) {
            *sum += size * share;
        }
        if layer == split && PROJECTIONS.contains(&name) {
            projected += size;
        }
    }
    layers.iter_mut().for_each(|sum| *sum /= experts);
    let all = layers.iter().sum::<u64>();
    let prefill = layers[..split].iter().sum::<u64>() + projected;
    (ActiveParameters { prefill, layers: all, decode: all + besides }, layers)
}

/// What the last source runs for every position of a prompt.
const PROJECTIONS: [&str; 5] = [
    "attn.wkv.weight",
    "attn.compressor.wkv.weight",
    "attn.compressor.norm.weight",
    "attn.indexer.wk.weight",
    "attn.indexer.k_norm.weight",
];

pub(super) fn counted(run: &Run) -> Check {
    let config = run.config();
    let ((counted, by_layer), formula) = (count(&run.checkpoint), active_parameters(config));
    let wrong = (0..config.n_layers).filter(|&layer| by_layer[layer] != layer_parameters(config, layer)).count();
    let sums =
        format!("prefill {} = {}, decode {} = {}", counted.prefill, formula.prefill, counted.decode, formula.decode);
    let what = Text::new(
        "Tham số hoạt động đếm trong tệp trọng số bằng công thức theo cấu hình, cả ở từng lớp",
        "Active parameters counted in the checkpoint equal the formula of the config, layer by layer too",
    );
    let numbers = Text::of(
        format!("{sums}; sai {wrong} lớp trong {}", config.n_layers),
        format!("{sums}; {wrong} layers wrong of {}", config.n_layers),
    );
    Check::new(what, counted == formula && wrong == 0, numbers)
}
