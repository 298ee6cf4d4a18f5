//! The page that shows a run while it goes on. It holds nothing of any run: its script asks for that, with the token
//! that stands behind `#` in its address. When the run has ended the script puts the report in its place.

use super::frame::{SIDEWAYS, VIRTUAL, WORDS};

const STYLE: &str = include_str!("assets/report.css");
const LIVE_STYLE: &str = include_str!("assets/live.css");
const AROUND: &str = include_str!("assets/around.js");
const SCRIPT: &str = include_str!("assets/live.js");
const BODY: &str = include_str!("assets/live.html");

/// The page. The policy lets it ask this server alone.
pub fn page() -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"referrer\" content=\"no-referrer\">\
         <link rel=\"icon\" href=\"data:,\">\
         <title>rakuda</title><style>{STYLE}{LIVE_STYLE}</style></head><body>{BODY}\
         <script>{WORDS}</script><script>{SIDEWAYS}</script><script>{VIRTUAL}</script><script>{AROUND}</script><script>{SCRIPT}</script></body></html>\n"
    )
}
