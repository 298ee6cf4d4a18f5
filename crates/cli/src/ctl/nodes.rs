//! `rakudactl nodes`: what is known of nodes, of the runs that are going on, of this machine, or of
//! an information service.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rakuda_info::format::{Ages, Format};
use rakuda_info::query::{Query, Question, names_of};
use rakuda_info::table::Table;
use rakuda_service::{Client, ClientError, Token};
use serde_json::{Value, json};

use super::base_folder::BaseFolder;
use super::which_run::RunArgument;
use super::{Status as Ending, UsageError, live, live_nodes};
use crate::far_hosts::FarHosts;

/// Time between two looks at what does not report changes by itself.
const WATCH_TIME: Duration = Duration::from_secs(1);
/// Maximum questions to a run whose samples are on their way: together they take 5 s, as of a service.
const VALUES_LOOKS: u32 = 250;
/// Time between two of these questions.
const VALUES_TIME: Duration = Duration::from_millis(20);
/// Time between two samples of hosts that are looked at without a run.
const HOSTS_PERIOD: Duration = Duration::from_millis(200);
/// Timeout for the first values of these hosts, or their failure.
const HOSTS_LIMIT: Duration = Duration::from_secs(60);
/// Default columns for people, of nodes that belong to no run.
const COLUMNS: &str = "load1, threads, mem_available, mem_total, cpu_idle, users, uptime";

/// Lists nodes: of the runs that are going on here, of this machine, or of an information service.
#[derive(Args)]
pub struct Nodes {
    /// Ask only the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["service", "hosts"])]
    run: Option<String>,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Ask the information service at URL (`rakudad info`).
    #[arg(long, value_name = "URL", conflicts_with_all = ["hosts", "argument"])]
    service: Option<String>,

    /// The token file of that service.
    #[arg(long, value_name = "FILE", requires = "service")]
    token_file: Option<PathBuf>,

    /// Look at these hosts without a run: a host file, or `localhost`.
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with = "argument")]
    hosts: Option<String>,

    /// Columns: attributes or expressions, with commas between them.
    #[arg(long, value_name = "EXPRESSIONS")]
    cols: Option<String>,

    /// Only nodes for which it is true.
    #[arg(long = "where", value_name = "EXPRESSION")]
    condition: Option<String>,

    /// In this order; - before an expression turns it round.
    #[arg(long, value_name = "EXPRESSIONS", allow_hyphen_values = true)]
    sort: Option<String>,

    /// One line for all nodes with the same value.
    #[arg(long, value_name = "EXPRESSION")]
    group_by: Option<String>,

    /// At most N lines.
    #[arg(long, value_name = "N", value_parser = rows)]
    limit: Option<usize>,

    /// Sample anew what is older than AGE (100ms, 5s; 0: all), and wait for it, 5 s at most; with -F all is sampled.
    #[arg(long, value_name = "AGE")]
    max_age: Option<String>,

    /// Only attributes of these providers.
    #[arg(long, value_name = "PROVIDERS")]
    only: Option<String>,

    /// Show the age of each value: behind it in tables, as a column NAME.age_s in CSV; JSON and LDIF have it anyway.
    #[arg(long)]
    ages: bool,

    /// Go on, and show what changes.
    #[arg(long)]
    watch: bool,

    /// Print one JSON object.
    #[arg(long, conflicts_with_all = ["csv", "format"])]
    json: bool,

    /// Print comma-separated values.
    #[arg(long, conflicts_with = "format")]
    csv: bool,

    /// Print `text`, `json`, `csv` or `ldif`.
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
}

fn rows(word: &str) -> Result<usize, &'static str> {
    word.parse().map_err(|_| "expected a number of rows")
}

impl Nodes {
    /// Asks and prints.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let format = self.format()?;
        if let Some(age) = &self.max_age
            && rakuda_info::duration_ns(age).is_none()
        {
            let message = format!("--max-age {age}: expected a time such as 100ms or 5s");
            return Err(UsageError(message).into());
        }
        if let Some(why) = format.refusal(&self.question(format)) {
            return Err(UsageError(format!("--format: {why}")).into());
        }
        if let Some(file) = self.hosts.as_deref().filter(|hosts| *hosts != "localhost") {
            return self.of_hosts(file, format, out);
        }
        if let Some(url) = &self.service {
            return self.of_service(url, format, out);
        }
        let mut screen = Screen::new(self.watch && format == Format::Text);
        loop {
            let text = self.shown(base, format)?;
            screen.show(&text, out)?;
            if !self.watch {
                return Ok(Ending::Good);
            }
            rakuda_service::pass(WATCH_TIME);
        }
    }

    fn format(&self) -> anyhow::Result<Format> {
        if self.json {
            return Ok(Format::Json);
        }
        if self.csv {
            return Ok(Format::Csv);
        }
        let word = self.format.as_deref().unwrap_or("text");
        Format::of(word).ok_or_else(|| {
            let message = format!("--format {word}: expected text, json, csv or ldif");
            UsageError(message).into()
        })
    }

    fn ages(&self) -> Ages {
        if self.ages { Ages::All } else { Ages::Asked }
    }

    fn question(&self, format: Format) -> Question {
        let is_of_run = self.service.is_none() && self.hosts.is_none();
        let is_plain = format == Format::Text && self.only.is_none() && self.group_by.is_none();
        let otherwise = if is_of_run { live_nodes::COLUMNS } else { COLUMNS };
        Question {
            fields: self.cols.clone().or_else(|| is_plain.then(|| otherwise.to_owned())),
            condition: self.condition.clone(),
            sort: self.sort.clone(),
            group_by: self.group_by.clone(),
            limit: self.limit,
            since: None,
            only: self.only.clone(),
        }
    }

    /// Of this machine, or of runs, as they are now.
    fn shown(&self, base: &BaseFolder, format: Format) -> anyhow::Result<String> {
        let table = if self.hosts.is_some() {
            rakuda_service::sample_once()
        } else {
            let is_question = self.cols.is_some()
                || self.condition.is_some()
                || self.sort.is_some()
                || self.group_by.is_some()
                || self.limit.is_some()
                || self.only.is_some()
                || self.max_age.is_some()
                || self.ages;
            if format == Format::Text && !is_question {
                let run = self.run_argument.or(self.run.as_deref());
                let runs = live::ask(base, run, &json!({"ask": "status"}));
                return Ok(lines(&runs.map_err(|error| self.or_elsewhere(error))?));
            }
            let runs = self.with_values(base, format).map_err(|error| self.or_elsewhere(error))?;
            live_nodes::table(&runs, rakuda_service::now())
        };
        self.answered(&table, format)
    }

    /// A question that names no run may mean nodes without a run.
    fn or_elsewhere(&self, error: anyhow::Error) -> anyhow::Error {
        const ELSEWHERE: &str = "nodes without a run: -F localhost, -F HOSTS or --service URL";
        if self.run_argument.or(self.run.as_deref()).is_some() {
            return error;
        }
        match error.downcast::<live::NoLiveRun>() {
            Ok(live::NoLiveRun(why)) => live::NoLiveRun(format!("{why}; {ELSEWHERE}")).into(),
            Err(error) => match error.downcast::<rakuda_record::folder::FolderError>() {
                Ok(none) => live::NoLiveRun(format!("{none}; {ELSEWHERE}")).into(),
                Err(error) => error,
            },
        }
    }

    /// What runs say, with all that they know of nodes. One that begins to sample for this is asked again.
    fn with_values(&self, base: &BaseFolder, format: Format) -> anyhow::Result<Vec<Value>> {
        let Question { fields, condition, sort, group_by, only, .. } = self.question(format);
        // What it needs not, need not be sampled for it.
        let needs = json!({
            "fields": fields, "where": condition, "sort": sort, "group_by": group_by, "only": only,
        });
        let asked = json!({"ask": "status", "values": true, "question": needs});
        let mut question = asked.clone();
        if let Some(age_ns) = self.max_age.as_deref().and_then(rakuda_info::duration_ns) {
            question["max_age_ns"] = age_ns.into();
        }
        let mut runs = live::ask(base, self.run_argument.or(self.run.as_deref()), &question)?;
        for run in &mut runs {
            for _ in 0..VALUES_LOOKS {
                let Some(name) = run["run"].as_str().filter(|_| run["values_coming"] == true)
                else {
                    break;
                };
                rakuda_service::pass(VALUES_TIME);
                // What is to be as new as was asked for at first.
                let mut again = asked.clone();
                again["sampled_since_ns"] = run["sampled_since_ns"].clone();
                // It may have ended meanwhile.
                let Ok(mut answers) = live::ask(base, Some(name), &again) else { break };
                let Some(answer) = answers.pop() else { break };
                *run = answer;
            }
        }
        Ok(runs)
    }

    fn answered(&self, table: &Table, format: Format) -> anyhow::Result<String> {
        let query = Query::new(&self.question(format), table.registry());
        let query =
            query.map_err(|error| UsageError(format!("--{}", option(&error.to_string()))))?;
        let answer = query.answer(table, rakuda_service::now());
        let mut text = format.write(&answer, table, self.ages(), query.only());
        if format == Format::Json {
            text.push('\n');
        }
        Ok(text)
    }

    /// Of hosts, through agents that are started for it.
    fn of_hosts(&self, file: &str, format: Format, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut table = Table::new();
            let mut hosts = FarHosts::start(file, HOSTS_PERIOD, Vec::new(), &mut table)?;
            if let Some(only) = &self.only {
                // No host has been asked to start any of them so far.
                let only = names_of(only);
                hosts.providers.retain(|provider| only.contains(&provider.name));
            }
            // Nor what the question does not need. What is wrong with it is said when it is answered.
            let query = Query::new(&self.question(format), table.registry());
            if let Ok(query) = query
                && !query.awaits_providers()
                && let Some(needed) = query.providers(table.registry())
            {
                hosts.providers.retain(|provider| needed.contains(&provider.name));
            }
            let mut screen = Screen::new(self.watch && format == Format::Text);
            let ending = loop {
                let shown = self.look_at(&mut hosts, &mut table, format).await;
                if let Err(error) = shown.and_then(|text| Ok(screen.show(&text, out)?)) {
                    break Err(error);
                }
                if !self.watch {
                    break Ok(if hosts.has_failed() { Ending::Failed } else { Ending::Good });
                }
            };
            hosts.close().await;
            ending
        })
    }

    /// What is known of hosts when all have reported or failed. Later looks wait for a moment only.
    async fn look_at(
        &self,
        hosts: &mut FarHosts,
        table: &mut Table,
        format: Format,
    ) -> anyhow::Result<String> {
        let is_first = !hosts.is_settled(table);
        let until = tokio::time::sleep(if is_first { HOSTS_LIMIT } else { WATCH_TIME });
        let mut until = std::pin::pin!(until);
        while !(is_first && hosts.is_settled(table)) {
            tokio::select! {
                () = &mut until => break,
                report = hosts.next() => {
                    let told = hosts.note(report, table, rakuda_service::now());
                    if let Some(told) = told {
                        crate::complain(&format!("rakudactl: {told}\n"));
                    }
                }
            }
        }
        hosts.note_silence(table, rakuda_service::now());
        if hosts.has_own {
            rakuda_service::sample_into(table);
        }
        self.answered(table, format)
    }

    fn of_service(&self, url: &str, format: Format, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let client = client(url, self.token_file.as_ref())?;
        let word = match format {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Text => "text",
            Format::Ldif => "ldif",
        };
        let question = self.question(format);
        let limit = question.limit.map(|limit| limit.to_string());
        // Others have them anyway.
        let has_ages = self.ages && matches!(format, Format::Text | Format::Csv);
        let ages = has_ages.then(|| "true".to_owned());
        let fields = [
            ("fields", &question.fields),
            ("where", &question.condition),
            ("sort", &question.sort),
            ("group_by", &question.group_by),
            ("only", &question.only),
            ("limit", &limit),
            ("max_age", &self.max_age),
            ("ages", &ages),
            ("format", &Some(word.to_owned())),
        ];
        let fields = fields.iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let fields = fields
            .map(|(name, value)| format!("{name}={}", rakuda_service::http::encoded(value)))
            .collect::<Vec<_>>()
            .join("&");
        let path = format!("/v1/nodes?{fields}");
        let mut screen = Screen::new(self.watch && format == Format::Text);
        let understood = |error: ClientError| match error {
            // The question makes no sense, which is known only where the attributes are.
            ClientError::Refused { status: 400, message } => {
                anyhow::Error::from(UsageError(format!("--{}", option(&message))))
            }
            other => other.into(),
        };
        let mut look = |out: &mut dyn Write| -> anyhow::Result<()> {
            let body = client.get(&path).map_err(understood)?;
            let mut text = String::from_utf8_lossy(&body).into_owned();
            if format == Format::Json {
                text.push('\n');
            }
            screen.show(&text, out)?;
            Ok(())
        };
        if !self.watch {
            look(out)?;
            return Ok(Ending::Good);
        }
        // An age changes all the time, and no event says so.
        if self.ages {
            loop {
                look(out)?;
                rakuda_service::pass(WATCH_TIME);
            }
        }
        // The first event comes at once, so the first look is no other's.
        let mut events = client.events(&path).map_err(understood)?;
        loop {
            events.wait().map_err(understood)?;
            look(out)?;
        }
    }
}

/// Where a table is drawn again and again: in its own place on a terminal, else one below the other.
struct Screen {
    is_terminal: bool,
    /// Rows and columns when it was drawn last.
    size: (usize, usize),
    /// Lines that are there to be drawn over.
    drawn: usize,
}

impl Screen {
    fn new(is_watched: bool) -> Self {
        let is_terminal = is_watched && std::io::stdout().is_terminal();
        Self { is_terminal, size: (0, 0), drawn: 0 }
    }

    fn show(&mut self, text: &str, out: &mut dyn Write) -> std::io::Result<()> {
        if self.is_terminal {
            let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
            // A terminal that does not say is as large as any.
            let limit = |length: u16| if length == 0 { usize::MAX } else { usize::from(length) };
            let size =
                size.map_or((usize::MAX, usize::MAX), |it| (limit(it.ws_row), limit(it.ws_col)));
            out.write_all(self.drawing(text, size).as_bytes())?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()
    }

    /// What draws a text over the last one; no line is longer than the terminal, and all stay on it.
    fn drawing(&mut self, text: &str, size: (usize, usize)) -> String {
        use std::fmt::Write as _;

        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // The last row is the cursor's.
        let room = size.0.saturating_sub(1).max(1);
        if lines.len() > room {
            let left = lines.len() - (room - 1);
            lines.truncate(room - 1);
            lines.push(format!("({left} more; --limit, --where)"));
        }
        let mut drawing = String::new();
        // A terminal that has changed may have moved the lines: they are left alone.
        if self.drawn > 0 && self.size == size {
            let _ = write!(drawing, "\x1b[{}A\r", self.drawn);
        }
        for line in &lines {
            let line: String = line.chars().take(size.1).collect();
            let _ = write!(drawing, "{line}\x1b[K\r\n");
        }
        drawing.push_str("\x1b[J");
        (self.size, self.drawn) = (size, lines.len());
        drawing
    }
}

/// How a clause of a question is called here.
fn option(error: &str) -> String {
    match error.split_once(": ") {
        Some(("fields", rest)) => format!("cols: {rest}"),
        Some(("group_by", rest)) => format!("group-by: {rest}"),
        _ => error.to_owned(),
    }
}

/// Where a service is, with the token of a file, or of the file where services of this user have it.
pub(super) fn client(url: &str, file: Option<&PathBuf>) -> anyhow::Result<Client> {
    let file = match file {
        Some(file) => file.clone(),
        None => crate::info_process::token_file(false)?,
    };
    Ok(Client::new(url, Token::read(&file)?)?)
}

fn lines(runs: &[Value]) -> String {
    let mut out = String::new();
    for run in runs {
        out.push_str(run["run"].as_str().unwrap_or("?"));
        out.push_str(":\n");
        let nodes = run["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let name = |node: &Value| node["node"].as_str().unwrap_or("?").to_owned();
        let width = nodes.iter().map(|node| name(node).chars().count()).max().unwrap_or(0);
        for node in nodes {
            out.push_str(&line(node, &format!("{:width$}", name(node))));
        }
    }
    out
}

fn line(node: &Value, name: &str) -> String {
    use std::fmt::Write as _;

    let word = |name: &str| node[name].as_u64().unwrap_or(0);
    let cores = if word("cores") == 1 { "core" } else { "cores" };
    let mut line = format!(
        "  {name}  {:8}  {:>3} {cores}, {} running, {} done",
        node["state"].as_str().unwrap_or("?"),
        word("cores"),
        word("running"),
        word("done")
    );
    if let Some(group) = node["group"].as_str() {
        let _ = write!(line, ", group {group}");
    }
    if let Some(leader) = node["leader"].as_str() {
        let _ = write!(line, ", leader {leader}");
    }
    if let Some(seconds) = node["ends_in_s"].as_u64() {
        let _ = write!(line, ", ends in {seconds} s");
    }
    if let Some(why) = node["why"].as_str() {
        let _ = write!(line, ": {why}");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_drawn_over_the_last_one_and_stays_on_the_terminal() {
        let mut screen = Screen { is_terminal: true, size: (0, 0), drawn: 0 };
        assert_eq!(screen.drawing("a\nbb\n", (4, 1)), "a\x1b[K\r\nb\x1b[K\r\n\x1b[J");
        let more = screen.drawing("1\n2\n3\n4\n5\n", (4, 99));
        let expected = "1\x1b[K\r\n2\x1b[K\r\n(3 more; --limit, --where)\x1b[K\r\n\x1b[J";
        assert_eq!(more, expected, "another size: below what was there");
        assert!(screen.drawing("1\n", (4, 99)).starts_with("\x1b[3A\r1\x1b[K"));
        assert!(screen.drawing("", (4, 99)).starts_with("\x1b[1A\r\x1b[J"));
        assert_eq!(screen.drawing("x\n", (4, 99)), "x\x1b[K\r\n\x1b[J");
    }
}
