//! `flash890 lab`: one token through the ten blocks, with numbers and checks.

use super::cache::CacheArgs;
use super::console::{Console, size};
use super::place::Place;
use crate::error::{Error, Result};
use crate::lab::chapters;
use crate::lab::prompt::{Picture, Request};
use crate::lab::recorded;
use crate::lab::run::Run;
use crate::lab::terminal::{self, Style};
use crate::weights::{Checkpoint, tiny};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of `lab`.
#[derive(Debug, clap::Args)]
pub(super) struct LabArgs {
    /// Text to run instead of the built-in sentence.
    #[arg(long)]
    text: Option<String>,
    /// Picture to put in front of the text (PNG, JPEG, WebP); otherwise the lab draws a small one.
    #[arg(long, value_name = "FILE", conflicts_with = "no_image")]
    image: Option<PathBuf>,
    /// Run without a picture.
    #[arg(long)]
    no_image: bool,
    /// Checkpoint: a folder, or its address on a web server; otherwise a small untrained model with the released structure.
    #[arg(long, value_name = "DIR|URL")]
    model: Option<Place>,
    #[command(flatten)]
    cache: CacheArgs,
    /// Show one block only: 1A 1B 2A 3A 3B 3C 4A 6A 5A 6B.
    #[arg(long, value_name = "CODE", value_parser = block)]
    block: Option<String>,
    /// Position of the token to follow; otherwise the last.
    #[arg(long, value_name = "N")]
    token: Option<usize>,
    /// Layer to look into; otherwise the last that writes global KV.
    #[arg(long, value_name = "N")]
    layer: Option<usize>,
    /// Print everything as JSON, in both languages.
    #[arg(long)]
    json: bool,
    /// Write a short run, seen from several layers, to FILE: what the lab's page shows before its own engine is there.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "block", "layer"])]
    record: Option<PathBuf>,
}

fn block(code: &str) -> std::result::Result<String, String> {
    let codes = || crate::blocks::ORDER.iter().map(|block| block.code).collect::<Vec<_>>().join(" ");
    chapters::find(code).map(|block| block.code.to_string()).ok_or_else(|| format!("needed one of {}", codes()))
}

/// Runs the lab and prints it; `false` if a check failed.
///
/// # Errors
/// Files that cannot be read, and whatever the run says.
pub(super) fn run(args: LabArgs, console: &Console) -> Result<bool> {
    let lang = console.lang;
    let picture = match &args.image {
        Some(path) => Picture::Given(crate::image::decode(&read(path)?)?),
        None if args.no_image => Picture::None,
        None => Picture::Generated,
    };
    let sentence = if args.record.is_some() { crate::lab::SHORT_SENTENCE } else { crate::lab::SENTENCE };
    let text = args.text.unwrap_or_else(|| sentence.get(lang).to_string());
    let request = Request { text: text.clone(), picture, token: args.token };
    let checkpoint = match args.model {
        Some(place) => pollster::block_on(Checkpoint::open(&place.kept_files(&args.cache, console)?))?,
        None => pollster::block_on(tiny::lab())?,
    };
    let mut run = pollster::block_on(Run::new(Arc::new(checkpoint), request))?;
    if let Some(path) = &args.record {
        return record(&mut run, &text, path, console);
    }
    if let Some(layer) = args.layer {
        run.look_at(layer)?;
    }
    let lab = crate::lab::report(&run, args.block.as_deref());

    let text = if args.json {
        let problem = |error: serde_json::Error| Error::Integrity(format!("the lab as JSON: {error}"));
        serde_json::to_string_pretty(&lab).map_err(problem)? + "\n"
    } else {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = !no_colour && std::io::stdout().is_terminal();
        terminal::render(&lab, Style { lang, colour })
    };
    console.print(&text)?;
    Ok(lab.failed == 0)
}

/// Writes the recorded run; `false` if a check failed.
fn record(run: &mut Run, text: &str, path: &Path, console: &Console) -> Result<bool> {
    let recorded = recorded::record(run, text)?;
    let json = recorded.to_json()?;
    std::fs::write(path, &json).map_err(|source| Error::Io { path: path.display().to_string(), source })?;
    let (labs, size) = (recorded.labs.len(), size(json.len() as u64));
    let failed: usize = recorded.labs.iter().map(|seen| seen.lab.failed).sum();
    console.notice(
        format!("{}: {labs} lớp, {size}, {failed} phép kiểm không đạt", path.display()),
        format!("{}: {labs} layers, {size}, {failed} checks failed", path.display()),
    );
    Ok(failed == 0)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::Io { path: path.display().to_string(), source })
}
