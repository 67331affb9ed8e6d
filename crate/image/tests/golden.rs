use super::{golden_bytes, released};
use crate::config::VisionConfig;
use crate::image::{Rgb, fit, patches, plan, token_types};
use safetensors::SafeTensors;

/// The vision parameters of golden checkpoint t12.
fn t12() -> VisionConfig {
    VisionConfig { n_layers: 2, dim: 64, n_heads: 4, inter_dim: 96, max_n_token: 64, min_pixels: 1764, ..released() }
}

/// Little-endian 32-bit elements of a tensor.
fn words(file: &SafeTensors, name: &str) -> Vec<[u8; 4]> {
    file.tensor(name).unwrap().data().chunks_exact(4).map(|word| word.try_into().unwrap()).collect()
}

/// The 110x70 picture of the golden file, from decoded bytes to patches and types, bit for bit. Its patches are rounded
/// to bf16.
#[test]
fn golden_picture() {
    let bytes = golden_bytes("t12/golden.safetensors");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let rgb = file.tensor("image.rgb").unwrap();
    assert_eq!(rgb.shape(), [70, 110, 3]);
    let picture = Rgb::new(110, 70, rgb.data().to_vec()).unwrap();
    #[cfg(not(target_arch = "wasm32"))]
    assert_eq!(crate::image::decode(&golden_bytes("t12/image.png")).unwrap(), picture);

    let plan = plan(110, 70, &t12()).unwrap();
    let grid = [plan.patch_rows, plan.patch_cols, plan.token_rows, plan.token_cols];
    let golden_grid: Vec<usize> =
        words(&file, "image.grid").into_iter().map(|w| i32::from_le_bytes(w) as usize).collect();
    assert_eq!(golden_grid, grid);

    let patches = patches(&fit(&picture, &plan), &t12(), true);
    let golden_patches: Vec<u32> = words(&file, "image.patches").into_iter().map(u32::from_le_bytes).collect();
    assert_eq!((patches.rows, patches.cols), (plan.patch_rows, plan.patch_cols));
    assert_eq!(patches.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), golden_patches);
    assert!(golden_patches.iter().all(|bits| bits & 0xFFFF == 0), "golden patches are bf16 values");

    // The prompt of the case: 9 text tokens, the picture, 11 text tokens.
    let types: Vec<i32> = words(&file, "image.types").into_iter().map(i32::from_le_bytes).collect();
    let expected: Vec<i32> = token_types(&plan).into_iter().map(|token_type| token_type.code()).collect();
    assert_eq!(types[9..types.len() - 11], expected);
    assert!(types[..9].iter().chain(&types[types.len() - 11..]).all(|&code| code == -1));
}
