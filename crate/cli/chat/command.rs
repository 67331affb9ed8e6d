//! What a line of the conversation asks for.

use crate::cli::console::Console;
use std::path::PathBuf;

/// A line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// An empty line.
    Nothing,
    /// A turn.
    Say(String),
    /// Forget what was said.
    Reset,
    /// Write the conversation to a file.
    Save(PathBuf),
    /// Go on with one from a file.
    Load(PathBuf),
    /// Send a picture along with the next turn.
    Image(PathBuf),
    Help,
    Quit,
    /// A command that there is none of, or that lacks something.
    Unknown(String),
}

impl Command {
    /// Understands a line. A turn may begin with a slash if it is doubled.
    pub(super) fn read(line: &str) -> Command {
        let line = line.trim();
        let Some(rest) = line.strip_prefix('/') else {
            return if line.is_empty() { Command::Nothing } else { Command::Say(line.into()) };
        };
        if rest.starts_with('/') {
            return Command::Say(rest.into());
        }
        let (name, operand) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let operand = operand.trim();
        let file = |command: fn(PathBuf) -> Command| match operand {
            "" => Command::Unknown(format!("/{name}: needed a file")),
            path => command(PathBuf::from(path)),
        };
        match name {
            "save" => file(Command::Save),
            "load" => file(Command::Load),
            "image" => file(Command::Image),
            _ if !operand.is_empty() => {
                Command::Unknown(format!("/{name} {operand}: there is no such command; /help lists them"))
            }
            "reset" => Command::Reset,
            "help" => Command::Help,
            "quit" | "exit" => Command::Quit,
            _ => Command::Unknown(format!("/{name}: there is no such command; /help lists them")),
        }
    }
}

/// Lists the commands.
pub(super) fn help(console: &Console) {
    let lines = [
        (
            "/image TỆP   gửi ảnh (PNG, JPEG, WebP) cùng câu tiếp theo",
            "/image FILE  send a picture (PNG, JPEG, WebP) with the next turn",
        ),
        ("/save TỆP    lưu cuộc trò chuyện", "/save FILE   write the conversation to a file"),
        ("/load TỆP    mở cuộc trò chuyện đã lưu", "/load FILE   go on with one from a file"),
        ("/reset       bắt đầu lại từ đầu", "/reset       begin anew"),
        ("/quit        kết thúc (Ctrl-D cũng vậy)", "/quit        end (so does Ctrl-D)"),
        ("//           câu bắt đầu bằng dấu /", "//           a turn that begins with /"),
    ];
    for (vi, en) in lines {
        console.notice(vi, en);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let file = || PathBuf::from("a b.json");
        for (line, command) in [
            ("  ", Command::Nothing),
            (" Why? ", Command::Say("Why?".into())),
            ("//help", Command::Say("/help".into())),
            ("/help", Command::Help),
            ("/reset", Command::Reset),
            ("/quit", Command::Quit),
            ("/save a b.json", Command::Save(file())),
            ("/load  a b.json ", Command::Load(file())),
            ("/image a b.json", Command::Image(file())),
        ] {
            assert_eq!(Command::read(line), command, "{line:?}");
        }
        for (line, words) in
            [("/save", "needed a file"), ("/rest", "no such command"), ("/reset now", "no such command")]
        {
            let Command::Unknown(problem) = Command::read(line) else { panic!("{line} is understood") };
            assert!(problem.contains(words), "{problem}");
        }
    }
}
