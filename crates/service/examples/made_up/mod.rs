//! What nodes that are made up have: built-in attributes, and values that are drawn from a seed.

use rakuda_info::catalogue::{self, BuiltIn};
use rakuda_info::registry::{AttributeId, instance_name};
use rakuda_info::table::Table;
use rakuda_info::value::{Kind, Value};

/// Number of attributes of a node.
pub const ATTRIBUTES: usize = 40;

/// A small generator (`xorshift64*`). Its seed is not 0.
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        u32::try_from(mixed).unwrap_or(0) % bound
    }
}

/// Built-in attributes, numbers first; those of families with one instance or more until there are enough.
pub fn attributes(table: &mut Table) -> Vec<(AttributeId, &'static BuiltIn)> {
    let (families, single): (Vec<&BuiltIn>, Vec<&BuiltIn>) =
        catalogue::BUILT_IN.iter().partition(|it| it.is_family);
    let single = single.into_iter().map(|it| (it, it.name.to_owned()));
    let of_families = (0..).flat_map(|number| {
        families.iter().map(move |it| (*it, instance_name(it.name, &format!("part{number}"))))
    });
    let mut all: Vec<(&BuiltIn, String)> = single.chain(of_families).take(ATTRIBUTES).collect();
    all.sort_by_key(|(it, _)| it.kind == Kind::Text);
    all.into_iter()
        .filter_map(|(it, name)| Some((table.define(it.attribute(name)).ok()?, it)))
        .collect()
}

/// One of the size that such a value has.
pub fn value(built_in: &BuiltIn, random: &mut Random) -> Value {
    let drawn = random.below(10_000);
    match (built_in.kind, built_in.unit) {
        (Kind::Text, _) => Value::text(format!("{} {drawn}", built_in.name)),
        (Kind::Number, "B") => Value::number(f64::from(drawn) * 4_194_304.0),
        (Kind::Number, "") if !built_in.name.starts_with("load") => {
            Value::number(f64::from(drawn % 64 + 1))
        }
        (Kind::Number, _) => Value::number(f64::from(drawn) / 100.0),
    }
}

/// The word behind `name` on the command line.
pub fn word<'a>(words: &'a [String], name: &str) -> Option<&'a String> {
    let place = words.iter().position(|word| word == name)?;
    words.get(place + 1)
}

/// The same as a number.
pub fn number(
    words: &[String],
    name: &str,
    otherwise: u32,
) -> Result<u32, std::num::ParseIntError> {
    word(words, name).map_or(Ok(otherwise), |number| number.parse())
}
