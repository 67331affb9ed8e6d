//! Verification of a draft: several rows through the model, and the choice of a token after each (section 10.7). One submit, four bytes back
//! per row.

use super::record::Part;
use super::{GpuModel, GpuState, Trace, capacity};
use crate::blocks::b1a_input::Prompt;
use crate::error::{Error, Result};
use crate::gpu::{Element, Plan, Planner, Tensor, readback};
use crate::kernels::call::Call;
use crate::kernels::head::argmax;
use crate::kernels::head::choose::{self, Draw, NOT_FINITE, PIECE};
use crate::model::reference::check_prompt;
use std::rc::Rc;

/// The choice after every row of a call.
#[derive(Debug)]
pub(super) struct EveryRow {
    plan: Plan,
    /// The first row's place: a choice belongs to the position after its row.
    call: Tensor,
    /// How to choose: temperature and seed.
    draw: Tensor,
    /// The chosen ids `[block + 1]`.
    chosen: Tensor,
}

impl GpuModel {
    /// Feeds the tokens `ids`, a chosen one and a draft after it, and returns what the model itself chooses after each of them, as
    /// [`Self::decode_sampled`] would: row `i` has the bits that it has alone. [`Self::settle`] goes back to the tokens that are kept.
    ///
    /// # Errors
    /// As [`Self::decode_sampled`]; [`Error::Usage`] for more tokens than a draft block and one.
    pub async fn verify(&self, state: &mut GpuState, ids: &[u32], temperature: f32, seed: u64) -> Result<Vec<u32>> {
        let (n, most) = (ids.len(), self.config().dspark_block_size + 1);
        if n == 1 {
            return Ok(vec![self.decode_sampled(state, ids[0], temperature, seed).await?]);
        }
        if n > most || !(temperature >= 0.0 && temperature.is_finite()) {
            let problem = format!(
                "verification takes up to {most} tokens at a temperature of 0 or more, found {n} at {temperature}"
            );
            return Err(Error::Usage(problem));
        }
        let prompt = Prompt::text(ids.to_vec());
        check_prompt(self.config(), state.position, &prompt, self.input.vision.is_some())?;
        self.gpu.alive()?;
        let start = state.position;
        state.clear_fault(&self.gpu);
        state.reserve(&self.gpu, start + n).await?;
        let memory = self.memory(state, &prompt, 0..n, &mut Trace::default()).await?;
        self.write_rows(state, &prompt, 0..n, start, &memory)?;
        let layers = self.plan(state, Part::Whole, capacity(n)).await?;
        let head = self.head(state, capacity(n)).await?;
        let every = self.every_row(state, capacity(n)).await?;
        Call::new(start, 1, 0).write(&self.gpu, &every.call);
        Draw::new(temperature, seed).write(&self.gpu, &every.draw);
        let mut encoder = self.gpu.encoder();
        encoder = self.encode_steps(&layers, 0..layers.steps.len(), n, encoder).await?;
        head.encode(&mut encoder);
        every.plan.encode(&mut encoder);
        let bytes = readback::bytes_after(&self.gpu, encoder, &every.chosen).await?;
        state.advance(start + n);
        let chosen: Vec<u32> = bytes.as_chunks().0.iter().take(n).map(|&word| u32::from_le_bytes(word)).collect();
        if chosen.contains(&NOT_FINITE) {
            return Err(self.not_finite(state).await);
        }
        Ok(chosen)
    }

    /// Choices of the first rows, recorded on first use.
    async fn every_row(&self, state: &mut GpuState, capacity: usize) -> Result<Rc<EveryRow>> {
        if let Some(every) = state.every_rows.get(&capacity) {
            return Ok(every.clone());
        }
        let (config, rows) = (self.config(), (self.config().dspark_block_size + 1).min(capacity));
        let pieces = config.vocab_size.div_ceil(PIECE);
        let zeros = |label, element, size| Tensor::zeros(&self.gpu, label, element, &[size]);
        let (values, ids) = (zeros("row values", Element::F32, pieces)?, zeros("row ids", Element::U32, pieces)?);
        let chosen = zeros("chosen rows", Element::U32, rows)?;
        let (call, draw) = (Call::buffer(&self.gpu)?, Tensor::uniform(&self.gpu, "row draw", 4)?);
        let logits = &state.made_scratch(capacity).logits;
        let record = |planner: &mut Planner<'_>| {
            for row in 0..rows {
                choose::record(planner, [logits, &values, &ids], [&call, &draw], row)?;
                argmax::record(planner, [&values, &ids, &chosen], row)?;
            }
            Ok(())
        };
        let plan = self.record("recording the choices", &state.fault, record).await?;
        let every = Rc::new(EveryRow { plan, call, draw, chosen });
        state.every_rows.insert(capacity, every.clone());
        Ok(every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Choice, Gpu};
    use crate::model::Prefill;
    use crate::numerics::precision::Precision;
    use crate::weights::Checkpoint;

    /// What comes back from the GPU in a greedy round: ids and confidences of the draft, and the model's own choices. With the release's block of
    /// five that is 64 bytes.
    #[test]
    fn a_round_reads_twelve_bytes_per_drafted_token_and_four_more() {
        pollster::block_on(async {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/t12");
            let checkpoint = std::sync::Arc::new(Checkpoint::open_dir(folder).await.unwrap());
            let gpu = Gpu::open(&Choice::default()).await.expect("GPU tests need an adapter; a software one will do");
            let (f32, mut silent) = (Precision::F32, |_: usize, _: usize, _: &str| {});
            let model = GpuModel::load(gpu, checkpoint, f32, f32, &mut silent).await.unwrap();
            let mut state = model.state().unwrap();
            model.prefill(&mut state, &Prompt::text(vec![1, 2, 3]), Prefill::default()).await.unwrap();
            let proposal = model.propose(&mut state, 4, 0.0, 0).await.unwrap().unwrap();
            let chosen = model.verify(&mut state, &[&[4], &proposal.ids[..]].concat(), 0.0, 0).await.unwrap();
            let block = model.config().dspark_block_size;
            assert_eq!((proposal.ids.len(), chosen.len()), (block, block + 1));
            let drafted = state.drafting.as_ref().and_then(|drafting| drafting.bytes_read()).unwrap();
            let read = drafted + state.every_rows[&capacity(block + 1)].chosen.buffer.size();
            assert_eq!((read, 12 * 5 + 4), (12 * block as u64 + 4, 64));
            let too_many = vec![1; block + 2];
            assert!(matches!(model.verify(&mut state, &too_many, 0.0, 0).await, Err(Error::Usage(_))));
        });
    }
}
