//! The store in the page's own file system, which a worker reads and writes without waiting.
//!
//! A file that is open belongs to its worker alone, so that a second tab cannot write between the lines of the first; it goes on uncached.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use js_sys::{Array, Function, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemReadWriteOptions, FileSystemSyncAccessHandle,
    StorageManager,
};

use super::{About, Listener, Notice, Store, is_key, noted_bytes};
use crate::weights::http::pause;

type Result<T> = std::result::Result<T, String>;

/// Folders from the root of the page's file system.
const PATH: [&str; 2] = ["flash890", "models"];
/// What browsers call a page that has no room left.
const FULL: &str = "QuotaExceededError";
/// Share of the quota that is used; a browser's estimate is one.
const SHARE: f64 = 0.9;
/// Tries to open a file that another worker has: one that has just been ended keeps its files for a moment.
const TRIES: usize = 20;
/// Time between them.
const PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    /// Open files and folders. Objects of the browser belong to their thread; what is built on them should not have to.
    static OBJECTS: RefCell<Vec<Option<JsValue>>> = const { RefCell::new(Vec::new()) };
}

/// An object of the browser, by its place in [`OBJECTS`].
#[derive(Debug)]
struct Held(usize);

impl Held {
    fn new(object: impl Into<JsValue>) -> Held {
        OBJECTS.with_borrow_mut(|objects| {
            objects.push(Some(object.into()));
            Held(objects.len() - 1)
        })
    }

    /// The object; a missing one is `undefined`, and whatever is asked of it fails.
    fn get<T: JsCast>(&self) -> T {
        OBJECTS.with_borrow(|objects| objects.get(self.0).cloned().flatten().unwrap_or_default()).unchecked_into()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        OBJECTS.with_borrow_mut(|objects| {
            if let Some(object) = objects.get_mut(self.0) {
                *object = None;
            }
        });
    }
}

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Root(Held);

/// An open file.
#[derive(Debug)]
pub(super) struct Disk(Held);

impl Disk {
    fn handle(&self) -> FileSystemSyncAccessHandle {
        self.0.get()
    }

    pub(super) fn len(&self) -> Result<u64> {
        self.handle().get_size().map(|len| len as u64).map_err(words)
    }

    pub(super) fn set_len(&self, len: u64) -> Result<()> {
        self.handle().truncate_with_f64(len as f64).map_err(words)
    }

    pub(super) fn read_exact_at(&self, bytes: &mut [u8], start: u64) -> Result<()> {
        let needed = bytes.len();
        let found = self.handle().read_with_u8_array_and_options(bytes, &at(start)).map_err(words)?;
        if found == needed as f64 { Ok(()) } else { Err(format!("needed {needed} bytes, found {found}")) }
    }

    pub(super) fn write_all_at(&self, bytes: &[u8], start: u64) -> Result<()> {
        let written = self.handle().write_with_u8_array_and_options(bytes, &at(start)).map_err(words)?;
        // Where there is no room Chromium writes less and says nothing, or an error's number.
        if written == bytes.len() as f64 { Ok(()) } else { Err(format!("{FULL}: {written} of {} bytes", bytes.len())) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.handle().close();
    }
}

fn at(start: u64) -> FileSystemReadWriteOptions {
    let options = FileSystemReadWriteOptions::new();
    options.set_at(start as f64);
    options
}

/// What the browser said.
fn words(error: JsValue) -> String {
    let text = |name: &str| Reflect::get(&error, &name.into()).ok().and_then(|value| value.as_string());
    match (text("name"), text("message")) {
        (Some(name), Some(message)) => format!("{name}: {message}"),
        _ => format!("{error:?}"),
    }
}

async fn promised<T: JsCast>(promise: Promise) -> std::result::Result<T, JsValue> {
    Ok(JsFuture::from(promise).await?.unchecked_into())
}

/// What the page may store.
fn manager() -> Result<StorageManager> {
    let get = |object: &JsValue, name: &str| Reflect::get(object, &name.into()).map_err(words);
    let storage = get(&get(&js_sys::global(), "navigator")?, "storage")?;
    if storage.is_undefined() {
        Err("this browser has no file system for pages".into())
    } else {
        Ok(storage.unchecked_into())
    }
}

/// The folder of all models, made if it is wanted and not there.
async fn models(make: bool) -> Result<FileSystemDirectoryHandle> {
    let manager = manager()?;
    let has = Reflect::has(&manager, &"getDirectory".into()).unwrap_or(false);
    if !has {
        return Err("this browser has no file system for pages".into());
    }
    let mut folder: FileSystemDirectoryHandle = promised(manager.get_directory()).await.map_err(words)?;
    for name in PATH {
        folder = subfolder(&folder, name, make).await.map_err(words)?;
    }
    Ok(folder)
}

async fn subfolder(
    of: &FileSystemDirectoryHandle,
    name: &str,
    make: bool,
) -> std::result::Result<FileSystemDirectoryHandle, JsValue> {
    let options = web_sys::FileSystemGetDirectoryOptions::new();
    options.set_create(make);
    promised(of.get_directory_handle_with_options(name, &options)).await
}

async fn file(
    of: &FileSystemDirectoryHandle,
    name: &str,
    make: bool,
) -> std::result::Result<FileSystemFileHandle, JsValue> {
    let options = web_sys::FileSystemGetFileOptions::new();
    options.set_create(make);
    promised(of.get_file_handle_with_options(name, &options)).await
}

/// Names and folders within a folder.
async fn folders(
    of: &FileSystemDirectoryHandle,
) -> std::result::Result<Vec<(String, FileSystemDirectoryHandle)>, JsValue> {
    let (entries, mut found) = (of.entries(), Vec::new());
    loop {
        let step: Object = promised(entries.next()?).await?;
        if Reflect::get(&step, &"done".into())?.is_truthy() {
            return Ok(found);
        }
        let entry: Array = Reflect::get(&step, &"value".into())?.unchecked_into();
        let (name, handle) = (entry.get(0).as_string().unwrap_or_default(), entry.get(1));
        let kind = Reflect::get(&handle, &"kind".into())?;
        if is_key(&name) && kind.as_string().as_deref() == Some("directory") {
            found.push((name, handle.unchecked_into()));
        }
    }
}

/// A small file, without opening it for writing.
async fn small(of: &FileSystemDirectoryHandle, name: &str) -> Option<Vec<u8>> {
    let file: JsValue = promised(file(of, name, false).await.ok()?.get_file()).await.ok()?;
    let read: Function = Reflect::get(&file, &"arrayBuffer".into()).ok()?.dyn_into().ok()?;
    let buffer: JsValue = promised(read.call0(&file).ok()?.dyn_into().ok()?).await.ok()?;
    Some(Uint8Array::new(&buffer).to_vec())
}

async fn read_about(folder: &FileSystemDirectoryHandle) -> Option<About> {
    serde_json::from_slice(&small(folder, "about.json").await?).ok()
}

/// The limit that was asked for when the store was opened says all.
pub(super) fn free(_: &Root) -> u64 {
    u64::MAX
}

/// Whether that is what a page without room is told; an estimate is no promise.
pub(super) fn is_full(problem: &str) -> bool {
    problem.contains(FULL)
}

/// Folder of a copy, for messages.
pub(super) fn describe(_: &Root, about: &About) -> String {
    let [model, file] = about.keys();
    format!("OPFS {}/{model}/{file}", PATH.join("/"))
}

/// Opens data and journal of a copy, emptied if they are of something else; what is kept of other revisions is removed. `None` if another
/// worker has it.
pub(super) async fn open(root: &Root, about: &About) -> Result<Option<[Disk; 2]>> {
    let root: FileSystemDirectoryHandle = root.0.get();
    let [model, own] = about.keys();
    let model = subfolder(&root, &model, true).await.map_err(words)?;
    for (name, old) in folders(&model).await.map_err(words)? {
        if name != own && read_about(&old).await.is_some_and(|old| old.file == about.file) {
            // What cannot be removed is in nobody's way.
            let _ = remove(&model, &name).await;
        }
    }
    let folder = subfolder(&model, &own, true).await.map_err(words)?;
    let Some(journal) = exclusive(&folder, "journal", TRIES).await? else { return Ok(None) };
    let Some(data) = exclusive(&folder, "data", TRIES).await? else { return Ok(None) };
    if read_about(&folder).await.as_ref() != Some(about) {
        journal.set_len(0)?;
        let text = serde_json::to_string_pretty(about).map_err(|error| error.to_string())?;
        let Some(document) = exclusive(&folder, "about.json", TRIES).await? else { return Ok(None) };
        document.set_len(0)?;
        document.write_all_at(text.as_bytes(), 0)?;
    }
    Ok(Some([data, journal]))
}

/// Opens a file for this worker alone; `None` if another has it.
async fn exclusive(folder: &FileSystemDirectoryHandle, name: &str, tries: usize) -> Result<Option<Disk>> {
    let file = file(folder, name, true).await.map_err(words)?;
    if !Reflect::has(&file, &"createSyncAccessHandle".into()).unwrap_or(false) {
        return Err("this browser cannot write to its file system in a worker".into());
    }
    for left in (0..tries).rev() {
        match promised::<FileSystemSyncAccessHandle>(file.create_sync_access_handle()).await {
            Ok(handle) => return Ok(Some(Disk(Held::new(handle)))),
            Err(error) if !words(error.clone()).starts_with("NoModificationAllowedError") => return Err(words(error)),
            Err(_) if left > 0 => pause(PAUSE).await,
            Err(_) => {}
        }
    }
    Ok(None)
}

async fn remove(of: &FileSystemDirectoryHandle, name: &str) -> std::result::Result<(), JsValue> {
    let options = web_sys::FileSystemRemoveOptions::new();
    options.set_recursive(true);
    JsFuture::from(of.remove_entry_with_options(name, &options)).await.map(drop)
}

impl Store {
    /// Opens the page's store, of at most what the browser's quota leaves, and of at most `limit` bytes. `listener` hears why something is not
    /// kept. `None` if the browser has none: the listener knows why.
    pub async fn open(limit: u64, listener: Listener) -> Option<Arc<Store>> {
        match Store::try_open(limit).await {
            Ok((root, limit)) => {
                let (used, found) = (AtomicU64::new(0), Arc::default());
                Some(Arc::new(Store { root, limit, used, found, listener }))
            }
            Err(problem) => {
                listener(&Notice::Broken { problem });
                None
            }
        }
    }

    async fn try_open(limit: u64) -> Result<(Root, u64)> {
        let root = models(true).await?;
        let estimate: JsValue = promised(manager()?.estimate().map_err(words)?).await.map_err(words)?;
        let number = |name: &str| Reflect::get(&estimate, &name.into()).ok().and_then(|value| value.as_f64());
        // A browser that does not tell has to show it by refusing.
        let room = number("quota").map_or(f64::INFINITY, |quota| SHARE * quota - number("usage").unwrap_or(0.0));
        Ok((Root(Held::new(root)), (room.max(0.0) as u64).min(limit)))
    }
}

/// Bytes that are kept, of all checkpoints. Without a store there are none.
pub async fn stored() -> u64 {
    let mut bytes = 0;
    let Ok(root) = models(false).await else { return 0 };
    for (_, model) in folders(&root).await.unwrap_or_default() {
        for (_, folder) in folders(&model).await.unwrap_or_default() {
            if let (Some(about), Some(journal)) = (read_about(&folder).await, small(&folder, "journal").await) {
                bytes += noted_bytes(&journal, about.len);
            }
        }
    }
    bytes
}

/// Removes everything that is kept, but for files that a worker has open; returns what is left.
pub async fn clear() -> u64 {
    let Ok(root) = models(false).await else { return 0 };
    for (name, model) in folders(&root).await.unwrap_or_default() {
        if remove(&root, &name).await.is_err() {
            for (name, _) in folders(&model).await.unwrap_or_default() {
                // Another tab's; it stays.
                let _ = remove(&model, &name).await;
            }
        }
    }
    stored().await
}
