//! Answers as others read them: JSON, CSV, tables for people, LDIF, and what Prometheus scrapes.

pub mod csv;
pub mod fragments;
pub mod json;
pub mod ldif;
pub mod metrics;
pub mod plain;

use std::sync::Arc;

use crate::query::Answer;
use crate::table::Table;
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
    /// That of a word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "text" => Some(Self::Text),
            "ldif" => Some(Self::Ldif),
            _ => None,
        }
    }

    /// For the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Text | Self::Ldif => "text/plain; charset=utf-8",
        }
    }

    /// The answer; of LDIF its nodes with all that the table has of them.
    pub fn write(self, answer: &Answer, table: &Table) -> String {
        match self {
            Self::Json => json::write(answer),
            Self::Csv => csv::write(answer),
            Self::Text => plain::write(answer),
            Self::Ldif => {
                let nodes = answer.rows.iter().filter_map(|row| row.node.as_ref());
                let nodes: Vec<Arc<str>> = nodes.map(|(name, _)| Arc::clone(name)).collect();
                ldif::write(table, &nodes, answer.now)
            }
        }
    }
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

/// A number as it is read back.
pub fn digits(number: f64) -> String {
    let mut out = String::new();
    json::put_number(&mut out, number);
    out
}
