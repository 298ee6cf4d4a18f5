//! The manual page rakudactl(1): what `--help` says, of all questions on one page. tools/share
//! writes it into share/man, with a date.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

/// Writes the page.
pub fn write(mut command: Command, out: &mut dyn Write) -> io::Result<()> {
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    writeln!(page, ".TH RAKUDACTL 1 \"\" \"rakuda {}\"", crate::version::VERSION)?;
    man.render_name_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    synopsis(&mut roff);
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
    out.write_all(mended(&String::from_utf8_lossy(&page)).as_bytes())
}

/// With the value of `-C`, which clap_mangen leaves out.
fn synopsis(roff: &mut Roff) {
    let option = |short, long| [roman("["), bold(short), roman("|"), bold(long)];
    let mut words = vec![bold("rakudactl"), roman(" ")];
    words.extend(option("-C", "--directory"));
    words.extend([roman(" "), italic("DIR"), roman("] ")]);
    words.extend(option("-h", "--help"));
    words.push(roman("] "));
    words.extend(option("-V", "--version"));
    words.extend([
        roman("] "),
        italic("QUESTION"),
        roman(" ["),
        italic("ARGUMENT"),
        roman(" ...]"),
    ]);
    roff.text(words);
}

/// A page without macros that ask for nothing, and with what stands between backticks bold. Examples stay as they are.
fn mended(page: &str) -> String {
    let mut mended = String::with_capacity(page.len());
    let (mut headed, mut example) = (false, false);
    for line in page.replace("\n.br\n\n.br\n", "\n.sp\n").lines() {
        let of = |names: [&str; 2]| names.iter().any(|name| line.starts_with(name));
        if of([".nf", ".fi"]) {
            example = line.starts_with(".nf");
        }
        if headed && of([".PP", ".sp"]) {
            continue;
        }
        headed = of([".SH", ".SS"]) || headed && of([".ie", ".el"]);
        let is_text = !example && !line.starts_with('.');
        mended.push_str(&if is_text { bold_of_code(line) } else { line.to_owned() });
        mended.push('\n');
    }
    mended
}

/// One line; a backtick without another one stays.
fn bold_of_code(line: &str) -> String {
    let mut parts = line.split('`');
    let mut mended = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => mended.extend(["\\fB", code, "\\fR", after]),
            None => mended.extend(["\\(ga", code]),
        }
    }
    mended
}

fn write_question(question: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SS", [question.get_name()]);
    let usage = question.clone().render_usage().to_string();
    roff.text([bold(usage.trim_start_matches("Usage: ").trim())]);
    let about = question.get_long_about().or_else(|| question.get_about());
    paragraphs(&mut roff, &about.map(ToString::to_string).unwrap_or_default());
    roff.to_writer(page)?;
    // With a heading of its own, which would end the section; -h and -C stand above.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_that_ask_for_nothing_are_left_out_and_code_is_bold() {
        let page = ".SH OPTIONS\n.PP\nIt is `last` or `a b`, not `c.\n.br\n\n.br\nmore\n.nf\nx=`y`\n.fi\n.PP\n";
        let expected = ".SH OPTIONS\nIt is \\fBlast\\fR or \\fBa b\\fR, not \\(gac.\n.sp\nmore\n\
                        .nf\nx=`y`\n.fi\n.PP\n";
        assert_eq!(mended(page), expected);
    }
}
