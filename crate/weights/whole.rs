//! Small checkpoints on servers, fetched whole.
//!
//! A model of a few megabytes is quicker in one piece: no request for every row of an n-gram table, no network once it runs, and any static
//! server will do, also one that does not know ranges.

use super::Checkpoint;
use super::engram::ENGRAM_FILE;
use super::folder::Folder;
use super::index::{INDEX_FILE, ShardIndex};
use super::source::Files;
use crate::error::{Error, HttpFault, Result};

/// Most bytes of a document beside the shards.
const DOCUMENT: u64 = 16 << 20;
/// What a shard may have beside its tensors: its header.
const HEADER: u64 = 4 << 20;

impl Folder {
    /// The same files in memory if this is a folder of a server and the tensors have at most `most` bytes together; otherwise the folder as it
    /// is. `watch` hears how many bytes are to come, once that is known.
    ///
    /// # Errors
    /// [`Error::Http`], and [`Error::Index`] or [`Error::Json`] for an index that is none.
    pub async fn whole_if_small(self, most: u64, watch: &dyn Fn(u64)) -> Result<Folder> {
        let Folder::Http(_) = &self else { return Ok(self) };
        let Some(document) = self.small(INDEX_FILE, DOCUMENT).await? else { return Ok(self) };
        let index = ShardIndex::parse(&self.locate(INDEX_FILE), &document)?;
        let Some(total) = index.total_size.filter(|&total| total <= most) else { return Ok(self) };
        watch(total);
        let mut files = Files::from([(INDEX_FILE.to_string(), document.into())]);
        for name in ["config.json", "tokenizer.json", ENGRAM_FILE] {
            if let Some(bytes) = self.small(name, DOCUMENT).await? {
                files.insert(name.into(), bytes.into());
            }
        }
        for name in &index.shards {
            if let Some(bytes) = self.shard(name, total + HEADER).await? {
                files.insert(name.clone(), bytes.into());
            }
        }
        Ok(Folder::Memory(files))
    }

    /// All bytes of a shard, through the store if there is one. A server without ranges is asked for the whole file.
    async fn shard(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        match self.open(name).await {
            Ok(None) => Ok(None),
            Ok(Some(source)) if source.len() <= most => source.read(0..source.len()).await.map(Some),
            Ok(Some(_)) | Err(Error::Http { fault: HttpFault::WholeFile, .. }) => self.small(name, most).await,
            Err(error) => Err(error),
        }
    }
}

impl Checkpoint {
    /// [`Checkpoint::open`] of [`Folder::whole_if_small`].
    ///
    /// # Errors
    /// As both.
    pub async fn open_whole(folder: Folder, most: u64) -> Result<Checkpoint> {
        Checkpoint::open(&folder.whole_if_small(most, &|_| {}).await?).await
    }
}
