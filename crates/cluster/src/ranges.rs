//! `host[[01-12]]`: one word for many names. Knows nothing of hosts.

/// Maximum number of names that one word may stand for.
const NAMES_MAX: usize = 10_000;

/// All names that `pattern` stands for, in order. `[[...]]` holds items with commas between them,
/// each a word or a range of numbers (`01-12`, with as many digits as its beginning) or of letters
/// (`a-f`); several such brackets give all combinations.
pub(crate) fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some(opening) = rest.find("[[") {
        let inner = &rest[opening + 2..];
        let Some(closing) = inner.find("]]") else {
            return Err(format!(
                "`{pattern}`: a `[[` without its `]]`; expected such as `host[[01-12]]`"
            ));
        };
        let mut items = Vec::new();
        for item in inner[..closing].split(',') {
            items.extend(expand_item(item).map_err(|what| format!("`{pattern}`: {what}"))?);
        }
        if names.len() * items.len() > NAMES_MAX {
            return Err(format!("`{pattern}`: more than {NAMES_MAX} names"));
        }
        let before = &rest[..opening];
        let all = names.iter().flat_map(|name| items.iter().map(move |item| (name, item)));
        names = all.map(|(name, item)| format!("{name}{before}{item}")).collect();
        rest = &inner[closing + 2..];
    }
    if rest.contains("]]") {
        return Err(format!(
            "`{pattern}`: a `]]` without its `[[`; expected such as `host[[01-12]]`"
        ));
    }
    Ok(names.into_iter().map(|name| name + rest).collect())
}

fn expand_item(item: &str) -> Result<Vec<String>, String> {
    let Some((first, last)) = item.split_once('-') else {
        let plain = !item.is_empty() && item.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return if plain { Ok(vec![item.to_owned()]) } else { Err(unexpected(item)) };
    };
    if let ([first], [last]) = (first.as_bytes(), last.as_bytes())
        && first.is_ascii_alphabetic()
        && first.is_ascii_lowercase() == last.is_ascii_lowercase()
        && last.is_ascii_alphabetic()
        && first <= last
    {
        return Ok((*first..=*last).map(|letter| char::from(letter).to_string()).collect());
    }
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())
    };
    let (Some(Some(from)), Some(Some(to))) = (number(first), number(last)) else {
        return Err(unexpected(item));
    };
    if from > to {
        return Err(format!("the range `{item}` runs backwards"));
    }
    if (to - from) as usize >= NAMES_MAX {
        return Err(format!("the range `{item}` has more than {NAMES_MAX} names"));
    }
    let width = first.len();
    Ok((from..=to).map(|number| format!("{number:0width$}")).collect())
}

fn unexpected(item: &str) -> String {
    format!("`{item}` in brackets: expected a number, a word, or a range such as `01-12` or `a-f`")
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn words_without_brackets_are_themselves() {
        assert_eq!(expand("host1.site").unwrap(), ["host1.site"]);
    }

    #[test]
    fn ranges_keep_their_digits() {
        assert_eq!(expand("h[[8-10]]").unwrap(), ["h8", "h9", "h10"]);
        assert_eq!(expand("h[[08-10]]x").unwrap(), ["h08x", "h09x", "h10x"]);
        assert_eq!(expand("h[[a-c]]").unwrap(), ["ha", "hb", "hc"]);
    }

    #[test]
    fn lists_and_several_brackets_are_combined() {
        assert_eq!(
            expand("r[[1,3]]n[[x,7-8]]").unwrap(),
            ["r1nx", "r1n7", "r1n8", "r3nx", "r3n7", "r3n8"]
        );
    }

    #[test]
    fn what_is_no_range_is_told() {
        let cases = [
            ("h[[1-", "`h[[1-`: a `[[` without its `]]`"),
            ("h1]]", "`h1]]`: a `]]` without its `[[`"),
            ("h[[]]", "`h[[]]`: `` in brackets: expected a number"),
            ("h[[1-x]]", "`h[[1-x]]`: `1-x` in brackets: expected"),
            ("h[[3-1]]", "`h[[3-1]]`: the range `3-1` runs backwards"),
            ("h[[1-99999]]", "`h[[1-99999]]`: the range `1-99999` has more than 10000 names"),
            ("h[[1-9999]][[1-2]]", "`h[[1-9999]][[1-2]]`: more than 10000 names"),
            ("h[[a-C]]", "`h[[a-C]]`: `a-C` in brackets: expected"),
        ];
        for (pattern, expected) in cases {
            let told = expand(pattern).unwrap_err();
            assert!(told.starts_with(expected), "{pattern}: {told}");
        }
    }
}
