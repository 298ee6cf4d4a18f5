//! The entities of a crate, one JSON object each, written one after the other: a run of 100,000
//! tasks has half a million.
//!
//! Provenance Run Crate in short: the *workflow* (Rakefile) has *steps* (rules), each worked by a
//! *tool* (the rule's program). The engine's `OrganizeAction` results in the workflow's
//! `CreateAction`, and has per attempt a `ControlAction` that ties a step to the tool's
//! `CreateAction`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use rakuda_proto::Text;
use rakuda_proto::journal::{CommandEnvironment, FileIdentity, Outcome, RunOutcome};
use serde_json::{Value, json};

use super::{JOURNAL, METADATA, Parts, Sources};
use crate::export::names::{base_name, iso_duration, iso_time, shell_word, uri_path};
use crate::export::workflow::{GOES_ON, Workflow, attempts, failure, outcome};
use crate::report::text::ends_words;
use crate::run::held::total_ns;
use crate::summary::streams::{StreamSide, StreamSummary, streams};
use crate::words::environment;
use crate::{Attempt, Command, Run, Task};

const CONTEXT: &str = "https://w3id.org/ro/crate/1.1/context";
const CRATE_PROFILE: &str = "https://w3id.org/ro/crate/1.1";
const WORKFLOW_CRATE: &str = "https://w3id.org/workflowhub/workflow-ro-crate/1.0";
/// Profiles that the crate keeps, with their names.
const PROFILES: [(&str, &str, &str); 4] = [
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/provenance/0.5", "Provenance Run Crate", "0.5"),
    (WORKFLOW_CRATE, "Workflow RO-Crate", "1.0"),
];
const COMPLETED: &str = "http://schema.org/CompletedActionStatus";
const FAILED: &str = "http://schema.org/FailedActionStatus";
const RUN_ACTION: &str = "#run";
const LANGUAGE: &str = "#rake";
const ENGINE: &str = "#rakuda";

/// Writes the whole document.
pub(super) fn write(
    run: &Run,
    sources: &Sources<'_>,
    parts: &Parts,
    out: &mut impl Write,
) -> io::Result<()> {
    let crate_ = Crate::new(run, parts);
    write!(out, "{{\"@context\":\"{CONTEXT}\",\n\"@graph\":[\n")?;
    let mut list = List { out, first: true };
    list.add(&json!({
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": reference("./"),
        "conformsTo": [reference(CRATE_PROFILE), reference(WORKFLOW_CRATE)],
    }))?;
    list.add(&crate_.root(sources))?;
    for (id, name, version) in PROFILES {
        list.add(&json!({ "@id": id, "@type": "CreativeWork", "name": name, "version": version }))?;
    }
    if let Some(url) = sources.license.filter(|license| is_url(license)) {
        list.add(&json!({ "@id": url, "@type": "CreativeWork", "name": url }))?;
    }
    crate_.write_workflow(parts, &mut list)?;
    crate_.write_actions(&mut list)?;
    crate_.write_files(&mut list)?;
    crate_.write_streams(&mut list)?;
    list.out.write_all(b"\n]}\n")
}

/// Entities, separated.
struct List<'a, W: Write> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> List<'_, W> {
    fn add(&mut self, entity: &Value) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *self.out, entity).map_err(io::Error::from)
    }
}

fn reference(id: &str) -> Value {
    json!({ "@id": id })
}

/// Several references; a single one is no list, as RO-Crate wants it.
fn references<I: IntoIterator<Item = String>>(ids: I) -> Value {
    let mut list: Vec<Value> = ids.into_iter().map(|id| reference(&id)).collect();
    if list.len() == 1 { list.swap_remove(0) } else { list.into() }
}

/// Sets references, if there are any.
fn set(entity: &mut Value, key: &str, references: Value) {
    if references.as_array().is_none_or(|list| !list.is_empty()) {
        entity[key] = references;
    }
}

/// One action of the crate.
#[derive(Clone, Copy)]
struct Did<'a> {
    task: &'a Task,
    attempt: &'a Attempt,
    /// Index into the workflow's steps.
    step: usize,
}

/// A run, as its crate sees it.
struct Crate<'a> {
    run: &'a Run,
    workflow: Workflow,
    /// In order of task and attempt.
    did: Vec<Did<'a>>,
    /// Rules by order of first use, with a name.
    rules: BTreeMap<Option<u32>, (usize, String)>,
    /// Tasks whose files are in the crate: true: made in this run.
    files: BTreeMap<u32, bool>,
    /// Streams that the crate describes.
    streams: Vec<StreamSummary>,
    /// By task: which of these it has written into, and read from.
    wrote: BTreeMap<u32, usize>,
    read: BTreeMap<u32, usize>,
    /// By rule: identifiers of what its commands ran in.
    requirements: BTreeMap<Option<u32>, BTreeSet<String>>,
    /// What commands ran in, by identifier.
    envs: BTreeMap<String, &'a CommandEnvironment>,
    rakefile: String,
}

impl<'a> Crate<'a> {
    fn new(run: &'a Run, parts: &Parts) -> Self {
        let workflow = Workflow::of(run);
        let mut did = Vec::new();
        let mut files = BTreeMap::new();
        for (index, step) in workflow.steps.iter().enumerate() {
            let Some(task) = &run.tasks[step.task as usize] else { continue };
            did.extend(attempts(task).map(|attempt| Did { task, attempt, step: index }));
            for &input in &step.inputs {
                files.entry(input).or_insert(false);
            }
        }
        for step in &workflow.steps {
            if workflow.bytes[step.task as usize].is_some() {
                files.insert(step.task, true);
            }
        }
        let mut rules: BTreeMap<Option<u32>, (usize, String)> = BTreeMap::new();
        for one in &did {
            let position = rules.len() + 1;
            rules.entry(one.task.defined.rule).or_insert_with(|| (position, rule_name(run, one)));
        }
        let (mut requirements, mut envs) = (BTreeMap::new(), BTreeMap::new());
        for one in &did {
            let own =
                commands(run, one.attempt).filter_map(|command| command.started.env.as_deref());
            for env in own.filter(|env| !env.names.is_empty()) {
                let of_rule: &mut BTreeSet<String> =
                    requirements.entry(one.task.defined.rule).or_default();
                of_rule.insert(env_id(env));
                envs.insert(env_id(env), env);
            }
        }
        let rakefile = uri_path(&parts.rakefile.0);
        let streams = streams(run);
        let (mut wrote, mut read) = (BTreeMap::new(), BTreeMap::new());
        for (stream, index) in streams.iter().zip(0..) {
            let told = |side: &&StreamSide| side.account.is_some();
            wrote.extend(stream.writers.iter().filter(told).map(|side| (side.task, index)));
            read.extend(stream.readers.iter().filter(told).map(|side| (side.task, index)));
        }
        Self {
            run,
            workflow,
            did,
            rules,
            files,
            streams,
            wrote,
            read,
            requirements,
            envs,
            rakefile,
        }
    }

    fn root(&self, sources: &Sources<'_>) -> Value {
        let run = &self.run.started;
        let folder = String::from_utf8_lossy(base_name(&run.directory.0)).into_owned();
        let mut parts = vec![self.rakefile.clone(), JOURNAL.to_owned()];
        parts.extend(self.files.keys().map(|task| self.file_id(*task)));
        parts.extend(self.files_of_envs().into_iter().map(|(id, _)| id.clone()));
        let actions = self.did.iter().map(action_id);
        json!({
            "@id": "./",
            "@type": "Dataset",
            "name": format!("Run {} of the workflow in {folder}", run.run),
            "description": format!(
                "How the files of {folder} were made: a run of a Rakefile by Rakuda {}, as its journal tells. Data files are \
                 described, not contained.", run.rakuda),
            "datePublished": iso_time(sources.made_ns),
            "license": sources.license.map_or_else(
                || json!("No license was stated when this crate was made."), license),
            "conformsTo": references(PROFILES.iter().map(|(id, _, _)| (*id).to_owned())),
            "hasPart": references(parts),
            "mainEntity": reference(&self.rakefile),
            "mentions": references(std::iter::once(RUN_ACTION.to_owned()).chain(actions)),
        })
    }

    /// The Rakefile with its language, engine, steps and tools, and the journal.
    fn write_workflow<W: Write>(&self, parts: &Parts, list: &mut List<'_, W>) -> io::Result<()> {
        let changed = parts.workflow.modified_ns > self.run.started.time_ns.into();
        let mut main =
            file_entity(&self.rakefile, &parts.rakefile.to_display(), Some(&parts.workflow));
        main["@type"] = json!(["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]);
        main["encodingFormat"] = json!("text/x-ruby");
        main["programmingLanguage"] = reference(LANGUAGE);
        if changed {
            main["description"] = json!(
                "This Rakefile was changed after the run had begun: it may not be what was run."
            );
        }
        set(&mut main, "step", references(self.rules.keys().map(|rule| step_id(*rule))));
        set(&mut main, "hasPart", references(self.rules.keys().map(|rule| tool_id(*rule))));
        list.add(&main)?;
        list.add(&json!({
            "@id": LANGUAGE,
            "@type": "ComputerLanguage",
            "name": "Rake",
            "url": reference("https://ruby.github.io/rake/"),
        }))?;
        let mut journal = file_entity(JOURNAL, "journal of the run", Some(&parts.journal));
        journal["encodingFormat"] = json!("application/jsonl");
        journal["about"] = reference(RUN_ACTION);
        list.add(&journal)?;
        list.add(&json!({
            "@id": ENGINE,
            "@type": "SoftwareApplication",
            "name": "Rakuda",
            "softwareVersion": self.run.started.rakuda,
        }))?;
        for (rule, (position, name)) in &self.rules {
            list.add(&json!({
                "@id": step_id(*rule),
                "@type": "HowToStep",
                "name": name,
                "position": position.to_string(),
                "workExample": reference(&tool_id(*rule)),
            }))?;
            let mut tool = json!({
                "@id": tool_id(*rule), "@type": "SoftwareApplication", "name": name,
            });
            let needed = self.requirements.get(rule).into_iter().flatten().cloned();
            set(&mut tool, "softwareRequirements", references(needed));
            list.add(&tool)?;
        }
        Ok(())
    }

    fn write_actions<W: Write>(&self, list: &mut List<'_, W>) -> io::Result<()> {
        list.add(&self.run_action())?;
        if self.did.is_empty() {
            return Ok(());
        }
        let mut organize = json!({
            "@id": "#organize",
            "@type": "OrganizeAction",
            "name": "Rakuda ordered and started the tasks",
            "instrument": reference(ENGINE),
            "result": reference(RUN_ACTION),
            "object": references(self.did.iter().map(control_id)),
        });
        Self::add_outcome(&mut organize, self.run_failure());
        list.add(&organize)?;
        for one in &self.did {
            let failure = failure(self.run, one.attempt);
            list.add(&self.attempt_action(one, failure.clone()))?;
            let mut control = json!({
                "@id": control_id(one),
                "@type": "ControlAction",
                "name": format!("ordering of {}", one.task.defined.name.to_display()),
                "instrument": reference(&step_id(one.task.defined.rule)),
                "object": reference(&action_id(one)),
            });
            Self::add_outcome(&mut control, failure);
            list.add(&control)?;
        }
        Ok(())
    }

    fn add_outcome(action: &mut Value, failure: Option<String>) {
        action["actionStatus"] = json!(if failure.is_none() { COMPLETED } else { FAILED });
        if let Some(failure) = failure {
            action["error"] = json!(failure);
        }
    }

    fn run_failure(&self) -> Option<String> {
        let Some(ended) = &self.run.ended else {
            if self.run.alive {
                return Some(GOES_ON.into());
            }
            return Some("cut off: the journal does not have the run's end".into());
        };
        match ended.how {
            RunOutcome::Done => None,
            RunOutcome::Failed => Some(format!(
                "{} tasks failed, {} were not run because of them",
                ended.failed, ended.abandoned
            )),
            RunOutcome::Stopped => Some("stopped by a signal".into()),
            RunOutcome::Recovered => Some("cut off; a later run has cleaned up after it".into()),
        }
    }

    fn run_action(&self) -> Value {
        let run = &self.run.started;
        let mut action = json!({
            "@id": RUN_ACTION,
            "@type": "CreateAction",
            "name": format!("run {}", run.run),
            "description": format!("rakuda {}",
                run.command_line.iter().map(shell_word).collect::<Vec<_>>().join(" ")),
            "instrument": reference(&self.rakefile),
            "startTime": iso_time(run.time_ns),
        });
        if self.run.ended.is_some() {
            action["endTime"] = json!(iso_time(self.run.last_ns));
        }
        let files = |made: bool| {
            let found = self.files.iter().filter(move |(_, is_made)| **is_made == made);
            references(found.map(|(task, _)| self.file_id(*task)))
        };
        set(&mut action, "object", files(false));
        set(&mut action, "result", files(true));
        Self::add_outcome(&mut action, self.run_failure());
        action
    }

    fn attempt_action(&self, one: &Did<'_>, failure: Option<String>) -> Value {
        let number = one.task.defined.task;
        let name = one.task.defined.name.to_display();
        let held = one.attempt.held(self.run);
        let (start_ns, end_ns) = one.attempt.span(self.run, &held);
        let mut action = json!({
            "@id": action_id(one),
            "@type": "CreateAction",
            "name": format!("{name}, attempt {}", one.attempt.started.attempt),
            "description": description(self.run, one.attempt),
            "instrument": reference(&tool_id(one.task.defined.rule)),
            "startTime": iso_time(start_ns),
        });
        if one.attempt.ended.is_some() {
            action["endTime"] = json!(iso_time(end_ns));
            // In between it may have given up its cores.
            action["duration"] = json!(iso_duration(total_ns(&held)));
        }
        if let Some(environment) = environment(&one.task.defined.params) {
            action["description"] = json!(format!(
                "{}\nin the environment: {}",
                description(self.run, one.attempt),
                environment.to_display()
            ));
        }
        let inputs = self.workflow.steps[one.step].inputs.iter().map(|task| self.file_id(*task));
        // What is known of a stream is of the last attempt.
        let is_last =
            attempts(one.task).next_back().is_some_and(|last| std::ptr::eq(last, one.attempt));
        let stream = |of: &BTreeMap<u32, usize>| {
            of.get(&number).filter(|_| is_last).map(|index| stream_id(&self.streams[*index]))
        };
        set(&mut action, "object", references(inputs.chain(stream(&self.read))));
        let made = outcome(one.attempt) == Some(Outcome::Done) && self.files.contains_key(&number);
        let made = made.then(|| self.file_id(number));
        set(&mut action, "result", references(made.into_iter().chain(stream(&self.wrote))));
        Self::add_outcome(&mut action, failure);
        action
    }

    fn write_files<W: Write>(&self, list: &mut List<'_, W>) -> io::Result<()> {
        for &number in self.files.keys() {
            let Some(task) = &self.run.tasks[number as usize] else { continue };
            let name = task.defined.name.to_display();
            let after =
                attempts(task).next_back().and_then(|attempt| attempt.ended.as_ref()?.after);
            let mut entity = file_entity(&self.file_id(number), &name, after.as_ref());
            if let Some(bytes) = self.workflow.bytes[number as usize] {
                entity["contentSize"] = json!(bytes.to_string());
            }
            entity["description"] =
                json!("described, not contained; the name is relative to the run's folder");
            list.add(&entity)?;
        }
        for (id, env) in self.files_of_envs() {
            let name = env.file().map(Text::to_display).unwrap_or_default();
            let mut entity = file_entity(id, &name, None);
            entity["description"] = json!(format!(
                "what commands ran in (needs env: {}); described, not contained; the name is relative to the run's folder",
                env.kind
            ));
            list.add(&entity)?;
        }
        for (id, env) in self.envs.iter().filter(|(_, env)| env.file().is_none()) {
            list.add(&json!({
                "@id": id,
                "@type": "SoftwareApplication",
                "name": env.words(),
                "description": "what commands ran in (needs env:)",
            }))?;
        }
        Ok(())
    }

    /// Files that say or have what is in environments, but for those that a task makes or reads.
    fn files_of_envs(&self) -> Vec<(&String, &CommandEnvironment)> {
        let of_tasks: BTreeSet<String> =
            self.files.keys().map(|task| self.file_id(*task)).collect();
        let files = self.envs.iter().filter(|(_, env)| env.file().is_some());
        files.filter(|(id, _)| !of_tasks.contains(*id)).map(|(id, env)| (id, *env)).collect()
    }

    /// No file, but what passed from task to task.
    fn write_streams<W: Write>(&self, list: &mut List<'_, W>) -> io::Result<()> {
        let used: BTreeSet<usize> =
            self.wrote.values().chain(self.read.values()).copied().collect();
        for stream in used.into_iter().map(|index| &self.streams[index]) {
            list.add(&json!({
                "@id": stream_id(stream),
                "@type": "PropertyValue",
                "name": format!("stream {}", stream.name),
                "value": stream.bytes().to_string(),
                "unitText": "bytes",
                "description": format!(
                    "{} records that its writers printed, and each reader had as its standard input: {}",
                    stream.records(), ends_words(stream)),
            }))?;
        }
        Ok(())
    }

    /// Files that are not contained have local identifiers: a relative path would promise that they are.
    fn file_id(&self, task: u32) -> String {
        let name =
            self.run.tasks[task as usize].as_ref().map(|task| uri_path(&task.defined.name.0));
        format!("#file/{}", name.unwrap_or_default())
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

fn license(license: &str) -> Value {
    if is_url(license) { reference(license) } else { json!(license) }
}

fn file_entity(id: &str, name: &str, identity: Option<&FileIdentity>) -> Value {
    let mut entity = json!({ "@id": id, "@type": "File", "name": name });
    if let Some(identity) = identity {
        entity["contentSize"] = json!(identity.bytes.to_string());
        entity["dateModified"] = json!(iso_time(identity.modified_ns));
    }
    entity
}

fn stream_id(stream: &StreamSummary) -> String {
    format!("#stream/{}", uri_path(stream.name.as_bytes()))
}

fn action_id(one: &Did<'_>) -> String {
    format!("#task/{}/{}", one.task.defined.task, one.attempt.started.attempt)
}

fn control_id(one: &Did<'_>) -> String {
    format!("#control/{}/{}", one.task.defined.task, one.attempt.started.attempt)
}

fn step_id(rule: Option<u32>) -> String {
    rule.map_or_else(|| "#step/other".into(), |rule| format!("#step/{rule}"))
}

fn tool_id(rule: Option<u32>) -> String {
    rule.map_or_else(|| "#tool/other".into(), |rule| format!("#tool/{rule}"))
}

/// The program that the rule's first task called, and where the rule stands.
fn rule_name(run: &Run, one: &Did<'_>) -> String {
    let place = run.location(one.task);
    let place = place.map_or_else(|| "actions of unknown place".into(), |place| place.to_display());
    let line = command_lines(run, one.attempt).next().unwrap_or_default();
    match line.split_whitespace().next() {
        Some(program) => format!("{program} ({place})"),
        None => format!("Ruby code ({place})"),
    }
}

/// Of a file, that of a file of the crate.
fn env_id(env: &CommandEnvironment) -> String {
    match env.file() {
        Some(file) => format!("#file/{}", uri_path(&file.0)),
        None => format!("#env/{}", uri_path(env.words().as_bytes())),
    }
}

fn commands<'a>(run: &'a Run, attempt: &'a Attempt) -> impl Iterator<Item = &'a Command> {
    attempt.commands.iter().filter_map(|number| run.commands.get(*number as usize)?.as_ref())
}

fn command_lines<'a>(run: &'a Run, attempt: &'a Attempt) -> impl Iterator<Item = String> + 'a {
    commands(run, attempt).map(|command| match (&command.started.words, &command.started.line) {
        (Some(words), _) => words.iter().map(shell_word).collect::<Vec<_>>().join(" "),
        (None, Some(line)) => line.to_display(),
        (None, None) => String::new(),
    })
}

fn description(run: &Run, attempt: &Attempt) -> String {
    let lines: Vec<String> = command_lines(run, attempt).collect();
    if lines.is_empty() { "Ruby code, no command".into() } else { lines.join("\n") }
}
