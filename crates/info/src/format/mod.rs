//! Answers as others read them: JSON, CSV, tables for people, LDIF, and what Prometheus scrapes.

pub mod csv;
pub mod fragments;
pub mod json;
pub mod ldif;
pub mod metrics;
pub mod plain;

use crate::query::{Answer, AnswerRow, Question};
use crate::table::{NodeId, Table};
use crate::value::Value;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
    /// For people.
    Text,
    /// For directory servers.
    Ldif,
}

impl Format {
    /// The format of this name.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "text" => Some(Self::Text),
            "ldif" => Some(Self::Ldif),
            _ => None,
        }
    }

    /// Why the format cannot write the answer to a question, if so.
    pub fn refusal(self, question: &Question) -> Option<&'static str> {
        if self != Self::Ldif {
            return None;
        }
        if question.group_by.is_some() {
            return Some(
                "ldif has an entry for each node, and none for groups; take json, csv or text",
            );
        }
        question.fields.as_ref().map(|_| {
            "ldif has entries with all attributes, and no columns; name providers (only), or take json, csv or text"
        })
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Text | Self::Ldif => "text/plain; charset=utf-8",
        }
    }

    /// Writes the answer; as LDIF its nodes with all that the table has of them, from the providers that the question
    /// names (`only`). JSON and LDIF always have ages.
    pub fn write(self, answer: &Answer, table: &Table, ages: Ages, only: &[String]) -> String {
        match self {
            Self::Json => json::write(answer),
            Self::Csv => csv::write(answer, ages),
            Self::Text => plain::write(answer, ages),
            Self::Ldif => {
                let node = |row: &AnswerRow| {
                    let (name, _) = row.node.as_ref()?;
                    table.find_of_run(row.run.as_ref(), name)
                };
                let nodes: Vec<NodeId> = answer.rows.iter().filter_map(node).collect();
                ldif::write(table, &nodes, only, answer.now)
            }
        }
    }
}

/// Whether the age of each value is written beside it, where a format can do without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ages {
    /// Only columns that ask for an age have it.
    #[default]
    Asked,
    /// Each value has it that has an age.
    All,
}

/// A value for people, with its unit.
pub fn amount(value: &Value, unit: &str) -> String {
    match value {
        Value::Number(number) => plain::with_unit(*number, unit),
        Value::Text(text) => text.to_string(),
        Value::Undefined(why) if why.is_empty() => "undefined".to_owned(),
        Value::Undefined(why) => format!("undefined ({why})"),
    }
}

/// Whether rows are of several runs, so that names alone do not tell nodes apart.
fn has_runs(answer: &Answer) -> bool {
    let mut runs = answer.rows.iter().map(|row| &row.run);
    let first = runs.next();
    runs.any(|run| Some(run) != first)
}

/// A number as it is read back.
pub fn digits(number: f64) -> String {
    let mut out = String::new();
    json::put_number(&mut out, number);
    out
}
