//! The two documents around tensor data: a safetensors file and its index.

use serde_json::{Map, Value, json};

use super::super::contract::TensorSpec;

/// One safetensors file: tensors lie one after the other in the given order.
pub(super) fn safetensors(specs: &[&TensorSpec], data: &[Vec<u8>]) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    let mut end = 0;
    for (spec, bytes) in specs.iter().zip(data) {
        let start = end;
        end += bytes.len();
        let entry = json!({"dtype": spec.dtype, "shape": spec.shape, "data_offsets": [start, end]});
        header.insert(spec.name.clone(), entry);
    }
    let mut text = Value::Object(header).to_string();
    // Spaces up to a multiple of 8, so that the data is aligned in the file.
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    let mut file = Vec::with_capacity(8 + text.len() + end);
    file.extend_from_slice(&(text.len() as u64).to_le_bytes());
    file.extend_from_slice(text.as_bytes());
    for bytes in data {
        file.extend_from_slice(bytes);
    }
    file
}

/// The shard index.
pub(super) fn index(total_size: u64, weight_map: &[(&str, String)]) -> String {
    let map: Map<String, Value> =
        weight_map.iter().map(|(name, file)| ((*name).into(), file.as_str().into())).collect();
    format!("{:#}\n", json!({"metadata": {"total_size": total_size}, "weight_map": map}))
}
