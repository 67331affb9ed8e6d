//! `flash890 verify`: whether a checkpoint's bytes are what its checksums say. From a server everything is read, and kept as the options say,
//! so this is also how a checkpoint is fetched beforehand.

use super::cache::CacheArgs;
use super::console::{Console, grouped, size};
use super::place::Place;
use crate::weights::Checkpoint;
use crate::weights::checksums::{CHECKSUMS_FILE, Checksums};
use crate::{Error, Result};
use clap::Args;
use pollster::block_on;

/// Options of `verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Checkpoint: a folder, or its address on a web server.
    #[arg(value_name = "DIR|URL")]
    place: Place,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(super) fn run(args: VerifyArgs, console: &Console) -> Result<bool> {
    let folder = args.place.kept_files(&args.cache, console)?;
    // In a scope of its own: a kept file has one owner at a time.
    let bad = {
        let (_, verdict) = block_on(Checkpoint::inspect(&folder))?;
        verdict.differences.len()
    };
    if bad > 0 {
        return Err(Error::Integrity(format!("{bad} tensors are not as config.json asks for")));
    }
    let Some(checksums) = block_on(Checksums::of_folder(&folder))? else {
        console.notice(
            format!("không có {CHECKSUMS_FILE}: chỉ kiểm tra được header, chỉ mục và kích thước; tất cả đều đúng"),
            format!("no {CHECKSUMS_FILE}: only headers, index and lengths could be checked; they are right"),
        );
        return Ok(true);
    };
    let bar = console.byte_bar(0);
    let mut watch = |name: &str, done: u64, len: u64| {
        bar.set_length(len);
        bar.set_position(done);
        bar.set_message(name.to_string());
    };
    let verified = block_on(checksums.verify(&folder, &mut watch));
    bar.finish_and_clear();
    let (files, bytes) = (grouped(checksums.len() as u64), size(verified?));
    let good = console.lang.pick(
        format!("đúng: {files} tệp, {bytes}, như {CHECKSUMS_FILE} ghi"),
        format!("good: {files} files, {bytes}, are as {CHECKSUMS_FILE} says"),
    );
    console.print(&format!("{good}\n"))?;
    Ok(true)
}
