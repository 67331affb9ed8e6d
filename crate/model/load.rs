//! From a checkpoint's tensors to the weights of each block. Names are those of section 11.3.

use super::reference::{Backbone, Reference};
use super::slots::Slots;
use crate::blocks::b1a_input::{self as input, VitBlock};
use crate::blocks::b5a_experts::{self as experts, Expert};
use crate::blocks::b6b_head_dspark::{Drafter, Head};
use crate::blocks::context::Context;
use crate::blocks::layer::Layer;
use crate::blocks::mistake::Mistake;
use crate::blocks::{b1b_engram as engram, b2a_hyper_connection as hyper, b3b_compressor as compressor};
use crate::blocks::{b3c_window_indexer as indexer, b4a_latent_attention as attention};
use crate::error::Result;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;
use crate::weights::Checkpoint;
use std::sync::Arc;

/// Where loading is: parts done, parts in all, and the one that begins.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);

impl Reference {
    /// Loads everything but the n-gram tables, which stay in the checkpoint.
    ///
    /// # Errors
    /// What reading or the tensors' contents say: missing tensors, wrong types, numbers that are not finite.
    pub async fn load(
        checkpoint: Arc<Checkpoint>,
        numerics: Precision,
        kv: Precision,
        progress: Progress<'_>,
    ) -> Result<Self> {
        Self::load_with(checkpoint.clone(), Context::new(&checkpoint.config, numerics, kv), progress).await
    }

    /// [`Self::load`] with a context of one's own: a planted mistake, stale index keys.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn load_with(checkpoint: Arc<Checkpoint>, context: Context, progress: Progress<'_>) -> Result<Self> {
        Self::load_slotted(checkpoint, context, None, progress).await
    }

    /// [`Self::load_with`] that leaves the backbone's routed experts where they are, if there are slots for them to come to.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn load_slotted(
        checkpoint: Arc<Checkpoint>,
        context: Context,
        slots: Option<Arc<Slots>>,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let loader = Loader { checkpoint: &checkpoint, context: &context };
        let config = &checkpoint.config;
        let parts = config.n_layers + 2;
        progress(0, parts, "embedding and vision tower");
        // A small checkpoint comes in a few requests; for a large one every part announces itself.
        if slots.is_none() {
            checkpoint.announce("").await?;
        }
        let input = loader.input().await?;
        let mut layers = Vec::with_capacity(config.n_layers);
        for index in 0..config.n_layers {
            progress(index + 1, parts, &format!("layer {index}"));
            layers.push(loader.backbone_without(index, slots.is_some()).await?);
        }
        progress(parts - 1, parts, "head and DSpark");
        let head = Head { norm: loader.vector("norm.weight").await?, head: loader.matrix("head").await? };
        let drafter = loader.drafter().await?;
        progress(parts, parts, "");
        Ok(Reference { input, layers, head, drafter, context, checkpoint, slots })
    }
}

pub(super) struct Loader<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) context: &'a Context,
}

impl Loader<'_> {
    pub(super) async fn vector(&self, name: &str) -> Result<Vec<f32>> {
        self.checkpoint.vector(name).await
    }

    pub(super) async fn matrix(&self, prefix: &str) -> Result<Matrix> {
        let mut matrix = self.checkpoint.matrix(prefix).await?;
        if let (Matrix::Fp4 { packed, .. }, Some(Mistake::NibblesSwapped)) = (&mut matrix, self.context.mistake) {
            packed.iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
        }
        Ok(matrix)
    }

    async fn with_bias(&self, prefix: &str) -> Result<(Matrix, Vec<f32>)> {
        Ok((self.matrix(prefix).await?, self.vector(&format!("{prefix}.bias")).await?))
    }

    pub(super) async fn input(&self) -> Result<input::Weights> {
        let mut weights = input::Weights { embed: self.matrix("embed").await?, image_marks: None, vision: None };
        if let Some(config) = &self.checkpoint.config.vision {
            self.checkpoint.announce("aligner.").await?;
            weights.image_marks = Some([
                self.vector("image_start").await?,
                self.vector("image_newline").await?,
                self.vector("image_end").await?,
            ]);
            let mut blocks = Vec::with_capacity(config.n_layers);
            for block in 0..config.n_layers {
                blocks.push(self.vit_block(&format!("vision.blocks.{block}")).await?);
            }
            weights.vision = Some(input::Vision {
                patch_embed: self.with_bias("vision.patch_embed.proj").await?,
                blocks,
                norm: self.vector("vision.norm.weight").await?,
                aligner_w1: self.with_bias("aligner.w1").await?,
                aligner_w2: self.with_bias("aligner.w2").await?,
            });
        }
        Ok(weights)
    }

    async fn vit_block(&self, p: &str) -> Result<VitBlock> {
        self.checkpoint.announce(&format!("{p}.")).await?;
        Ok(VitBlock {
            norm1: self.vector(&format!("{p}.norm1.weight")).await?,
            norm2: self.vector(&format!("{p}.norm2.weight")).await?,
            wqkv: self.with_bias(&format!("{p}.attn.wqkv")).await?,
            wo: self.with_bias(&format!("{p}.attn.wo")).await?,
            w1: self.matrix(&format!("{p}.mlp.w1")).await?,
            w2: self.matrix(&format!("{p}.mlp.w2")).await?,
        })
    }

    /// A layer, with or without its routed experts.
    pub(super) async fn backbone_without(&self, index: usize, no_experts: bool) -> Result<Backbone> {
        let config = &self.checkpoint.config;
        let p = format!("layers.{index}");
        // Experts that come later should not come now.
        self.checkpoint.announce(&if no_experts { format!("{p}.attn") } else { format!("{p}.") }).await?;
        let routed = if no_experts { 0 } else { config.n_routed_experts };
        let mut backbone = Backbone {
            layer: self.layer(&p, routed, config.n_activated_experts).await?,
            engram: None,
            compressor: None,
            indexer: None,
        };
        if let Some(which) = config.engram_layer_ids.iter().position(|&layer| layer == index) {
            let weights = engram::Weights {
                wkv: self.matrix(&format!("{p}.engram.wkv")).await?,
                q_weight: self.vector(&format!("{p}.engram.q_weight")).await?,
                k_weight: self.vector(&format!("{p}.engram.k_weight")).await?,
            };
            backbone.engram = Some((engram::Hash::of(&self.checkpoint.engram, which), weights));
        }
        if config.kv_source_layers.contains(&index) {
            let wgate = match config.ratio(index) {
                2 => Some(self.matrix(&format!("{p}.attn.compressor.wgate")).await?),
                _ => None,
            };
            backbone.compressor = Some(compressor::Weights {
                wkv: self.matrix(&format!("{p}.attn.compressor.wkv")).await?,
                wgate,
                norm: self.vector(&format!("{p}.attn.compressor.norm.weight")).await?,
                wk: self.matrix(&format!("{p}.attn.indexer.wk")).await?,
                k_norm: self.vector(&format!("{p}.attn.indexer.k_norm.weight")).await?,
            });
        }
        if config.index_source_layers.contains(&index) {
            backbone.indexer = Some(indexer::Weights {
                wq_b: self.matrix(&format!("{p}.attn.indexer.wq_b")).await?,
                weights_proj: self.matrix(&format!("{p}.attn.indexer.weights_proj")).await?,
            });
        }
        Ok(backbone)
    }

    async fn layer(&self, p: &str, n_experts: usize, top_k: usize) -> Result<Layer> {
        let mut routed = Vec::with_capacity(n_experts);
        for expert in 0..n_experts {
            routed.push(self.expert(&format!("{p}.ffn.experts.{expert}")).await?);
        }
        let attention = attention::Weights {
            wq_a: self.matrix(&format!("{p}.attn.wq_a")).await?,
            q_norm: self.vector(&format!("{p}.attn.q_norm.weight")).await?,
            wq_b: self.matrix(&format!("{p}.attn.wq_b")).await?,
            wkv: self.matrix(&format!("{p}.attn.wkv")).await?,
            kv_norm: self.vector(&format!("{p}.attn.kv_norm.weight")).await?,
            wo_a: self.matrix(&format!("{p}.attn.wo_a")).await?.split_rows(self.checkpoint.config.o_groups)?,
            wo_b: self.matrix(&format!("{p}.attn.wo_b")).await?,
            sink: self.vector(&format!("{p}.attn.attn_sink")).await?,
        };
        Ok(Layer {
            hc_attn: self.hyper(&format!("{p}.hc_attn")).await?,
            hc_ffn: self.hyper(&format!("{p}.hc_ffn")).await?,
            attn_norm: self.vector(&format!("{p}.attn_norm.weight")).await?,
            ffn_norm: self.vector(&format!("{p}.ffn_norm.weight")).await?,
            attention,
            experts: experts::Weights {
                gate: self.matrix(&format!("{p}.ffn.gate")).await?,
                bias: self.vector(&format!("{p}.ffn.gate.bias")).await?,
                bias_vl: self.vector(&format!("{p}.ffn.gate.bias_vl")).await?,
                experts: routed,
                shared: self.expert(&format!("{p}.ffn.shared_experts")).await?,
                top_k,
            },
        })
    }

    pub(super) async fn expert(&self, p: &str) -> Result<Expert> {
        self.checkpoint.announce(&format!("{p}.")).await?;
        Ok(Expert {
            w1: self.matrix(&format!("{p}.w1")).await?,
            w2: self.matrix(&format!("{p}.w2")).await?,
            w3: self.matrix(&format!("{p}.w3")).await?,
        })
    }

    async fn hyper(&self, p: &str) -> Result<hyper::Weights> {
        Ok(hyper::Weights {
            projection: self.checkpoint.tensor_matrix(&format!("{p}_fn")).await?,
            scale: self.vector(&format!("{p}_scale")).await?,
            base: self.vector(&format!("{p}_base")).await?,
        })
    }

    pub(super) async fn drafter(&self) -> Result<Option<Drafter>> {
        let config = &self.checkpoint.config;
        let Some(last) = config.n_mtp_layers.checked_sub(1) else { return Ok(None) };
        let mut stages = Vec::with_capacity(config.n_mtp_layers);
        for stage in 0..config.n_mtp_layers {
            let p = format!("mtp.{stage}");
            self.checkpoint.announce(&format!("{p}.")).await?;
            stages.push(self.layer(&p, config.dspark_n_routed_experts, config.dspark_n_activated_experts).await?);
        }
        Ok(Some(Drafter {
            main_proj: self.matrix("mtp.0.main_proj").await?,
            main_norm: self.vector("mtp.0.main_norm.weight").await?,
            stages,
            norm: self.vector(&format!("mtp.{last}.norm.weight")).await?,
            markov_embed: self.matrix(&format!("mtp.{last}.markov_head.embed")).await?,
            markov_head: self.matrix(&format!("mtp.{last}.markov_head.head")).await?,
            confidence: self.matrix(&format!("mtp.{last}.confidence_head.proj")).await?,
        }))
    }
}
