//! `rakudactl why --run`: why a target ran in a recorded run, or did not. The journal knows; this prints.

use std::io::Write;

use rakuda_proto::Text;
use rakuda_proto::journal::Reason;
use rakuda_record::printable::shown;
use rakuda_record::story::Fate;
use rakuda_record::why::{Step, Why, why};
use rakuda_record::words::reason_in_words;
use serde::Serialize;

use super::base_folder::{BaseFolder, complain_of_damage, task_number};
use super::{Status, text};

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    run: &'a str,
    target: &'a Text,
    would_run: bool,
    fate: &'static str,
    reasons: Vec<ReasonOut>,
    #[serde(skip_serializing_if = "<[Text]>::is_empty")]
    because: &'a [Text],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chain: Vec<StepOut<'a>>,
}

#[derive(Serialize)]
struct StepOut<'a> {
    target: &'a Text,
    depth: u32,
    fate: &'static str,
    reasons: Vec<ReasonOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: &'a Option<Text>,
}

/// A reason, as `why` prints it without `--run`, too.
#[derive(Serialize)]
pub struct ReasonOut {
    kind: rakuda_proto::journal::ReasonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_s: Option<f64>,
}

impl ReasonOut {
    /// Nanoseconds as seconds.
    pub fn new(reason: &Reason) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "shown, and compared with nothing")]
        let by_s = reason.by_ns.map(|ns| ns as f64 / 1e9);
        Self { kind: reason.kind, path: reason.path.clone(), by_s }
    }
}

/// Prints why `target` ran in `run`, or did not.
pub fn answer(
    base: &BaseFolder,
    target: &Text,
    run: &str,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Status> {
    let folder = base.run_folder(run)?;
    let run = folder.read_without_commands()?;
    complain_of_damage(&folder, &run);
    let number = task_number(&folder, &run, target)?;
    let why = why(&run, number).expect("the number is of this run");
    if json {
        serde_json::to_writer(&mut *out, &to_json(&folder.run, &why))?;
        writeln!(out)?;
    } else {
        print(&folder.run, &why, out)?;
    }
    Ok(Status::Good)
}

fn to_json<'a>(run: &'a str, why: &'a Why) -> Answer<'a> {
    let reasons = |reasons: &[Reason]| reasons.iter().map(ReasonOut::new).collect();
    let step = |step: &'a Step| StepOut {
        target: &step.task,
        depth: step.depth,
        fate: step.fate.word(),
        reasons: reasons(&step.reasons),
        message: &step.message,
    };
    Answer {
        version: 1,
        run,
        target: &why.target,
        would_run: why.ran,
        fate: why.fate.word(),
        reasons: reasons(&why.reasons),
        because: &why.because,
        chain: why.chain.iter().map(step).collect(),
    }
}

fn print(run: &str, why: &Why, out: &mut dyn Write) -> std::io::Result<()> {
    let name = shown(&why.target);
    match why.fate {
        Fate::Abandoned => {
            let because = text::some_of(&why.because);
            writeln!(out, "{name} did not run in {run}: {because} failed or did not run")?;
        }
        Fate::UpToDate => writeln!(out, "{name} did not run in {run}: it was up to date")?,
        Fate::NotReached => {
            writeln!(out, "{name} did not run in {run}: the run ended before it was its turn")?;
        }
        Fate::Failed if !why.ran => {
            writeln!(out, "{name} did not run in {run}: its prerequisites could not be found")?;
        }
        Fate::Executed | Fate::Failed | Fate::Unfinished => {
            writeln!(out, "{name} ran in {run}: {}", in_words(&why.reasons))?;
        }
    }
    for step in &why.chain {
        let indent = if why.fate == Fate::Abandoned { 1 } else { step.depth.min(10) as usize };
        let indent = "  ".repeat(indent);
        let name = shown(&step.task);
        let what = match (step.fate, &step.message) {
            (Fate::Failed, Some(message)) => format!("failed: {}", shown(message)),
            (Fate::Failed, None) => "failed".to_owned(),
            (Fate::Abandoned, _) => "did not run".to_owned(),
            (Fate::Unfinished, _) => "was begun and not finished".to_owned(),
            (Fate::Executed | Fate::UpToDate | Fate::NotReached, _) => {
                format!("ran: {}", in_words(&step.reasons))
            }
        };
        writeln!(out, "{indent}{name} {what}")?;
    }
    Ok(())
}

fn in_words(reasons: &[Reason]) -> String {
    if reasons.is_empty() {
        return "something that it needs ran".to_owned();
    }
    reasons.iter().map(reason_in_words).collect::<Vec<_>>().join("; ")
}
