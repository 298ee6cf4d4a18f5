//! The manual page rakudactl(1): what `--help` says, of all questions on one page. tools/share
//! writes it into share/man.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Writes the page.
pub fn write(mut command: Command, out: &mut dyn Write) -> io::Result<()> {
    command.build();
    let mut page = Vec::new();
    let version = format!("rakuda {}", crate::version::VERSION);
    let man = Man::new(command.clone()).title("RAKUDACTL").date("").source(version);
    let man = man.manual("Rakuda");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut roff, &after_help(&command));
    roff.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    Roff::new().control("SH", ["QUESTIONS"]).to_writer(&mut page)?;
    for question in command.get_subcommands().filter(|question| question.get_name() != "help") {
        write_question(question, &mut page)?;
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.control("BR", ["rakuda", "(1),"]);
    roff.control("BR", ["rakuda-hosts", "(5),"]);
    roff.control("BR", ["rakuda-properties", "(7)"]);
    roff.to_writer(&mut page)?;
    out.write_all(&page)
}

fn write_question(question: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SS", [question.get_name()]);
    let usage = question.clone().render_usage().to_string();
    roff.text([bold(usage.trim_start_matches("Usage: ").trim())]);
    let about = question.get_long_about().or_else(|| question.get_about());
    paragraphs(&mut roff, &about.map(ToString::to_string).unwrap_or_default());
    roff.to_writer(page)?;
    // With a heading of its own, which would end the section; -h and -C are told above.
    let own = question.clone().mut_args(|arg| {
        let general = ["help", "directory", "version"].contains(&arg.get_id().as_str());
        arg.hide(general)
    });
    let mut options = Vec::new();
    Man::new(own).render_options_section(&mut options)?;
    page.extend(String::from_utf8_lossy(&options).replace(".SH OPTIONS\n", "").bytes());
    let mut roff = Roff::new();
    paragraphs(&mut roff, &after_help(question));
    roff.to_writer(page)
}

fn after_help(command: &Command) -> String {
    let text = command.get_after_long_help().or_else(|| command.get_after_help());
    text.map(ToString::to_string).unwrap_or_default()
}

/// Text as it stands in `--help`: lines that are indented stay lines.
fn paragraphs(roff: &mut Roff, text: &str) {
    let mut example = false;
    for line in text.lines() {
        let indented = line.starts_with("    ");
        if indented != example {
            roff.control(
                if indented { "RS" } else { "fi" },
                if indented { &["4"][..] } else { &[] }.to_vec(),
            );
            if indented {
                roff.control("nf", [])
            } else {
                roff.control("RE", [])
            };
        } else if !indented && !line.is_empty() {
            roff.control("PP", []);
        }
        example = indented;
        if !line.is_empty() {
            roff.text([roman(line.strip_prefix("    ").unwrap_or(line))]);
        }
    }
    if example {
        roff.control("fi", []);
        roff.control("RE", []);
    }
}
