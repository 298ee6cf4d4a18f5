//! What all pictures are drawn with: their frame, colours, axes and numbers.

use std::fmt::Write as _;

/// Width of a plot, px.
pub const WIDTH: f64 = 960.0;

/// Left of the axes, px.
pub const LEFT: f64 = 56.0;

/// Right of the axes, px.
pub const RIGHT: f64 = 16.0;

/// Colours of the rules on white, in order; the last is for all others. At least 3:1 against white.
pub const COLOURS: [&str; 10] = [
    "#2f6fd0", "#c9681c", "#0b5d45", "#b04fb0", "#948a12", "#1d2f6f", "#1b93a8", "#5b1f57",
    "#5f3a1e", "#757c85",
];

/// What makes an SVG of its own readable: white ground, literal colours.
fn style() -> String {
    let mut style = String::from(
        "text{font:12px 'DejaVu Sans',Verdana,sans-serif;fill:#1c2024}.axis{stroke:#5b6470;fill:none}\
         .grid{stroke:#dde1e6}.cores{stroke:#1c2024;stroke-dasharray:5 4;fill:none}.ground{fill:#fff}\
         .area{stroke:#fff;stroke-width:.6}.median{stroke:#1c2024;stroke-width:2}.failed{fill:#b3001b}",
    );
    for (index, colour) in COLOURS.iter().enumerate() {
        let _ = write!(style, ".c{index}{{fill:{colour}}}");
    }
    style
}

/// A picture of its own.
pub fn document(width: f64, height: f64, title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\"><title>{title}</title><style>{}</style>\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>{body}</svg>\n",
        style()
    )
}

/// A part of a page.
pub fn inline(width: f64, height: f64, title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{body}</svg>"
    )
}

/// Text for XML and HTML, in elements and in attributes. Control characters, which neither may hold, are replaced.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// What a picture that shows at most `most` things says when there are more.
pub fn first_of(most: usize, all: usize) -> String {
    if all > most { format!(" (the first {most} of {all})") } else { String::new() }
}

/// A class for the colour of the `index`th of `shown` rules; what comes after them has that of the others.
pub fn colour_class(index: usize, shown: usize) -> usize {
    if index < shown.min(COLOURS.len() - 1) || (index < COLOURS.len() && shown == COLOURS.len()) {
        index
    } else {
        COLOURS.len() - 1
    }
}

/// A step of 1, 2 or 5 times a power of ten such that at most `most` fit into `range`.
pub fn step(range: f64, most: f64) -> f64 {
    let rough = (range / most).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough)
}

/// Unit of an axis of time, and how many seconds it is.
pub fn time_unit(range_s: f64) -> (&'static str, f64) {
    match range_s {
        _ if range_s >= 4.0 * 86_400.0 => ("days", 86_400.0),
        _ if range_s >= 4.0 * 3600.0 => ("h", 3600.0),
        _ if range_s >= 600.0 => ("min", 60.0),
        _ if range_s >= 0.5 => ("s", 1.0),
        _ => ("ms", 0.001),
    }
}

/// The axis of time below a plot whose lower edge is at `bottom`, with grid lines up to `top`.
pub fn time_axis(body: &mut String, range_s: f64, top: f64, bottom: f64) {
    let (unit, unit_s) = time_unit(range_s);
    let range = range_s / unit_s;
    let step = step(range, 10.0);
    let wide = WIDTH - LEFT - RIGHT;
    let mut index = 0.0;
    while step > 0.0 && range > 0.0 && index * step <= range * 1.0001 {
        let x = LEFT + wide * (index * step / range).min(1.0);
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            number(index * step)
        );
        index += 1.0;
    }
    let _ = write!(
        body,
        "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{:.1}\"/>\
         <text class=\"along\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time since start / {unit}</text>",
        WIDTH - RIGHT,
        LEFT + wide / 2.0,
        bottom + 34.0
    );
}

/// A number of an axis without useless digits.
pub fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_says_what_it_leaves_out() {
        assert_eq!(
            ["", " (the first 60 of 61)"],
            [60, 61].map(|all| first_of(60, all)).each_ref().map(|it| &**it)
        );
    }

    #[test]
    fn steps_are_round() {
        for (range, expected) in
            [(10.0, 1.0), (11.0, 2.0), (0.7, 0.1), (48.0, 5.0), (2400.0, 500.0)]
        {
            assert!((step(range, 10.0) - expected).abs() < 1e-9, "{range}: {}", step(range, 10.0));
        }
        assert_eq!(number(0.300_000_000_4), "0.3");
        assert_eq!(number(20.0), "20");
    }

    #[test]
    fn nothing_that_is_markup_survives() {
        assert_eq!(
            escape("</script>\"'&\u{1b}[0m\0"),
            "&lt;/script&gt;&quot;&#39;&amp;\u{fffd}[0m\u{fffd}"
        );
    }
}
