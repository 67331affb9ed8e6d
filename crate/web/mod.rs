//! The few functions that the page's worker may call. No logic here: everything is in the library.

use wasm_bindgen::prelude::wasm_bindgen;

/// Version of this package, as in its `Cargo.toml`.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_string()
}
