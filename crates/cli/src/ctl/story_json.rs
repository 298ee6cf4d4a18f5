//! The story of a task as JSON; docs/reference/json.md tells what each field means.

use std::collections::BTreeMap;

use rakuda_proto::Text;
use rakuda_proto::journal::{
    CommandEnded, CommandEnvironment, Outcome, RunOutcome, TargetFate, TaskKind, TaskOutcome,
};
use rakuda_record::story::{Story, What};
use serde::Serialize;

use super::recorded_why::ReasonOut;

/// The story of one task in one run.
#[derive(Serialize)]
pub struct StoryOut<'a> {
    version: u32,
    run: &'a str,
    started_ns: i64,
    task: &'a Text,
    kind: TaskKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: &'a Option<Text>,
    prerequisites: &'a [Text],
    order_only: &'a [Text],
    fate: &'static str,
    events: Vec<Event<'a>>,
}

#[derive(Serialize)]
struct Event<'a> {
    time_ns: i64,
    #[serde(flatten)]
    what: WhatOut<'a>,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum WhatOut<'a> {
    Ready {
        after: &'a Text,
    },
    AttemptStarted {
        attempt: u32,
        node: &'a Text,
        cores: u32,
        reasons: Vec<ReasonOut>,
    },
    NodeChosen {
        attempt: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        prefer: Option<&'a str>,
        values: &'a BTreeMap<String, String>,
    },
    CommandStarted {
        command: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        words: Option<&'a [Text]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<&'a Text>,
        #[serde(skip_serializing_if = "Option::is_none")]
        directory: &'a Option<Text>,
        #[serde(skip_serializing_if = "Option::is_none")]
        env: Option<&'a CommandEnvironment>,
    },
    CommandEnded {
        command: u32,
        status: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: &'a Option<Text>,
        wall_ns: u64,
        user_us: u64,
        system_us: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        rss_kib_max: Option<u64>,
        read_bytes: u64,
        write_bytes: u64,
    },
    FileStaged {
        #[serde(skip_serializing_if = "Option::is_none")]
        file: &'a Option<Text>,
        companions: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        from: &'a Option<Text>,
        #[serde(skip_serializing_if = "Option::is_none")]
        to: &'a Option<Text>,
        bytes: u64,
        took_ns: u64,
    },
    AttemptEnded {
        attempt: u32,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: &'a Option<Text>,
        retried: bool,
        took_ns: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<TargetFate>,
        #[serde(skip_serializing_if = "Option::is_none")]
        secondary: Option<u32>,
    },
    Settled {
        how: TaskOutcome,
        #[serde(skip_serializing_if = "<[Text]>::is_empty")]
        because: &'a [Text],
    },
    DependentStarted {
        task: &'a Text,
    },
    MoreDependents {
        count: u32,
    },
    NodeLost {
        node: &'a Text,
    },
    Blamed {
        nodes: &'a [Text],
    },
    Reopened,
    InputLost,
    StopRequested {
        how: &'a str,
    },
    RunEnded {
        #[serde(skip_serializing_if = "Option::is_none")]
        how: Option<RunOutcome>,
    },
}

/// What is printed of `story`, of the run that began at `started_ns`.
pub fn to_json<'a>(run: &'a str, started_ns: i64, story: &'a Story) -> StoryOut<'a> {
    let event = |happening: &'a rakuda_record::story::Happening| Event {
        time_ns: happening.time_ns,
        what: what(&happening.what),
    };
    StoryOut {
        version: 1,
        run,
        started_ns,
        task: &story.task,
        kind: story.kind,
        location: &story.location,
        prerequisites: &story.prerequisites,
        order_only: &story.order_only,
        fate: story.fate.word(),
        events: story.happenings.iter().map(event).collect(),
    }
}

fn what(what: &What) -> WhatOut<'_> {
    match what {
        What::Ready { after } => WhatOut::Ready { after },
        What::AttemptStarted { attempt, node, cores, reasons, after: _ } => {
            WhatOut::AttemptStarted {
                attempt: *attempt,
                node,
                cores: *cores,
                reasons: reasons.iter().map(ReasonOut::new).collect(),
            }
        }
        What::NodeChosen(chosen) => WhatOut::NodeChosen {
            attempt: chosen.attempt,
            condition: chosen.condition.as_deref(),
            prefer: chosen.prefer.as_deref(),
            values: &chosen.values,
        },
        What::CommandStarted { command, words, directory, env } => WhatOut::CommandStarted {
            command: *command,
            words: words.as_deref().ok(),
            line: words.as_ref().err(),
            directory,
            env: env.as_deref(),
        },
        What::CommandEnded(ended) => command_ended(ended),
        What::FileStaged { file, secondary, from, to, bytes, took_ns } => WhatOut::FileStaged {
            file,
            companions: *secondary,
            from,
            to,
            bytes: *bytes,
            took_ns: *took_ns,
        },
        What::AttemptEnded {
            attempt,
            outcome,
            message,
            retried,
            took_ns,
            bytes,
            target,
            secondary,
        } => WhatOut::AttemptEnded {
            attempt: *attempt,
            outcome: *outcome,
            message,
            retried: *retried,
            took_ns: *took_ns,
            bytes: *bytes,
            target: *target,
            secondary: Some(*secondary).filter(|count| *count > 0),
        },
        What::Settled { how, because } => WhatOut::Settled { how: *how, because },
        What::DependentStarted { task } => WhatOut::DependentStarted { task },
        What::MoreDependents { count } => WhatOut::MoreDependents { count: *count },
        What::NodeLost { node } => WhatOut::NodeLost { node },
        What::Blamed { nodes } => WhatOut::Blamed { nodes },
        What::Reopened => WhatOut::Reopened,
        What::InputLost => WhatOut::InputLost,
        What::StopRequested { how } => WhatOut::StopRequested { how },
        What::RunEnded { how } => WhatOut::RunEnded { how: *how },
    }
}

fn command_ended(ended: &CommandEnded) -> WhatOut<'_> {
    WhatOut::CommandEnded {
        command: ended.command,
        status: ended.status,
        error: &ended.error,
        wall_ns: ended.wall_ns,
        user_us: ended.user_us,
        system_us: ended.system_us,
        rss_kib_max: ended.rss_bytes().map(|bytes| bytes / 1024),
        read_bytes: ended.read_bytes,
        write_bytes: ended.write_bytes,
    }
}
