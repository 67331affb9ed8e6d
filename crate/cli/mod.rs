//! The native command line.
//!
//! Standard output carries the answer or the data and nothing else; progress, statistics and errors go to standard error, in Vietnamese or
//! English. Errors of the library stay English. Exit codes: 0 done, 1 run error or failed comparison, 2 usage, 3 does not fit, 4 integrity.

mod backend;
mod bench;
mod cache;
mod chat;
mod config_lines;
mod console;
mod devices;
mod generate;
mod hints;
mod inspect;
mod lab;
mod make_tiny;
mod memory;
mod model;
mod nano;
mod options;
mod parity;
mod place;
mod plan;
mod verify;

use crate::Error;
use crate::lab::lang::Lang;
use clap::{Parser, Subcommand};
use console::Console;
use std::process::ExitCode;

/// DeepSeek-V4.1-Flash, block by block, on a GPU or the CPU (từng khối một, chạy trên GPU hoặc CPU).
#[derive(Debug, Parser)]
#[command(name = "flash890", version, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 run error or failed comparison, 2 usage, 3 does not fit, 4 integrity.")]
struct Cli {
    /// Language of messages (ngôn ngữ): vi or en; the environment decides otherwise.
    #[arg(long, global = true, value_name = "vi|en", value_parser = options::lang)]
    lang: Option<Lang>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow one token through the ten blocks, with numbers and checks (theo một token qua mười khối).
    Lab(lab::LabArgs),
    /// Talk with a model (trò chuyện với mô hình).
    Chat(chat::ChatArgs),
    /// Answer a prompt (trả lời một câu hỏi).
    Generate(generate::GenerateArgs),
    /// Show what a checkpoint holds, from its headers (xem nội dung của một mô hình).
    Inspect(inspect::InspectArgs),
    /// Say what a checkpoint needs and whether this machine has it, before anything is loaded (mô hình cần gì, máy có đủ không).
    Plan(plan::PlanArgs),
    /// Compare a checkpoint's bytes with its checksums (kiểm tra từng byte của mô hình).
    Verify(verify::VerifyArgs),
    /// Show or remove what is kept of checkpoints on servers (những gì đã lưu từ máy chủ).
    Cache(cache::CacheCommand),
    /// Compare a checkpoint with a golden file, tap by tap (so sánh với kết quả chuẩn).
    Parity(parity::ParityArgs),
    /// List the adapters that could compute (liệt kê các GPU).
    Devices(devices::DevicesArgs),
    /// Measure this machine (đo tốc độ của máy này).
    Bench(bench::BenchArgs),
    /// Write a small checkpoint with random weights (tạo một mô hình nhỏ với trọng số ngẫu nhiên).
    MakeTiny(make_tiny::MakeTinyArgs),
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(problem) => {
            // A closed stream is no reason to fail over help.
            let _ = problem.print();
            return ExitCode::from(if problem.use_stderr() { 2 } else { 0 });
        }
    };
    let console = Console::new(cli.lang.unwrap_or_else(|| Lang::from_env(|name| std::env::var(name).ok())));
    let done = match cli.command {
        Command::Lab(args) => lab::run(args, &console),
        Command::Chat(args) => chat::run(args, &console),
        Command::Generate(args) => generate::run(args, &console),
        Command::Inspect(args) => inspect::run(args, &console),
        Command::Plan(args) => plan::run(args, &console),
        Command::Verify(args) => verify::run(args, &console),
        Command::Cache(args) => cache::run(args, &console),
        Command::Parity(args) => parity::run(args, &console),
        Command::Devices(args) => devices::run(args, &console),
        Command::Bench(args) => bench::run(args, &console).map(|()| true),
        Command::MakeTiny(args) => make_tiny::run(args, &console),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read our output has seen enough.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            console.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}
