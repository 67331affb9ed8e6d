//! Checks of the layer lists: which layer writes, searches and reads what (section 4.1).

use super::Config;
use crate::{Error, Result};

impl Config {
    /// Section 4.1: every layer with a ratio reads entries of that ratio and a selection among those same entries.
    pub(super) fn check_schedule(&self) -> Result<()> {
        let stages = self.n_layers + self.n_mtp_layers;
        if self.compress_ratios.len() != stages {
            let problem = format!("needed {stages} entries, found {}", self.compress_ratios.len());
            return Err(Error::config("compress_ratios", problem));
        }
        for (layer, &ratio) in self.compress_ratios.iter().enumerate() {
            if ratio > 2 || (layer >= self.n_layers && ratio != 0) {
                let problem = format!("needed 0, 1 or 2 (0 for DSpark stages), found {ratio} for layer {layer}");
                return Err(Error::config("compress_ratios", problem));
            }
        }
        ascending("kv_source_layers", &self.kv_source_layers, self.n_layers)?;
        ascending("index_source_layers", &self.index_source_layers, self.n_layers)?;
        if self.kv_source_layers.is_empty() {
            return Err(Error::config("kv_source_layers", "needed at least one layer, found none"));
        }
        for (key, layers) in
            [("kv_source_layers", &self.kv_source_layers), ("index_source_layers", &self.index_source_layers)]
        {
            if let Some(layer) = layers.iter().find(|&&layer| self.ratio(layer) == 0) {
                return Err(Error::config(
                    key,
                    format!("layer {layer} has ratio 0: it has no entries to write or search"),
                ));
            }
        }
        for &layer in &self.kv_source_layers {
            if !self.index_source_layers.contains(&layer) {
                let problem = format!("layer {layer} writes entries and must select among them, but is not listed");
                return Err(Error::config("index_source_layers", problem));
            }
        }
        (0..self.n_layers).try_for_each(|layer| self.check_sources_of(layer))
    }

    fn check_sources_of(&self, layer: usize) -> Result<()> {
        let ratio = self.ratio(layer);
        if ratio == 0 {
            return Ok(());
        }
        let Some(source) = self.kv_source(layer) else {
            let key =
                if self.index_source_layers.contains(&layer) { "index_source_layers" } else { "kv_source_layers" };
            return Err(Error::config(
                key,
                format!("layer {layer} has ratio {ratio}, but no KV source at or before it"),
            ));
        };
        if self.ratio(source) != ratio {
            let problem = format!(
                "layer {layer} has ratio {ratio}, but its source {source} has {}: a change of ratio needs a source",
                self.ratio(source)
            );
            return Err(Error::config("compress_ratios", problem));
        }
        Ok(())
    }

    pub(super) fn check_candidates(&self) -> Result<()> {
        let layer = self.candidate_source_layer;
        if !self.index_source_layers.contains(&layer) {
            let problem = format!("needed one of index_source_layers {:?}, found {layer}", self.index_source_layers);
            return Err(Error::config("candidate_source_layer", problem));
        }
        let later = self
            .index_source_layers
            .iter()
            .find(|&&other| other > layer && self.kv_source(other) != self.kv_source(layer));
        if let Some(other) = later {
            let problem = format!("layer {other} would search the blocks of {layer}, but reads other entries");
            return Err(Error::config("candidate_source_layer", problem));
        }
        Ok(())
    }

    pub(super) fn check_dspark(&self) -> Result<()> {
        ascending("dspark_target_layer_ids", &self.dspark_target_layer_ids, self.n_layers)?;
        if self.n_mtp_layers > 0 && self.dspark_target_layer_ids.is_empty() {
            return Err(Error::config(
                "dspark_target_layer_ids",
                "needed at least one layer for the drafter to read, found none",
            ));
        }
        Ok(())
    }
}

/// Layer lists are strictly ascending and name layers of the backbone.
pub(super) fn ascending(key: &str, layers: &[usize], n_layers: usize) -> Result<()> {
    if let Some(pair) = layers.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(Error::config(key, format!("needed ascending layers, found {} before {}", pair[0], pair[1])));
    }
    match layers.last() {
        Some(&last) if last >= n_layers => {
            Err(Error::config(key, format!("needed layers below n_layers ({n_layers}), found {last}")))
        }
        _ => Ok(()),
    }
}
