//! Nano, the small trained model that comes with the program. Its files are those that the page ships: `web/nano`.

use crate::error::Result;
use crate::weights::{Checkpoint, Files};

/// A file of the folder `web/nano`. One that is missing is an error when the program is compiled.
macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/nano/", $name)) as &[u8])
    };
}

static FILES: [(&str, &[u8]); 6] = [
    file!("config.json"),
    file!("engram_tables.json"),
    file!("model-00001-of-00002.safetensors"),
    file!("model-00002-of-00002.safetensors"),
    file!("model.safetensors.index.json"),
    file!("tokenizer.json"),
];

/// Opens it.
///
/// # Errors
/// As [`Checkpoint::open`].
pub(super) async fn open() -> Result<Checkpoint> {
    Checkpoint::from_files(FILES.iter().map(|&(name, bytes)| (name.to_string(), bytes.into())).collect::<Files>()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page copies the folder as it is: what is in it and not in the program would be another model.
    #[test]
    fn the_program_has_all_files_of_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web/nano");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".json") || name.ends_with(".safetensors"))
            .collect();
        names.sort();
        assert_eq!(names, FILES.map(|(name, _)| name));
        let checkpoint = pollster::block_on(open()).unwrap();
        assert!(checkpoint.config.vision.is_some() && checkpoint.config.n_mtp_layers == 3);
        let bytes: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= 12_000_000, "{bytes} bytes");
    }
}
