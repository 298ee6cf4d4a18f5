//! The frame of a page, with its style and scripts, and legends.

use crate::report::Report;
use crate::report::plot::{colour_class, escape};
use crate::report::text::series_label;
use crate::summary::curve::Curve;
use std::fmt::Write as _;

pub(super) const STYLE: &str = include_str!("assets/report.css");

/// Of the live page, too.
pub(super) const WORDS: &str = include_str!("assets/words.js");

/// Likewise.
pub(super) const VIRTUAL: &str = include_str!("assets/virtual.js");

/// Likewise.
pub(super) const SIDEWAYS: &str = include_str!("assets/sideways.js");

pub(super) const SCRIPT: &str = include_str!("assets/report.js");

/// A whole document. The policy forbids every request: if something slipped through, nothing would be fetched.
pub(super) fn frame(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\">\
         <title>{}</title><style>{STYLE}</style></head><body>{body}\
         <footer class=\"soft\">Written by rakudactl report, Rakuda {}.</footer>\
         <script>{WORDS}</script><script>{SIDEWAYS}</script><script>{VIRTUAL}</script><script>{SCRIPT}</script></body></html>\n",
        escape(title),
        env!("CARGO_PKG_VERSION")
    )
}

/// Which colour is which rule.
pub(super) fn legend(body: &mut String, report: &Report, curve: &Curve) {
    *body += "<ul class=\"legend\">";
    for index in 0..curve.series.len() {
        let label = escape(&series_label(report, curve, index));
        let swatch = swatch(colour_class(index, curve.groups.len()));
        let _ = write!(body, "<li>{swatch}{label}</li>");
    }
    *body += "</ul>";
}

pub(super) fn swatch(class: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"c{class}\" width=\"12\" \
         height=\"12\" rx=\"2\"/></svg>"
    )
}
