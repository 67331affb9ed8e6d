//! An opened checkpoint: config, headers of all shards, Engram tables. Tensors are read when asked for.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Dtype;
use super::engram::{ENGRAM_FILE, EngramTables};
use super::folder::Folder;
use super::gather::read_together;
use super::header::read_header;
use super::http::{IN_FLIGHT, Timing, join};
use super::index::{INDEX_FILE, SINGLE_FILE, ShardIndex};
use super::rows::Rows;
use super::source::{ByteSource, Files};
use super::verdict::Verdict;
use crate::config::Config;
use crate::{Error, Result};

/// Largest config.json that is read; the release's has 4 KB.
const MAX_CONFIG: u64 = 16 << 20;
/// Largest tokenizer.json, engram_tables.json and index that is read; the release's index has about 8 MB, its tokenizer 6.4 MB.
const MAX_DOCUMENT: u64 = 256 << 20;
/// Most bytes that are read ahead: enough for all requests that may run at once. In a tab memory is dearer than requests.
const MAX_AHEAD: u64 = if cfg!(target_arch = "wasm32") { 16 << 20 } else { 64 << 20 };

/// Where one tensor lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Full name.
    pub name: String,
    /// Stored type.
    pub dtype: Dtype,
    /// Stored shape; for packed FP4 (I8) the last dimension counts bytes.
    pub shape: Vec<usize>,
    /// Number of its shard, for [`Checkpoint::shard_name`].
    pub file: usize,
    /// Its bytes in the shard.
    pub range: Range<u64>,
}

impl TensorInfo {
    /// Stored bytes.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A checkpoint in the released layout. Opening reads config, tables and headers, never tensor data.
#[derive(Debug)]
pub struct Checkpoint {
    /// Hyper-parameters.
    pub config: Config,
    /// Tables of the n-gram hash.
    pub engram: EngramTables,
    /// Shards in order of first mention; a tensor's `file` counts them.
    shards: Vec<ByteSource>,
    /// Sorted by name. 96,085 of them: a sorted list is searched in 17 steps and holds each name once.
    tensors: Vec<TensorInfo>,
    tokenizer: Option<Vec<u8>>,
    /// Tensors that were read ahead, by their place in `tensors`, until they are asked for.
    ahead: Mutex<HashMap<usize, Vec<u8>>>,
    /// Rows of tables that came from a server.
    rows: Mutex<Rows>,
    /// Bytes of tensors that were given out.
    given: AtomicU64,
}

impl Checkpoint {
    /// Opens a checkpoint folder and checks it against its config.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn open_dir(path: impl Into<std::path::PathBuf>) -> Result<Checkpoint> {
        Checkpoint::open(&Folder::Dir(path.into())).await
    }

    /// Opens a checkpoint in a folder of a web server that answers ranges, and checks it against its config. Nothing is kept on disk;
    /// [`Folder::http_stored`] is for that.
    ///
    /// # Errors
    /// As [`Checkpoint::open`], and [`Error::Http`].
    pub async fn open_url(base: &str) -> Result<Checkpoint> {
        Checkpoint::open(&Folder::http(base, Timing::default())?).await
    }

    /// Opens a checkpoint in memory and checks it against its config.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub async fn from_files(files: Files) -> Result<Checkpoint> {
        Checkpoint::open(&Folder::Memory(files)).await
    }

    /// Opens a checkpoint and checks that all tensors are there with the types and shapes that the config asks for.
    ///
    /// # Errors
    /// One variant per way a file can be wrong; [`Error::Tensor`] names the first tensor that is not as needed and says how many are not.
    pub async fn open(folder: &Folder) -> Result<Checkpoint> {
        let (checkpoint, verdict) = Checkpoint::inspect(folder).await?;
        verdict.into_result()?;
        Ok(checkpoint)
    }

    /// Opens a checkpoint without insisting on its contract; the verdict lists every difference.
    ///
    /// # Errors
    /// As [`Checkpoint::open`], missing and unfit tensors excepted.
    pub async fn inspect(folder: &Folder) -> Result<(Checkpoint, Verdict)> {
        let missing = |name: &str| Error::Io { path: folder.locate(name), source: std::io::ErrorKind::NotFound.into() };
        let config = folder.small("config.json", MAX_CONFIG).await?.ok_or_else(|| missing("config.json"))?;
        let config = Config::from_json(&config)?;
        let engram = match folder.small(ENGRAM_FILE, MAX_DOCUMENT).await? {
            Some(document) => EngramTables::from_json(&document, &config)?,
            None => EngramTables::released(&config)?,
        };
        let tokenizer = folder.small("tokenizer.json", MAX_DOCUMENT).await?;
        let (shards, mut tensors) = match folder.small(INDEX_FILE, MAX_DOCUMENT).await? {
            Some(document) => read_shards(folder, &ShardIndex::parse(&folder.locate(INDEX_FILE), &document)?).await?,
            None => {
                let source = folder.open(SINGLE_FILE).await?.ok_or_else(|| missing(INDEX_FILE))?;
                let tensors = read_shard(&source, 0).await?;
                (vec![source], tensors)
            }
        };
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let (ahead, rows, given) = Default::default();
        let checkpoint = Checkpoint { config, engram, shards, tensors, tokenizer, ahead, rows, given };
        let verdict = super::verdict::check(&checkpoint);
        Ok((checkpoint, verdict))
    }

    /// Where a tensor lies.
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is none of that name.
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.find(name).ok_or_else(|| Error::tensor(name, "missing"))
    }

    /// Whether there is a tensor of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.place(name).map(|at| &self.tensors[at])
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).ok()
    }

    /// All tensors, sorted by name.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// All tensor names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// Bytes of all tensors together, headers not counted.
    pub fn total_bytes(&self) -> u64 {
        self.tensors.iter().map(TensorInfo::bytes).sum()
    }

    /// Name of a shard for messages.
    ///
    /// # Panics
    /// If no tensor has this `file` number.
    pub fn shard_name(&self, file: usize) -> &str {
        self.shards[file].name()
    }

    /// The tokenizer's document.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the checkpoint has none.
    pub fn tokenizer_json(&self) -> Result<&[u8]> {
        self.tokenizer.as_deref().ok_or_else(|| Error::Tokenizer("the checkpoint has no such file".into()))
    }

    /// All bytes of a tensor as stored.
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is none of that name, otherwise as [`ByteSource::read`].
    pub async fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let place = self.place(name).ok_or_else(|| Error::tensor(name, "missing"))?;
        let info = &self.tensors[place];
        self.given.fetch_add(info.bytes(), Relaxed);
        // The guard must not outlive this line: the read below may take long.
        let ahead = self.ahead().remove(&place);
        match ahead {
            Some(bytes) => Ok(bytes),
            None => self.shards[info.file].read(info.range.clone()).await,
        }
    }

    /// Bytes of tensors that were given out so far, for whoever shows how far loading is.
    pub fn given_bytes(&self) -> u64 {
        self.given.load(Relaxed)
    }

    /// Bytes of it that a store keeps.
    pub fn kept_bytes(&self) -> u64 {
        self.shards.iter().map(ByteSource::kept_bytes).sum()
    }

    /// Empties what a store keeps of it, and returns the bytes that it was. What is read from now on is kept again.
    pub fn discard_kept(&self) -> u64 {
        self.shards.iter().map(ByteSource::discard_kept).sum()
    }

    /// Whether its bytes come from a server.
    pub fn is_remote(&self) -> bool {
        self.shards.iter().any(ByteSource::is_remote)
    }

    /// Announces that all tensors whose names begin with `prefix` will be asked for soon, n-gram tables excepted. From a server they are read
    /// in few requests if they are together at most 64 MiB (in a browser 16), and kept until they are asked for or something else is announced.
    /// Otherwise, and for checkpoints on disk, this does nothing.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    pub async fn announce(&self, prefix: &str) -> Result<()> {
        self.announce_some(&[prefix]).await
    }

    /// [`Checkpoint::announce`] for several prefixes at once.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    pub async fn announce_some(&self, prefixes: &[&str]) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        let places: Vec<usize> = prefixes.iter().flat_map(|prefix| self.places(prefix)).collect();
        if places.iter().map(|&at| self.tensors[at].bytes()).sum::<u64>() > MAX_AHEAD {
            return Ok(());
        }
        self.read_ahead(places).await
    }

    /// [`Checkpoint::announce`] for several prefixes at once, however many bytes they are: the caller has memory for all of them.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    pub async fn announce_all(&self, prefixes: &[String]) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        self.read_ahead(prefixes.iter().flat_map(|prefix| self.places(prefix)).collect()).await
    }

    /// Places of the tensors whose names begin with `prefix`, n-gram tables excepted.
    fn places(&self, prefix: &str) -> Vec<usize> {
        let first = self.tensors.partition_point(|tensor| tensor.name.as_str() < prefix);
        let begins = |&at: &usize| self.tensors[at].name.starts_with(prefix);
        let is_table = |at: usize| self.tensors[at].name.contains(".engram.embed.");
        (first..self.tensors.len()).take_while(begins).filter(|&at| !is_table(at)).collect()
    }

    async fn read_ahead(&self, places: Vec<usize>) -> Result<()> {
        let lacking: Vec<usize> = {
            let ahead = self.ahead();
            places.into_iter().filter(|at| !ahead.contains_key(at)).collect()
        };
        if lacking.is_empty() {
            return Ok(());
        }
        let wanted: Vec<(usize, Range<u64>)> =
            lacking.iter().map(|&at| (self.tensors[at].file, self.tensors[at].range.clone())).collect();
        let bytes = read_together(&self.shards, &wanted).await?;
        let mut ahead = self.ahead();
        // Leftovers of what was announced before must not pile up.
        ahead.clear();
        ahead.extend(lacking.into_iter().zip(bytes));
        Ok(())
    }

    /// Announces rows of the table `<prefix>.weight`, `<prefix>.scale`: from a server, those that are not in memory yet are read together.
    ///
    /// # Errors
    /// As [`Checkpoint::read_rows`].
    pub async fn announce_rows(&self, prefix: &str, rows: &[u64]) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        let mut lacking = Vec::new();
        for name in [format!("{prefix}.weight"), format!("{prefix}.scale")] {
            let place = self.place(&name).ok_or_else(|| Error::tensor(&name, "missing"))?;
            let kept = self.rows();
            lacking.extend(rows.iter().filter(|&&row| !kept.has(place, row)).map(|&row| (place, row)));
        }
        lacking.sort_unstable();
        lacking.dedup();
        let mut wanted = Vec::with_capacity(lacking.len());
        for &(place, row) in &lacking {
            wanted.push((self.tensors[place].file, self.row_range(&self.tensors[place], row, 1)?));
        }
        let bytes = read_together(&self.shards, &wanted).await?;
        let mut kept = self.rows();
        lacking.into_iter().zip(bytes).for_each(|((place, row), bytes)| kept.insert(place, row, bytes));
        Ok(())
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead(&self) -> MutexGuard<'_, HashMap<usize, Vec<u8>>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows `first_row ..` of a tensor as stored; nothing else of it is read (an Engram table has 98 GB, one row 256 bytes, P-27).
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is none of that name or it has fewer rows, otherwise as [`ByteSource::read`].
    pub async fn read_rows(&self, name: &str, first_row: u64, n_rows: u64) -> Result<Vec<u8>> {
        let place = self.place(name).ok_or_else(|| Error::tensor(name, "missing"))?;
        let info = &self.tensors[place];
        if n_rows == 1
            && let Some(row) = self.rows().get(place, first_row)
        {
            return Ok(row.to_vec());
        }
        self.shards[info.file].read(self.row_range(info, first_row, n_rows)?).await
    }

    fn row_range(&self, info: &TensorInfo, first_row: u64, n_rows: u64) -> Result<Range<u64>> {
        let rows = info.shape.first().map_or(1, |&rows| rows as u64);
        let end = first_row.checked_add(n_rows).filter(|&end| end <= rows);
        let Some(end) = end else {
            let problem = format!("needed {n_rows} rows from row {first_row}, it has {rows}");
            return Err(Error::tensor(&info.name, problem));
        };
        // Without rows there are no bytes either, so the quotient does not matter.
        let row_bytes = info.bytes() / rows.max(1);
        let start = info.range.start;
        Ok(start + first_row * row_bytes..start + end * row_bytes)
    }
}

/// Opens the shards that the index names and checks that both tell the same story.
async fn read_shards(folder: &Folder, index: &ShardIndex) -> Result<(Vec<ByteSource>, Vec<TensorInfo>)> {
    let wrong = |problem| Error::Index { file: folder.locate(INDEX_FILE), problem };
    let opened = Mutex::new(Vec::with_capacity(index.shards.len()));
    let (opened_by_all, wrong_by_all) = (&opened, &wrong);
    let reads = index.shards.iter().enumerate().map(|(number, name)| async move {
        let source =
            folder.open(name).await?.ok_or_else(|| wrong_by_all(format!("names {name}, which is not there")))?;
        let tensors = read_shard(&source, number).await?;
        opened_by_all.lock().unwrap_or_else(PoisonError::into_inner).push((number, source, tensors));
        Ok(())
    });
    join(reads, IN_FLIGHT).await?;
    let mut opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
    opened.sort_by_key(|(number, ..)| *number);
    let mut shards = Vec::with_capacity(opened.len());
    let mut tensors = Vec::with_capacity(index.tensors.len());
    for (_, source, of_shard) in opened {
        shards.push(source);
        tensors.extend(of_shard);
    }
    let found: HashSet<(&str, usize)> = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.file)).collect();
    for (tensor, shard) in &index.tensors {
        if !found.contains(&(tensor.as_str(), *shard)) {
            return Err(wrong(format!("tensor {tensor} is not in {}", index.shards[*shard])));
        }
    }
    let listed: HashSet<(&str, usize)> = index.tensors.iter().map(|(name, shard)| (name.as_str(), *shard)).collect();
    if let Some((name, file)) = found.iter().find(|tensor| !listed.contains(*tensor)) {
        return Err(wrong(format!("does not list tensor {name} of {}", index.shards[*file])));
    }
    let total = tensors.iter().map(TensorInfo::bytes).sum::<u64>();
    match index.total_size {
        Some(said) if said != total => Err(wrong(format!("total_size says {said} bytes, the shards hold {total}"))),
        _ => Ok((shards, tensors)),
    }
}

async fn read_shard(source: &ByteSource, file: usize) -> Result<Vec<TensorInfo>> {
    let entries = read_header(source).await?;
    source.forget_beginning();
    let info = |entry: super::header::HeaderEntry| TensorInfo {
        name: entry.name,
        dtype: entry.dtype,
        shape: entry.shape,
        file,
        range: entry.range,
    };
    Ok(entries.into_iter().map(info).collect())
}
