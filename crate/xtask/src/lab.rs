//! `cargo xtask lab`: the lab in the browser, or in the terminal.

use std::process::Command;
use std::time::Instant;

use crate::process;
use crate::setup::{self, Purpose};
use crate::web::{self, serve};
use crate::workspace::{self, Workspace};

/// What `lab` is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lab {
    /// Print it; the arguments are those of `flash890 lab`.
    Terminal(Vec<String>),
    /// Build the page, serve it and open it.
    Page { port: Option<u16>, open: bool },
    /// Build the page and have it run all its checks in a browser without a display.
    Check,
}

/// Reads the arguments after `lab`. The error is a sentence for the user.
pub(crate) fn parse(args: &[String]) -> Result<Lab, String> {
    if args.iter().any(|arg| arg == "--terminal") {
        return Ok(Lab::Terminal(args.iter().filter(|arg| *arg != "--terminal").cloned().collect()));
    }
    let (mut port, mut open, mut check) = (None, true, false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--no-open" => open = false,
            "--check" => check = true,
            "--port" => {
                let value = rest.next().ok_or("`--port` needs a number")?;
                port =
                    Some(value.parse().map_err(|_| format!("`--port` needs a number up to 65535, found `{value}`"))?);
            }
            other => return Err(format!("`lab` does not know `{other}`; the lab in the terminal is `lab --terminal`")),
        }
    }
    if check && port.is_some() {
        return Err("`--check` takes a free port by itself".to_owned());
    }
    Ok(if check { Lab::Check } else { Lab::Page { port, open } })
}

/// Does what was asked; returns the exit code.
pub(crate) fn run(workspace: &Workspace, lab: Lab) -> Result<u8, String> {
    match lab {
        Lab::Terminal(args) => terminal(workspace, &args),
        Lab::Page { port, open } => page(workspace, port, open),
        Lab::Check => check(workspace),
    }
}

fn page(workspace: &Workspace, port: Option<u16>, open: bool) -> Result<u8, String> {
    eprintln!("{}", setup::run(workspace, Purpose::Page)?);
    let page = web::build(workspace)?;
    let server = serve::Server::bind(&page.dist, port)?;
    eprintln!("{}\nserving dist/ until Ctrl-C", page.summary);
    println!("{}", server.url);
    if open && !serve::open_browser(&server.url) {
        eprintln!("open this address in a browser; there is no display here to open it on");
    }
    server.run();
    Ok(0)
}

fn check(workspace: &Workspace) -> Result<u8, String> {
    eprintln!("{}", setup::run(workspace, Purpose::Browser)?);
    let page = web::build(workspace)?;
    eprintln!("{}", page.summary);
    let server = serve::Server::bind(&page.dist, Some(0))?;
    let url = server.url.clone();
    std::thread::spawn(move || server.run());
    Ok(if web::check::own_checks(workspace, &url)? { 0 } else { crate::FAILED })
}

/// Builds `flash890` in release and runs `flash890 lab` with `args`, in the folder the user is in. Returns its exit
/// code. Progress goes to stderr, so that stdout holds what the lab prints and nothing else. Needs nothing but Rust.
fn terminal(workspace: &Workspace, args: &[String]) -> Result<u8, String> {
    eprintln!("building flash890 in release (a minute or two the first time)");
    let start = Instant::now();
    process::run(&mut workspace.cargo(&["build", "--release", "--package", "flash890", "--bin", "flash890"]))?;
    eprintln!("built in {:.1} s", start.elapsed().as_secs_f64());

    let mut lab = Command::new(workspace::cargo());
    lab.args(["run", "--quiet", "--release", "--package", "flash890", "--bin", "flash890", "--manifest-path"]);
    lab.arg(workspace.root.join("Cargo.toml")).args(["--", "lab"]).args(args);
    let status = lab.status().map_err(|error| format!("cannot start the lab: {error}"))?;
    // No code means that a signal ended the lab.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Lab, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_terminal_lab_gets_every_other_argument() {
        let expected = ["--lang", "vi", "--check"].map(str::to_owned).to_vec();
        assert_eq!(parse_line("--lang vi --terminal --check"), Ok(Lab::Terminal(expected)));
    }

    #[test]
    fn the_page_has_a_port_and_opens_unless_told_not_to() {
        assert_eq!(parse_line(""), Ok(Lab::Page { port: None, open: true }));
        assert_eq!(parse_line("--port 80 --no-open"), Ok(Lab::Page { port: Some(80), open: false }));
        assert_eq!(parse_line("--check"), Ok(Lab::Check));
    }

    #[test]
    fn other_arguments_are_errors_that_say_what_to_do() {
        assert!(parse_line("--lang vi").unwrap_err().contains("`lab --terminal`"));
        assert!(parse_line("--port").unwrap_err().contains("needs a number"));
        assert!(parse_line("--port 70000").unwrap_err().contains("`70000`"));
        assert!(parse_line("--check --port 1").unwrap_err().contains("--check"));
    }
}
